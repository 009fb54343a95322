import DeliveryFixture
import Foundation
import GRDB
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

@Suite("Nightscout")
struct NightscoutTests {
    private static let secret = "correct horse battery"

    private static func destination(
        _ server: ScriptedServer, _ fixture: Fixture, _ credential: NightscoutDestination.Credential = .secret(secret),
        path: String = "/", isPersonChosen: Bool = false, notes: Bool = false, authorities: String? = nil,
        log: LogLines = LogLines()
    ) throws -> NightscoutDestination {
        NightscoutDestination(
            name: "sugar", server: try WebServer(url: server.baseURL + path, authorities: authorities),
            credential: credential, store: fixture.store, isPersonChosen: isPersonChosen, deliversBloodPressure: notes,
            limits: HTTPLimits(connecting: .seconds(5), call: .seconds(30)), logger: log.logger(from: .trace))
    }

    /// A worker beside a site and a fresh store.
    private static func with(
        _ site: NightscoutSite = NightscoutSite(), zone: String = "Europe/Berlin", notes: Bool = false,
        clock: SyncClock = .system, batchLimit: Int = 100,
        _ body: @Sendable (OutboxWorker, Fixture, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.with(timeZone: zone) { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                let worker = fixture.worker(
                    try destination(server, fixture, notes: notes), clock: clock, batchLimit: batchLimit)
                try await body(worker, fixture, server)
            }
        }
    }

    // The fixture's meters show wall time, and the person is an hour ahead of UTC: the first reading is 21:14:20 UTC.

    @Test("finger sticks and sensor values become entries, in mg/dL, with the person's offset")
    func entries() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(3, model: "accuchek_guide")
            try await fixture.read(1, from: 10, device: 2, provider: "manual", isContinuous: true, value: { _ in 118 })
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
            let request = try #require(server.requests.first { $0.text.contains("mbg") })
            #expect(request.path == "/api/v1/entries" && request.headers["content-type"] == "application/json")
            #expect(request.headers["api-secret"] == "98decc62ece399a22ed30d490ef333be7fde7385")
            #expect(request.headers["authorization"] == nil && !request.path.contains("token"))
            let sent = try #require(AnswerJSON(Array(request.text.utf8))?.elements.first)
            #expect(sent["type"] == .text("mbg") && sent["mbg"] == .number(81))
            #expect(sent["date"] == .number(1_699_996_460_000))
            #expect(sent["dateString"] == .text("2023-11-14T22:14:20.000+01:00"))
            #expect(sent["device"]?.text?.hasPrefix("accuchek_guide-") == true)
            #expect(sent["device"]?.text?.contains("C0:") == false)
            #expect(
                site.shown.sorted() == [
                    "1699996460000 mbg 81", "1699996520000 mbg 82", "1699996580000 mbg 83", "1699997000000 sgv 118",
                ])
            #expect(site.current.entries.allSatisfy { $0["utcOffset"] == .number(60) })
        }
    }

    @Test("a repeat changes nothing, also where the answer was lost after the site had stored it")
    func repeats() async throws {
        let site = NightscoutSite()
        site.change { $0.losesAnswers = 1 }
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(20)
            #expect(await worker.syncOnce().failure?.code == "no_connection")
            #expect(site.current.entries.count == 20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 20))
            let once = site.current.entries
            try await fixture.store.redeliver(to: "sugar")
            #expect(await worker.syncOnce() == SyncReport(delivered: 20))
            #expect(site.current.entries == once && once.count == 20)
        }
    }

    @Test("the offset of a reading stays what it was when it was stored, whatever zone the person is in later")
    func offset() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            _ = await worker.syncOnce()
            try await fixture.read(2)
            try await fixture.store.setCurrentUser(Fixture.user, timeZone: "America/New_York")
            // The tz database says something else of that zone now.
            try await fixture.store.write(.setting) { db in
                try db.execute(sql: "UPDATE user_zone SET zone = 'Asia/Tokyo'")
            }
            #expect(await worker.syncOnce().delivered == 2)
            #expect(site.current.entries.allSatisfy { $0["utcOffset"] == .number(60) })
        }
    }

    @Test("readings of two meters, makers or sample types at one second are two entries; none is merged")
    func sameSecond() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            // Known to the store before the readings come, as it is while the gateway runs.
            _ = await worker.syncOnce()
            try await fixture.read(4, value: { _ in 100 })
            try await fixture.read(4, device: 2, value: { _ in 110 })
            try await fixture.read(4, device: 3, provider: "contour_ble", value: { _ in 120 })
            try await fixture.read(4, device: 4, provider: "manual", isContinuous: true, value: { _ in 130 })
            #expect(await worker.syncOnce() == SyncReport(delivered: 16))
            #expect(site.current.entries.count == 16)
            let values = site.shown.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
            #expect([100, 110, 120, 130].allSatisfy { value in values.count(where: { $0 == value }) == 4 })
        }
    }

    @Test("the same for what was stored before the site was named")
    func sameSecondInBacklog() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(4, value: { _ in 100 })
            try await fixture.read(4, device: 2, value: { _ in 110 })
            try await fixture.read(4, device: 3, provider: "contour_ble", value: { _ in 120 })
            #expect(await worker.syncOnce() == SyncReport(delivered: 12))
            #expect(site.current.entries.count == 12)
        }
    }

    @Test("a sensor's value that the page would show as an error is refused, and said so")
    func low() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(3, provider: "manual", isContinuous: true, value: { $0 == 2 ? 38 : 60 })
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.refused == 1)
            #expect(!site.shown.contains { $0.contains("?") })
            let words = try await fixture.store.refused(at: worker.place()).first?.serverSaid
            #expect(words?.contains("below 39 mg/dL as an error") == true)
        }
    }

    @Test("wrong credentials pause delivery: one request a pass, told once, then ever longer waits")
    func wrongSecret() async throws {
        let (clock, site) = (ManualClock(), NightscoutSite())
        site.change { $0.options.secret = "another secret of the site" }
        try await Self.with(site, clock: clock.syncClock) { worker, fixture, server in
            try await fixture.read(5)
            try await fixture.read(5, device: 2, provider: "contour_ble")
            let events = worker.events()
            let running = Task { try await worker.run() }
            for round in 1...4 {
                try await clock.waitForSleeps(round)
                clock.advance(by: clock.slept.last ?? .zero)
            }
            try await clock.waitForSleeps(5)
            running.cancel()
            try await running.value
            let paused = await events.reduce(into: 0) { if case .paused = $1 { $0 += 1 } }
            #expect(paused == 1 && server.requests.count == 5 && site.current.failures == 5)
            #expect(clock.slept.prefix(5).map { $0.components.seconds / 60 } == [15, 30, 60, 120, 240])
            let failure = try #require(await worker.status.failure)
            #expect(failure.code == "authentication_failed" && failure.needsPerson)
            #expect(failure.serverSaid == "Unauthorized: Invalid/Missing")
        }
    }

    @Test(
        "what answers in the site's place acknowledges nothing",
        arguments: [
            (ScriptedAnswer.other(200, "<html>Sign in to the hotel</html>", type: "text/html"), "not_json"),
            (.other(404, "<!DOCTYPE html><p>Not Found", type: "text/html"), "not_json"),
            (.other(400, "<html><pre>SyntaxError</pre></html>", type: "text/html"), "not_json"),
            (.json(500, #"{"status":500,"message":"Mongo Error"}"#), "server_error"),
            (.json(429, "{}", headers: ["retry-after": "60"]), "rate_limit_exceeded"),
            (.json(307, "", headers: ["location": "https://ns.example/api/v1/entries"]), "redirected"),
            (.cut, "no_connection"), (.half(200, "[]"), "no_connection"),
        ])
    func faults(answer: ScriptedAnswer, code: String) async throws {
        let site = NightscoutSite()
        site.change { $0.next = [answer] }
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(3)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == code && report.delivered == 0 && report.refused == 0)
            #expect(server.requests.count == 1)
            if code == "redirected" { #expect(report.failure?.message.contains("https://ns.example/api/v1") == true) }
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
        }
    }

    @Test("Nocturne's 201 with fewer documents than were sent is an acknowledgement")
    func nocturne() async throws {
        let site = NightscoutSite()
        site.change { $0.options.isNocturne = true }
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(7)
            #expect(await worker.syncOnce() == SyncReport(delivered: 7))
            // It drops what tells whose an entry is, so nothing is deleted on a guess.
            try await fixture.read(1, from: 3, isFailed: true)
            #expect(await worker.syncOnce().retracted == 0)
            #expect(site.current.entries.count == 7)
            #expect(try await fixture.store.leftBehind(at: worker.place()) == 1)
        }
    }

    @Test("a body that is too large is halved until it fits")
    func tooLarge() async throws {
        let site = NightscoutSite()
        site.change { $0.options.bodyLimit = 3000 }
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(60)
            #expect(await worker.syncOnce() == SyncReport(delivered: 60))
            #expect(site.current.entries.count == 60)
        }
    }

    @Test("a long queue goes once the site is back")
    func fullQueue() async throws {
        let site = NightscoutSite()
        site.change { $0.options.isBroken = true }
        try await Self.with(site, batchLimit: 250) { worker, fixture, server in
            try await fixture.read(2000)
            #expect(await worker.syncOnce().failure?.code == "server_error")
            site.change { $0.options.isBroken = false }
            #expect(await worker.syncOnce() == SyncReport(delivered: 2000))
            #expect(site.current.entries.count == 2000)
        }
    }

    @Test(
        "addresses as people paste them: with slashes at the end, with the API's path, below a path",
        arguments: [
            "", "/", "///", "/api/v1", "/api/v1/",
        ])
    func addresses(path: String) async throws {
        let site = NightscoutSite()
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                let worker = fixture.worker(try Self.destination(server, fixture, path: path), clock: .system)
                try await fixture.read(1)
                #expect(await worker.syncOnce() == SyncReport(delivered: 1))
                #expect(server.requests.map(\.path) == ["/api/v1/entries"])
            }
        }
    }

    @Test("what is excluded is deleted there; what another uploader wrote in its place stays")
    func retraction() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(5)
            #expect(await worker.syncOnce().delivered == 5)
            let (third, fourth) = (1_699_996_580_000.0, 1_699_996_640_000.0)
            site.change { state in
                // xDrip has uploaded into the fourth's place.
                guard let place = state.entries.firstIndex(where: { $0["date"] == .number(fourth) }) else { return }
                state.entries[place].merge(["mbg": .number(222), "device": .text("xDrip-Manual")]) { $1 }
                // And a sensor's value at the third's.
                state.entries.append([
                    "_id": .text("0123456789abcdef01234567"), "type": .text("sgv"), "sgv": .number(99),
                    "date": .number(third), "device": .text("xDrip"),
                ])
            }
            try await fixture.read(2, from: 3, isFailed: true)
            let report = await worker.syncOnce()
            #expect(report.retracted == 2 && report.failure == nil)
            #expect(
                site.shown.sorted() == [
                    "1699996460000 mbg 81", "1699996520000 mbg 82", "1699996580000 sgv 99", "1699996640000 mbg 222",
                    "1699996700000 mbg 85",
                ])
            let deletion = try #require(server.requests.first { $0.method == "DELETE" })
            #expect(
                deletion.path.hasPrefix("/api/v1/entries/mbg?find%5Bdate%5D=1699996580000&find%5Bdevice%5D=device-"))
        }
    }

    @Test("a token without the permission to delete: that waits for a person, and readings go on")
    func retractionWithoutPermission() async throws {
        let site = NightscoutSite()
        site.change {
            $0.options.tokens = [
                "gateway-0123456789abcdef": [
                    "api:entries:read", "api:entries:create", "api:devicestatus:read", "api:devicestatus:create",
                ]
            ]
        }
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                let worker = fixture.worker(
                    try Self.destination(server, fixture, .token("gateway-0123456789abcdef")), clock: .system)
                try await fixture.read(5)
                #expect(await worker.syncOnce().delivered == 5)
                try await fixture.read(1, from: 3, isFailed: true)
                try await fixture.read(1, from: 9)
                let report = await worker.syncOnce()
                #expect(report.delivered == 1 && report.retracted == 0)
                #expect(report.failure?.code == "forbidden" && report.failure?.needsPerson == true)
                #expect(report.failure?.message.contains("needs the permission to delete") == true)
                #expect(site.current.entries.count == 6 && site.current.failures == 1)
            }
        }
    }

    @Test("blood pressures stay here, unless the owner wants notes of them")
    func notes() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            #expect(worker.destination.rules.kinds == [.glucose])
            try await fixture.read(2, kind: .bloodPressure, provider: "omron_ble")
            #expect(await worker.syncOnce() == SyncReport() && server.requests.isEmpty)
        }
        try await Self.with(site, notes: true) { worker, fixture, server in
            try await fixture.read(3, kind: .bloodPressure, provider: "omron_ble", model: "omron", value: { _ in 128 })
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            let note = try #require(site.current.treatments.first)
            #expect(note["eventType"] == .text("Note") && note["notes"] == .text("BP 128/80"))
            #expect(note["created_at"] == .text("2023-11-14T21:14:20.000Z") && note["utcOffset"] == .number(60))
            #expect(note["enteredBy"]?.text?.hasPrefix("omron-") == true)
            try await fixture.store.redeliver(to: "sugar")
            #expect(await worker.syncOnce().delivered == 3)
            #expect(site.current.treatments.count == 3)
            try await fixture.read(
                1, from: 2, kind: .bloodPressure, provider: "omron_ble", isFailed: true, model: "omron",
                value: { _ in 128 })
            let report = await worker.syncOnce()
            #expect(report.retracted == 1 && report.failure == nil, "\(report) \(server.requests.suffix(2))")
            #expect(site.current.treatments.count == 2)
        }
    }

    @Test("a blood pressure that was entered and is corrected is one note, also where no other destination is asked")
    func correctedNote() async throws {
        let site = NightscoutSite()
        try await Self.with(site, notes: true) { worker, fixture, server in
            let former = try enteredPressure("128/82")
            try await fixture.store.enter(former)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            try await fixture.store.enter(try enteredPressure("138/82", corrects: former.id))
            let report = await worker.syncOnce()
            #expect(report.delivered == 1 && report.retracted == 1 && report.failure == nil, "\(report)")
            #expect(site.current.treatments.compactMap { $0["notes"]?.text } == ["BP 138/82"])
            // A glucose is replaced where it is.
            let sugar = try enteredGlucose("5.6")
            try await fixture.store.enter(sugar)
            #expect(await worker.syncOnce().delivered == 1)
            try await fixture.store.enter(try enteredGlucose("6.5", corrects: sugar.id))
            #expect(await worker.syncOnce().delivered == 1)
            #expect(site.current.entries.count == 1 && site.shown.first?.hasSuffix(" mbg 117") == true)
        }
    }

    @Test("the site is told how a meter's battery stands; if it refuses, readings go and it is not asked again")
    func battery() async throws {
        let site = NightscoutSite()
        try await Self.with(site) { worker, fixture, server in
            try await fixture.read(2, model: "accuchek_guide", battery: 87)
            #expect(await worker.syncOnce().delivered == 2)
            let status = try #require(site.current.statuses.first)
            #expect(status["uploader"]?["battery"] == .number(87))
            #expect(status["device"]?.text?.hasPrefix("accuchek_guide-") == true)
            #expect(status["created_at"]?.text?.hasSuffix("Z") == true)
            try await fixture.store.redeliver(to: "sugar")
            #expect(await worker.syncOnce().delivered == 2)
            #expect(site.current.statuses.count == 1)
        }
        site.change { $0.options.tokens = ["gateway-0123456789abcdef": ["api:entries:read", "api:entries:create"]] }
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                let worker = fixture.worker(
                    try Self.destination(server, fixture, .token("gateway-0123456789abcdef")), clock: .system)
                for round in 1...3 {
                    try await fixture.read(1, from: round, metAt: Fixture.start + Int64(round), battery: 50)
                    #expect(await worker.syncOnce() == SyncReport(delivered: 1))
                }
                #expect(site.current.failures == 1)
            }
        }
    }

    @Test("a site is one person's: where the store knows several and none was chosen, readings wait")
    func people() async throws {
        let site = NightscoutSite()
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                try await fixture.read(2)
                try await fixture.store.setCurrentUser("brown_bear", timeZone: "UTC")
                let worker = fixture.worker(try Self.destination(server, fixture), clock: .system)
                let report = await worker.syncOnce()
                #expect(report.delivered == 0 && report.held.map(\.hold) == [.notSelected])
                #expect(report.held.first?.reason?.contains("choose one with `people`") == true)
                #expect(server.requests.isEmpty)
                let chosen = fixture.worker(
                    try Self.destination(server, fixture, isPersonChosen: true), clock: .system)
                #expect(await chosen.syncOnce() == SyncReport(delivered: 2))
            }
        }
    }

    @Test("the test proves the credentials and the permission, names the version, and stores nothing")
    func test() async throws {
        let site = NightscoutSite()
        site.change {
            $0.options.tokens = [
                "reader-0123456789abcdef": ["api:entries:read", "api:status:read"],
                "gateway-0123456789abcdef": ["api:entries:read", "api:entries:create", "api:status:read"],
            ]
        }
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ await site.answer($0) }) { server in
                func findings(
                    _ credential: NightscoutDestination.Credential, path: String = "/"
                ) async throws -> [Finding] {
                    try await Self.destination(server, fixture, credential, path: path).test()
                }
                let good = try await findings(.secret(Self.secret))
                #expect(good.map(\.name) == ["address", "certificate", "credentials", "permission"])
                #expect(good.map(\.isGood) == [true, nil, true, true])
                #expect(good.first?.found.contains("Nightscout 15.0.7") == true)
                #expect(
                    try await findings(.token("gateway-0123456789abcdef")).map(\.isGood) == [true, nil, true, true])
                let reader = try await findings(.token("reader-0123456789abcdef"))
                #expect(reader.map(\.isGood) == [true, nil, true, false])
                #expect(reader.last?.mend?.contains("api:entries:create") == true)
                let wrong = try await findings(.secret("no such secret"))
                #expect(wrong.map(\.isGood) == [true, nil, false, nil])
                let elsewhere = try await findings(.secret(Self.secret), path: "/other")
                #expect(elsewhere.first?.isGood == false)
                #expect(elsewhere.first?.mend?.contains("without a path") == true)
                #expect(
                    site.current.entries.isEmpty && site.current.treatments.isEmpty && site.current.statuses.isEmpty)
            }
        }
    }

    @Test("a certificate that nobody vouches for gets neither the secret nor a reading")
    func certificate() async throws {
        let site = NightscoutSite()
        try await Fixture.with { fixture in
            let authority = try TestAuthority(in: fixture.folder)
            try await fixture.read(2)
            try await ScriptedServer.with({ await site.answer($0) }, tls: try authority.context()) { server in
                let stranger = fixture.worker(try Self.destination(server, fixture), clock: .system)
                #expect(await stranger.syncOnce().failure?.code == "untrusted_server")
                #expect(server.requests.isEmpty)
                let known = fixture.worker(
                    try Self.destination(server, fixture, authorities: authority.path), clock: .system)
                #expect(await known.syncOnce() == SyncReport(delivered: 2))
            }
        }
    }

    @Test("neither a log, a message nor a description has the secret, its hash or a token")
    func secrets() async throws {
        let log = LogLines()
        let hash = NightscoutDestination.Credential.secret(Self.secret).header.value
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ _ in
                .json(401, #"{"status":401,"message":"no \#(NightscoutTests.secret)","description":"\#(hash)"}"#)
            }) { server in
                let destination = try Self.destination(server, fixture, log: log)
                try await fixture.read(1)
                let report = await fixture.worker(destination, clock: .system).syncOnce()
                var text = "\(destination) \(report) \(await destination.test()) \(log.text)"
                dump(destination, to: &text)
                #expect(!text.contains(Self.secret) && !text.contains(hash))
            }
        }
    }
}
