import DeliveryFixture
import Foundation
import HealthReadings
import LogLines
import Logging
import OutgoingHTTP
import ReadingStore
import ScriptedServer
import Synchronization
import TestSupport
import Testing

@testable import ReadingDelivery
@testable import WebDestinations

@Suite("InfluxDB 2 and 3, as they answer")
struct InfluxDBTests {
    static let token = "t0ken-3f9d4c1b7e6a58201c=="

    private static func destination(
        _ server: ScriptedServer, _ log: LogLines = LogLines(), authorities: String? = nil
    ) throws -> InfluxDBDestination {
        InfluxDBDestination(
            name: "charts", server: try WebServer(url: server.baseURL + "/influx/", authorities: authorities),
            place: .bucket("health data", organisation: "home & lab"), token: token,
            limits: HTTPLimits(connecting: .seconds(5), call: .seconds(20)), logger: log.logger(from: .trace))
    }

    /// A worker beside a scripted server and a fresh store.
    private static func with(
        _ script: @escaping ScriptedServer.Script, clock: SyncClock = .system, batchLimit: Int = 100,
        _ body: @Sendable (OutboxWorker, Fixture, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with(script) { server in
                let worker = fixture.worker(try destination(server), clock: clock, batchLimit: batchLimit)
                try await body(worker, fixture, server)
            }
        }
    }

    private static let stored = ScriptedAnswer.json(204, "")

    /// The id that a query asks for.
    private static var askedID: Regex<(Substring, Substring)> { /_value == "([^"]+)"/ }

    @Test("recordings go in requests of at most 5,000 points, each whole")
    func recordings() async throws {
        try await Self.with({ _ in Self.stored }, batchLimit: 2000) { worker, fixture, server in
            try await fixture.read(180, kind: .heartRate)
            #expect(await worker.syncOnce() == SyncReport(delivered: 180))
            let requests = server.requests.map { Array($0.text.split(separator: "\n")) }
            #expect(requests.count == 3 && requests.allSatisfy { $0.count <= InfluxDBDestination.mostPoints })
            let ids = requests.map { Set($0.compactMap { $0.firstMatch(of: /reading_id="([^"]+)"/)?.1 }) }
            #expect(ids.map(\.count) == [83, 83, 14] && ids.reduce(Set()) { $0.union($1) }.count == 180)
        }
    }

    @Test("a request names the organisation, the bucket and the precision, and carries the token")
    func request() async throws {
        try await Self.with({ _ in Self.stored }) { worker, fixture, server in
            try await fixture.read(60)
            #expect(await worker.syncOnce() == SyncReport(delivered: 60))
            let request = try #require(server.requests.first)
            #expect(server.requests.count == 1 && request.method == "POST")
            #expect(
                request.path == "/influx/api/v2/write?org=home%20%26%20lab&bucket=health%20data&precision=ms")
            #expect(request.headers["authorization"] == "Token " + Self.token)
            #expect(request.headers["content-type"] == "text/plain; charset=utf-8")
            #expect(request.headers["content-encoding"] == "gzip" && request.headers["user-agent"] == "HealthRelay")
            let lines = request.text.split(separator: "\n")
            #expect(lines.count == 60 && lines.allSatisfy { $0.hasPrefix("glucose,device=") })
            #expect(lines[0].hasSuffix(" \((Fixture.start + 60) * 1000)"))
        }
    }

    @Test("the connection ends before the answer, within it, or after it was stored: the same lines go again")
    func connections() async throws {
        let answers = Mutex<[ScriptedAnswer]>([.cut, .half(200, "{}"), Self.stored])
        try await Self.with({ request in
            // Each of them is looked for, in case it was stored under another name.
            request.path.contains("/query") ? Self.stored : answers.withLock { $0.removeFirst() }
        }) { worker, fixture, server in
            try await fixture.read(3)
            for _ in 0..<2 {
                let report = await worker.syncOnce()
                #expect(report.delivered == 0 && report.failure?.code == "no_connection")
                #expect(report.failure?.isRetryable == true)
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            let written = server.requests.filter { $0.path.contains("/write") }.map(\.text)
            #expect(Set(written).count == 1)
        }
    }

    @Test(
        "each status means what it does, and no message has the token",
        arguments: [
            (
                ScriptedAnswer.json(401, #"{"code":"unauthorized","message":"\#(InfluxDBTests.token) is unknown"}"#),
                "authentication_failed", true
            ),
            (.json(403, #"{"code":"forbidden","message":"insufficient permissions"}"#), "forbidden", true),
            (.json(404, #"{"code":"not found","message":"bucket \"x\" not found"}"#), "not_found", false),
            (.json(429, "{}", headers: ["retry-after": "77"]), "rate_limit_exceeded", false),
            (.json(503, "{}", headers: ["retry-after": "77"]), "server_error", false),
            (.json(500, #"{"code":"internal error"}"#), "server_error", false),
            (.other(200, "<html>Sign in</html>", type: "text/html"), "not_json", false),
            (.json(200, #"{"ok":true}"#), "unexpected_answer", false),
            (
                .json(307, "", headers: ["location": "https://u:p@other.example/x?token=\(InfluxDBTests.token)"]),
                "redirected", false
            ),
            (.other(404, "<h1>Not found</h1>", type: "text/html; charset=utf-8"), "not_json", false),
        ])
    func statuses(answer: ScriptedAnswer, code: String, isPersonal: Bool) async throws {
        try await Self.with({ _ in answer }) { worker, fixture, server in
            try await fixture.read(5)
            let report = await worker.syncOnce()
            let failure = try #require(report.failure)
            #expect(failure.code == code && failure.needsPerson == isPersonal && report.delivered == 0)
            #expect(server.requests.count == 1)
            let words = failure.message + (failure.serverSaid ?? "")
            #expect(!words.contains(Self.token) && !words.contains("u:p@") && !words.contains("?token"))
            if code == "redirected" { #expect(words.contains("https://other.example/x")) }
            if failure.code == "rate_limit_exceeded" { #expect(failure.retryAfter == .seconds(77)) }
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).first?.count == 5)
        }
    }

    @Test("a certificate that nobody vouches for, or for another name, gets neither the token nor a reading")
    func certificates() async throws {
        try await Fixture.with { fixture in
            let authority = try TestAuthority(in: fixture.folder)
            let cases = [
                (try authority.context(), nil as String?, false),
                (try authority.context(addresses: [[127, 0, 0, 9]]), authority.path, false),
                (try authority.context(), authority.path, true),
            ]
            try await fixture.read(2)
            for (context, trusted, isTaken) in cases {
                try await ScriptedServer.with({ _ in Self.stored }, tls: context) { server in
                    let destination = try Self.destination(server, authorities: trusted)
                    let worker = fixture.worker(destination, clock: .system)
                    let report = await worker.syncOnce()
                    #expect(report.delivered == (isTaken ? 2 : 0))
                    #expect(report.failure?.code == (isTaken ? nil : "untrusted_server"))
                    // What was tried before is looked for once it is written.
                    #expect(server.requests.filter { $0.path.contains("/write") }.count == (isTaken ? 1 : 0))
                    #expect(isTaken || server.requests.isEmpty)
                    let findings = await destination.test()
                    #expect(findings.first { $0.name == "certificate" }?.isGood == isTaken)
                }
            }
        }
    }

    @Test("a point outside the retention is refused alone, with 422 or 400")
    func retention() async throws {
        let old = "\((Fixture.start + 4 * 60) * 1000)"
        try await Self.with({ request in
            request.text.contains(old)
                ? .json(422, #"{"code":"unprocessable entity","message":"point outside of retention: dropped 1"}"#)
                : Self.stored
        }) { worker, fixture, server in
            try await fixture.read(8)
            let report = await worker.syncOnce()
            #expect(report.delivered == 7 && report.refused == 1 && report.failure == nil)
        }
    }

    @Test(
        "readings that are all older than a bucket keeps are set aside on its word, and wait without",
        arguments: [true, false])
    func allTooOld(saysSo: Bool) async throws {
        let rule = #"{"buckets":[{"name":"health data","retentionRules":[{"type":"expire","everySeconds":2592000}]}]}"#
        try await Self.with({ request in
            guard request.method == "POST" else { return saysSo ? .json(200, rule) : .json(403, "{}") }
            let count = request.text.split(separator: "\n").count
            return .json(
                422,
                #"{"code":"unprocessable entity","message":"partial write: points beyond retention policy dropped=\#(count)"}"#
            )
        }) { worker, fixture, server in
            try await fixture.read(8)
            let report = await worker.syncOnce()
            #expect(report.delivered == 0 && report.refused == (saysSo ? 8 : 0))
            #expect(report.failure?.code == (saysSo ? nil : "server_refuses_all"))
            let refused = try await fixture.store.refused(at: worker.place())
            #expect(refused.allSatisfy { $0.serverSaid.hasPrefix("older than the 30 days that the bucket") })
            if saysSo {
                let asked = try #require(server.requests.first { $0.method == "GET" })
                #expect(asked.path == "/influx/api/v2/buckets?name=health%20data&org=home%20%26%20lab")
                #expect(server.requests.count == 2)
            }
        }
    }

    @Test("only what is older than the database keeps is refused, whatever it drops")
    func partlyTooOld() async throws {
        let now = Int64(Date().timeIntervalSince1970)
        // What is measured in the fixture's first minutes is too old, and what follows after a week is not.
        let rule =
            #"{"results":[{"series":[{"columns":["name","duration","shardGroupDuration","replicaN","default"],"#
            + #""values":[["autogen","0s","168h0m0s",1,false],["kept","\#(now - Fixture.start - 300_000)s","1h0m0s",1,true]]}]}]}"#
        #expect(InfluxDBDestination.seconds("8736h0m0s") == .some(31_449_600))
        let endless = String(repeating: "4294967295w", count: 4000)
        for none in ["0s", "", "h", "1", "1y", "9999999999999s", "-1h", "4294967295w", endless] {
            #expect(InfluxDBDestination.seconds(none) == nil, "\(none.prefix(20))")
        }
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ request in
                if request.path.contains("/query") { return .json(200, rule) }
                let old = request.text.split(separator: "\n").count { line in
                    line.split(separator: " ").last.flatMap { Int64($0) }.map { $0 / 1000 <= Fixture.start + 300_000 }
                        ?? false
                }
                return old == 0
                    ? Self.stored
                    : .json(400, #"{"error":"partial write: points beyond retention policy dropped=\#(old)"}"#)
            }) { server in
                let worker = fixture.worker(
                    InfluxDBDestination(
                        name: "charts", server: try WebServer(url: server.baseURL),
                        place: .database("health", login: nil), logger: Fixture.quiet), clock: .system, batchLimit: 100)
                try await fixture.read(4)
                try await fixture.read(6, from: 10_080)
                let report = await worker.syncOnce()
                #expect(report.delivered == 6 && report.refused == 4 && report.failure == nil)
                #expect(server.requests.count == 3)
            }
        }
    }

    @Test("a wrong token is told once, and tried again after ever longer waits")
    func wrongToken() async throws {
        let clock = ManualClock()
        try await Self.with({ _ in .json(401, "{}") }, clock: clock.syncClock) { worker, fixture, server in
            try await fixture.read(5)
            let events = worker.events()
            let running = Task { try await worker.run() }
            for round in 1...6 {
                try await clock.waitForSleeps(round)
                clock.advance(by: clock.slept.last ?? .zero)
            }
            try await clock.waitForSleeps(7)
            running.cancel()
            try await running.value
            let paused = await events.reduce(into: 0) { if case .paused = $1 { $0 += 1 } }
            #expect(paused == 1)
            // 15 min, 30 min, … 6 h: about a dozen requests on the first day.
            let minutes: [Int64] = [15, 30, 60, 120, 240, 360, 360]
            #expect(clock.slept.prefix(7).map { $0.components.seconds / 60 } == minutes)
            #expect(server.requests.count == 7)
        }
    }

    @Test("a long queue goes in order once the server is back")
    func fullQueue() async throws {
        let isDown = Mutex(true)
        try await Self.with({ _ in isDown.withLock { $0 } ? .cut : Self.stored }, batchLimit: 250) {
            worker, fixture, server in
            try await fixture.read(3000)
            #expect(await worker.syncOnce().delivered == 0)
            isDown.withLock { $0 = false }
            #expect(await worker.syncOnce() == SyncReport(delivered: 3000))
            let times = server.requests.dropFirst().flatMap { $0.text.split(separator: "\n") }
                .compactMap { $0.split(separator: " ").last.flatMap { Int64($0) } }
            #expect(times.count == 3000 && times == times.sorted())
        }
    }

    @Test("what is taken back is looked up by its id and deleted by its tags and its nanosecond")
    func retraction() async throws {
        let csv = [
            ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person,sample_type",
            #",_result,0,x,y,2023-11-14T22:16:20Z,ID,reading_id,glucose,"a,""b""",white_bear,capillary_whole_blood"#,
            "", "",
        ].joined(separator: "\r\n")
        try await Self.with({ request in
            request.path.contains("/query") ? .other(200, csv, type: "text/csv; charset=utf-8") : Self.stored
        }) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            try await fixture.read(1, from: 3, isFailed: true)
            let report = await worker.syncOnce()
            #expect(report.retracted == 1 && report.failure == nil)
            let query = try #require(server.requests.first { $0.path.contains("/api/v2/query") })
            #expect(query.headers["content-type"] == "application/vnd.flux")
            #expect(query.text.contains(#"from(bucket: "health data")"#))
            #expect(query.text.contains("start: 2023-11-14T22:16:20Z, stop: 2023-11-14T22:16:20.000000001Z"))
            let deletion = try #require(server.requests.last)
            #expect(deletion.path == "/influx/api/v2/delete?org=home%20%26%20lab&bucket=health%20data")
            let body = try #require(
                try JSONSerialization.jsonObject(with: Data(deletion.body)) as? [String: String])
            #expect(
                body == [
                    "start": "2023-11-14T22:16:20Z", "stop": "2023-11-14T22:16:20.000000001Z",
                    "predicate": #"_measurement="glucose" AND device="a,\"b\"" AND person="white_bear""#
                        + #" AND sample_type="capillary_whole_blood""#,
                ])
        }
    }

    @Test("a reading that is delivered again is looked up among other tags, and its former point is deleted behind it")
    func formerPoint() async throws {
        let columns = ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person,sample_type"
        let point = ",_result,0,x,y,2023-11-14T22:14:20Z,ID,reading_id,glucose,unknown,white_bear,capillary_whole_blood"
        let csv = [columns, point, "", ""].joined(separator: "\r\n")
        try await Self.with({ request in
            guard request.path.contains("/query") else { return Self.stored }
            // Of the first reading alone there is another point.
            let first = request.text.firstMatch(of: /_value =~ .\^\(([0-9a-f]{32})/)?.1
            let id = first ?? request.text.firstMatch(of: Self.askedID)?.1 ?? ""
            return .other(200, csv.replacing(",ID,", with: ",\(id),"), type: "text/csv; charset=utf-8")
        }) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            #expect(!server.requests.contains { $0.path.contains("/query") })
            try await fixture.store.redeliver(to: "charts")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            let paths = server.requests.map { $0.path.split(separator: "?")[0].split(separator: "/").last ?? "" }
            #expect(paths == ["write", "write", "query", "query", "delete"], "\(paths)")
            let query = server.requests[2].text
            #expect(query.contains(#"(not exists r.person or r.person == "white_bear")"#), "\(query)")
            #expect(query.contains("not exists r.device or r.device != "), "\(query)")
            #expect(query.contains(#"r.sample_type != "capillary_whole_blood""#), "\(query)")
            #expect(query.contains("start: 2023-11-14T22:14:20Z, stop: 2023-11-14T22:16:20.000000001Z"), "\(query)")
            #expect(server.requests[4].text.contains(#"device=\"unknown\""#), "\(server.requests[4].text)")
        }
    }

    @Test("what was stored although its answer was lost is looked up, too: its device may have got its name since")
    func formerPointWithoutAnswer() async throws {
        let columns = ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person,sample_type"
        let point = ",_result,0,x,y,2023-11-14T22:14:20Z,ID,reading_id,glucose,unknown,white_bear,capillary_whole_blood"
        let csv = [columns, point, "", ""].joined(separator: "\r\n")
        let isFirst = Mutex(true)
        try await Self.with({ request in
            guard request.path.contains("/query") else {
                return isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst ? .cut : Self.stored
                }
            }
            // Of the first reading alone there is another point.
            let first = request.text.firstMatch(of: /_value =~ .\^\(([0-9a-f]{32})/)?.1
            let id = first ?? request.text.firstMatch(of: Self.askedID)?.1 ?? ""
            return .other(200, csv.replacing(",ID,", with: ",\(id),"), type: "text/csv; charset=utf-8")
        }) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            try await fixture.read(1, from: 4, model: "accuchek_guide")
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
            let paths = server.requests.map { $0.path.split(separator: "?")[0].split(separator: "/").last ?? "" }
            #expect(paths == ["write", "write", "query", "query", "delete"], "\(paths)")
            // What was never sent is not looked for.
            let asked = server.requests[2].text.matches(of: /[0-9a-f]{32}/).count
            #expect(asked == 3)
        }
    }

    @Test("a server that answers no queries for long keeps no reading from being delivered again")
    func noLookUp() async throws {
        try await Self.with({ request in
            request.path.contains("/query") ? .json(500, "{}") : Self.stored
        }) { worker, fixture, _ in
            try await fixture.read(1)
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.store.redeliver(to: "charts")
            for _ in 0..<InfluxDBDestination.mostLookUps {
                #expect(await worker.syncOnce().failure?.code == "server_error")
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
        }
    }

    @Test("a proxy that lets only writing through keeps no reading from being delivered again", arguments: [401, 403])
    func noLookUpPermitted(status: Int) async throws {
        try await Self.with({ request in
            request.path.contains("/query") ? .json(status, "{}") : Self.stored
        }) { worker, fixture, _ in
            try await fixture.read(2)
            #expect(await worker.syncOnce().delivered == 2)
            try await fixture.store.redeliver(to: "charts")
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
        }
    }

    @Test("an entry is deleted before its correction of the same time is written, so that no field of it stays")
    func corrected() async throws {
        let csv = [
            ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person",
            ",_result,0,x,y,2023-11-14T22:13:20Z,ID,reading_id,blood_pressure,entry,white_bear", "", "",
        ].joined(separator: "\r\n")
        try await Self.with({ request in
            request.path.contains("/query") ? .other(200, csv, type: "text/csv; charset=utf-8") : Self.stored
        }) { worker, fixture, server in
            let former = try enteredPressure("128/82", pulse: "164")
            try await fixture.store.enter(former)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            try await fixture.store.enter(try enteredPressure("128/82", corrects: former.id))
            let report = await worker.syncOnce()
            #expect(report.delivered == 1 && report.retracted == 1 && report.failure == nil, "\(report)")
            let requests = server.requests
            let steps = requests.map { request in
                ["/write", "/query", "/delete"].first { request.path.contains("/api/v2" + $0) } ?? request.path
            }
            try #require(steps == ["/write", "/query", "/delete", "/write"], "\(steps)")
            #expect(requests[0].text.contains("=164") && requests[1].text.contains(former.id.description))
            #expect(!requests[3].text.contains("=164") && !requests[3].text.contains(former.id.description))
        }
    }

    @Test("a name stays inside its quotes, and Flux computes nothing that is in it")
    func names() {
        let name = "a\"\u{301}b'\u{301}\\\u{301}${c}"
        func octets(_ text: String) -> [UInt8] { Array(text.utf8) }
        #expect(octets(InfluxDBDestination.identifier(name)) == octets("\"a\\\"\u{301}b'\u{301}\\\\\u{301}${c}\""))
        #expect(octets(InfluxDBDestination.quoted(name)) == octets("'a\"\u{301}b\\'\u{301}\\\\\u{301}${c}'"))
        #expect(octets(InfluxDBDestination.fluxText(name)) == octets("\"a\\\"\u{301}b'\u{301}\\\\\u{301}\\x24{c}\""))
    }

    @Test("a night is looked up by its ends, and deleted without the points of other readings between them")
    func night() async throws {
        let id = Mutex("")
        try await Self.with({ request in
            guard request.path.contains("/query") else { return Self.stored }
            let own = id.withLock { id in
                if let asked = request.text.firstMatch(of: Self.askedID)?.1 { id = String(asked) }
                return id
            }
            let points: [(String, String)] =
                if request.text.contains("yield(") {
                    [("2023-11-14T22:14:20Z", own), ("2023-11-15T06:14:20Z", own)]
                } else if request.text.contains("limit(n: 2000)") {
                    [
                        ("2023-11-14T22:14:20Z", own), ("2023-11-14T23:00:00Z", own),
                        ("2023-11-14T23:00:00.5Z", "live"), ("2023-11-14T23:00:01Z", own),
                        ("2023-11-14T23:00:01.5Z", "live"), ("2023-11-14T23:00:02.5Z", "live"),
                        ("2023-11-14T23:00:04Z", own), ("2023-11-15T06:14:20Z", own),
                    ]
                } else {
                    [("2023-11-14T23:00:00.5Z", "live")]
                }
            let rows = points.map { ",_result,0,x,y,\($0.0),\($0.1),reading_id,heart_rate,ring,white_bear" }
            let names = ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person"
            return .other(
                200, ([names] + rows + ["", ""]).joined(separator: "\r\n"), type: "text/csv; charset=utf-8")
        }) { worker, fixture, server in
            try await fixture.read(1, kind: .heartRate)
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.moveAll(to: "brown_bear")
            let report = await worker.syncOnce()
            #expect(report.retracted == 1 && report.failure == nil)
            let query = try #require(server.requests.first { $0.path.contains("/api/v2/query") })
            // 65,536 seconds.
            #expect(query.text.contains("start: 2023-11-14T22:14:20Z, stop: 2023-11-15T16:26:36.000000001Z"))
            #expect(query.text.contains("|> first()") && query.text.contains("|> last()"))
            let deletions = try server.requests.filter { $0.path.contains("/api/v2/delete") }.map { request in
                try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: String] ?? [:]
            }
            #expect(
                deletions.compactMap { $0["start"] } == [
                    "2023-11-14T22:14:20Z", "2023-11-14T23:00:01Z", "2023-11-14T23:00:04Z",
                ])
            #expect(
                deletions.compactMap { $0["stop"] } == [
                    "2023-11-14T23:00:00.000000001Z", "2023-11-14T23:00:01.000000001Z",
                    "2023-11-15T06:14:20.000000001Z",
                ])
        }
    }

    @Test(
        "a point that cannot be deleted without another reading's is left behind, and that is told",
        arguments: [true, false])
    func moreTags(hasOther: Bool) async throws {
        let names = ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person"
        let id = Mutex("")
        let other = ",_result,1,x,y,2023-11-14T22:14:20Z,OTHER,reading_id,blood_pressure,cuff,brown_bear"
        try await Self.with({ request in
            guard request.path.contains("/query") else { return Self.stored }
            let known = id.withLock { id in
                if let asked = request.text.firstMatch(of: Self.askedID)?.1 { id = String(asked) }
                return id
            }
            // Written before the person had a name.
            let own = ",_result,0,x,y,2023-11-14T22:14:20Z,\(known),reading_id,blood_pressure,cuff,"
            let rows: [String] =
                if request.text.contains("yield(") {
                    [own]
                } else if !hasOther {
                    []
                } else if request.text.contains("limit(n:") {
                    [own, other]
                } else {
                    [other]
                }
            return .other(
                200, ([names] + rows + ["", ""]).joined(separator: "\r\n"), type: "text/csv; charset=utf-8")
        }) { worker, fixture, server in
            try await fixture.read(1, kind: .bloodPressure)
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.moveAll(to: "brown_bear")
            let report = await worker.syncOnce()
            #expect(report.retracted == (hasOther ? 0 : 1) && report.failure == nil)
            #expect(try await fixture.store.leftBehind(at: worker.place()) == (hasOther ? 1 : 0))
            #expect(server.requests.count { $0.path.contains("/api/v2/delete") } == (hasOther ? 0 : 1))
            #expect(server.requests.contains { $0.path.contains("/query") && $0.text.contains("exists r.person))") })
        }
    }

    @Test("what is taken back from one person leaves the point of whom the reading was moved to")
    func moved() async throws {
        let id = Mutex("")
        let csv = [
            ",result,table,_start,_stop,_time,_value,_field,_measurement,device,person,sample_type",
            ",_result,0,x,y,2023-11-14T22:14:20Z,ID,reading_id,glucose,meter,white_bear,capillary_whole_blood",
            ",_result,1,x,y,2023-11-14T22:14:20Z,ID,reading_id,glucose,meter,brown_bear,capillary_whole_blood",
            // Written before the person had a name: the delete API cannot tell it from the two others.
            ",_result,2,x,y,2023-11-14T22:14:20Z,ID,reading_id,glucose,meter,,capillary_whole_blood",
            "", "",
        ].joined(separator: "\r\n")
        try await Self.with({ request in
            guard request.path.contains("/query") else { return Self.stored }
            let own = id.withLock { id in
                if let asked = request.text.firstMatch(of: Self.askedID)?.1 { id = String(asked) }
                return id
            }
            return .other(200, csv.replacing(",ID,", with: ",\(own),"), type: "text/csv; charset=utf-8")
        }) { worker, fixture, server in
            try await fixture.read(1)
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.moveAll(to: "brown_bear")
            let report = await worker.syncOnce()
            #expect(report.retracted == 0 && report.delivered == 1 && report.failure == nil)
            #expect(try await fixture.store.leftBehind(at: worker.place()) == 1)
            let query = try #require(server.requests.first { $0.path.contains("/api/v2/query") })
            #expect(query.text.contains(#"(not exists r.person or r.person == "white_bear")"#))
            let deletions = server.requests.filter { $0.path.contains("/api/v2/delete") }.map(\.text)
            #expect(deletions.count == 1 && deletions.first?.contains("white_bear") == true)
        }
    }

    @Test("a server that cannot delete keeps the point, and that is told; one that fails is asked again")
    func noRetraction() async throws {
        let isBroken = Mutex(true)
        try await Self.with({ request in
            guard request.path.contains("/query") else { return Self.stored }
            return isBroken.withLock { $0 } ? .json(500, "{}") : .json(404, #"{"error":"path not found"}"#)
        }) { worker, fixture, _ in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            try await fixture.read(1, from: 3, isFailed: true)
            #expect(await worker.syncOnce().failure?.code == "server_error")
            #expect(try await fixture.store.retractionCount(at: worker.place()) == 1)
            isBroken.withLock { $0 = false }
            #expect(await worker.syncOnce().failure == nil)
            #expect(try await fixture.store.retractionCount(at: worker.place()) == 0)
            #expect(try await fixture.store.leftBehind(at: worker.place()) == 1)
        }
    }

    @Test("times that were not asked for are not believed: the reading's own point is deleted, and the gateway goes on")
    func strayTimes() async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ request in
                guard request.path.contains("/query") else { return Self.stored }
                guard let id = request.text.firstMatch(of: /SELECT.*%27([0-9a-f]{32})%27/)?.1 else {
                    return .json(200, #"{"results":[{}]}"#)
                }
                let times = ["-9223372036854775808", "9000000000000000000"].map { "[\($0),\"\(id)\"]" }
                return .json(
                    200,
                    #"{"results":[{"series":[{"name":"glucose","tags":{"device":"meter","person":"white_bear"},"#
                        + #""columns":["time","first"],"values":[\#(times.joined(separator: ","))]}]}]}"#)
            }) { server in
                let worker = fixture.worker(
                    InfluxDBDestination(
                        name: "charts", server: try WebServer(url: server.baseURL),
                        place: .database("health", login: nil), logger: Fixture.quiet), clock: .system, batchLimit: 100)
                try await fixture.read(3)
                #expect(await worker.syncOnce().delivered == 3)
                try await fixture.read(1, from: 3, isFailed: true)
                let report = await worker.syncOnce()
                #expect(report.retracted == 1 && report.failure == nil, "\(report)")
                let deletions = server.requests.map(\.text).filter { $0.contains("DELETE") }
                let own = "time%20%3D%20\((Fixture.start + 3 * 60) * 1000)ms"
                #expect(deletions.count == 1 && deletions.allSatisfy { $0.contains(own) }, "\(deletions)")
            }
        }
    }

    @Test("a proxy that lets nothing but writing through keeps no reading waiting for what is to be taken back")
    func onlyWriting() async throws {
        try await Self.with({ request in
            request.path.contains("/query")
                ? .other(404, "<html><h1>404 Not Found</h1>nginx</html>", type: "text/html") : Self.stored
        }) { worker, fixture, _ in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            try await fixture.read(1, from: 3, isFailed: true)
            try await fixture.read(2, from: 9)
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.retracted == 0 && report.failure?.code == "not_json", "\(report)")
            #expect(try await fixture.store.retractionCount(at: worker.place()) == 1)
        }
    }

    @Test("the test sends no line, and takes the answer that there is none for a proof")
    func test() async throws {
        try await ScriptedServer.with({ request in
            request.body.isEmpty
                ? .json(400, #"{"code":"invalid","message":"writing requires points"}"#) : .json(500, "{}")
        }) { server in
            let findings = try await Self.destination(server).test()
            #expect(findings.map(\.isGood) == [true, nil, true, true])
        }
        try await ScriptedServer.with({ _ in .json(404, #"{"code":"not found","message":"bucket \"x\" not found"}"#) })
        {
            server in
            let findings = try await Self.destination(server).test()
            #expect(findings.map(\.isGood) == [true, nil, true, false])
        }
    }

    @Test("neither a log nor a description has the token or a password")
    func secrets() async throws {
        let log = LogLines()
        try await ScriptedServer.with({ _ in .json(401, #"{"message":"no \#(InfluxDBTests.token)"}"#) }) { server in
            let destination = try Self.destination(server, log)
            _ = await destination.test()
            let login = InfluxDBDestination.Login(user: "gateway", password: Self.token)
            var dumped = "\(destination) \(login) "
            dump(destination, to: &dumped)
            dump(login, to: &dumped)
            #expect(!dumped.contains(Self.token) && !log.text.contains(Self.token))
        }
    }
}
