import GATTProfiles
import HealthReadings

/// How a record stands in an Omron monitor's memory: as 16-bit words, in one of two orders.
///
/// | word | high octet | low octet |
/// |---|---|---|
/// | 0 | diastolic | systolic - 25 |
/// | 1 | year - 2000 in its low six bits | pulse |
/// | 2 | bit 15 movement, 14 irregular pulse, 13 … 10 month, 9 … 5 day, 4 … 0 hour | |
/// | 3 | bits 15 … 14 position, 12 cuff fits, 11 … 6 minute, 5 … 0 second | |
/// | last | | the sum of all octets but the last two |
///
/// Pressures are in mmHg, the pulse in beats a minute. Layout: omblepy, hass-omron. The sum was found in the records that
/// owners have logged; it holds in each of them. Bit 13 of word 3 is not read: hass-omron took it for a low battery until it
/// found that no model has one there, and that monitors that look for atrial fibrillation use it for that (pull request 135).
struct OmronRecordLayout: Sendable, Hashable {
    /// The octet of a word that comes first.
    enum Order: String, Sendable, Hashable, CaseIterable {
        case highFirst = "high"
        case lowFirst = "low"
    }

    /// Octets of a record: 14 or 16.
    let length: Int
    /// `nil` if no public source says it: the record's sum then decides.
    let order: Order?

    /// The orders that records may have.
    var orders: [Order] { order.map { [$0] } ?? Order.allCases }

    /// The record that octets of the memory are.
    ///
    /// - Returns: `nil` for a slot in which nothing was recorded.
    /// - Throws: `MalformedFrame` for octets that are no record of this layout.
    func record(_ octets: [UInt8]) throws(MalformedFrame) -> OmronRecord? {
        guard octets.count == length else {
            throw MalformedFrame(
                subject: "Omron record", expected: "\(length) octets", octet: octets.count,
                found: "the end after \(octets.count)")
        }
        if Self.isEmpty(octets) { return nil }
        var (failure, found): (MalformedFrame?, Set<OmronRecord>) = (nil, [])
        for order in orders {
            do throws(MalformedFrame) {
                found.insert(try OmronRecord(words: OmronWords(octets, order)))
            } catch {
                failure = failure ?? error
            }
        }
        guard found.count < 2 else {
            // The sum is 0, and 0 stands beside it: one reading in some hundreds, and either may be the wrong one.
            throw MalformedFrame(
                subject: "Omron record", expected: "octets that are a record in one order", octet: length - 2,
                found: "a record in both")
        }
        if found.isEmpty, let failure { throw failure }
        return found.first
    }

    /// Whether nothing was recorded: all bits are the same.
    static func isEmpty(_ octets: some Collection<UInt8>) -> Bool {
        octets.allSatisfy { $0 == 0xFF } || octets.allSatisfy { $0 == 0 }
    }
}

/// Octets of an Omron monitor's memory as words, the last of which has their sum.
struct OmronWords: Sendable, Hashable {
    let octets: [UInt8]
    let order: OmronRecordLayout.Order

    init(_ octets: [UInt8], _ order: OmronRecordLayout.Order) {
        self.octets = octets
        self.order = order
    }

    var count: Int { octets.count / 2 }

    subscript(place: Int) -> UInt16 {
        let (first, second) = (UInt16(octets[2 * place]), UInt16(octets[2 * place + 1]))
        return order == .highFirst ? first << 8 | second : second << 8 | first
    }

    /// The sum of all octets but those of the last word.
    var sum: UInt8 { octets.dropLast(2).reduce(0, &+) }

    /// Where the sum stands.
    var placeOfSum: Int { octets.count - (order == .highFirst ? 1 : 2) }

    /// Where an octet stands beside the sum.
    var placeBesideSum: Int { octets.count - (order == .highFirst ? 2 : 1) }

    /// What the octet beside the sum differs from it by; `nil` where nothing stands there.
    var constantOfSum: UInt8? { octets[placeBesideSum] == 0 ? nil : octets[placeBesideSum] ^ sum }

    /// - Throws: `MalformedFrame` where the octet of the sum is another.
    func check(_ subject: String) throws(MalformedFrame) {
        guard octets[placeOfSum] == sum else {
            throw MalformedFrame(
                subject: subject, expected: "the sum 0x" + sum.hexadecimal(uppercase: true), octet: placeOfSum,
                found: "0x" + octets[placeOfSum].hexadecimal(uppercase: true))
        }
    }

    /// Year, month, day, hour, minute and second in three words, each part an octet: as the monitor's clock stands in its
    /// memory, in front of the sum.
    ///
    /// - Returns: `nil` for a clock that was never set.
    func clock() throws(MalformedFrame) -> WallTime? {
        guard count >= 4 else {
            throw MalformedFrame(
                subject: "Omron clock", expected: "8 octets", octet: octets.count,
                found: "the end after \(octets.count)")
        }
        try check("Omron clock")
        let words = (0..<3).map { self[count - 4 + $0] }
        func parts(_ word: UInt16) -> (high: Int, low: Int) { (Int(word >> 8), Int(word & 0xFF)) }
        let (date, hour, minute) = (parts(words[0]), parts(words[1]), parts(words[2]))
        return WallTime(
            year: 2000 + date.low, month: date.high, day: hour.low, hour: hour.high, minute: minute.low,
            second: minute.high)
    }
}

/// One measurement of an Omron monitor.
struct OmronRecord: Sendable, Hashable {
    /// mmHg.
    var systolic: UInt16
    /// mmHg.
    var diastolic: UInt8
    /// Beats a minute.
    var pulse: UInt8
    /// The monitor's own clock, without a zone.
    var time: WallTime
    var hasMoved: Bool
    var isIrregular: Bool
    /// 1 or 2 where a monitor at the wrist was held too low or too high; others number the measurements of a series by it.
    var position: UInt8
    var cuffFits: Bool

    /// What a systolic pressure is stored less by.
    static let systolicOffset: UInt16 = 25

    fileprivate init(words: OmronWords) throws(MalformedFrame) {
        try words.check("Omron record")
        let (pressures, date, hour, minute) = (words[0], words[1], words[2], words[3])
        systolic = (pressures & 0xFF) + Self.systolicOffset
        diastolic = UInt8(pressures >> 8)
        pulse = UInt8(date & 0xFF)
        let parts = [
            date >> 8 & 0x3F, hour >> 10 & 0xF, hour >> 5 & 0x1F, hour & 0x1F, minute >> 6 & 0x3F, minute & 0x3F,
        ]
        .map(Int.init)
        // The second runs to 63: a measurement ended in the minute that is stored with it.
        let time = WallTime(
            year: 2000 + parts[0], month: parts[1], day: parts[2], hour: parts[3], minute: parts[4],
            second: min(parts[5], 59))
        guard let time else {
            throw MalformedFrame(
                subject: "Omron record", expected: "a date and time", octet: 2,
                found: "year \(parts[0]), month \(parts[1]), day \(parts[2]), \(parts[3]):\(parts[4])")
        }
        self.time = time
        hasMoved = hour & 0x8000 != 0
        isIrregular = hour & 0x4000 != 0
        position = UInt8(minute >> 14)
        cuffFits = minute & 0x1000 != 0
    }

    /// What the record says.
    ///
    /// - Parameters:
    ///   - slot: whose memory it stands in, from 1.
    ///   - isAtWrist: whether its position says how the arm was held.
    func record(of slot: UInt8, isAtWrist: Bool) -> Record {
        func pressure(_ value: UInt16) -> Quantity {
            Quantity(ExactDecimal(significand: Int64(value)), .millimetresOfMercury)
        }
        var status: ReadingStatus = []
        if hasMoved { status.insert(.bodyMovement) }
        if !cuffFits { status.insert(.cuffTooLoose) }
        if isIrregular { status.insert(.irregularPulse) }
        if isAtWrist, position == 1 || position == 2 { status.insert(.improperPosition) }
        let (high, low) = (pressure(systolic), pressure(UInt16(diastolic)))
        return Record(
            value: .bloodPressure(
                BloodPressureValue(
                    systolic: high, diastolic: low,
                    meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                    pulse: pulse == 0
                        ? nil : Quantity(ExactDecimal(significand: Int64(pulse)), .beatsPerMinute))),
            baseTime: time, status: status, userSlot: slot,
            exclusion: Plausibility.isPlausible(systolic: high, diastolic: low) ? nil : .implausible)
    }
}
