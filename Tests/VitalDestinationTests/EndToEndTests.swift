import AsyncHTTPClient
import DeliveryFixture
import Foundation
import HealthReadings
import NIOCore
import NIOHTTP1
import ReadingStore
import Synchronization
import Testing
import VitalClient
import VitalSandbox

@testable import ReadingDelivery
@testable import VitalDestination

/// A sample as the sandbox shows it under `/sandbox/samples`.
private struct Kept: Decodable, Sendable {
    struct Page: Decodable { var samples: [Kept] }
    struct Item: Decodable, Sendable {
        var id: String?
        var value: Decimal?
        var metadata: [String: String]?
        var systolic: Quantity?
    }
    struct Quantity: Decodable, Sendable {
        var id: String?
        var value: Decimal?
    }

    var user_id: String
    var resource: String
    var provider: String
    var timestamp: String
    var revisions: Int
    var item: Item
    var reading: String { item.id ?? item.systolic?.id ?? "" }
}

@Suite("Store, client and sandbox together", .serialized)
struct EndToEndTests {
    /// A sandbox in a folder, which outlives its server: stopped and started again it holds what it acknowledged.
    private func withSandbox<Result: Sendable>(
        _ folder: String, _ body: (String) async throws -> Result
    ) async throws -> Result {
        let sandbox = try SandboxServer(
            configuration: .init(storage: .directory(folder + "/sandbox")), logger: Fixture.quiet)
        let running = Task { try await sandbox.run() }
        do {
            let address = try await sandbox.address()
            let result = try await body("http://\(address.host):\(address.port)")
            running.cancel()
            _ = await running.result
            return result
        } catch {
            running.cancel()
            _ = await running.result
            throw error
        }
    }

    private func worker(_ fixture: Fixture, _ baseURL: String, policy: SourcePolicy = .create) throws -> OutboxWorker {
        OutboxWorker(
            store: fixture.store, api: try api(baseURL, key: SandboxConfiguration.fixedKey), policy: policy,
            logger: Fixture.quiet)
    }

    private func kept(_ baseURL: String) async throws -> [Kept] {
        var request = HTTPClientRequest(url: baseURL + "/sandbox/samples?limit=10000")
        request.headers.add(name: "x-vital-api-key", value: SandboxConfiguration.fixedKey)
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let body = try await response.body.collect(upTo: 1 << 24)
        return try JSONDecoder().decode(Kept.Page.self, from: Data(body.readableBytesView)).samples
    }

    @Test("a recording is a sample a second at the server, and a variability one of its window; again changes nothing")
    func recording() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(100, kind: .heartRate, provider: "manual", value: { _ in 60 })
            try await fixture.read(3, kind: .hrv, provider: "manual", value: { _ in 421 })
            try await withSandbox(fixture.folder) { url in
                let worker = try worker(fixture, url)
                #expect(await worker.syncOnce() == SyncReport(delivered: 103))
                let kept = try await kept(url)
                let rates = kept.filter { $0.resource == "heartrate" }
                #expect(rates.count == 100 * 54 && kept.count == rates.count + 3)
                #expect(Set(rates.map(\.timestamp)).count == rates.count, "a second each")
                #expect(rates[0].item.value == 60 && rates[1].item.value == 61 && rates[1].revisions <= 1)
                #expect(rates[0].timestamp.hasPrefix("2023-11-14T22:14:20"))
                #expect(rates[0].item.id?.hasSuffix("-0") == true && rates[1].item.id?.hasSuffix("-1") == true)
                let variability = try #require(kept.first { $0.resource == "heartrate_variability" })
                #expect(variability.item.value == Decimal(string: "42.1"))
                #expect(variability.item.metadata?["sdnn_ms"] == "42.2")
                // No post had more samples than the server takes.
                #expect(await worker.syncOnce() == SyncReport())
            }
        }
    }

    @Test("of two straps of one person at once each second at the server is one strap's, whichever is delivered first")
    func twoStraps() async throws {
        for order in [[1, 2], [2, 1]] as [[UInt64]] {
            try await Fixture.with { fixture in
                try await withSandbox(fixture.folder) { url in
                    let worker = try worker(fixture, url)
                    for device in order {
                        try await fixture.read(
                            2, kind: .heartRate, device: device, provider: "manual",
                            value: { _ in device == 1 ? 60 : 200 })
                        _ = await worker.syncOnce()
                    }
                    let kept = try await kept(url)
                    #expect(Set(kept.map(\.timestamp)).count == kept.count)
                    // Both measure the same seconds, but for those that one of them lacks.
                    let values = Dictionary(grouping: kept) { ($0.item.value ?? 0) >= 200 }
                    #expect((values[false]?.count ?? 0) == 108, "\(order)")
                }
            }
        }
    }

    @Test("users are made, sources connected, glucose and pressure posted, and the sandbox holds the values")
    func path() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(30, value: { _ in 95 })
            try await fixture.read(4, kind: .bloodPressure, device: 2, provider: "omron_ble", value: { _ in 127 })
            try await fixture.read(2, device: 3, provider: "manual")
            try await withSandbox(fixture.folder) { url in
                #expect(await (try worker(fixture, url)).syncOnce() == SyncReport(delivered: 36))
                let kept = try await kept(url)
                #expect(kept.count == 36 && Set(kept.map(\.reading)).count == 36)
                #expect(kept.allSatisfy { $0.revisions == 0 })
                let glucose = try #require(kept.first { $0.resource == "glucose" && $0.provider == "accuchek_ble" })
                #expect(glucose.item.value == Decimal(string: "5.2732"))
                #expect(glucose.item.metadata == ["measured_value": "95", "measured_unit": "mg/dL"])
                #expect(glucose.timestamp.hasPrefix("2023-11-14T22:14:20"))
                #expect(kept.contains { $0.item.systolic?.value == 127 })
                #expect(Set(kept.map(\.user_id)) == [try await fixture.person.serverUserID ?? ""])
            }
        }
    }

    @Test("promise 9: at least once with stable ids and timestamps, so once in effect, whatever the server does")
    func onceInEffect() async throws {
        try await Fixture.with { fixture in
            // The sandbox is stopped and started; between them its port is closed. Acknowledgements are undone now and
            // then, as a crash between the server's answer and our commit would.
            var first = 1
            for round in 0..<4 {
                try await fixture.read(25, from: first)
                first += 25
                _ = await (try worker(fixture, "http://127.0.0.1:9")).syncOnce()
                #expect(try await fixture.waiting == 25)
                try await withSandbox(fixture.folder) { url in
                    let items = try await fixture.store.outboxBatch(
                        user: try await fixture.person.key, resource: .glucose, provider: "accuchek_ble", limit: 100)
                    #expect(await (try worker(fixture, url)).syncOnce().delivered == 25)
                    for item in items where item.reading.record.sequence.map({ $0 % 3 == 0 }) == true {
                        try await fixture.store.requeue(item.reading.id)
                    }
                    _ = await (try worker(fixture, url)).syncOnce()
                    let kept = try await kept(url)
                    #expect(kept.count == 25 * (round + 1))
                    #expect(Set(kept.map(\.reading)).count == 25 * (round + 1))
                    #expect(kept.allSatisfy { $0.revisions == 0 }, "what came again said the same")
                }
            }
            #expect(try await fixture.waiting == 0)
        }
    }

    @Test("two readings of one second reach the server as two samples, the moved one with its original time")
    func sameSecond() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(1, device: 1)
            try await fixture.read(1, device: 2)
            try await withSandbox(fixture.folder) { url in
                #expect(await (try worker(fixture, url)).syncOnce().delivered == 2)
                let kept = try await kept(url)
                #expect(Set(kept.map(\.timestamp)).count == 2)
                #expect(kept.compactMap { $0.item.metadata?["original_time"] } == ["2023-11-14T22:14:20Z"])
            }
        }
    }

    @Test("a wrong key pauses; the right one delivers what waited")
    func wrongKey() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(3)
            try await withSandbox(fixture.folder) { url in
                let wrong = OutboxWorker(
                    store: fixture.store, api: try api(url, key: "nonsense"), policy: .create, logger: Fixture.quiet)
                let report = await wrong.syncOnce()
                #expect(report.failure?.code == "authentication_failed" && report.failure?.isRetryable == false)
                #expect(await (try worker(fixture, url)).syncOnce().delivered == 3)
            }
        }
    }
}
