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

    /// How far before the last fetch the next one begins, in seconds: 15 days.
    ///
    /// A strap or a watch that meets no phone keeps about two weeks, and brings them at once. WHOOP also scores a night
    /// hours later, and people change what was detected.
    public static let overlap: Int64 = 15 * 86_400
}
