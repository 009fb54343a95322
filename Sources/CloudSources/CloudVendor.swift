/// A maker of wearables whose cloud keeps what they measure.
public enum CloudVendor: String, Sendable, Hashable, CaseIterable, Codable {
    case whoop
    case garmin

    /// The name as the maker writes it.
    public var title: String {
        switch self {
        case .whoop: "WHOOP"
        case .garmin: "Garmin"
        }
    }

    /// The collections that are fetched, by the names that a wear service has for them, in the order in which they are.
    ///
    /// WHOOP has four. Garmin's are the summary types of its Health API, as Synheart's SDK lists them.
    public var collections: [String] {
        switch self {
        case .whoop: ["recovery", "sleep", "workouts", "cycles"]
        case .garmin:
            [
                "dailies", "epochs", "sleeps", "stressDetails", "hrv", "userMetrics", "bodyComps", "pulseox",
                "respiration", "healthSnapshot", "bloodPressures", "skinTemp",
            ]
        }
    }

    /// How far before the last fetch the next one begins, in seconds: a week.
    ///
    /// WHOOP scores a night hours later, and people change what was detected; a Garmin watch may be synchronised days later.
    public static let overlap: Int64 = 7 * 86_400
}
