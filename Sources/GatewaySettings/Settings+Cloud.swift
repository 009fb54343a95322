extension Settings {
    /// How often the running gateway fetches from clouds; `nil`: never by itself.
    package var cloudInterval: Duration? { self["cloud.every"].flatMap(Self.cloudInterval) }

    /// Reads `90m`, `6h` or `1d`: 15 minutes to 30 days.
    static func cloudInterval(_ text: String) -> Duration? {
        interval(text, in: 900...30 * 86_400).map { .seconds($0) }
    }

    /// How often something happens by itself: `90m`, `6h`, `1d` or `2w`, in seconds; `nil` for anything else, and what is not
    /// in the range.
    static func interval(_ text: String, in range: ClosedRange<Int>) -> Int? {
        let units: [Character: Int] = ["m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), (2...8).contains(text.utf8.count),
            text.dropLast().allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int(text.dropLast())
        else { return nil }
        return range.contains(number * unit) ? number * unit : nil
    }
}
