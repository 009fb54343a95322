import DeliveryFixture
import HealthReadings
import Logging
import ReadingStore
import ScriptedServer
import ServiceLifecycle
import Synchronization
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

/// What each answer of the server does to what waits.
@Suite("Outbox worker: refusals and failures")
struct WorkerRefusalTests {
    @Test(
        "408, 429, 5xx, HTML, cut and slow connections keep everything and are tried again",
        arguments: [
            ScriptedAnswer.json(408, "{}"), .json(429, "{}", headers: ["Retry-After": "30"]), .json(500, "{}"),
            .json(503, #"{"detail":"later"}"#), .other(200, "<html>", type: "text/html"),
            .other(502, "<html>", type: "text/html"), .other(404, "<html>", type: "text/html"), .cut, .half(200, "{}"),
            .late(.seconds(60), .ok), .json(307, "{}", headers: ["Location": "http://127.0.0.1:1/"]),
        ])
    func retried(answer: ScriptedAnswer) async throws {
        let script = VitalScript()
        script.change { $0.next = [answer] }
        // The one that is late must be late for the first attempt, and the second have its time on a busy machine.
        let isLate = if case .late = answer { true } else { false }
        try await with(script, call: isLate ? .seconds(8) : .seconds(60)) { worker, fixture in
            try await fixture.read(3)
            let report = await worker.syncOnce()
            #expect(report.delivered == 0 && report.refused == 0 && report.held.isEmpty)
            #expect(report.failure?.isRetryable == true)
            #expect(try await fixture.waiting == 3)
            let status = await worker.status
            #expect(status.failures == 1 && status.nextAttempt != nil)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            #expect(await worker.status.nextAttempt == nil)
            #expect(Set(script.now.taken).count == 3)
        }
    }

    @Test("a server that never answers is no answer: unreachable, kept")
    func unreachable() async throws {
        let port = try await ScriptedServer.with({ _ in .ok }) { $0.port }
        try await Fixture.with { fixture in
            try await fixture.read(3)
            let worker = OutboxWorker(
                store: fixture.store, api: try api("http://127.0.0.1:\(port)"), policy: .create, logger: Fixture.quiet)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "no_connection")
            #expect(try await fixture.waiting == 3)
        }
    }

    @Test("401 and 403 pause and say so; nothing is lost, and the next request delivers", arguments: [401, 403])
    func paused(status: Int) async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(2)
            try await fixture.read(2, kind: .bloodPressure, device: 2, provider: "omron_ble")
            script.change { state in
                let refusal = ScriptedAnswer.json(status, #"{"detail":"Invalid key"}"#)
                state.nextUser = [refusal]
            }
            let stream = worker.events()
            let report = await worker.syncOnce()
            #expect(report.failure?.code == (status == 401 ? "authentication_failed" : "forbidden"))
            #expect(report.failure?.isRetryable == false)
            #expect(script.now.posts.isEmpty)
            var isSaid = false
            for await event in stream {
                if case .paused(let failure) = event { isSaid = failure == report.failure }
                if isSaid { break }
            }
            #expect(isSaid)
            #expect(await worker.syncOnce().delivered == 4)
        }
    }

    @Test(
        "a source that was paused or removed since it was checked is held, whatever words refuse it: nothing set aside")
    func pausedMeanwhile() async throws {
        let refusals = [
            #"{"detail":{"error_type":"SOURCE_PAUSED","error_message":"The connected source is paused."}}"#,
            #"{"detail":"this provider is not enabled"}"#, #"{"detail":{"error_type":"INVALID_REQUEST"}}"#,
        ]
        for refusal in refusals {
            let script = VitalScript()
            try await with(script) { worker, fixture in
                try await fixture.read(1)
                #expect(await worker.syncOnce().delivered == 1)
                try await fixture.read(5, from: 10)
                script.change {
                    $0.sources["accuchek_ble"] = "paused"
                    $0.judge = { _ in .json(400, refusal) }
                    $0.ignoresSources = true
                }
                let report = await worker.syncOnce()
                #expect(report.held.map(\.hold) == [.sourcePaused] && report.refused == 0 && report.failure == nil)
                #expect(try await fixture.waiting == 5)
                #expect(try await fixture.store.refused().isEmpty)
                script.change {
                    $0.sources["accuchek_ble"] = "connected"
                    $0.judge = nil
                }
                try await worker.sources.forget()
                #expect(await worker.syncOnce().delivered == 5)
            }
        }
    }

    @Test("a server that refuses every reading has changed: nothing is set aside, and the group waits")
    func refusesAll() async throws {
        let script = VitalScript()
        script.change { $0.judge = { _ in .json(422, Self.tooHigh) } }
        try await with(script) { worker, fixture in
            try await fixture.read(100)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "server_refuses_all" && report.refused == 0 && report.delivered == 0)
            #expect(try await fixture.waiting == 100)
            #expect(try await fixture.store.groupsWaiting().map(\.isRefusedWhole) == [true])
            #expect(script.now.posts.count < 30)
            script.change { $0.judge = nil }
            #expect(await worker.syncOnce() == SyncReport(delivered: 100))
        }
    }

    @Test("413 for a reading alone: set aside where others are taken, kept where nothing is")
    func aloneTooLarge() async throws {
        let script = VitalScript()
        script.change { state in
            state.judge = { $0.contains(#""measured_value":"666""#) ? .json(413, #"{"detail":"too large"}"#) : nil }
        }
        try await with(script) { worker, fixture in
            try await fixture.read(16, value: { $0 == 5 ? 666 : 90 })
            #expect(await worker.syncOnce() == SyncReport(delivered: 15, refused: 1))
            script.change { $0.judge = { _ in .json(413, "{}") } }
            try await fixture.read(2, from: 100)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "payload_too_large" && report.refused == 0)
            #expect(try await fixture.waiting == 2)
        }
    }

    @Test("413 halves until it fits, and remembers what fits")
    func tooLarge() async throws {
        let script = VitalScript()
        script.change { state in
            state.judge = { text in
                text.split(separator: #""id":"#).count > 8 ? .other(413, "<html>", type: "text/html") : nil
            }
        }
        try await with(script, { $0.batchLimit = 50 }) { worker, fixture in
            try await fixture.read(100)
            #expect(await worker.syncOnce() == SyncReport(delivered: 100))
            #expect(Set(script.now.taken).count == 100 && script.now.taken.count == 100)
            #expect(script.now.posts.filter { $0 > 7 }.count < 10)
        }
    }

    @Test(
        "400 and 422 bisect until the refused reading stands alone: set aside with the server's words, the rest arrive",
        arguments: [400, 422])
    func bisects(status: Int) async throws {
        let script = VitalScript()
        script.change { state in
            state.judge = { text in
                let isBad = text.contains(#""measured_value":"666""#) || text.contains(#""measured_value":"667""#)
                let detail = #"[{"loc":["body","data",0,"value"],"msg":"too high","type":"value_error"}]"#
                return isBad ? .json(status, #"{"detail":\#(detail)}"#) : nil
            }
        }
        try await with(script) { worker, fixture in
            try await fixture.read(100, value: { $0 == 13 ? 666 : $0 == 14 ? 667 : 90 })
            let report = await worker.syncOnce()
            #expect(report == SyncReport(delivered: 98, refused: 2))
            #expect(Set(script.now.taken).count == 98)
            #expect(try await fixture.waiting == 0)
            let refused = try await fixture.store.refused()
            #expect(refused.map(\.serverSaid) == ["body.data.0.value: too high", "body.data.0.value: too high"])
            #expect(script.now.posts.count < 30)
        }
    }

    @Test("a refusal of the envelope sets nothing aside")
    func envelope() async throws {
        let script = VitalScript()
        let detail = #"[{"loc":["body","time_zone"],"msg":"unknown zone","type":"value_error"}]"#
        script.change { $0.judge = { _ in .json(422, #"{"detail":\#(detail)}"#) } }
        try await with(script) { worker, fixture in
            try await fixture.read(100)
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "validation_failed" && report.refused == 0)
            #expect(script.now.posts == [100])
            #expect(try await fixture.waiting == 100)
        }
    }

    @Test("a refused source is checked once more, then its readings are held and the other sources' go on")
    func refusal() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(3)
            #expect(await worker.syncOnce().delivered == 3)
            try await fixture.read(3, from: 10)
            try await fixture.read(2, kind: .bloodPressure, device: 2, provider: "omron_ble")
            // The owner removes the source at the server; our list of sources is still believed.
            script.change { $0.sources["accuchek_ble"] = nil }
            let lists = script.now.lists
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.failure == nil)
            #expect(report.held.map(\.hold) == [.sourceRevoked] && report.held.map(\.count) == [3])
            #expect(script.now.lists == lists + 1)
            #expect(script.now.created.isEmpty)
            #expect(try await fixture.waiting == 3)
        }
    }

    @Test(
        "a source that is listed and refused all the same is held after one more try", arguments: [402, 403, 404, 410])
    func contradiction(status: Int) async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.judge = { _ in .json(status, #"{"detail":"not for you"}"#) } }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(3)
            let report = await worker.syncOnce()
            #expect(report.held.map(\.hold) == [.sourceError] && report.held.first?.reason == "not for you")
            #expect(script.now.posts == [3, 3])
            #expect(await worker.syncOnce().held.count == 1)
            #expect(script.now.posts == [3, 3])
            script.change { $0.judge = nil }
            // A list of sources is believed for five minutes; what the server does not know rests for fifteen.
            clock.advance(by: .seconds(status == 404 ? 901 : 301))
            #expect(await worker.syncOnce().delivered == 3)
        }
    }

    @Test("the readings of each device arrive in the order they were taken, bisected or not")
    func order() async throws {
        let script = VitalScript()
        script.change { $0.judge = { $0.contains(#""measured_value":"666""#) ? .json(422, Self.tooHigh) : nil } }
        try await with(script, { $0.batchLimit = 30 }) { worker, fixture in
            try await fixture.read(60, value: { $0 % 17 == 0 ? 666 : 90 })
            try await fixture.read(40, from: 20, device: 7)
            #expect(await worker.syncOnce() == SyncReport(delivered: 97, refused: 3))
            let readings = try await fixture.store.query(ReadingQuery(limit: 1000)).readings
            let known = Dictionary(uniqueKeysWithValues: readings.map { ($0.id.description, $0) })
            for device in Set(readings.map(\.device.address)) {
                let times = script.now.taken.compactMap { known[$0] }.filter { $0.device.address == device }
                    .compactMap(\.time.instant)
                #expect(!times.isEmpty && times == times.sorted())
            }
        }
    }

    static let tooHigh = #"{"detail":[{"loc":["body","data",0,"value"],"msg":"too high","type":"value_error"}]}"#
}
