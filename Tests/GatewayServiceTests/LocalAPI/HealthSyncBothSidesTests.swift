import Foundation
import HealthReadings
import HealthSyncClient
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands
@testable import LocalAPI

/// The gateway's client of the Health Sync app against the gateway's own server of the app's routes: they share no code.
@Suite("The client of the Health Sync app's routes against the gateway's own", .timeLimit(.minutes(5)))
struct HealthSyncBothSidesTests {
    @Test(
        "it pairs by what `client invite` shows, and fetches every sample once, whatever the page's size",
        arguments: [2, 10_000])
    func course(pageSize: Int) async throws {
        let bench = try await APIBench(tls: true, captures: ["cuff-three", "cuff-kpa", "two-meters"])
        let output = Collected()
        try await bench.gateway.run(OperationRequest(.client(.invite(.init())), json: true), output: output)
        let payload = try PairingPayload(json: try #require(output.data.first))
        var limits = HealthSyncLimits()
        limits.pageSize = pageSize
        limits.rateWindow = .milliseconds(200)
        limits.rateWaits = 1000
        let phone = HealthSyncPhone(
            host: "127.0.0.1", port: bench.port, fingerprint: payload.fingerprint, limits: limits)
        let pairing = try await phone.pair(payload.code, as: "test")
        let status = try await phone.status(pairing.token)
        #expect(try await phone.types(pairing.token) == status.enabledTypes)
        let types = ["bloodPressureSystolic", "bloodPressureDiastolic", "heartRate"]
        let received = Mutex<[HealthSyncClient.HealthSyncSample]>([])
        let range = Instant(seconds: 1_700_000_000)...Instant(seconds: 1_900_000_000)
        let summary = try await HealthSyncFetch(phone, pairing.token).run(types, in: range) { samples in
            received.withLock { $0 += samples }
        }
        let expected = try await bench.gateway.store.query(.init(kinds: [.bloodPressure], limit: 1000)).readings
            .flatMap { LocalAPI.HealthSyncSample.samples(of: $0, Set(types.compactMap(LocalAPI.HealthSyncType.init))) }
        let ids = received.withLock { $0.map(\.id) }
        #expect(
            Set(ids)
                == Set(
                    expected.compactMap { sample in
                        if case .string(let id)? = sample.document["id"] { id } else { nil }
                    }))
        #expect(ids.count == Set(ids).count && summary.samples == ids.count && summary.falseEnds == 0)
        // The samples of one pressure are linked there, and become one reading again.
        var samples = PhoneSampleImport(person: "")
        let imported = samples.take(received.withLock(\.self)) + samples.finish()
        #expect(samples.unpaired == 0 && imported.contains { $0.kind == .bloodPressure })
        try await bench.stop()
    }
}
