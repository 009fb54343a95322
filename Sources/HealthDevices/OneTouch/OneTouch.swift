import GATTClient
import HealthReadings

/// OneTouch's own service: questions are written to one characteristic, answers notified by another.
package enum OneTouch {
    static let service = BluetoothUUID(high: 0xAF9D_F7A1_E595_11E3, low: 0x96B4_0002_A5D5_C51B)
    package static let questions = BluetoothUUID(high: 0xAF9D_F7A2_E595_11E3, low: 0x96B4_0002_A5D5_C51B)
    package static let answers = BluetoothUUID(high: 0xAF9D_F7A3_E595_11E3, low: 0x96B4_0002_A5D5_C51B)
    /// What each side says when it has got a message.
    package static let acknowledgement: [UInt8] = [0x81]

    /// The meter's clock counts seconds from the last second of 1999 on its own wall.
    package static let epoch: Int64 = 946_684_799

    /// The time that a count of the meter's clock stands for; nil for a clock that was never set.
    static func wallTime(_ count: UInt32) -> WallTime? {
        count == 0 ? nil : WallTime(secondsSinceEpoch: Int64(count) + epoch)
    }

    /// The count of the meter's clock at a time; nil outside what it can count (2000 … 2136).
    static func count(_ time: WallTime) -> UInt32? { UInt32(exactly: time.secondsSinceEpoch - epoch) }

    static func word(_ octets: ArraySlice<UInt8>) -> UInt32 {
        octets.reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
}

/// What a meter is asked.
enum OneTouchQuestion: Sendable, Hashable {
    case time
    case setTime(UInt32)
    /// The number of the newest record.
    case newest
    /// How many records there are.
    case count
    case record(UInt16)

    var payload: [UInt8] {
        switch self {
        case .time: [0x20, 0x02]
        case .setTime(let count): [0x20, 0x01] + (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * UInt32($0))) }
        case .newest: [0x0A, 0x02, 0x06]
        case .count: [0x27, 0x00]
        case .record(let number): [0xB3, UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
        }
    }

    /// Whether octets of the right length can be its answer: the clock counts beyond any record's number, so that one
    /// question's answer, sent twice, is not taken for the other's.
    func accepts(_ octets: [UInt8]) -> Bool {
        switch self {
        case .newest: OneTouch.word(octets[...]) <= UInt32(UInt16.max)
        case .time: octets.allSatisfy { $0 == 0 } || OneTouch.word(octets[...]) > UInt32(UInt16.max)
        case .setTime, .count, .record: true
        }
    }

    /// How many octets its answer has.
    var answerLength: Int {
        switch self {
        case .time, .newest: 4
        case .setTime: 0
        case .count: 2
        case .record: OneTouchRecord.length
        }
    }
}
