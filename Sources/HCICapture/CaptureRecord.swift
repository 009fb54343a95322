import HealthReadings

/// What a captured record holds.
public enum HCIPacketKind: Sendable, Hashable {
    /// HCI command, host to controller.
    case command
    /// ACL data.
    case aclData
    /// Synchronous (SCO) data.
    case synchronousData
    /// HCI event, controller to host.
    case event
    /// Isochronous data.
    case isochronousData
    /// A message of the Linux monitor that is no packet (0 new index, 1 index gone, 10 index information, …).
    case monitor(opcode: UInt16)
    /// A packet of another H4 type.
    case unknown(type: UInt8)
}

/// Which way a packet went.
public enum HCIDirection: Sendable, Hashable {
    /// From the host to the controller.
    case sent
    /// From the controller to the host.
    case received
}

/// One record of a capture file.
public struct CaptureRecord: Sendable, Hashable {
    /// The octet of the file where the record begins.
    public var offset: UInt64
    /// When it was captured; nil where the file does not say (pcapng's Simple Packet Block).
    public var time: Instant?
    /// The adapter's index, where the file tells adapters apart; else 0.
    public var adapter: UInt16
    /// What it holds.
    public var kind: HCIPacketKind
    /// Which way it went; nil where the file does not say (link type 187, ACL data).
    public var direction: HCIDirection?
    /// The packet without its H4 type octet.
    public var octets: [UInt8]
    /// How long the packet was on the wire; more than `octets.count` where the capture cut it.
    public var originalLength: Int

    /// Makes a record.
    public init(
        offset: UInt64 = 0, time: Instant?, adapter: UInt16 = 0, kind: HCIPacketKind, direction: HCIDirection?,
        octets: [UInt8], originalLength: Int? = nil
    ) {
        self.offset = offset
        self.time = time
        self.adapter = adapter
        self.kind = kind
        self.direction = direction
        self.octets = octets
        self.originalLength = originalLength ?? octets.count
    }
}

/// Reads the records of a capture one after another, in constant memory: btsnoop (datalinks 1001, 1002, 2001), pcap and
/// pcapng (link types 187, 201, 254).
///
/// ```swift
/// var reader = try CaptureReader(path: "btsnoop_hci.log")
/// while let record = try reader.next() { print(record.kind) }
/// ```
///
/// Sources: the btsnoop format as in RFC 1761 with Bluetooth's datalinks; draft-ietf-opsawg-pcap and -pcapng.
public struct CaptureReader {
    private var scanner: RecordScanner

    /// How many octets are read from a file at a time.
    public static let defaultReadSize = 256 * 1024

    /// Opens a capture.
    /// - Throws: ``CaptureError``, also where the file is no capture.
    public init(path: String, readSize: Int = defaultReadSize) throws(CaptureError) {
        scanner = try RecordScanner(CaptureFile(path: path), readSize: readSize)
    }

    /// Reads a capture from memory; `name` stands for its path in errors.
    public init(octets: [UInt8], named name: String = "memory", readSize: Int = defaultReadSize) throws(CaptureError) {
        scanner = try RecordScanner(CaptureFile(octets: octets, named: name), readSize: readSize)
    }

    /// The next record; nil at the end.
    /// - Throws: ``CaptureError`` where the file is damaged; after that, nil.
    public mutating func next() throws(CaptureError) -> CaptureRecord? {
        guard try scanner.advance() else { return nil }
        return CaptureRecord(
            offset: scanner.recordOffset, time: scanner.hasTime ? Instant(microseconds: scanner.time) : nil,
            adapter: scanner.adapter, kind: scanner.packetKind, direction: scanner.direction,
            octets: Array(scanner.window.octets[scanner.start..<scanner.end]), originalLength: scanner.originalLength)
    }
}
