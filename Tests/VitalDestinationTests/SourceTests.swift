import DeliveryFixture
import HealthReadings
import ReadingStore
import ScriptedServer
import Synchronization
import TestSupport
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("Connected sources")
struct SourceTests {
    /// A keeper beside a scripted server and a fresh store.
    private func with(
        _ script: VitalScript, policy: SourcePolicy = .create, clock: SyncClock = .system,
        _ body: @Sendable (SourceKeeper, Fixture) async throws -> Void
    ) async throws {
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ script.answer($0) }) { server in
                let keeper = SourceKeeper(
                    store: fixture.store, api: try api(server.baseURL), policy: policy, clock: clock)
                try await body(keeper, fixture)
            }
        }
    }

    private func fresh(_ keeper: SourceKeeper, _ fixture: Fixture) async throws -> Hold? {
        try await keeper.decide("accuchek_ble", for: try await fixture.person, fresh: true).hold
    }

    /// Expects a decision made with what the server says now.
    private func expect(
        _ hold: Hold?, _ keeper: SourceKeeper, _ fixture: Fixture, at location: SourceLocation = #_sourceLocation
    ) async throws {
        let found = try await fresh(keeper, fixture)
        #expect(found == hold, sourceLocation: location)
    }

    @Test("policy create: a missing source is connected once, and what the server lists is stored")
    func create() async throws {
        let script = VitalScript(connected: [])
        try await with(script) { keeper, fixture in
            try await expect(nil, keeper, fixture)
            try await expect(nil, keeper, fixture)
            #expect(script.now.created == ["accuchek_ble"])
            let source = try await fixture.store.source(user: try await fixture.person.key, provider: "accuchek_ble")
            #expect(source?.status == .connected && source?.wasCreatedOnce == true)
            #expect(source?.connectedAt == Instant(rfc3339: "2026-01-01T00:00:00Z"))
        }
    }

    @Test("policy require: a missing source holds no_source and is not connected")
    func require() async throws {
        let script = VitalScript(connected: [])
        try await with(script, policy: .require) { keeper, fixture in
            try await expect(.noSource, keeper, fixture)
            #expect(script.now.created.isEmpty)
            script.change { $0.sources["accuchek_ble"] = "connected" }
            try await expect(nil, keeper, fixture)
        }
    }

    @Test("a source that existed and is gone is revoked: never connected unasked, whether we or the owner made it")
    func gone() async throws {
        for before in [[], ["accuchek_ble"]] {
            let script = VitalScript(connected: before)
            try await with(script) { keeper, fixture in
                try await expect(nil, keeper, fixture)
                let created = script.now.created
                script.change { $0.sources = [:] }
                try await expect(.sourceRevoked, keeper, fixture)
                try await expect(.sourceRevoked, keeper, fixture)
                #expect(script.now.created == created)
                // The owner connects it again at the server.
                script.change {
                    $0.sources = ["accuchek_ble": "connected"]
                    $0.connectedOn = "2026-02-02T00:00:00Z"
                }
                try await expect(nil, keeper, fixture)
            }
        }
    }

    @Test("a source that was revoked stays so under another name of its destination, and not at another address")
    func renamed() async throws {
        let script = VitalScript(connected: [])
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ script.answer($0) }) { server in
                let store = fixture.store
                func keeper(_ name: String, at address: String) async throws -> SourceKeeper {
                    try await store.setDestination(name, kind: "vital", VitalDestination.rules, address: address)
                    return SourceKeeper(
                        store: store, destination: name, api: try api(server.baseURL), policy: .create)
                }
                try await expect(nil, keeper("vital", at: "here"), fixture)
                // Its owner removes it at the server, and nobody asks before the destination has another name.
                script.change { $0.sources = [:] }
                let renamed = try await keeper("clinic", at: "here")
                try await store.removeDestination("vital")
                try await expect(.sourceRevoked, renamed, fixture)
                #expect(script.now.created == ["accuchek_ble"])
                script.change {
                    $0.sources = ["accuchek_ble": "connected"]
                    $0.connectedOn = "2026-02-02T00:00:00Z"
                }
                try await expect(nil, renamed, fixture)
                // Revoked here, and the server could not be told.
                try await renamed.revoke("accuchek_ble", of: try await fixture.person)
                script.change { $0.sources["accuchek_ble"] = "connected" }
                try await expect(.sourceRevoked, keeper("hospital", at: "here"), fixture)
                try await expect(nil, keeper("other", at: "there"), fixture)
            }
        }
    }

    @Test("a source that was revoked stays so if its destination gets its former name back")
    func renamedBack() async throws {
        let script = VitalScript(connected: [])
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ script.answer($0) }) { server in
                let store = fixture.store
                func keeper(_ name: String) async throws -> SourceKeeper {
                    try await store.setDestination(name, kind: "vital", VitalDestination.rules, address: "here")
                    return SourceKeeper(
                        store: store, destination: name, api: try api(server.baseURL), policy: .create)
                }
                try await expect(nil, keeper("vital"), fixture)
                let renamed = try await keeper("clinic")
                try await store.removeDestination("vital")
                try await expect(nil, renamed, fixture)
                // Revoked here, and the server could not be told.
                let person = try await fixture.person
                try await renamed.revoke("accuchek_ble", of: person)
                script.change { $0.sources["accuchek_ble"] = "connected" }
                let back = try await keeper("vital")
                try await store.removeDestination("clinic")
                try await expect(.sourceRevoked, back, fixture)
                // Its owner connects it again, and that counts under each name, too.
                try await back.connect("accuchek_ble", for: person)
                try await expect(nil, back, fixture)
                try await expect(nil, keeper("clinic"), fixture)
            }
        }
    }

    @Test(
        "revoked here: held at once and for good, even where the server could not be told; connected again on request")
    func revoke() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            let person = try await fixture.person
            try await expect(nil, keeper, fixture)
            try await keeper.revoke("accuchek_ble", of: person)
            #expect(script.now.sources["accuchek_ble"] == nil)
            #expect(try await keeper.decide("accuchek_ble", for: person).hold == .sourceRevoked)
            try await expect(.sourceRevoked, keeper, fixture)
            // The server still lists the connection that was revoked: its answer to the deletion was lost.
            script.change { $0.sources["accuchek_ble"] = "connected" }
            try await expect(.sourceRevoked, keeper, fixture)
            try await keeper.connect("accuchek_ble", for: person)
            #expect(try await keeper.decide("accuchek_ble", for: person).hold == nil)
            try await expect(nil, keeper, fixture)
        }
    }

    @Test("revoked here while a delivery is just connecting it: it stays so, and is not connected again")
    func revokeWhileConnecting() async throws {
        for arrives in [true, false] {
            let script = VitalScript(connected: [])
            script.change { $0.nextCreate = [.late(.milliseconds(300), .json(200, #"{"success":true}"#))] }
            try await with(script) { keeper, fixture in
                let person = try await fixture.person
                async let decided = keeper.decide("accuchek_ble", for: person)
                try await until { script.now.nextCreate.isEmpty }
                if arrives { script.change { $0.sources["accuchek_ble"] = "connected" } }
                try await keeper.revoke("accuchek_ble", of: person)
                _ = try await decided
                #expect(script.now.sources.isEmpty)
                #expect(try await keeper.decide("accuchek_ble", for: person).hold == .sourceRevoked)
                try await expect(.sourceRevoked, keeper, fixture)
                #expect(script.now.created.isEmpty)
                let source = try await fixture.store.source(user: person.key, provider: "accuchek_ble")
                #expect(source?.status == .revoked)
            }
        }
    }

    @Test("revoked here while a delivery is just connecting it: that delivery sends nothing either")
    func revokeWhileDelivering() async throws {
        let script = VitalScript(connected: [])
        let isAnswered = Mutex(false)
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ request in
                let answer = script.answer(request)
                // It is connected, and the answer takes its time.
                while !script.now.created.isEmpty, !isAnswered.withLock(\.self) {
                    try? await Task.sleep(for: .milliseconds(5))
                }
                return answer
            }) { server in
                defer { isAnswered.withLock { $0 = true } }
                let worker = OutboxWorker(
                    store: fixture.store, api: try api(server.baseURL), policy: .create, logger: Fixture.quiet)
                let keeper = try worker.sources
                try await fixture.read(3)
                let person = try await fixture.person
                func status() async throws -> ConnectedSource.Status? {
                    try await fixture.store.source(user: person.key, provider: "accuchek_ble")?.status
                }
                let delivering = Task { await worker.syncOnce() }
                try await until { !script.now.created.isEmpty }
                let revoking = Task { try await keeper.revoke("accuchek_ble", of: person) }
                try await until { try await status() == .revoked }
                isAnswered.withLock { $0 = true }
                let report = await delivering.value
                try await revoking.value
                #expect(report.delivered == 0 && report.held.map(\.hold) == [.sourceRevoked])
                #expect(script.now.posts.isEmpty && script.now.sources.isEmpty)
                #expect(try await status() == .revoked)
            }
        }
    }

    @Test("revoked here while the server is slow to answer a delivery: it is noted before the server answers")
    func revokeAtOnce() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            let person = try await fixture.person
            try await expect(nil, keeper, fixture)
            script.change { $0.nextList = [.late(.seconds(60), .cut)] }
            let deciding = Task { try await keeper.decide("accuchek_ble", for: person, fresh: true) }
            try await until { script.now.nextList.isEmpty }
            let revoking = Task { try await keeper.revoke("accuchek_ble", of: person) }
            try await until {
                try await fixture.store.source(user: person.key, provider: "accuchek_ble")?.status == .revoked
            }
            deciding.cancel()
            try await revoking.value
            _ = await deciding.result
            try await expect(.sourceRevoked, keeper, fixture)
            #expect(script.now.sources["accuchek_ble"] == nil)
        }
    }

    @Test("connected here while a delivery was told that it is gone: the owner's word counts")
    func connectWhileAsking() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            let person = try await fixture.person
            try await expect(nil, keeper, fixture)
            script.change {
                $0.sources["accuchek_ble"] = nil
                $0.nextList = [.late(.milliseconds(300), .json(200, #"{"providers":[]}"#))]
            }
            async let decided = keeper.decide("accuchek_ble", for: person, fresh: true)
            try await until { script.now.nextList.isEmpty }
            try await keeper.connect("accuchek_ble", for: person)
            _ = try await decided
            #expect(try await keeper.decide("accuchek_ble", for: person).hold == nil)
            try await expect(nil, keeper, fixture)
        }
    }

    @Test("a keeper that is told to ask anew while it decides takes no source for one that is gone")
    func forgetWhileDeciding() async throws {
        try await with(VitalScript()) { keeper, fixture in
            try await expect(nil, keeper, fixture)
            let forgetting = Task {
                while !Task.isCancelled {
                    await keeper.forget()
                    await Task.yield()
                }
            }
            defer { forgetting.cancel() }
            for _ in 0..<20 { try await expect(nil, keeper, fixture) }
        }
    }

    @Test("paused and error hold with their reason; an unknown status holds as well; connected again ends it")
    func status() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            for (status, hold) in [
                ("paused", Hold.sourcePaused), ("error", .sourceError), ("dormant", .sourceError), ("connected", nil),
            ] {
                script.change { $0.sources["accuchek_ble"] = status }
                try await expect(hold, keeper, fixture)
            }
        }
    }

    @Test("the list is believed for five minutes and asked for again then")
    func expiry() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        try await with(script, clock: clock.syncClock) { keeper, fixture in
            let person = try await fixture.person
            for _ in 0..<10 { #expect(try await keeper.decide("accuchek_ble", for: person).hold == nil) }
            #expect(try await keeper.decide("omron_ble", for: person).hold == nil)
            #expect(script.now.lists == 1)
            script.change { $0.sources["accuchek_ble"] = "paused" }
            clock.advance(by: .seconds(299))
            #expect(try await keeper.decide("accuchek_ble", for: person).hold == nil)
            clock.advance(by: .seconds(1))
            #expect(try await keeper.decide("accuchek_ble", for: person).hold == .sourcePaused)
            #expect(script.now.lists == 2)
        }
    }

    @Test("a creation whose answer was lost is found in the list, or repeated")
    func lostAnswer() async throws {
        for arrives in [true, false] {
            let script = VitalScript(connected: [])
            script.change { $0.nextCreate = [.cut] }
            try await with(script) { keeper, fixture in
                await #expect(throws: VitalError.self) { try await fresh(keeper, fixture) }
                if arrives { script.change { $0.sources["accuchek_ble"] = "connected" } }
                try await expect(nil, keeper, fixture)
                #expect(script.now.created == (arrives ? [] : ["accuchek_ble"]))
            }
        }
    }

    @Test("409 on creation is success; a refusal holds no_source with the server's words")
    func creationAnswers() async throws {
        let script = VitalScript(connected: [])
        script.change { $0.nextCreate = [.json(422, #"{"detail":"no such provider"}"#), .json(409, "{}")] }
        try await with(script) { keeper, fixture in
            let person = try await fixture.person
            let refused = try await keeper.decide("accuchek_ble", for: person, fresh: true)
            #expect(refused == .init(hold: .noSource, reason: "no such provider"))
            // 409 with a list that does not have it: held, not believed.
            try await expect(.noSource, keeper, fixture)
            script.change { $0.sources["accuchek_ble"] = "connected" }
            try await expect(nil, keeper, fixture)
        }
    }

    @Test("the server's user id is stored; a user the server has lost is made again, their sources stay revoked")
    func user() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            try await expect(nil, keeper, fixture)
            #expect(try await fixture.person.serverUserID == "00000000-0000-4000-8000-000000000001")
            script.change {
                $0.userID = "00000000-0000-4000-8000-000000000002"
                $0.sources = [:]
            }
            try await expect(.sourceRevoked, keeper, fixture)
            #expect(try await fixture.person.serverUserID == "00000000-0000-4000-8000-000000000002")
            #expect(script.now.created.isEmpty)
        }
    }

    @Test(
        "a link connected elsewhere is asked for at the server: it ends a revocation here, and only where it is listed")
    func link() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            try await expect(nil, keeper, fixture)
            try await keeper.revoke("accuchek_ble", of: try await fixture.person)
            let link = try await keeper.link(
                "accuchek_ble", for: try await fixture.person, redirectURL: "http://127.0.0.1:1/x")
            #expect(link.webURL == "https://link.example.org/?token=lt_1" && !"\(link)".contains("lt_1"))
            #expect(try await keeper.confirm("accuchek_ble", for: try await fixture.person) == nil)
            #expect(try await keeper.decide("accuchek_ble", for: try await fixture.person).hold == .sourceRevoked)
            // The same moment as before: only the owner's word makes it another connection.
            script.change { $0.sources["accuchek_ble"] = "connected" }
            try await expect(.sourceRevoked, keeper, fixture)
            let source = try await keeper.confirm("accuchek_ble", for: try await fixture.person)
            #expect(source?.status == .connected)
            #expect(try await keeper.decide("accuchek_ble", for: try await fixture.person).hold == nil)
        }
    }

    @Test("a link for a user the server has lost is made for the one that takes their place")
    func linkOfLostUser() async throws {
        let script = VitalScript()
        try await with(script) { keeper, fixture in
            try await expect(nil, keeper, fixture)
            script.change { $0.userID = "00000000-0000-4000-8000-000000000002" }
            _ = try await keeper.link("oura", for: try await fixture.person, redirectURL: nil)
            #expect(try await fixture.person.serverUserID == "00000000-0000-4000-8000-000000000002")
        }
    }
}
