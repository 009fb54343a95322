import HealthReadings

@testable import HealthDevices

/// A measurement as a test wants it in an Omron monitor's memory.
struct OmronSample: Hashable {
    var systolic: UInt16 = 128
    var diastolic: UInt8 = 81
    var pulse: UInt8 = 66
    var (year, month, day): (UInt16, UInt16, UInt16) = (26, 11, 20)
    var (hour, minute, second): (UInt16, UInt16, UInt16) = (7, 30, 15)
    var hasMoved = false
    var isIrregular = false
    var position: UInt16 = 0
    /// A bit of word 3 that says nothing that is known.
    var unknownBit = false
    var cuffFits = true
    var number: UInt16 = 0

    var time: WallTime? {
        WallTime(
            year: 2000 + Int(year), month: Int(month), day: Int(day), hour: Int(hour), minute: Int(minute),
            second: min(Int(second), 59))
    }

    /// The octets, by the table that the record's documentation shows.
    func octets(_ length: Int, _ order: OmronRecordLayout.Order) -> [UInt8] {
        var words: [UInt16] = [
            UInt16(diastolic) << 8 | (systolic &- 25) & 0xFF, year << 8 | UInt16(pulse),
            (hasMoved ? 0x8000 : 0) | (isIrregular ? 0x4000 : 0) | month << 10 | day << 5 | hour,
            position << 14 | (unknownBit ? 0x2000 : 0) | (cuffFits ? 0x1000 : 0) | minute << 6 | second,
            0x0080, number,
        ]
        while words.count < length / 2 { words.append(0) }
        func octets(_ word: UInt16) -> [UInt8] {
            let pair = [UInt8(word >> 8), UInt8(truncatingIfNeeded: word)]
            return order == .highFirst ? pair : pair.reversed()
        }
        let body = words.dropLast().flatMap(octets)
        let sum = body.reduce(0, &+)
        return body + octets(UInt16(sum ^ 0xFF) << 8 | UInt16(sum))
    }
}

extension [UInt8] {
    /// The octets that hexadecimal digits stand for; spaces are for reading.
    init(hex text: String) {
        let digits = text.filter { $0 != " " }.map { UInt8($0.hexDigitValue ?? 0) }
        self = stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
