import Foundation
import GATTClient
import HCICapture
import HealthReadings

/// What the recorded captures of a folder give to begin with, and inputs as files for what reads files.
enum Captures {
    /// The captures' octets.
    static func btsnoop(_ folder: String) throws -> [[UInt8]] { try octets(folder, ending: ".btsnoop") }

    /// The files of a folder whose names end so, in the order of their names.
    static func octets(_ folder: String, ending suffix: String) throws -> [[UInt8]] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted().filter { $0.hasSuffix(suffix) }.map {
            [UInt8](try Data(contentsOf: URL(fileURLWithPath: folder + "/" + $0)))
        }
    }

    /// The captures with every datalink of btsnoop.
    static func everyBTSnoop(_ folder: String) throws -> [[UInt8]] {
        let captures = try btsnoop(folder)
        return try captures
            + captures.prefix(4).flatMap { octets in
                try [BTSnoopDatalink.unencapsulated, .h4].map { link in
                    try BTSnoopEncoder.header(link) + records(octets).flatMap { BTSnoopEncoder.record($0, link) ?? [] }
                }
            }
    }

    /// The captures as pcap with link types 187 and 201.
    static func pcap(_ folder: String) throws -> [[UInt8]] {
        try btsnoop(folder).flatMap { octets in
            try [UInt32(187), 201].map { link in
                var file = little(0xA1B2_C3D4) + [2, 0, 4, 0] + little(0, 0, 262_144, link)
                for record in try records(octets) {
                    guard let packet = packet(record, link), let time = record.time else { continue }
                    let length = UInt32(packet.count)
                    let fraction = time.microseconds - time.seconds * 1_000_000
                    file += little(UInt32(time.seconds), UInt32(fraction), length, length) + packet
                }
                return file
            }
        }
    }

    /// The captures as pcapng with link type 201: a section, an interface, a block for each packet.
    static func pcapng(_ folder: String) throws -> [[UInt8]] {
        try btsnoop(folder).map { octets in
            var file = block(0x0A0D_0D0A, little(0x1A2B_3C4D) + [1, 0, 0, 0] + little(.max, .max))
            file += block(1, [201, 0, 0, 0] + little(262_144))
            for record in try records(octets) {
                guard let packet = packet(record, 201), let time = record.time else { continue }
                let (stamp, length) = (UInt64(bitPattern: time.microseconds), UInt32(packet.count))
                let padding = [UInt8](repeating: 0, count: (4 - packet.count % 4) % 4)
                let head = little(0, UInt32(stamp >> 32), UInt32(stamp & 0xFFFF_FFFF), length, length)
                file += block(6, head + packet + padding)
            }
            return file
        }
    }

    /// Each value the captures' devices sent, behind its characteristic's number.
    static func values(_ folder: String) throws -> [[UInt8]] {
        var values: Set<[UInt8]> = []
        for octets in try btsnoop(folder) {
            for record in try records(octets) where record.kind == .aclData && record.direction == .received {
                // ACL and L2CAP heads, then ATT: a notification or indication with its handle.
                guard record.octets.count > 11, [0x1B, 0x1D].contains(record.octets[8]) else { continue }
                let value = record.octets.dropFirst(11)
                for number: [UInt8] in [[0x2A, 0x18], [0x2A, 0x34], [0x2A, 0x35], [0x2A, 0x52]] {
                    values.insert(number + value)
                }
            }
        }
        return values.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Writes an input where a parser of files reads it, in the current folder.
    static func file(_ octets: [UInt8]) throws -> String {
        let path = "input"
        try Data(octets).write(to: URL(fileURLWithPath: path))
        return path
    }

    private static func records(_ octets: [UInt8]) throws -> [CaptureRecord] {
        var reader = try CaptureReader(octets: octets)
        var records: [CaptureRecord] = []
        while let record = try reader.next() { records.append(record) }
        return records
    }

    /// A packet with its H4 type octet, and for link type 201 its direction.
    private static func packet(_ record: CaptureRecord, _ link: UInt32) -> [UInt8]? {
        let type: UInt8
        switch record.kind {
        case .command: type = 1
        case .aclData: type = 2
        case .event: type = 4
        default: return nil
        }
        let direction: [UInt8] = link == 201 ? [0, 0, 0, record.direction == .received ? 1 : 0] : []
        return direction + [type] + record.octets
    }

    private static func block(_ type: UInt32, _ body: [UInt8]) -> [UInt8] {
        let length = UInt32(body.count + 12)
        return little(type, length) + body + little(length)
    }

    private static func little(_ words: UInt32...) -> [UInt8] {
        words.flatMap { word in [0, 8, 16, 24].map { UInt8(truncatingIfNeeded: word >> $0) } }
    }
}
