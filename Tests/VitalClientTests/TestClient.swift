import HealthReadings
import LogLines
import Logging
import ScriptedServer
import Synchronization

@testable import VitalClient

let testKey = "sk_eu_3f9d4c1b7e6a58201c"

/// A client of a scripted server.
func client(
    of server: ScriptedServer, limits: VitalAPI.Limits = .init(call: .seconds(60)),
    recorder: (any RequestRecorder)? = nil, log: LogLines = LogLines()
) throws -> VitalAPI {
    VitalAPI(
        server: try VitalServer(baseURL: server.baseURL), credentials: .apiKey(Secret(testKey)), limits: limits,
        recorder: recorder, logger: log.logger(from: .trace))
}

/// The error a call throws; nil where it throws none.
func failure(of call: () async throws -> Void) async -> VitalError? {
    do {
        try await call()
        return nil
    } catch {
        return error as? VitalError
    }
}

let noon = Instant(seconds: 1_700_000_000)

/// One post of one glucose sample.
func glucosePost(_ value: String = "5.2732", provider: String = "accuchek_ble") -> TimeSeriesPost {
    TimeSeriesPost(
        provider: provider, timeZone: "Europe/Berlin",
        data: .glucose([
            QuantitySample(
                id: "9f1c0c8e00000000000000000000000a", value: ExactDecimal(value) ?? ExactDecimal(significand: 0),
                unit: .millimolesPerLitre, at: noon, source: .fingerprick,
                metadata: ["measured_value": "95", "measured_unit": "mg/dL", "someKey": "kept"])
        ]))
}
