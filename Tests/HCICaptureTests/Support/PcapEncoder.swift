import HCICapture
import HealthReadings

/// Encodes pcap and pcapng files, in either byte order, from the specification and not from the code under test.
struct PcapEncoder {
    var isBigEndian = false

    func word16(_ value: Int) -> [UInt8] {
        let octets = [UInt8(value & 0xFF), UInt8(value >> 8 & 0xFF)]
        return isBigEndian ? octets.reversed() : octets
    }

    func word32(_ value: UInt32) -> [UInt8] {
        let octets = [0, 8, 16, 24].map { UInt8(truncatingIfNeeded: value >> $0) }
        return isBigEndian ? octets.reversed() : octets
    }

    /// A packet as a link type wraps it.
    static func wrap(_ record: CaptureRecord, link: Int) -> [UInt8]? {
        let types: [HCIPacketKind: UInt8] = [.command: 1, .aclData: 2, .event: 4]
        guard let type = types[record.kind] else { return nil }
        switch link {
        case 187: return [type] + record.octets
        case 201: return [0, 0, 0, record.direction == .received ? 1 : 0, type] + record.octets
        default:
            let opcode: UInt8 =
                switch record.kind {
                case .command: 2
                case .event: 3
                default: record.direction == .received ? 5 : 4
                }
            return [UInt8(record.adapter >> 8), UInt8(record.adapter & 0xFF), 0, opcode] + record.octets
        }
    }

    func pcap(_ records: [CaptureRecord], link: Int, nanoseconds: Bool = false) -> [UInt8] {
        var file = word32(nanoseconds ? 0xA1B2_3C4D : 0xA1B2_C3D4) + word16(2) + word16(4) + word32(0) + word32(0)
        file += word32(65_535) + word32(UInt32(link))
        for record in records {
            guard let packet = Self.wrap(record, link: link), let time = record.time else { continue }
            let fraction = UInt32(time.microseconds - time.seconds * 1_000_000)
            file += word32(UInt32(time.seconds)) + word32(nanoseconds ? fraction * 1000 + 999 : fraction)
            file += word32(UInt32(packet.count)) + word32(UInt32(packet.count)) + packet
        }
        return file
    }

    func block(_ type: UInt32, _ body: [UInt8]) -> [UInt8] {
        let padded = body + [UInt8](repeating: 0, count: (4 - body.count % 4) % 4)
        let length = word32(UInt32(padded.count + 12))
        return word32(type) + length + padded + length
    }

    var section: [UInt8] {
        block(0x0A0D_0D0A, word32(0x1A2B_3C4D) + word16(1) + word16(0) + [UInt8](repeating: 0xFF, count: 8))
    }

    func interface(link: Int, resolution: UInt8? = nil, offset: Int64? = nil, snap: UInt32 = 0) -> [UInt8] {
        var options: [UInt8] = word16(1) + word16(3) + Array("a b".utf8) + [0]
        if let resolution { options += word16(9) + word16(1) + [resolution, 0, 0, 0] }
        if let offset {
            let (high, low) = (
                word32(UInt32(truncatingIfNeeded: offset >> 32)), word32(UInt32(truncatingIfNeeded: offset))
            )
            options += word16(14) + word16(8) + (isBigEndian ? high + low : low + high)
        }
        return block(1, word16(link) + word16(0) + word32(snap) + options + word16(0) + word16(0))
    }

    func enhanced(_ packet: [UInt8], ticks: UInt64, interface: Int = 0) -> [UInt8] {
        let head = word32(UInt32(interface)) + word32(UInt32(ticks >> 32)) + word32(UInt32(ticks & 0xFFFF_FFFF))
        let size = word32(UInt32(packet.count))
        let padding = [UInt8](repeating: 0, count: (4 - packet.count % 4) % 4)
        let comment: [UInt8] = word16(1) + word16(2) + [65, 66, 0, 0]
        return block(6, head + size + size + packet + padding + comment + word32(0))
    }

    func simple(_ packet: [UInt8]) -> [UInt8] { block(3, word32(UInt32(packet.count)) + packet) }

    func obsolete(_ packet: [UInt8], ticks: UInt64, interface: Int = 0) -> [UInt8] {
        let head = word16(interface) + word16(0) + word32(UInt32(ticks >> 32)) + word32(UInt32(ticks & 0xFFFF_FFFF))
        return block(2, head + word32(UInt32(packet.count)) + word32(UInt32(packet.count)) + packet)
    }

    func pcapng(_ records: [CaptureRecord], link: Int) -> [UInt8] {
        var file = section + interface(link: link) + block(0x0BAD, [1, 2, 3, 4, 5])
        for record in records {
            guard let packet = Self.wrap(record, link: link), let time = record.time else { continue }
            file += enhanced(packet, ticks: UInt64(time.microseconds))
        }
        return file
    }
}
