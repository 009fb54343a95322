import DeliveryFixture
import Foundation
import HealthReadings
import LogLines
import Logging
import OutgoingHTTP
import ScriptedServer
import Synchronization
import TestSupport
import Testing

@testable import ReadingDelivery
@testable import ReadingStore
@testable import WebDestinations

/// A secret of 24 octets.
let webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

/// A glucose that a person entered.
func enteredGlucose(
    _ value: String, by person: String = Fixture.user, corrects former: ReadingID? = nil
) throws -> ManualEntry {
    try entered(EntryText(kind: "glucose", value: value, unit: "mmol/L"), by: person, corrects: former)
}

/// A blood pressure that a person entered.
func enteredPressure(
    _ value: String, pulse: String? = nil, corrects former: ReadingID? = nil
) throws -> ManualEntry {
    try entered(
        EntryText(kind: "blood_pressure", value: value, unit: "mmHg", pulse: pulse), by: Fixture.user, corrects: former)
}

/// An entry for the second before the tests' first readings.
private func entered(_ text: EntryText, by person: String, corrects former: ReadingID?) throws -> ManualEntry {
    let zone = try #require(ZoneRules.named("UTC"))
    var text = text
    text.time = Instant(seconds: Fixture.start).description
    var entry = try ManualEntry(
        text, person: person, zones: [(Instant(microseconds: .min), zone)], now: .systemClock)
    entry.corrects = former
    return entry
}

@Suite("Webhooks")
struct WebhookTests {
    private static func destination(
        _ url: String, _ fixture: Fixture, format: WebhookFormat = .standard, allowsPrivate: Bool = true,
        secret: String = webhookSecret, authorities: String? = nil, clock: SyncClock = .system,
        resolve: @escaping CheckedConnections.Resolver = HostNames.addresses, log: LogLines = LogLines()
    ) throws -> WebhookDestination {
        WebhookDestination(
            name: "study",
            server: try WebServer(url: url, authorities: authorities, permitsExposed: true, allowsQuery: true),
            secret: try WebhookSecret(secret), format: format, store: fixture.store,
            sender: WebhookSender(version: "0.2.0"), allowsPrivate: allowsPrivate, clock: clock,
            limits: HTTPLimits(connecting: .seconds(5), call: .seconds(20)), resolve: resolve,
            logger: log.logger(from: .trace))
    }

    /// A worker beside a receiver and a fresh store.
    private static func with(
        _ script: @escaping ScriptedServer.Script, format: WebhookFormat = .standard, clock: SyncClock = .system,
        _ body: @Sendable (OutboxWorker, Fixture, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with(script) { server in
                let worker = fixture.worker(
                    try destination(server.baseURL + "/hook?study=7", fixture, format: format, clock: clock),
                    clock: clock)
                try await body(worker, fixture, server)
            }
        }
    }

    private static let taken = ScriptedAnswer.json(204, "")

    @Test("the specification's own signature")
    func vector() throws {
        let secret = try WebhookSecret(webhookSecret)
        #expect(
            secret.signature(
                id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330,
                body: Array(#"{"test": 2432232314}"#.utf8)) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        let two = try WebhookSecret(webhookSecret + "\nwhsec_" + Data(repeating: 7, count: 32).base64EncodedString())
        let signatures = two.signature(id: "a", timestamp: 1, body: []).split(separator: " ")
        #expect(signatures.count == 2 && signatures.allSatisfy { $0.hasPrefix("v1,") })
    }

    @Test(
        "what is no secret is refused, without being repeated",
        arguments: [
            "", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_short", "whsec_!!!!",
            "whsec_" + Data(repeating: 1, count: 23).base64EncodedString(),
            "whsec_" + Data(repeating: 1, count: 65).base64EncodedString(),
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw a b",
        ])
    func malformed(text: String) {
        do {
            _ = try WebhookSecret(text)
            Issue.record("it was taken")
        } catch {
            #expect(text.count < 10 || !error.description.contains(text.dropFirst(6)))
        }
    }

    @Test("an event for each reading, signed over what is sent")
    func events() async throws {
        try await Self.with({ _ in Self.taken }) { worker, fixture, server in
            try await fixture.read(3)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            #expect(server.requests.count == 3)
            for request in server.requests {
                #expect(request.method == "POST" && request.path == "/hook?study=7")
                #expect(
                    request.headers["content-type"] == "application/json" && request.headers["content-encoding"] == nil)
                let id = try #require(request.headers["webhook-id"])
                #expect(id.hasPrefix("msg_") && !id.contains("."))
                let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
                #expect(abs(timestamp - Int64(Date().timeIntervalSince1970)) < 60)
                let expected = try WebhookSecret(webhookSecret).signature(
                    id: id, timestamp: timestamp, body: request.body)
                #expect(request.headers["webhook-signature"] == expected)
                let event = try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
                #expect(event["type"] as? String == "glucose.created" && event.count == 3)
                let data = try #require(event["data"] as? [String: Any])
                #expect(id == "msg_\(data["id"] as? String ?? "")_0")
                #expect(event["timestamp"] as? String == data["time"] as? String)
                #expect(data["kind"] as? String == "glucose" && data["deliveries"] == nil)
                #expect(data["person"] as? String == Fixture.user)
            }
        }
    }

    @Test("a CloudEvent names the gateway, and its own id")
    func cloudEvents() async throws {
        try await Self.with({ _ in Self.taken }, format: .cloudevents) { worker, fixture, server in
            try await fixture.read(1, kind: .bloodPressure, provider: "omron_ble")
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            let request = try #require(server.requests.first)
            #expect(request.headers["content-type"] == "application/cloudevents+json")
            let event = try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
            #expect(event["specversion"] as? String == "1.0" && event["id"] as? String == request.headers["webhook-id"])
            #expect(event["type"] as? String == "org.healthrelay.blood_pressure.created")
            let gateway = try await fixture.store.gatewayID()
            #expect(event["source"] as? String == "urn:healthrelay:gateway:\(gateway)")
        }
    }

    @Test("the id stays over retries, the timestamp and the signature do not; a change is another event")
    func ids() async throws {
        let answers = Mutex<[ScriptedAnswer]>([.cut, .half(200, "{}"), .json(500, "{}")])
        let clock = ManualClock()
        try await Self.with(
            { _ in answers.withLock { $0.isEmpty ? Self.taken : $0.removeFirst() } }, clock: clock.syncClock
        ) { worker, fixture, server in
            try await fixture.read(1)
            for _ in 0..<3 {
                #expect(await worker.syncOnce().delivered == 0)
                clock.advance(by: .seconds(10))
            }
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(Set(server.requests.map { $0.headers["webhook-id"] }).count == 1)
            #expect(Set(server.requests.map(\.body)).count == 1)
            #expect(Set(server.requests.map { $0.headers["webhook-signature"] }).count == 4)
            try await fixture.read(1, isFailed: true)
            #expect(await worker.syncOnce().retracted == 1)
            let gone = try #require(server.requests.last)
            #expect(gone.text.contains(#""type":"glucose.retracted""#) && gone.text.contains(#""retracted":true"#))
            // The receiver has it no more.
            try await fixture.read(1, isCorrected: true)
            #expect(await worker.syncOnce().delivered == 1)
            #expect(server.requests.last?.text.contains(#""type":"glucose.created""#) == true)
            let ids = server.requests.dropFirst(3).compactMap { $0.headers["webhook-id"] }
            #expect(Set(ids).count == 3)
        }
    }

    @Test("a receiver that drops what it has had under an id hears of all: created, retracted, created, retracted")
    func erasedAndBack() async throws {
        try await Self.with({ _ in Self.taken }) { worker, fixture, server in
            for round in 1...3 {
                try await fixture.store.setCurrentUser(Fixture.user, timeZone: "UTC")
                try await fixture.read(2)
                #expect(await worker.syncOnce().delivered == 2)
                let events = server.requests.suffix(2)
                #expect(events.allSatisfy { $0.text.contains(#""type":"glucose.created""#) })
                // A change is another event.
                try await fixture.store.redeliver(to: "study")
                #expect(await worker.syncOnce().delivered == 2)
                try await fixture.store.eraseUser(try await fixture.person.key, retracts: true)
                #expect(await worker.syncOnce().retracted == 2)
                #expect(server.requests.count == 6 * round)
            }
            #expect(Set(server.requests.compactMap { $0.headers["webhook-id"] }).count == 18)
        }
    }

    @Test("an entry that is corrected, corrected back, withdrawn and entered again is another event each time")
    func correctedBack() async throws {
        try await Self.with({ _ in Self.taken }) { worker, fixture, server in
            let first = try enteredGlucose("5.6")
            let second = try enteredGlucose("6.5", corrects: first.id)
            let back = try enteredGlucose("5.6", corrects: second.id)
            #expect(back.id == first.id)
            for entry in [first, second, back, second, first] {
                try await fixture.store.enter(entry)
                #expect(await worker.syncOnce().delivered == 1)
                #expect(server.requests.last?.text.contains(#""type":"glucose.created""#) == true)
                #expect(server.requests.last?.text.contains(entry.id.description) == true)
                if server.requests.count == 7 {
                    try await fixture.store.withdraw(second.id)
                    #expect(await worker.syncOnce().retracted == 1)
                }
            }
            #expect(server.requests.count == 9)
            #expect(Set(server.requests.compactMap { $0.headers["webhook-id"] }).count == 9)
        }
    }

    @Test("410 switches the destination off until its owner switches it on again")
    func gone() async throws {
        let isGone = Mutex(true)
        try await Self.with({ _ in isGone.withLock { $0 } ? .json(410, "{}") : Self.taken }) {
            worker, fixture, server in
            try await fixture.read(3)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "gone" && report.failure?.needsPerson == true && report.delivered == 0)
            #expect(server.requests.count == 1)
            for _ in 0..<3 { #expect(await worker.syncOnce().held.map(\.hold) == [.destinationDisabled]) }
            #expect(server.requests.count == 1)
            isGone.withLock { $0 = false }
            try await fixture.store.setDestinationEnabled(true, "study")
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
        }
    }

    @Test(
        "what the receiver answers decides when and whether it is asked again",
        arguments: [
            (ScriptedAnswer.json(429, "{}"), "rate_limit_exceeded", 300 as Int64?, false),
            (.json(429, "{}", headers: ["retry-after": "1234"]), "rate_limit_exceeded", 1234, false),
            (.json(429, "{}", headers: ["retry-after": "0"]), "rate_limit_exceeded", 300, false),
            (
                .json(429, "{}", headers: ["retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"]), "rate_limit_exceeded",
                300, false
            ),
            (.json(502, "{}"), "server_error", 300, false), (.json(504, "{}"), "server_error", 300, false),
            (.json(500, "{}"), "server_error", nil, false),
            (.json(401, "{}"), "authentication_failed", nil, true), (.json(403, "{}"), "forbidden", nil, true),
            (.json(302, "", headers: ["location": "http://169.254.169.254/latest?x=1"]), "redirected", nil, false),
            (.cut, "no_connection", nil, false),
        ])
    func statuses(answer: ScriptedAnswer, code: String, wait: Int64?, isPersonal: Bool) async throws {
        try await Self.with({ _ in answer }) { worker, fixture, server in
            try await fixture.read(3)
            let failure = try #require(await worker.syncOnce().failure)
            #expect(failure.code == code && failure.needsPerson == isPersonal)
            #expect(failure.retryAfter == wait.map { .seconds($0) })
            #expect(server.requests.count == 1)
            if code == "redirected" { #expect(failure.message.contains("169.254.169.254/latest,")) }
        }
    }

    @Test("of a backlog four events are on their way at most, and the newest comes when all others are there")
    func backlog() async throws {
        let flow = Mutex<(running: Int, most: Int, answered: [Int])>((0, 0, []))
        let script: ScriptedServer.Script = { request in
            let number = (0..<100).first { request.text.contains(#""sequence":\#($0),"#) } ?? -1
            flow.withLock { flow in
                flow.running += 1
                flow.most = max(flow.most, flow.running)
                // The last one has nothing beside it.
                if number == 70 { #expect(flow.running == 1 && flow.answered.count == 69) }
            }
            try? await Task.sleep(for: .milliseconds(number.isMultiple(of: 3) ? 20 : 5))
            flow.withLock { flow in
                flow.running -= 1
                flow.answered.append(number)
            }
            return Self.taken
        }
        try await Self.with(script) { worker, fixture, server in
            try await fixture.read(70)
            #expect(await worker.syncOnce() == SyncReport(delivered: 70))
            let (_, most, answered) = flow.withLock(\.self)
            #expect(most > 1 && most <= 4 && answered.sorted() == Array(1...70) && answered.last == 70)
            #expect(server.requests.count == 70)
        }
    }

    @Test("what arrived before a failure is noted, nothing is begun after it, and each event is told once")
    func stop() async throws {
        let isBusy = Mutex(true)
        let script: ScriptedServer.Script = { request in
            guard isBusy.withLock({ $0 }) else { return Self.taken }
            if request.text.contains(#""sequence":20,"#) {
                return .json(429, "{}", headers: ["retry-after": "60"])
            }
            // What is beside it on the way takes longer than it, so that the gateway hears of the failure first.
            let isLater = (21..<41).contains { request.text.contains(#""sequence":\#($0),"#) }
            if isLater { try? await Task.sleep(for: .milliseconds(300)) }
            return Self.taken
        }
        let clock = ManualClock()
        try await Self.with(script, clock: clock.syncClock) { worker, fixture, server in
            try await fixture.read(40)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "rate_limit_exceeded")
            // A few more may have been on their way. On a busy machine the failure may be heard late.
            #expect((19..<40).contains(report.delivered) && server.requests.count == report.delivered + 1)
            isBusy.withLock { $0 = false }
            clock.advance(by: .seconds(61))
            #expect(await worker.syncOnce() == SyncReport(delivered: 40 - report.delivered))
            #expect(server.requests.count == 41)
            #expect(Set(server.requests.map { $0.headers["webhook-id"] }).count == 40)
        }
    }

    @Test("of many readings those that the receiver refuses are posted once, and the others too")
    func refusals() async throws {
        let script: ScriptedServer.Script = { request in
            ["5", "6", "7", "8", "21", "39"].contains { request.text.contains(#""sequence":\#($0),"#) }
                ? .json(422, #"{"error":"too sweet"}"#) : Self.taken
        }
        try await Self.with(script) { worker, fixture, server in
            try await fixture.read(40)
            let report = await worker.syncOnce()
            #expect(report.delivered == 34 && report.refused == 6 && report.failure == nil)
            #expect(server.requests.count == 40)
        }
    }

    @Test("a receiver that refuses everything is asked a few times, and nothing is set aside")
    func refusesAll() async throws {
        try await Self.with({ _ in .json(422, #"{"error":"no"}"#) }) { worker, fixture, server in
            try await fixture.read(100)
            let report = await worker.syncOnce()
            #expect(report.delivered == 0 && report.refused == 0 && report.failure?.isRefusalOfAll == true)
            #expect(server.requests.count <= 10)
        }
    }

    @Test("a reading that the receiver refuses is refused alone")
    func refusal() async throws {
        try await Self.with({ request in
            request.text.contains(#""sequence":2,"#) ? .json(422, #"{"error":"too sweet"}"#) : Self.taken
        }) { worker, fixture, server in
            try await fixture.read(4)
            let report = await worker.syncOnce()
            #expect(report.delivered == 3 && report.refused == 1 && report.failure == nil)
            #expect(try await fixture.store.refused(at: worker.place()).first?.serverSaid == "too sweet")
        }
    }

    @Test("a receiver that answers 409 to a repeat, whose first answer was lost, keeps nothing behind it waiting")
    func repeatRefused() async throws {
        let known = Mutex<Set<String>>([])
        let script: ScriptedServer.Script = { request in
            let id = request.headers["webhook-id"] ?? ""
            let (isNew, count) = known.withLock { known in (known.insert(id).inserted, known.count) }
            guard isNew else { return .json(409, #"{"error":"a duplicate"}"#) }
            return count == 1 ? .cut : Self.taken
        }
        try await Self.with(script) { worker, fixture, server in
            try await fixture.read(4)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            let report = await worker.syncOnce()
            #expect(report.delivered == 3 && report.refused == 1 && report.failure == nil, "\(report)")
            #expect(try await fixture.store.refused(at: worker.place()).first?.serverSaid == "a duplicate")
        }
    }

    @Test("an answer of 2xx counts, however long its body is")
    func longAnswer() async throws {
        let body = String(repeating: "x", count: 3 << 20)
        try await Self.with({ _ in .other(200, body, type: "text/plain") }) { worker, fixture, server in
            try await fixture.read(2)
            let report = await worker.syncOnce()
            #expect(report == SyncReport(delivered: 2), "\(report)")
            #expect(server.requests.count == 2)
        }
    }

    @Test("the waits are those of the specification")
    func schedule() async throws {
        let clock = ManualClock()
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ _ in .json(500, "{}", headers: ["retry-after": "0"]) }) { server in
                try await fixture.read(1)
                var options = OutboxWorker.Options()
                options.backoff = WebhookFormat.standard.backoff
                options.backoff.jitter = { 0 }
                let worker = OutboxWorker(
                    store: fixture.store,
                    destination: try Self.destination(server.baseURL, fixture, clock: clock.syncClock),
                    options: options, clock: clock.syncClock, logger: Fixture.quiet)
                let running = Task { try await worker.run() }
                for round in 1...10 {
                    try await clock.waitForSleeps(round)
                    clock.advance(by: clock.slept.last ?? .zero)
                }
                try await clock.waitForSleeps(11)
                running.cancel()
                try await running.value
                #expect(
                    clock.slept.prefix(11).map(\.components.seconds)
                        == [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400, 86_400, 86_400])
            }
        }
    }

    @Test("a long queue goes once the receiver is back, and one request shows that it is not")
    func fullQueue() async throws {
        let isDown = Mutex(true)
        try await Self.with({ _ in isDown.withLock { $0 } ? .json(503, "{}") : Self.taken }) {
            worker, fixture, server in
            try await fixture.read(600)
            #expect(await worker.syncOnce().delivered == 0 && server.requests.count == 1)
            isDown.withLock { $0 = false }
            #expect(await worker.syncOnce() == SyncReport(delivered: 600))
            #expect(server.requests.count == 601)
        }
    }

    // MARK: Addresses

    @Test("an address of this machine or its network is not connected to, whatever the name says first")
    func privateAddresses() async throws {
        let public4 = "93.184.216.34"
        for addresses in [
            ["127.0.0.1"], ["::1"], ["10.1.2.3"], ["169.254.169.254"], ["::ffff:127.0.0.1"], ["fd00:ec2::254"],
            [public4, "192.168.1.1"], ["2606:2800:220:1::1", "fe80::1%eth0"],
        ] {
            try await Fixture.with { fixture in
                try await ScriptedServer.with({ _ in Self.taken }) { server in
                    let destination = try Self.destination(
                        "http://hook.example:\(server.port)/", fixture, allowsPrivate: false,
                        resolve: { _ in addresses })
                    try await fixture.read(1)
                    let report = await fixture.worker(destination, clock: .system).syncOnce()
                    #expect(report.failure?.code == "private_address" && report.failure?.needsPerson == true)
                    #expect(report.failure?.message.contains("allow_private") == true)
                    #expect(server.requests.isEmpty)
                    #expect(await destination.test().first?.isGood == false)
                }
            }
        }
    }

    @Test(
        "loopback in every spelling that the system's resolver takes",
        arguments: [
            "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]",
        ])
    func spellings(host: String) async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ _ in Self.taken }) { server in
                let destination = try Self.destination("http://\(host):\(server.port)/", fixture, allowsPrivate: false)
                try await fixture.read(1)
                let report = await fixture.worker(destination, clock: .system).syncOnce()
                #expect(report.failure?.code == "private_address", "\(host): \(String(describing: report.failure))")
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test("the checked address is connected to; the name is the TLS server's and the Host, and is resolved once")
    func pinned() async throws {
        let asked = Mutex(0)
        try await Fixture.with { fixture in
            let authority = try TestAuthority(in: fixture.folder)
            try await ScriptedServer.with({ _ in Self.taken }, tls: try authority.context(names: ["hook.example"])) {
                server in
                let destination = try Self.destination(
                    "https://hook.example:\(server.port)/in", fixture, authorities: authority.path,
                    resolve: { host in
                        #expect(host == "hook.example")
                        return asked.withLock { count in
                            count += 1
                            // A name that points elsewhere a moment later.
                            return count == 1 ? ["127.0.0.1"] : ["203.0.113.9"]
                        }
                    })
                try await fixture.read(5)
                #expect(await fixture.worker(destination, clock: .system).syncOnce() == SyncReport(delivered: 5))
                #expect(server.requests.allSatisfy { $0.headers["host"] == "hook.example:\(server.port)" })
                #expect(asked.withLock(\.self) == 1)
            }
            // A certificate for another name, at the same address.
            let other = try authority.context(names: ["other.example"], addresses: [])
            try await ScriptedServer.with({ _ in Self.taken }, tls: other) { server in
                let destination = try Self.destination(
                    "https://hook.example:\(server.port)/in", fixture, authorities: authority.path,
                    resolve: { _ in ["127.0.0.1"] })
                try await fixture.store.redeliver(to: "study")
                let report = await fixture.worker(destination, clock: .system).syncOnce()
                #expect(report.failure?.code == "untrusted_server", "\(report)")
                #expect(server.requests.isEmpty)
                #expect(await destination.test().map(\.isGood) == [true, false, nil, nil])
            }
        }
    }

    @Test("where the first address does not answer the next is tried; an unknown name is told")
    func several() async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ _ in Self.taken }) { server in
                let destination = try Self.destination(
                    "http://hook.example:\(server.port)/in", fixture, resolve: { _ in ["127.0.0.9", "127.0.0.1"] })
                try await fixture.read(1)
                #expect(await fixture.worker(destination, clock: .system).syncOnce() == SyncReport(delivered: 1))
                let unknown = try Self.destination("https://no-such-host.invalid/", fixture)
                try await fixture.store.redeliver(to: "study")
                let failure = await fixture.worker(unknown, clock: .system).syncOnce().failure
                #expect(failure?.code == "no_connection" && failure?.needsPerson == false)
            }
        }
    }

    @Test("the test sends no event, and says what it cannot prove", arguments: [200, 401, 405, 501])
    func test(status: Int) async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ _ in .json(status, "") }) { server in
                let findings = try await Self.destination(server.baseURL, fixture).test()
                #expect(findings.map(\.isGood) == [true, nil, nil, nil])
                #expect(server.requests.map(\.method) == ["HEAD"])
                #expect(server.requests.allSatisfy { $0.headers["webhook-signature"] == nil })
            }
        }
    }

    @Test("neither a log, a message nor a description has the secret")
    func secrets() async throws {
        let log = LogLines()
        let bare = String(webhookSecret.dropFirst(6))
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ _ in .json(400, #"{"error":"bad \#(webhookSecret)"}"#) }) { server in
                let destination = try Self.destination(server.baseURL, fixture, log: log)
                try await fixture.read(1)
                let report = await fixture.worker(destination, clock: .system).syncOnce()
                var text = "\(destination) \(report) \(log.text)"
                dump(destination, to: &text)
                #expect(!text.contains(bare))
            }
        }
    }
}

@Suite("Addresses of the public internet")
struct PublicAddressTests {
    @Test(
        "are",
        arguments: [
            "1.1.1.1", "93.184.216.34", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
            "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
            "198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.15", "2606:4700:4700::1111",
            "2001:4860:4860::8888", "2001:200::1", "3ffe::1", "::ffff:1.1.1.1", "64:ff9b::101:101",
        ])
    func open(address: String) { #expect(PublicAddress.contains(address)) }

    @Test(
        "are not",
        arguments: [
            "0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255",
            "127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.170.2", "172.16.0.0",
            "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1",
            "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
            "255.255.255.255", "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
            "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1",
            "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "3fff:fff::1", "fc00::1",
            "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1", "", "localhost", "1.2.3",
            "1.2.3.4.5", "2606:4700:4700::1111%eth0",
        ])
    func closed(address: String) { #expect(!PublicAddress.contains(address)) }
}
