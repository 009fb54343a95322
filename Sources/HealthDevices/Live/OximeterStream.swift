import GATTClient
import GATTProfiles
import HealthReadings

/// A stream of an oximeter's values by its maker's own protocol.
///
/// Nothing is written to an oximeter, except the question for its values to one that sends them only when asked.
public enum OximeterStream: String, Sendable, Hashable, CaseIterable {
    /// Viatom's PC-60FW: `AA 55 0F 08 01 | SpO2 | pulse (2, low octet first) | perfusion | … | CRC-8`.
    case pc60fw
    /// Jumper's JPD-500 and its relatives: `81 | pulse | SpO2 | perfusion`.
    case jumper
    /// Berry's BM1000: packets of five octets, of which only the first has its highest bit set; or, as the oximeter was made,
    /// packets of twenty: `FF AA | number | state | SpO2 (2) | pulse (2) | … | sum`, each value as a mean and as it is now.
    ///
    /// Source: the maker's own kit, SpO2-BLE-for-Android, which is told by its user which of them an oximeter sends.
    case berry
    /// Viatom's O2Ring and its relatives, which send their values when asked: ``O2RingAnswer``.
    case o2ring

    /// The service.
    public var service: BluetoothUUID {
        switch self {
        case .pc60fw: BluetoothUUID(high: 0x6E40_0001_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
        case .jumper: BluetoothUUID(high: 0xCDEA_CB80_5235_4C07, low: 0x8846_93A3_7EE6_B86D)
        case .berry: BluetoothUUID(high: 0x4953_5343_FE7D_4AE5, low: 0x8FA9_9FAF_D205_E455)
        case .o2ring: Viatom.service
        }
    }

    /// Where the values are notified.
    var values: BluetoothUUID {
        switch self {
        case .pc60fw: BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
        case .jumper: BluetoothUUID(high: 0xCDEA_CB81_5235_4C07, low: 0x8846_93A3_7EE6_B86D)
        case .berry: BluetoothUUID(high: 0x4953_5343_1E4D_4BD9, low: 0xBA61_23C6_4724_9616)
        case .o2ring: Viatom.answers
        }
    }

    /// What is asked for each value, and where it is written; `nil` for a stream that comes unasked.
    var question: (octets: O2RingQuestion, at: BluetoothUUID)? {
        switch self {
        case .pc60fw, .jumper, .berry: nil
        case .o2ring: (.values, Viatom.requests)
        }
    }
}

/// Reads an oximeter's stream, whose messages may come in pieces.
struct OximeterStreamReader: Sendable {
    /// The longest message that is waited for.
    private static let longest = 64
    /// Octets of a Berry's longer packet.
    private static let longPacket = 20

    private let stream: OximeterStream
    private var octets: [UInt8] = []
    private var pieces = O2RingPieces()
    /// Whether a Berry has begun a longer packet. In the middle of one may stand what looks like a shorter one.
    private var hasLongPackets = false
    /// Answers with values that came from an oximeter that is asked, also if it has none to show.
    private(set) var answers = 0
    /// How many of the newest of these, in a row, say that it isn't worn.
    private(set) var unworn = 0

    init(_ stream: OximeterStream) { self.stream = stream }

    /// Takes what has come.
    ///
    /// - Returns: the newest value in it; `nil` where there is none, as without a finger.
    mutating func take(_ piece: [UInt8]) -> SaturationAndPulse? {
        switch stream {
        case .jumper:
            return piece.count >= 4 && piece[0] == 0x81
                ? Self.value(saturation: piece[2], pulse: UInt16(piece[1])) : nil
        case .pc60fw:
            octets += piece
            return takeMessages()
        case .berry:
            octets += piece
            return takePackets()
        case .o2ring:
            return takeAnswers(piece)
        }
    }

    private mutating func takeAnswers(_ piece: [UInt8]) -> SaturationAndPulse? {
        var newest: SaturationAndPulse?
        for answer in pieces.take(piece) {
            guard let values = O2RingValues(answer) else { continue }
            answers += 1
            unworn = values.isWorn ? 0 : unworn + 1
            newest = values.isWorn ? Self.value(saturation: values.saturation, pulse: values.pulse) : nil
        }
        return newest
    }

    private mutating func takeMessages() -> SaturationAndPulse? {
        var newest: SaturationAndPulse?
        while octets.count >= 4 {
            let length = 4 + Int(octets[3])
            guard octets[0] == 0xAA, octets[1] == 0x55, (5...Self.longest).contains(length) else {
                octets.removeFirst()
                continue
            }
            guard octets.count >= length else { break }
            let message = octets[..<length]
            // With its own checksum behind it a message has the checksum 0.
            guard Self.checksum(message) == 0 else {
                octets.removeFirst()
                continue
            }
            if octets[2] == 0x0F, length == 12, octets[4] == 0x01 {
                // Without a finger it may say the last values once more: the maker's own kit (LepuBle).
                let hasFinger = octets[9] & 0x02 == 0
                newest =
                    hasFinger
                    ? Self.value(saturation: octets[5], pulse: UInt16(octets[6]) | UInt16(octets[7]) << 8) : nil
            }
            octets.removeFirst(length)
        }
        return newest
    }

    private mutating func takePackets() -> SaturationAndPulse? {
        var newest: SaturationAndPulse?
        while octets.count >= 5 {
            if octets[0] == 0xFF, octets[1] == 0xAA {
                hasLongPackets = true
                guard octets.count >= Self.longPacket else { break }
                let last = Self.longPacket - 1
                guard octets[..<last].reduce(0, &+) == octets[last] else {
                    octets.removeFirst(2)
                    continue
                }
                // Bits of the state: no sensor, no finger, no pulse.
                newest = octets[3] & 0x07 == 0 ? Self.value(saturation: octets[4], pulse: UInt16(octets[6])) : nil
                octets.removeFirst(Self.longPacket)
                continue
            }
            guard !hasLongPackets, octets[0] & 0x80 != 0, octets[1..<5].allSatisfy({ $0 & 0x80 == 0 }) else {
                octets.removeFirst()
                continue
            }
            let pulse = UInt16(octets[3]) | UInt16(octets[2] & 0x40) << 1
            newest = Self.value(saturation: octets[4], pulse: pulse)
            octets.removeFirst(5)
        }
        return newest
    }

    /// A value; `nil` where the oximeter says that it has none, by 0 or by the highest number.
    private static func value(saturation: UInt8, pulse: UInt16) -> SaturationAndPulse? {
        guard (1...100).contains(saturation), pulse > 0, pulse < 0xFF else { return nil }
        return SaturationAndPulse(
            saturation: MedFloat16(rawValue: UInt16(saturation)), pulseRate: MedFloat16(rawValue: pulse))
    }

    /// CRC-8/MAXIM: polynomial 31, reflected, beginning with 0.
    static func checksum(_ octets: ArraySlice<UInt8>) -> UInt8 {
        octets.reduce(0) { checksum, octet in
            (0..<8).reduce(checksum ^ octet) { value, _ in value & 1 == 0 ? value >> 1 : value >> 1 ^ 0x8C }
        }
    }
}

extension DeviceModel {
    /// The stream of its values by its maker's own protocol; `nil` if it has none.
    public var oximeterStream: OximeterStream? {
        if case .oximeter(let stream)? = ownProtocol { stream } else { nil }
    }
}
