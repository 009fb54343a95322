/// An integer of any length, as school teaches it: decimal digits, the least significant first, and a sign.
///
/// Slow and plain, to check fast arithmetic against.
struct LongInteger: Equatable {
    var digits: [Int]
    var isNegative: Bool

    init(digits: [Int], isNegative: Bool) {
        self.digits = digits
        while self.digits.last == 0 { self.digits.removeLast() }
        self.isNegative = isNegative && !self.digits.isEmpty
    }

    init(_ value: Int64) {
        let text = String(value)
        self.init(
            digits: text.filter { $0 != "-" }.reversed().compactMap(\.wholeNumberValue), isNegative: text.first == "-")
    }

    var int64: Int64? {
        Int64((isNegative ? "-" : "") + (digits.isEmpty ? "0" : digits.reversed().map(String.init).joined()))
    }

    func timesPowerOfTen(_ power: Int) -> LongInteger {
        LongInteger(digits: [Int](repeating: 0, count: power) + digits, isNegative: isNegative)
    }

    static func * (lhs: LongInteger, rhs: LongInteger) -> LongInteger {
        var sums = [Int](repeating: 0, count: lhs.digits.count + rhs.digits.count + 1)
        for (i, left) in lhs.digits.enumerated() {
            for (j, right) in rhs.digits.enumerated() { sums[i + j] += left * right }
        }
        for place in sums.indices.dropLast() {
            sums[place + 1] += sums[place] / 10
            sums[place] %= 10
        }
        return LongInteger(digits: sums, isNegative: lhs.isNegative != rhs.isNegative)
    }

    /// Division rounded half to even.
    func dividedHalfEven(by divisor: LongInteger) -> LongInteger {
        var remainder: [Int] = []
        var quotient: [Int] = []
        for digit in digits.reversed() {
            remainder.insert(digit, at: 0)
            while remainder.last == 0 { remainder.removeLast() }
            var times = 0
            while Self.compare(remainder, divisor.digits) >= 0 {
                remainder = Self.subtract(remainder, divisor.digits)
                times += 1
            }
            quotient.insert(times, at: 0)
        }
        let twice = LongInteger(digits: remainder, isNegative: false) * LongInteger(2)
        let half = Self.compare(twice.digits, divisor.digits)
        if half > 0 || (half == 0 && (quotient.first ?? 0) % 2 == 1) {
            quotient = Self.increment(quotient)
        }
        return LongInteger(digits: quotient, isNegative: isNegative != divisor.isNegative)
    }

    private static func compare(_ lhs: [Int], _ rhs: [Int]) -> Int {
        guard lhs.count == rhs.count else { return lhs.count - rhs.count }
        for (left, right) in zip(lhs.reversed(), rhs.reversed()) where left != right { return left - right }
        return 0
    }

    private static func subtract(_ lhs: [Int], _ rhs: [Int]) -> [Int] {
        var result = lhs
        for place in lhs.indices {
            result[place] -= place < rhs.count ? rhs[place] : 0
            if result[place] < 0 {
                result[place] += 10
                result[place + 1] -= 1
            }
        }
        while result.last == 0 { result.removeLast() }
        return result
    }

    private static func increment(_ digits: [Int]) -> [Int] {
        var result = digits
        for place in result.indices {
            if result[place] < 9 {
                result[place] += 1
                return result
            }
            result[place] = 0
        }
        return result + [1]
    }
}
