// Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

/// What a pcapng section has said so far.
struct PcapNGSection {
    struct Interface {
        var link: RecordScanner.Link?
        var snapLength: UInt32
        /// Ticks in a second: 10^n, or 2^n.
        var resolution: Resolution = .decimal(6)
        var offsetSeconds: Int64 = 0
    }

    enum Resolution {
        case decimal(Int)
        case binary(Int)
    }

    /// The type of a Section Header Block, the same in both byte orders.
    static let blockType: UInt32 = 0x0A0D_0D0A
    /// More interfaces than this are garbage; each costs memory.
    static let mostInterfaces = 4096
    /// A packet block longer than this is garbage: packets are bounded, their options are notes.
    static let longestPacketBlock = 1024 * 1024

    var interfaces: [Interface] = []
    var hasBluetooth = false
    var foreignLink: UInt16?
}

extension RecordScanner {
    // MARK: pcap

    mutating func readPcapHeader() throws(CaptureError) {
        let (index, available) = try window.load(24, at: 0)
        guard available == 24 else { throw cut(at: 0, "a pcap head", 24, available) }
        let type = window.octets.word32(index + 20, bigEndian: isBigEndian) & 0xFFFF
        guard let known = Link(pcap: type) else {
            throw .unsupported(path: window.file.path, offset: 20, found: "link type \(type)")
        }
        link = known
        move(to: 24)
    }

    mutating func advancePcap() throws(CaptureError) -> Bool {
        let begin = offset
        var (index, available) = try window.load(16, at: begin)
        guard available == 16 else {
            if available == 0 { return false }
            throw cut(at: begin, "a packet head", 16, available)
        }
        let seconds = window.octets.word32(index, bigEndian: isBigEndian)
        let fraction = window.octets.word32(index + 4, bigEndian: isBigEndian)
        let included = Int(window.octets.word32(index + 8, bigEndian: isBigEndian))
        let original = Int(window.octets.word32(index + 12, bigEndian: isBigEndian))
        guard included <= Self.longestPacket else {
            throw damage(
                at: begin + 8, expected: "a packet of at most \(Self.longestPacket) octets",
                found: "a length of \(included)")
        }
        try setTime(Int128(seconds) * 1_000_000 + Int128(hasNanoseconds ? fraction / 1000 : fraction), at: begin)
        (index, available) = try window.load(16 + included, at: begin)
        guard available == 16 + included else { throw cut(at: begin, "a packet", 16 + included, available) }
        move(to: begin + UInt64(16 + included), recordAt: begin)
        unwrap(index + 16, included, original, flags: 0, interface: 0)
        return true
    }

    // MARK: pcapng

    mutating func advancePcapNG() throws(CaptureError) -> Bool {
        while true {
            let begin = offset
            let (head, available) = try window.load(12, at: begin)
            if available == 0 { return try endOfPcapNG() }
            guard available == 12 else { throw cut(at: begin, "a block", 12, available) }
            let type = window.octets.word32(head, bigEndian: isBigEndian)
            if type == PcapNGSection.blockType { try readByteOrder(head, at: begin) }
            let length = UInt64(window.octets.word32(head + 4, bigEndian: isBigEndian))
            guard length >= 12, length % 4 == 0 else {
                throw damage(
                    at: begin + 4, expected: "a block length of 12 or more, a multiple of 4", found: "\(length)")
            }
            try checkTrailer(length, of: begin)
            move(to: begin + length)
            switch type {
            case PcapNGSection.blockType:
                guard length >= 28 else {
                    throw damage(at: begin + 4, expected: "a section block of 28 octets or more", found: "\(length)")
                }
                section.interfaces = []
            case 1: try readInterface(length, at: begin)
            case 2, 3, 6: if try readPacket(type, length, at: begin) { return true }
            default: break
            }
        }
    }

    private func endOfPcapNG() throws(CaptureError) -> Bool {
        if !section.hasBluetooth, let foreign = section.foreignLink {
            throw .unsupported(path: window.file.path, offset: 0, found: "link type \(foreign)")
        }
        return false
    }

    private mutating func readByteOrder(_ head: Int, at begin: UInt64) throws(CaptureError) {
        switch window.octets.big32(head + 8) {
        case 0x1A2B_3C4D: isBigEndian = true
        case 0x4D3C_2B1A: isBigEndian = false
        default:
            throw damage(
                at: begin + 8, expected: "the byte-order magic 1a2b3c4d",
                found: hexadecimal(window.octets[(head + 8)..<(head + 12)]))
        }
    }

    /// A block says its length at both ends.
    private mutating func checkTrailer(_ length: UInt64, of begin: UInt64) throws(CaptureError) {
        let (index, available) = try window.load(4, at: begin + length - 4)
        guard available == 4 else {
            throw damage(at: begin, expected: "a block of \(length) octets", found: "the end of the file")
        }
        let trailer = window.octets.word32(index, bigEndian: isBigEndian)
        guard UInt64(trailer) == length else {
            throw damage(at: begin + length - 4, expected: "the block length \(length) again", found: "\(trailer)")
        }
    }

    private mutating func loadBlock(_ length: UInt64, atLeast least: Int, at begin: UInt64) throws(CaptureError) -> Int
    {
        guard length >= UInt64(least), length <= UInt64(PcapNGSection.longestPacketBlock) else {
            throw damage(
                at: begin + 4, expected: "a block of \(least) to \(PcapNGSection.longestPacketBlock) octets",
                found: "a length of \(length)")
        }
        let (index, available) = try window.load(Int(length), at: begin)
        guard available == Int(length) else { throw cut(at: begin, "a block", Int(length), available) }
        return index
    }

    private mutating func readInterface(_ length: UInt64, at begin: UInt64) throws(CaptureError) {
        guard section.interfaces.count < PcapNGSection.mostInterfaces else {
            throw damage(at: begin, expected: "at most \(PcapNGSection.mostInterfaces) interfaces", found: "another")
        }
        let index = try loadBlock(length, atLeast: 20, at: begin)
        let type = window.octets.word16(index + 8, bigEndian: isBigEndian)
        var interface = PcapNGSection.Interface(
            link: Link(pcap: UInt32(type)), snapLength: window.octets.word32(index + 12, bigEndian: isBigEndian))
        var option = index + 16
        let end = index + Int(length) - 4
        while option + 4 <= end {
            let code = window.octets.word16(option, bigEndian: isBigEndian)
            let size = Int(window.octets.word16(option + 2, bigEndian: isBigEndian))
            let value = option + 4
            guard code != 0, value + size <= end else { break }
            if code == 9, size == 1 {
                let octet = window.octets[value]
                interface.resolution = octet & 0x80 == 0 ? .decimal(Int(octet)) : .binary(Int(octet & 0x7F))
            }
            if code == 14, size == 8 {
                let first = UInt64(window.octets.word32(value, bigEndian: isBigEndian))
                let second = UInt64(window.octets.word32(value + 4, bigEndian: isBigEndian))
                interface.offsetSeconds = Int64(
                    bitPattern: isBigEndian ? first << 32 | second : second << 32 | first)
            }
            option = value + (size + 3) / 4 * 4
        }
        if interface.link == nil { section.foreignLink = type } else { section.hasBluetooth = true }
        section.interfaces.append(interface)
    }

    /// Reads an Enhanced (6), Simple (3) or obsolete (2) Packet Block; false where its interface is no Bluetooth.
    private mutating func readPacket(_ type: UInt32, _ length: UInt64, at begin: UInt64) throws(CaptureError) -> Bool {
        let isSimple = type == 3
        let head = isSimple ? 12 : 28
        let index = try loadBlock(length, atLeast: head + 4, at: begin)
        func word(_ place: Int) -> UInt32 { window.octets.word32(index + place, bigEndian: isBigEndian) }
        let number =
            switch type {
            case 6: Int(word(8))
            case 2: Int(window.octets.word16(index + 8, bigEndian: isBigEndian))
            default: 0
            }
        guard number < section.interfaces.count else {
            throw damage(
                at: begin + 8, expected: "one of \(section.interfaces.count) interfaces", found: "interface \(number)")
        }
        let interface = section.interfaces[number]
        let room = Int(length) - head - 4
        let original = Int(word(isSimple ? 8 : 24))
        let limit = isSimple && interface.snapLength > 0 ? min(room, Int(interface.snapLength)) : room
        let included = isSimple ? min(original, limit) : Int(word(20))
        guard included <= room else {
            throw damage(
                at: begin + 20, expected: "a packet of at most \(room) octets", found: "a length of \(included)")
        }
        guard included <= Self.longestPacket else {
            throw damage(
                at: begin, expected: "a packet of at most \(Self.longestPacket) octets",
                found: "a length of \(included)")
        }
        if isSimple {
            setUnknownTime()
        } else {
            let ticks = UInt64(word(12)) << 32 | UInt64(word(16))
            try setTime(interface.microseconds(ticks), at: begin + 12)
        }
        guard let packetLink = interface.link else {
            skipForeignPacket()
            return false
        }
        link = packetLink
        move(to: begin + length, recordAt: begin)
        unwrap(index + head, included, original, flags: 0, interface: UInt16(truncatingIfNeeded: number))
        return true
    }
}

extension PcapNGSection.Interface {
    /// A time stamp in microseconds since the POSIX epoch; far out of range where the file's resolution is absurd.
    func microseconds(_ ticks: UInt64) -> Int128 {
        let offset = Int128(offsetSeconds) * 1_000_000
        switch resolution {
        case .decimal(let digits):
            guard digits > 6 else {
                return offset + Int128(ticks) * (0..<(6 - digits)).reduce(Int128(1)) { power, _ in power * 10 }
            }
            // 2^64 has 20 digits: more than that leaves nothing.
            guard digits <= 26 else { return offset }
            return offset + Int128(ticks) / (6..<digits).reduce(Int128(1)) { power, _ in power * 10 }
        case .binary(let bits):
            return offset + (Int128(ticks) * 1_000_000) >> Int128(bits)
        }
    }
}
