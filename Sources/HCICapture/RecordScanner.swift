import HealthReadings

/// Walks the records of a capture without copying them: the fast path under ``CaptureReader`` and replay.
///
/// After ``advance()`` has returned true, the packet is `window.octets[start..<end]` until the next call.
struct RecordScanner {
    /// H4's packet types (Core Specification, Vol 4, Part A, 2); ``monitor`` is ours for what is no packet.
    enum Kind {
        static let command: UInt8 = 1
        static let acl: UInt8 = 2
        static let synchronous: UInt8 = 3
        static let event: UInt8 = 4
        static let isochronous: UInt8 = 5
        static let monitor: UInt8 = 0xFF
    }

    enum Container {
        case btsnoop
        case pcap
        case pcapng
    }

    /// How packets are wrapped in records, whatever the container.
    enum Link: UInt32 {
        case bare = 1001
        case h4 = 1002
        case monitorFlags = 2001
        case h4WithDirection = 201
        case monitorHeader = 254

        /// The pcap link types of Bluetooth HCI.
        init?(pcap type: UInt32) {
            switch type {
            case 187: self = .h4
            case 201: self = .h4WithDirection
            case 254: self = .monitorHeader
            default: return nil
            }
        }
    }

    /// Where a scan can be taken up again: the place, and all that the file said before it.
    struct Bookmark {
        var offset: UInt64
        var section: PcapNGSection
        /// A pcapng section has its own byte order.
        var isBigEndian: Bool
        var time: Int64
    }

    var window: FileWindow
    /// Where the next record begins.
    private(set) var offset: UInt64 = 0
    private(set) var isFinished = false
    let container: Container
    var link: Link = .h4
    var isBigEndian = true
    var hasNanoseconds = false
    var section = PcapNGSection()

    // The record last found.
    private(set) var recordOffset: UInt64 = 0
    /// Microseconds since the POSIX epoch; of the record before where this one has none.
    private(set) var time: Int64 = 0
    private(set) var hasTime = true
    private(set) var kind: UInt8 = 0
    private(set) var monitorOpcode: UInt16 = 0
    private(set) var direction: HCIDirection?
    private(set) var adapter: UInt16 = 0
    private(set) var start = 0
    private(set) var end = 0
    private(set) var originalLength = 0
    /// How many records the file says were lost while it was written.
    private(set) var drops: UInt32 = 0
    /// How many packets were of interfaces that are no Bluetooth.
    private(set) var foreignPackets = 0

    /// A packet longer than this is garbage: HCI's longest has 65,540 octets.
    static let longestPacket = 256 * 1024

    init(_ file: CaptureFile, readSize: Int) throws(CaptureError) {
        window = FileWindow(file, size: readSize)
        let (index, available) = try window.load(16, at: 0)
        let found = window.octets[index..<(index + available)]
        let magic = found.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        if found.starts(with: Array("btsnoop\0".utf8)) {
            container = .btsnoop
            try readBTSnoopHeader(index, available)
        } else if available >= 4, let shape = Self.pcapShapes[magic] {
            container = .pcap
            (isBigEndian, hasNanoseconds) = shape
            try readPcapHeader()
        } else if available >= 4, magic == PcapNGSection.blockType {
            container = .pcapng
        } else {
            throw .damaged(
                CaptureDamage(
                    path: file.path, offset: 0, expected: "the head of a btsnoop, pcap or pcapng capture",
                    found: available == 0 ? "an empty file" : hexadecimal(found)))
        }
    }

    private static let pcapShapes: [UInt32: (Bool, Bool)] = [
        0xA1B2_C3D4: (true, false), 0xD4C3_B2A1: (false, false), 0xA1B2_3C4D: (true, true), 0x4D3C_B2A1: (false, true),
    ]

    /// Takes up a scan of the same file elsewhere.
    mutating func resume(at bookmark: Bookmark) {
        offset = bookmark.offset
        (section, isBigEndian) = (bookmark.section, bookmark.isBigEndian)
        time = bookmark.time
        isFinished = false
    }

    /// Where the record last found begins, for ``resume(at:)``.
    var bookmark: Bookmark {
        Bookmark(offset: recordOffset, section: section, isBigEndian: isBigEndian, time: time)
    }

    /// Moves to the next record; false at the end, and after an error.
    @inline(__always)
    mutating func advance() throws(CaptureError) -> Bool {
        guard !isFinished else { return false }
        do {
            let found =
                switch container {
                case .btsnoop: try advanceBTSnoop()
                case .pcap: try advancePcap()
                case .pcapng: try advancePcapNG()
                }
            isFinished = !found
            return found
        } catch {
            isFinished = true
            throw error
        }
    }

    func damage(at offset: UInt64, expected: String, found: String) -> CaptureError {
        .damaged(CaptureDamage(path: window.file.path, offset: offset, expected: expected, found: found))
    }

    func cut(at offset: UInt64, _ what: String, _ length: Int, _ available: Int) -> CaptureError {
        damage(
            at: offset, expected: "\(what) of \(length) octets", found: "\(available) octets, then the end of the file")
    }

    var packetKind: HCIPacketKind {
        switch kind {
        case Kind.command: .command
        case Kind.acl: .aclData
        case Kind.synchronous: .synchronousData
        case Kind.event: .event
        case Kind.isochronous: .isochronousData
        case Kind.monitor: .monitor(opcode: monitorOpcode)
        default: .unknown(type: kind)
        }
    }
}

// MARK: - btsnoop

extension RecordScanner {
    /// 0000-01-01T00:00:00Z to the POSIX epoch, in microseconds.
    static let btsnoopEpoch: UInt64 = 0x00DC_DDB3_0F2F_8000
    /// The times a capture may carry: years 0 to 9999.
    private static let times: ClosedRange<Int64> = -62_167_219_200_000_000...253_402_300_799_999_999

    private mutating func readBTSnoopHeader(_ index: Int, _ available: Int) throws(CaptureError) {
        guard available == 16 else { throw cut(at: 0, "a btsnoop head", 16, available) }
        let version = window.octets.big32(index + 8)
        guard version == 1 else { throw damage(at: 8, expected: "btsnoop version 1", found: "version \(version)") }
        let datalink = window.octets.big32(index + 12)
        guard let known = Link(rawValue: datalink), datalink > 1000 else {
            throw .unsupported(path: window.file.path, offset: 12, found: "btsnoop datalink \(datalink)")
        }
        link = known
        offset = 16
    }

    @inline(__always)
    private mutating func advanceBTSnoop() throws(CaptureError) -> Bool {
        var (index, available) = try window.load(24, at: offset)
        guard available == 24 else {
            if available == 0 { return false }
            throw cut(at: offset, "a record head", 24, available)
        }
        let original = Int(window.octets.big32(index))
        let included = Int(window.octets.big32(index + 4))
        let flags = window.octets.big32(index + 8)
        let drops = window.octets.big32(index + 12)
        let stamp = UInt64(window.octets.big32(index + 16)) << 32 | UInt64(window.octets.big32(index + 20))
        guard included <= Self.longestPacket else {
            throw damage(
                at: offset + 4, expected: "a packet of at most \(Self.longestPacket) octets",
                found: "a length of \(included)")
        }
        // Modulo 2^64 each stamp has one time, so that the range check holds for the difference.
        let microseconds = Int64(bitPattern: stamp &- Self.btsnoopEpoch)
        guard Self.times.contains(microseconds) else { throw timeDamage(at: offset + 16) }
        (time, hasTime) = (microseconds, true)
        (index, available) = try window.load(24 + included, at: offset)
        guard available == 24 + included else { throw cut(at: offset, "a record", 24 + included, available) }
        self.drops = drops
        recordOffset = offset
        offset += UInt64(24 + included)
        unwrap(index + 24, included, original, flags: flags, interface: 0)
        return true
    }

    @inline(__always)
    mutating func setTime(_ microseconds: Int128, at offset: UInt64) throws(CaptureError) {
        guard let value = Int64(exactly: microseconds), Self.times.contains(value) else { throw timeDamage(at: offset) }
        time = value
        hasTime = true
    }

    private func timeDamage(at offset: UInt64) -> CaptureError {
        damage(at: offset, expected: "a time in the years 0 to 9999", found: "another time")
    }

    mutating func setUnknownTime() { hasTime = false }

    mutating func skipForeignPacket() { foreignPackets += 1 }

    mutating func move(to next: UInt64, recordAt start: UInt64? = nil) {
        offset = next
        if let start { recordOffset = start }
    }

    /// Takes the link's own head off a packet.
    @inline(__always)
    mutating func unwrap(_ index: Int, _ length: Int, _ original: Int, flags: UInt32, interface: UInt16) {
        (start, end) = (index, index + length)
        originalLength = max(original, length)
        adapter = interface
        switch link {
        case .h4:
            // Flags: bit 0 received. A pcap of link type 187 has no flags: see `setH4Kind`.
            direction = container == .btsnoop ? (flags & 1 == 0 ? .sent : .received) : nil
            setH4Kind()
        case .bare:
            direction = flags & 1 == 0 ? .sent : .received
            kind = flags & 2 == 0 ? Kind.acl : (flags & 1 == 0 ? Kind.command : Kind.event)
        case .monitorFlags:
            adapter = UInt16(truncatingIfNeeded: flags >> 16)
            setMonitorKind(UInt16(truncatingIfNeeded: flags))
        case .h4WithDirection:
            guard dropHead(4) else { return }
            direction = window.octets.big32(start - 4) & 1 == 0 ? .sent : .received
            setH4Kind()
        case .monitorHeader:
            guard dropHead(4) else { return }
            adapter = window.octets.big16(start - 4)
            setMonitorKind(window.octets.big16(start - 2))
        }
    }

    private mutating func dropHead(_ length: Int) -> Bool {
        guard end - start >= length else {
            (kind, direction, start) = (0, nil, end)
            return false
        }
        start += length
        originalLength -= length
        return true
    }

    private mutating func setH4Kind() {
        guard start < end else { return kind = 0 }
        kind = window.octets[start]
        start += 1
        originalLength -= 1
        if kind == Kind.monitor { kind = 0 }
        if direction == nil {
            if kind == Kind.command { direction = .sent }
            if kind == Kind.event { direction = .received }
        }
    }

    /// Opcodes of the Linux monitor (include/net/bluetooth/hci_mon.h).
    private mutating func setMonitorKind(_ opcode: UInt16) {
        monitorOpcode = opcode
        switch opcode {
        case 2: (kind, direction) = (Kind.command, .sent)
        case 3: (kind, direction) = (Kind.event, .received)
        case 4: (kind, direction) = (Kind.acl, .sent)
        case 5: (kind, direction) = (Kind.acl, .received)
        case 6: (kind, direction) = (Kind.synchronous, .sent)
        case 7: (kind, direction) = (Kind.synchronous, .received)
        case 18: (kind, direction) = (Kind.isochronous, .sent)
        case 19: (kind, direction) = (Kind.isochronous, .received)
        default: (kind, direction) = (Kind.monitor, nil)
        }
    }
}

/// Octets as a person reads them in an error: at most sixteen.
func hexadecimal(_ octets: some Collection<UInt8>) -> String {
    octets.prefix(16).hexadecimal(separator: " ")
}
