import HealthReadings
import ReadingDelivery
import ReadingStore

/// Readings in a sealed store that wait for sinks.
public enum Backlog {
    /// The person whose readings they are.
    static let person = "bench"

    /// Opens the store of a directory, making it if it is missing.
    public static func open(_ directory: String) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: WordDecoder(), clientUserID: person, timeZone: "Europe/Berlin")
    }

    /// Stores readings of one meter, five minutes apart, which then wait for each of the sinks.
    public static func fill(_ directory: String, _ count: Int, for sinks: [Sink]) async throws {
        let store = try await open(directory)
        for sink in sinks {
            let destination = try sink.destination(store)
            let rules = destination.rules
            // As a worker does with its first pass, which would queue what is stored already, one by one.
            try await store.setDestination(
                destination.name, kind: destination.kind, kinds: rules.kinds, hasUniqueSeconds: rules.hasUniqueSeconds,
                isOneSeries: rules.isOneSeries, isSeriesByDevice: rules.isSeriesByDevice,
                keepsOffset: rules.keepsOffset, takesContexts: rules.takesContexts, needsSource: rules.needsSource,
                canRetract: rules.canRetract)
        }
        let wanted = Set(try sinks.map { try $0.destination(store).name })
        // Every store begins with a destination of its own, and queues for it.
        for known in try await store.destinations() where !wanted.contains(known.name) {
            try await store.removeDestination(known.name)
        }
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

    /// What delivers a store's readings to a sink, as the gateway does.
    public static func worker(_ store: ReadingStore, to sink: Sink) throws -> OutboxWorker {
        OutboxWorker(store: store, destination: try sink.destination(store))
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
