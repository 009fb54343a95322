/// A value as a device sends it while it measures: shown, and not stored.
public struct LiveReading: Sendable, Hashable {
    /// What was measured.
    public var record: Record
    /// By which device.
    public var device: DeviceDescription
    /// When its frame was received.
    public var receivedAt: Instant

    /// Makes a live reading.
    public init(record: Record, device: DeviceDescription, receivedAt: Instant) {
        self.record = record
        self.device = device
        self.receivedAt = receivedAt
    }

    /// The kind of reading.
    public var kind: ReadingKind { record.value.kind }

    /// The reading as `watch` shows it: one without an id, for it is not stored.
    public var document: JSONValue {
        record.document(
            id: .null, device: device.document, provider: .string(device.provider),
            time: ResolvedTime(instant: receivedAt.flooredToSecond, basis: .reception), context: nil,
            person: nil, excluded: record.exclusion, deliveries: [])
    }
}
