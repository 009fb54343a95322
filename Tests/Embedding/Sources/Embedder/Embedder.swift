import HCICapture
import HealthDevices
import HealthReadings
import Logging

/// Names the meters of a capture and decodes a blood-pressure measurement.
@main
enum Embedder {
    static func main() async throws {
        let logger = Logger(label: "embedder")
        let central = try ReplayCentral(paths: Array(CommandLine.arguments.dropFirst()))
        var meters = 0
        for try await meter in central.peripherals() {
            logger.debug("found", metadata: ["name": "\(meter.advertisement.name ?? "-")"])
            meters += 1
        }
        let frame = Frame(
            format: FrameFormat(characteristic: 0x2A35), payload: [0x00, 0x7F, 0x00, 0x4F, 0x00, 0x5F, 0x00],
            receivedAt: Instant(seconds: 1_763_700_000), ordinal: 0)
        guard case .record(let record) = ModelFrameDecoder().decode(frame, model: nil) else {
            throw MalformedFrame(
                subject: "2A35", expected: "a blood-pressure record", octet: 0, found: "something else")
        }
        print("embedding: \(meters) meters in the capture, and \(record.value.kind) decoded")
    }
}
