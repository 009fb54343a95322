import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import HealthSyncClient

/// The gateway's own server of the app's routes takes the phone's place.
@Suite("A phone that is not where it was", .timeLimit(.minutes(5))) struct PhoneSearchTests {
    @Test("what the phone says at its new place is told: that the token is over, not that nothing is there")
    func refusal() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let output = Collected()
        try await bench.gateway.run(OperationRequest(.client(.invite(.init())), json: true), output: output)
        let payload = try PairingPayload(json: try #require(output.data.first))
        let now = Instant.systemClock.flooredToSecond
        let phone = PairedPhone(
            name: "Ann's iPhone", host: "127.0.0.1", port: 1, fingerprint: payload.fingerprint,
            token: try #require(PhoneToken("gone")), expiresAt: now, pairedAt: now)
        try PairedPhones(directory: bench.gateway.store.directory + "/healthsync").save(phone)
        let port = bench.port
        let runner = HealthSyncRunner(gateway: bench.gateway, json: true, output: Collected()) { _ in
            [FoundPhone(name: "Ann's iPhone", host: "Anns-iPhone.local", address: "127.0.0.1", port: port)]
        }
        let error = await #expect(throws: HealthSyncError.self) { try await runner.run(.status(PhoneChoice())) }
        #expect(error?.kind == .tokenExpired)
        try await bench.stop()
    }
}
