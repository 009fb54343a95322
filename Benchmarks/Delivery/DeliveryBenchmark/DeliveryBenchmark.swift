import Foundation
import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// Delivers a backlog to a sink, acknowledgements recorded: `delivery-benchmark URL [READINGS [DIRECTORY]]`.
///
/// Prints readings a second and the resident memory at each tenth of the way.
@main
struct DeliveryBenchmark {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count > 1 else {
            print("delivery-benchmark URL [READINGS [DIRECTORY]]")
            exit(64)
        }
        let count = arguments.count > 2 ? Int(arguments[2]) ?? 100_000 : 100_000
        let directory = arguments.count > 3 ? arguments[3] : NSTemporaryDirectory() + "delivery-benchmark"
        if !FileManager.default.fileExists(atPath: directory) {
            // In a process of its own, so that what filling the store took is not counted as delivery's.
            try await fill(directory, count)
            print("filled: \(count) readings")
            return
        }
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try await open(directory)
        let api = VitalAPI(
            server: try VitalServer(baseURL: arguments[1]), credentials: .apiKey(Secret("sk_us_benchmark")))
        var options = OutboxWorker.Options()
        options.batchLimit = 1000
        let worker = OutboxWorker(store: store, api: api, policy: .require, options: options)
        let memory = Task { await watchMemory(worker.events(), count) }
        let clock = ContinuousClock()
        let start = clock.now
        let report = await worker.syncOnce()
        let elapsed = clock.now - start
        memory.cancel()
        let resident = await memory.value
        guard report.delivered == count, report.failure == nil else {
            print("delivered \(report.delivered) of \(count): \(report.failure?.message ?? "held: \(report.held)")")
            exit(1)
        }
        let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
        print("delivered \(count) in \(String(format: "%.2f", seconds)) s")
        print("rate \(Int(Double(count) / seconds))")
        print("resident MB by tenths: \(resident.map(String.init).joined(separator: " "))")
        try store.close()
    }

    private static func open(_ directory: String) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: WordDecoder(), clientUserID: "bench", timeZone: "Europe/Berlin")
    }

    private static func fill(_ directory: String, _ count: Int) async throws {
        let store = try await open(directory)
        let device = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), model: "bench", provider: "accuchek_ble")
        let contact = try await store.beginContact(
            with: device, at: Instant(seconds: 1_000_000_000), clock: nil, batteryPercent: nil)
        for first in stride(from: 0, to: count, by: 1000) {
            let frames = (first..<min(first + 1000, count)).map { number in
                Frame(
                    format: FrameFormat(rawValue: 0x1_0000),
                    payload: (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) },
                    receivedAt: Instant(seconds: 1_900_000_000), ordinal: number)
            }
            _ = try await store.append(frames, of: contact)
        }
        try await store.endContact(contact, ContactSummary(isComplete: true, received: count))
        try store.close()
    }

    /// Resident megabytes each time a tenth was acknowledged.
    private static func watchMemory(_ events: AsyncStream<SyncEvent>, _ count: Int) async -> [Int] {
        var (done, resident): (Int, [Int]) = (0, [])
        for await event in events {
            guard case .readings(let ids, .acknowledged) = event else { continue }
            done += ids.count
            if done * 10 >= (resident.count + 1) * count { resident.append(residentMegabytes()) }
        }
        return resident
    }

    private static func residentMegabytes() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
        let pages = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * 4096 / 1_048_576
    }
}

/// A glucose reading of a number: five minutes after the one before.
private struct WordDecoder: FrameDecoding {
    func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        let number = frame.payload.reversed().reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let value = ExactDecimal(significand: 80 + number % 120)
        return .record(
            Record(
                value: .glucose(
                    GlucoseValue(
                        concentration: Quantity(value, .milligramsPerDecilitre), sampleType: .capillaryWholeBlood,
                        sampleLocation: .finger)),
                baseTime: WallTime(secondsSinceEpoch: 1_500_000_000 + number * 300)))
    }
}
