import GATTProfiles
import HealthReadings

/// What numbers of a kind are replaced by.
///
/// What a number becomes depends on nothing of it but whether it can be a person's, and where it can't, on how many digits it has.
/// It may become itself: if it never did, many records of equal numbers would tell the one that is missing.
struct ReplacedNumber: Sendable {
    /// What replaces a number that can be a person's.
    let usual: ClosedRange<Double>
    /// What can be a person's; `nil` if any number may be.
    let plausible: ClosedRange<Double>?
    /// Parts of what is plausible, beside the usual one, in which a number stays: a meter cannot measure there, and means
    /// something else by it.
    let odd: [ClosedRange<Double>]
    /// What a number of the device is multiplied by to be one of these ranges.
    let scale: Double
    /// Whether it may be negative or 0 as well as positive.
    let isSigned: Bool

    init(
        _ usual: ClosedRange<Double>, within plausible: ClosedRange<Double>?, odd: [ClosedRange<Double>] = [],
        scale: Double = 1, isSigned: Bool = false
    ) {
        (self.usual, self.plausible, self.odd, self.scale) = (usual, plausible, odd, scale)
        self.isSigned = isSigned
    }

    static let perKilogram = glucose(scale: 1e5)
    static let perMole = ReplacedNumber(
        4.8...8.3, within: 0.001...83, odd: [0.001...0.54, 0.55...1.09, 33.35...83], scale: 1e3)
    static let milligrams = glucose(scale: 1)
    static let saturation = ReplacedNumber(94...99, within: 1...100)
    static let rate = ReplacedNumber(55...95, within: 20...300)
    static let celsius = ReplacedNumber(36.2...37.4, within: 13...47)
    static let fahrenheit = ReplacedNumber(97.2...99.3, within: 55.4...116.6)
    /// A number of which nothing is known, whatever its exponent: an amount of food or medication, an index, a quality.
    static let any = ReplacedNumber(1...99, within: nil)
    /// A number that is negative as often as positive, such as a trend.
    static let change = ReplacedNumber(-30...30, within: nil, isSigned: true)

    private static func glucose(scale: Double) -> ReplacedNumber {
        ReplacedNumber(85...150, within: 0.01...1500, odd: [0.01...9.9, 10...19.9, 600.5...1500], scale: scale)
    }

    static func systolic(inKilopascal: Bool) -> ReplacedNumber { pressure(105...134, inKilopascal) }
    static func diastolic(inKilopascal: Bool) -> ReplacedNumber { pressure(65...84, inKilopascal) }
    static func mean(inKilopascal: Bool) -> ReplacedNumber { pressure(86...103, inKilopascal) }

    private static func pressure(_ usual: ClosedRange<Double>, _ inKilopascal: Bool) -> ReplacedNumber {
        ReplacedNumber(usual, within: 1...400, scale: inKilopascal ? 7.500617 : 1)
    }

    /// A random mantissa for the same exponent. It is a plausible value of a person if the original is one and there are several,
    /// and implausible otherwise if it can be. 0 stays 0, because devices send it when nothing was measured.
    func mantissa(
        _ mantissa: Int, exponent: Int, highest: Int, using generator: inout some RandomNumberGenerator
    ) -> Int {
        if isSigned { return Int.random(in: Int(usual.lowerBound)...Int(usual.upperBound), using: &generator) }
        guard mantissa != 0 else { return 0 }
        guard let plausible else {
            return Int.random(in: 1...max(1, min(highest, Int(usual.upperBound))), using: &generator)
        }
        let (sign, magnitude) = (mantissa.signum(), abs(mantissa))
        var factor = scale
        for _ in 0..<min(abs(exponent), 20) { factor = exponent > 0 ? factor * 10 : factor / 10 }
        func isPlausible(_ magnitude: Int) -> Bool { sign > 0 && plausible.contains(Double(magnitude) * factor) }
        func whole(_ range: ClosedRange<Double>) -> ClosedRange<Int>? {
            let low = max(1, (range.lowerBound / factor).rounded(.up))
            let high = min(Double(highest), (range.upperBound / factor).rounded(.down))
            // A range that has one number alone would tell it.
            return low < high ? Int(low)...Int(high) : nil
        }
        let digits = Self.digits(magnitude, highest)
        guard !isPlausible(magnitude) else {
            let wanted = odd.first { $0.contains(Double(magnitude) * factor) } ?? usual
            return Int.random(in: whole(wanted) ?? whole(plausible) ?? digits, using: &generator)
        }
        // Several implausible ones, or any of these digits.
        let candidates = (0..<64).map { _ in Int.random(in: digits, using: &generator) }.filter { !isPlausible($0) }
        let isOne = candidates.allSatisfy { $0 == candidates.first }
        return sign * (isOne ? Int.random(in: digits, using: &generator) : candidates[0])
    }

    /// The numbers with as many digits, up to the highest that there is; of several digits' where there is one alone.
    private static func digits(_ magnitude: Int, _ highest: Int) -> ClosedRange<Int> {
        var low = 1
        while magnitude / 10 >= low { low *= 10 }
        let high = max(low, min(highest, low * 10 - 1))
        return low < high ? low...high : 1...max(1, highest)
    }
}

/// A value's octets, while its fields are replaced one after the other. A field that the value is too short for is zeroed,
/// with everything behind it.
struct ReplacedFields {
    private(set) var octets: [UInt8]
    private(set) var place = 0
    private let times: ReplacedTimes
    private var generator: Chance

    init(_ octets: [UInt8], _ times: ReplacedTimes, _ generator: Chance) {
        (self.octets, self.times, self.generator) = (octets, times, generator)
    }

    /// Octets that were not gone through.
    var left: Int { octets.count - place }

    /// The next octets, which stay; zeros where there are none.
    @discardableResult mutating func keep(_ count: Int = 1) -> [UInt8] {
        guard has(count) else { return [UInt8](repeating: 0, count: count) }
        defer { place += count }
        return Array(octets[place..<(place + count)])
    }

    /// The next octet, which stays.
    mutating func flags() -> UInt8 { keep()[0] }

    private mutating func has(_ count: Int) -> Bool {
        guard left < count else { return true }
        zeroRest()
        return false
    }

    /// Zeroes what was not gone through.
    mutating func zeroRest() {
        for place in place..<octets.count { octets[place] = 0 }
        place = octets.count
    }

    mutating func zero(_ count: Int) {
        guard has(count) else { return }
        for place in place..<(place + count) { octets[place] = 0 }
        place += count
    }

    /// An octet that becomes 0, unless it is this one.
    mutating func zero(unless kept: UInt8) {
        if left > 0, octets[place] == kept { place += 1 } else { zero(1) }
    }

    private func word(_ place: Int) -> Int { Int(octets[place]) | Int(octets[place + 1]) << 8 }

    private mutating func put(_ value: Int, _ count: Int) {
        for shift in 0..<count { octets[place + shift] = UInt8(truncatingIfNeeded: value >> (8 * shift)) }
        place += count
    }

    /// A medfloat16: its exponent and special values stay, and FFFF does where it means that there is none.
    mutating func float16(_ number: ReplacedNumber, keepsAllOnes: Bool = false) {
        guard has(2) else { return }
        let raw = word(place)
        guard !(keepsAllOnes && raw == 0xFFFF), case .value(let value) = MedFloat16(rawValue: UInt16(raw)).number
        else { return place += 2 }
        let mantissa = number.mantissa(
            Int(value.significand), exponent: Int(value.exponent), highest: 2045, using: &generator)
        put(raw & 0xF000 | mantissa & 0x0FFF, 2)
    }

    /// A medfloat32: its exponent and special values stay.
    mutating func float32(_ number: ReplacedNumber) {
        guard has(4) else { return }
        let raw = word(place) | word(place + 2) << 16
        guard case .value(let value) = MedFloat32(rawValue: UInt32(raw)).number else { return place += 4 }
        let mantissa = number.mantissa(
            Int(value.significand), exponent: Int(value.exponent), highest: 8_388_605, using: &generator)
        put(raw & 0xFF00_0000 | mantissa & 0x00FF_FFFF, 4)
    }

    /// A whole number of 16 bits, in this many of the ranges' units; FFFF, which means that there is none, stays.
    mutating func word(_ number: ReplacedNumber, highest: Int = 0xFFFE) {
        guard has(2) else { return }
        let value = word(place)
        put(
            value == 0xFFFF
                ? value : number.mantissa(value, exponent: 0, highest: highest, using: &generator), 2)
    }

    /// A whole number of 8 bits; FF stays.
    mutating func octet(_ number: ReplacedNumber) {
        guard has(1) else { return }
        let value = Int(octets[place])
        put(value == 0xFF ? value : number.mantissa(value, exponent: 0, highest: 0xFE, using: &generator), 1)
    }

    /// A date and time of seven octets.
    mutating func dateTime(of subject: ReplacedTimes.Subject = .record) {
        guard has(7) else { return }
        for octet in times.dateTime(Array(octets[place..<(place + 7)]), of: subject) { put(Int(octet), 1) }
    }

    /// A day of the week, 1 … 7, which follows from the date in front of it.
    mutating func weekday() {
        guard has(1), place >= 7 else { return }
        put(Int(times.weekday(of: Array(octets[(place - 7)..<place]), was: octets[place])), 1)
    }

    /// Puts a checksum of the whole value at its end, which is wrong if it was. How it was wrong would tell what it was of.
    mutating func checksum(like original: [UInt8]) {
        guard octets.count >= 3, original.count == octets.count else { return }
        func right(_ octets: [UInt8]) -> Int { Int(ContinuousGlucoseChecksum.of(octets.dropLast(2))) }
        let sent = Int(original[original.count - 2]) | Int(original[original.count - 1]) << 8
        place = octets.count - 2
        put(right(octets) ^ (sent == right(original) ? 0 : Int.random(in: 1...0xFFFF, using: &generator)), 2)
    }
}
