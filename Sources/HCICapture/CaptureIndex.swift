import GATTClient
import HealthReadings

/// A connection found in a capture.
public struct CaptureConnection: Sendable, Hashable {
    /// The file.
    public var path: String
    /// The adapter's index, where the file tells adapters apart; else 0.
    public var adapter: UInt16
    /// The connection handle. A later connection may have the same.
    public var handle: UInt16
    /// The peer's identity address where the capture shows it, else the one it connected with; nil for a connection
    /// that began before the capture.
    public var address: DeviceAddress?
    /// The name the peer advertised, or that was read from it.
    public var name: String?
    /// When it began; for a connection older than the capture, its first packet's time.
    public var start: Instant
    /// When it ended; where the capture ends first, the last packet's time.
    public var end: Instant
    /// The peer's attributes as they were discovered in this connection.
    public var attributes: AttributeTable
    /// How many values the peer sent unasked: notifications and indications.
    public var attValues: Int
    /// How many L2CAP PDUs were lost because fragments are missing or cut.
    public var lostPDUs: Int
}

/// What is in a capture: its connections in the order they began, in memory that does not grow with their values.
public struct CaptureIndex: Sendable {
    /// The connections in which the peer spoke ATT, in the order they began.
    public let connections: [CaptureConnection]
    /// What ended the reading early: damage, or an I/O error. What is before it is in ``connections``.
    public let failure: CaptureError?
    /// How many records the file itself says were lost while it was written.
    public let recordsDropped: Int
    /// How many packets carry no time; they have the time of the packet before them.
    public let packetsWithoutTime: Int

    let entries: [ConnectionEntry]

    /// Reads a capture from its beginning to its end, or to where it is damaged.
    ///
    /// - Throws: ``CaptureError`` where it cannot be opened or is no capture at all.
    public init(path: String, readSize: Int = CaptureReader.defaultReadSize) throws(CaptureError) {
        try self.init(CaptureFile(path: path), readSize: readSize)
    }

    /// Indexes a capture in memory; never traps, whatever the octets. `name` stands for its path in errors.
    public init(
        octets: [UInt8], named name: String = "memory", readSize: Int = CaptureReader.defaultReadSize
    ) throws(CaptureError) {
        try self.init(CaptureFile(octets: octets, named: name), readSize: readSize)
    }

    init(_ file: CaptureFile, readSize: Int) throws(CaptureError) {
        var builder = IndexBuilder(try RecordScanner(file, readSize: readSize))
        failure = builder.run()
        entries = builder.finish()
        connections = entries.map(\.summary)
        recordsDropped = Int(builder.scanner.drops)
        packetsWithoutTime = builder.packetsWithoutTime
    }

    /// How many ATT values there are in all.
    public var attValues: Int { connections.reduce(0) { $0 + $1.attValues } }
}

/// All that is kept of a connection between the two passes.
struct ConnectionEntry: Sendable {
    struct ValueCount {
        var handle: UInt16
        var count: Int
    }

    let file: CaptureFile
    let adapter: UInt16
    let handle: UInt16
    /// Where it begins: the connection event, or its first packet.
    let begin: RecordScanner.Bookmark
    let start: Instant
    /// The last record that can be of it.
    var lastOffset: UInt64 = 0
    var end: Instant
    /// A BR/EDR connection carries no ATT on the fixed channel.
    var isLowEnergy = true
    var peerHasSpokenATT = false
    /// The address of the connection event.
    var address: DeviceAddress?
    /// The identity address, where the event or the pairing told it.
    var identity: DeviceAddress?
    var name: String?
    var conversation = ATTConversation()
    /// How many values came, by handle.
    var counts: [ValueCount] = []
    private var lastCounted = 0
    var attValues = 0
    var lostPDUs = 0

    init(file: CaptureFile, adapter: UInt16, handle: UInt16, begin: RecordScanner.Bookmark, start: Instant) {
        (self.file, self.adapter, self.handle, self.begin, self.start) = (file, adapter, handle, begin, start)
        end = start
    }

    @inline(__always)
    mutating func countValue(of handle: UInt16) {
        attValues += 1
        if lastCounted < counts.count, counts[lastCounted].handle == handle {
            counts[lastCounted].count += 1
        } else {
            countElsewhere(handle)
        }
    }

    private mutating func countElsewhere(_ handle: UInt16) {
        if let place = counts.firstIndex(where: { $0.handle == handle }) {
            counts[place].count += 1
            lastCounted = place
        } else {
            lastCounted = counts.count
            counts.append(ValueCount(handle: handle, count: 1))
        }
    }

    var summary: CaptureConnection {
        CaptureConnection(
            path: file.path, adapter: adapter, handle: handle, address: address, name: name, start: start, end: end,
            attributes: conversation.table, attValues: attValues, lostPDUs: lostPDUs)
    }
}
