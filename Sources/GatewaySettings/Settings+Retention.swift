import HealthReadings

extension Settings {
    /// How long parts of what is stored are kept, in seconds, by the part's name: `store.keep`. What is missing is kept for
    /// ever.
    package var keptSeconds: [String: Int] {
        map("store.keep").compactMapValues { Self.age($0) }
    }

    /// The parts that can be named: a kind of reading, `trend` and `frames`.
    package static let keptParts =
        (ReadingKind.allCases.filter(\.isDelivered).map(\.rawValue) + ["frames", "trend"]).sorted()

    /// Refuses parts that there are not, and ages that say nothing.
    func requireUsableRetention() throws(Problem) {
        for (part, age) in map("store.keep").sorted(by: { $0.key < $1.key }) {
            guard Self.keptParts.contains(part) else {
                throw unusable(
                    "store.keep",
                    "store.keep: expected one of \(Self.keptParts.joined(separator: ", ")), found '\(part.prefix(40))'")
            }
            guard Self.age(age) != nil else {
                throw unusable(
                    "store.keep",
                    "store.keep.\(part): expected 1d to 100y, such as 90d, 26w or 2y, found '\(age.prefix(40))'")
            }
        }
    }

    /// An age from a day to a hundred years, in seconds; a year has 365 days.
    private static func age(_ text: String) -> Int? {
        let range = 86_400...100 * 365 * 86_400
        guard text.hasSuffix("y") else { return interval(text, in: range) }
        guard let years = Int(text.dropLast()), (1...100).contains(years) else { return nil }
        return years * 365 * 86_400
    }
}
