import AsyncHTTPClient
import DeliveryFixture
import Foundation
import HealthReadings
import NIOCore
import NIOHTTP1
import ReadingStore
import ScriptedServer
import Testing
import VitalClient
import VitalSandbox

@testable import ReadingDelivery
@testable import VitalDestination

/// Weights, body compositions and temperatures, delivered to the sandbox over a socket.
@Suite("Scales and thermometers at the server")
struct BodyDeliveryTests {
    struct Bench: Sendable {
        var worker: OutboxWorker
        var fixture: Fixture
        var url: String
        var clock: ManualClock

        func samples() async throws -> [[String: Any]] {
            var request = HTTPClientRequest(url: url + "/sandbox/samples")
            request.headers.add(name: "x-vital-api-key", value: SandboxConfiguration.fixedKey)
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
            let text = String(buffer: try await response.body.collect(upTo: 8 << 20))
            let json = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            return json?["samples"] as? [[String: Any]] ?? []
        }

        /// `body_mass 2023-11-14T22:14:20Z 70.5` of each sample, sorted.
        func lines() async throws -> [String] {
            try await samples().map { sample in
                let value = (sample["item"] as? [String: Any])?["value"] as? NSNumber
                return "\(sample["resource"] ?? "") \(sample["timestamp"] ?? "") \(value?.stringValue ?? "")"
            }.sorted()
        }
    }

    private func bench(_ fault: String? = nil, _ body: @Sendable (Bench) async throws -> Void) async throws {
        var configuration = SandboxConfiguration()
        configuration.faults = try fault.map { try FaultPlan($0) }
        let sandbox = try SandboxServer(configuration: configuration, logger: Fixture.quiet)
        let running = Task { try await sandbox.run() }
        let result: Result<Void, any Error>
        do {
            let url = try await sandbox.address().baseURL
            let clock = ManualClock()
            try await Fixture.with { fixture in
                let worker = OutboxWorker(
                    store: fixture.store, api: try api(url, key: SandboxConfiguration.fixedKey), policy: .create,
                    clock: clock.syncClock, logger: Fixture.quiet)
                try await body(Bench(worker: worker, fixture: fixture, url: url, clock: clock))
            }
            result = .success(())
        } catch {
            result = .failure(error)
        }
        running.cancel()
        _ = await running.result
        try result.get()
    }

    private func read(
        _ bench: Bench, _ kind: ReadingKind, _ value: Int64, number: Int = 1, device: UInt64 = 1
    ) async throws {
        try await bench.fixture.read(1, from: number, kind: kind, device: device, provider: "manual") { _ in value }
    }

    @Test("a scale's weight and composition share their second at the server, and the weight gives the body's mass")
    func oneMeasurement() async throws {
        try await bench { bench in
            try await read(bench, .bodyComposition, 706_225)
            #expect(await bench.worker.syncOnce().delivered == 1)
            #expect(
                try await bench.lines() == [
                    "body_fat_percentage 2023-11-14T22:14:20Z 22.5", "body_mass 2023-11-14T22:14:20Z 70.6",
                    "lean_body_mass 2023-11-14T22:14:20Z 54.715",
                ])
            try await read(bench, .weight, 705)
            #expect(await bench.worker.syncOnce().delivered == 1)
            #expect(
                try await bench.lines() == [
                    "body_fat_percentage 2023-11-14T22:14:20Z 22.5", "body_mass 2023-11-14T22:14:20Z 70.5",
                    "lean_body_mass 2023-11-14T22:14:20Z 54.715",
                ])
            // Posted again, the composition leaves the weight alone.
            for reading in try await bench.fixture.store.query(ReadingQuery()).readings {
                try await bench.fixture.store.requeue(reading.id)
            }
            #expect(await bench.worker.syncOnce().delivered == 2)
            let lines = try await bench.lines()
            #expect(lines.contains("body_mass 2023-11-14T22:14:20Z 70.5"))
            #expect(try await bench.samples().count == 3)
        }
    }

    @Test("two devices' weights of one second are both at the server, whichever kind they came with")
    func oneSecond() async throws {
        try await bench { bench in
            try await read(bench, .bodyComposition, 706_225, device: 1)
            try await read(bench, .weight, 915, device: 2)
            #expect(await bench.worker.syncOnce().delivered == 2)
            #expect(
                try await bench.lines().filter { $0.hasPrefix("body_mass") } == [
                    "body_mass 2023-11-14T22:14:20Z 70.6", "body_mass 2023-11-14T22:14:21Z 91.5",
                ])
        }
    }

    @Test("who does not consent to weights is not weighed by a composition either")
    func consent() async throws {
        try await bench { bench in
            try await bench.fixture.store.setConsent(.weight, granted: false, of: bench.fixture.person.key)
            try await read(bench, .bodyComposition, 706_225)
            #expect(await bench.worker.syncOnce().delivered == 1)
            #expect(try await bench.lines() == ["body_fat_percentage 2023-11-14T22:14:20Z 22.5"])
        }
    }

    @Test("a temperature is at the server under its name")
    func temperature() async throws {
        try await bench { bench in
            try await read(bench, .temperature, 366)
            #expect(await bench.worker.syncOnce().delivered == 1)
            #expect(try await bench.lines() == ["temperature 2023-11-14T22:14:20Z 36.6"])
        }
    }

    @Test("summaries are halved and bisected like time series: one refused weight is set aside, the rest arrive")
    func bisects() async throws {
        let script = VitalScript(connected: ["manual"])
        script.change { state in
            state.judge = { text in
                if text.split(separator: #"{"id":"#).count > 9 { return .json(413, "{}") }
                let detail = #"[{"loc":["body","data","body_mass",0,"value"],"msg":"too heavy","type":"value_error"}]"#
                return text.contains(#""value":666.0"#) ? .json(422, #"{"detail":\#(detail)}"#) : nil
            }
        }
        try await with(script) { worker, fixture in
            try await fixture.read(50, kind: .weight, provider: "manual") { $0 == 13 ? 6660 : 700 }
            #expect(await worker.syncOnce() == SyncReport(delivered: 49, refused: 1))
            #expect(try await fixture.store.refused().map(\.serverSaid) == ["body.data.body_mass.0.value: too heavy"])
            #expect(Set(script.now.taken).count == 49)
        }
    }

    @Test("a refusal of the days' zones is about the envelope: no weight is set aside")
    func zones() async throws {
        let script = VitalScript(connected: ["manual"])
        let detail = #"[{"loc":["body","data","time_zones",0,1],"msg":"unknown zone","type":"value_error"}]"#
        script.change { $0.judge = { _ in .json(422, #"{"detail":\#(detail)}"#) } }
        try await with(script) { worker, fixture in
            try await fixture.read(3, kind: .weight, provider: "manual")
            let report = await worker.syncOnce()
            #expect(report.failure?.code == "validation_failed" && report.refused == 0)
            #expect(try await fixture.waiting == 3)
        }
    }

    @Test("a retry sends the same octets; the zone is the one that held on the day")
    func sameOctets() async throws {
        let script = VitalScript(connected: ["manual"])
        script.change { $0.next = [.json(503, "{}")] }
        try await with(script) { worker, fixture in
            try await fixture.read(2, kind: .bodyComposition, provider: "manual") { 700_000 + Int64($0) + 220 }
            #expect(await worker.syncOnce().delivered == 0)
            #expect(await worker.syncOnce().delivered == 2)
            let first = try #require(script.now.bodies.first)
            #expect(first.contains(#""time_zones":[["2023-11-14","UTC"]]"#), "\(first)")
            for reading in try await fixture.store.query(ReadingQuery()).readings {
                try await fixture.store.requeue(reading.id)
            }
            #expect(await worker.syncOnce().delivered == 2)
            #expect(script.now.bodies == [first, first])
        }
    }

    @Test("weights of two zones go in two summaries, each with the zone of its own")
    func journey() async throws {
        let script = VitalScript(connected: ["manual"])
        try await with(script) { worker, fixture in
            try await fixture.read(5, kind: .weight, provider: "manual")
            try await fixture.travel(to: "Asia/Tokyo", at: Fixture.start + 150)
            #expect(await worker.syncOnce().delivered == 5)
            #expect(script.now.posts == [2, 3])
            let bodies = script.now.bodies
            for (body, zone) in zip(bodies, ["UTC", "Asia/Tokyo"]) {
                #expect(body.contains("\"time_zone\":\"\(zone)\""), "\(body)")
            }
            #expect(bodies.first?.contains(#""time_zones":[["2023-11-14","UTC"]]"#) == true, "\(bodies)")
            #expect(bodies.last?.contains(#""time_zones":[["2023-11-15","Asia/Tokyo"]]"#) == true, "\(bodies)")
        }
    }

    @Test(
        "a resource that the server does not know holds that kind alone; it is tried again after a while, and on request",
        arguments: ["status=404,path=temperature,times=4", "status=405,path=temperature,times=4"])
    func unknownResource(fault: String) async throws {
        try await bench(fault) { bench in
            let (worker, store) = (bench.worker, bench.fixture.store)
            try await read(bench, .temperature, 366)
            try await read(bench, .weight, 705)
            try await read(bench, .bodyComposition, 225)
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.failure == nil && report.refused == 0)
            #expect(report.held.map(\.target.resource) == [.temperature] && report.held.map(\.hold) == [.sourceError])
            let groups = try await store.groupsWaiting()
            #expect(groups.map(\.resource) == [.temperature] && groups.map(\.held) == [.sourceError])
            #expect(groups.map(\.isUnknownToServer) == [true])
            let source = try await store.source(user: bench.fixture.person.key, provider: "manual")
            #expect(source?.status == .connected)
            let reading = try await store.query(ReadingQuery(kinds: [.temperature])).readings.first
            #expect(reading?.deliveries.map(\.hold) == [.sourceError])

            // Not with every pass, but again after a quarter of an hour, and on request at once.
            func resource(_ report: SyncReport) -> [ReadingKind] { report.held.map(\.target.resource) }
            try await read(bench, .weight, 706, number: 2)
            let second = await worker.syncOnce()
            #expect(second.delivered == 1 && resource(second) == [.temperature])
            bench.clock.advance(by: .seconds(901))
            let third = await worker.syncOnce()
            #expect(third.delivered == 0 && resource(third) == [.temperature])
            // The fault struck twice in the first attempt and in the third pass; it has ended.
            #expect(await worker.syncOnce().delivered == 0)
            await worker.retryNow()
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            let lines = try await bench.lines()
            #expect(lines.contains("temperature 2023-11-14T22:14:20Z 36.6"))
            #expect(try await store.groupsWaiting().isEmpty)
        }
    }
}
