import HealthReadings

/// What scales measure, in the shape of the body summary (`POST /v2/summary/body/{user_id}`).
///
/// The server has no time series that weight or body composition could be written to: `weight`, `body_weight` and
/// `body_fat` are names to read by. Every list is sent, an empty one too. Source of the shape: vital-ios
/// (`BodyPatch.swift`, `HealthKitReads+Body.swift`).
public struct BodySummary: Sendable, Hashable {
    /// A day with the time zone that held on it.
    public struct DayZone: Sendable, Hashable {
        /// The day: `2026-11-22`.
        public var day: String
        /// The IANA id of the zone.
        public var timeZone: String

        /// Makes a pair of a day and its zone.
        public init(day: String, timeZone: String) {
            self.day = day
            self.timeZone = timeZone
        }
    }

    /// Weights in kg.
    public var bodyMass: [QuantitySample]
    /// Shares of fat in per cent.
    public var bodyFatPercentage: [QuantitySample]
    /// Body mass indexes.
    public var bodyMassIndex: [QuantitySample]
    /// Waist circumferences in centimetres.
    public var waistCircumference: [QuantitySample]
    /// Masses without fat in kg.
    public var leanBodyMass: [QuantitySample]
    /// The zone of each day that has a sample.
    public var timeZones: [DayZone]

    /// Makes a summary.
    public init(
        bodyMass: [QuantitySample] = [], bodyFatPercentage: [QuantitySample] = [],
        bodyMassIndex: [QuantitySample] = [], waistCircumference: [QuantitySample] = [],
        leanBodyMass: [QuantitySample] = [], timeZones: [DayZone] = []
    ) {
        self.bodyMass = bodyMass
        self.bodyFatPercentage = bodyFatPercentage
        self.bodyMassIndex = bodyMassIndex
        self.waistCircumference = waistCircumference
        self.leanBodyMass = leanBodyMass
        self.timeZones = timeZones
    }

    /// The summary as it is sent.
    public var json: JSONValue {
        func list(_ samples: [QuantitySample]) -> JSONValue { .array(samples.map(\.json)) }
        return .object([
            "body_mass": list(bodyMass), "body_fat_percentage": list(bodyFatPercentage),
            "body_mass_index": list(bodyMassIndex), "waist_circumference": list(waistCircumference),
            "lean_body_mass": list(leanBodyMass),
            "time_zones": .array(timeZones.map { .array([.string($0.day), .string($0.timeZone)]) }),
        ])
    }
}
