import Foundation

/// A sample in the phone's HealthKit. Times may have fractions of a second, which the phone's answers have not.
package struct PhoneSample: Sendable {
    package var id: UUID
    package var type: String
    package var value: Double
    package var unit: String
    package var start: Date
    package var end: Date
    package var source: String
    package var metadata: [String: String]?

    /// A sample of a quantity: the app sends no metadata with it.
    package init(
        _ type: String, _ value: Double, _ unit: String, at start: Date, until end: Date? = nil,
        source: String = "Ann's Watch", metadata: [String: String]? = nil, id: UUID = UUID()
    ) {
        self.id = id
        self.type = type
        self.value = value
        self.unit = unit
        self.start = start
        self.end = end ?? start
        self.source = source
        self.metadata = metadata
    }

    /// A part of a night, by HealthKit's category number (`HKCategoryValueSleepAnalysis`).
    package static func sleep(_ category: Int, from start: Date, to end: Date) -> PhoneSample {
        let stages = ["inBed", "asleep", "awake", "core", "deep", "rem"]
        return PhoneSample(
            "sleepAnalysis", Double(category), "category", at: start, until: end,
            metadata: ["sleepStage": stages.indices.contains(category) ? stages[category] : "unknown"])
    }

    /// The category of a stage's own type.
    static let stages = [
        "sleepInBed": 0.0, "sleepAsleep": 1, "sleepAwake": 2, "sleepCore": 3, "sleepDeep": 4, "sleepREM": 5,
    ]
}
