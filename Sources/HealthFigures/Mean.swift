import HealthReadings

extension ExactDecimal {
    /// The mean of numbers, rounded half to even at `places` decimal places.
    ///
    /// The sum is exact, so that the mean doesn't depend on the order of the numbers.
    ///
    /// - Parameters:
    ///   - numbers: the numbers, whatever the precision of each.
    ///   - places: the decimal places of the mean, 0 … 9.
    /// - Returns: `nil` for no numbers, or if their sum doesn't fit 64 bits, which no day's readings reach.
    public static func mean(of numbers: some Collection<ExactDecimal>, places: Int16) -> ExactDecimal? {
        guard let finest = numbers.lazy.map(\.exponent).min() else { return nil }
        var sum: Int64 = 0
        for number in numbers {
            var digits = number.significand
            for _ in 0..<(Int(number.exponent) - Int(finest)) {
                let (scaled, overflow) = digits.multipliedReportingOverflow(by: 10)
                if overflow { return nil }
                digits = scaled
            }
            let (total, overflow) = sum.addingReportingOverflow(digits)
            if overflow { return nil }
            sum = total
        }
        return ExactDecimal(significand: sum, exponent: finest).divided(
            by: ExactDecimal(significand: Int64(numbers.count)), places: places)
    }
}
