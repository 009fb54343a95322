import HealthReadings

/// Columns of a row that stay in the clear, because rows are found by them, and that the row's seal is bound to: a
/// change of one of them is noticed when the row is opened.
protocol BoundColumns {
    /// How many octets ``write(to:)`` fills.
    static var count: Int { get }
    /// Writes the columns, every value at a fixed place.
    func write(to octets: UnsafeMutableRawBufferPointer)
}

/// For a blob whose row has no such columns.
struct NoColumns: BoundColumns {
    static let count = 0
    func write(to octets: UnsafeMutableRawBufferPointer) {}
}

/// Where a frame came from and how it is decoded.
struct FrameColumns: BoundColumns, Hashable {
    var device: Int64
    var contact: Int64
    var format: Int64
    var ordinal: Int64
    var receivedAt: Int64

    static let count = 40

    func write(to octets: UnsafeMutableRawBufferPointer) {
        var writer = ColumnWriter(octets)
        writer.put(device)
        writer.put(contact)
        writer.put(format)
        writer.put(ordinal)
        writer.put(receivedAt)
    }
}

/// All of a reading's row but its content: what it is, whose, of when, and why it is excluded.
struct ReadingColumns: BoundColumns, Hashable {
    /// The id as it stands in the row.
    var id: ReadingID
    var kind: Int64
    var device: Int64
    var user: Int64
    var sequenceEpoch: Int64
    var clash: Int64
    var sequence: Int64?
    var baseTime: Int64?
    var timeOffsetMinutes: Int64?
    var timeOffsetIsUnknown: Int64
    var recordExclusion: Int64?
    var timeExclusion: Int64?
    var time: Int64?
    var timeBasis: Int64
    var timeUncertaintyMinutes: Int64?
    var clockDifference: Int64?
    var clockReadAt: Int64?
    var receivedAt: Int64

    /// Sets when the record was made.
    mutating func set(_ resolved: ResolvedTime) {
        time = resolved.instant?.seconds
        timeBasis = resolved.basis.code
        timeUncertaintyMinutes = resolved.uncertaintyMinutes.map(Int64.init)
        clockDifference = resolved.clock?.differenceSeconds
        clockReadAt = resolved.clock?.readAt.microseconds
    }

    static let count = 16 + 17 * 8 + 8

    func write(to octets: UnsafeMutableRawBufferPointer) {
        var writer = ColumnWriter(octets)
        writer.put(Int64(bitPattern: id.high))
        writer.put(Int64(bitPattern: id.low))
        writer.put(kind)
        writer.put(device)
        writer.put(user)
        writer.put(sequenceEpoch)
        writer.put(clash)
        writer.put(sequence)
        writer.put(baseTime)
        writer.put(timeOffsetMinutes)
        writer.put(timeOffsetIsUnknown)
        writer.put(recordExclusion)
        writer.put(timeExclusion)
        writer.put(time)
        writer.put(timeBasis)
        writer.put(timeUncertaintyMinutes)
        writer.put(clockDifference)
        writer.put(clockReadAt)
        writer.put(receivedAt)
        writer.putNulls()
    }
}

/// Writes numbers big-endian, one after the other, and at the end which of them were NULL.
private struct ColumnWriter {
    private let octets: UnsafeMutableRawBufferPointer
    private var offset = 0
    private var nulls: Int64 = 0

    init(_ octets: UnsafeMutableRawBufferPointer) { self.octets = octets }

    mutating func put(_ value: Int64) {
        octets.storeBytes(of: value.bigEndian, toByteOffset: offset, as: Int64.self)
        offset += 8
    }

    mutating func put(_ value: Int64?) {
        if value == nil { nulls |= 1 << Int64(offset / 8) }
        put(value ?? 0)
    }

    mutating func putNulls() { put(nulls) }
}
