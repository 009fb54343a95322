/// What the glucose concentration was measured in: the Type field of Glucose Measurement (Glucose Profile 1.0.1, 2A18).
public enum GlucoseSampleType: UInt8, Sendable, Hashable, CaseIterable {
    /// A number the specification reserves: accepted, not interpreted.
    case reserved = 0
    case capillaryWholeBlood, capillaryPlasma, venousWholeBlood, venousPlasma, arterialWholeBlood, arterialPlasma
    case undeterminedWholeBlood, undeterminedPlasma, interstitialFluid
    /// Not a patient's value.
    case controlSolution

    /// The name in documents: `capillary_whole_blood`, …
    public var name: String {
        switch self {
        case .reserved: "reserved"
        case .capillaryWholeBlood: "capillary_whole_blood"
        case .capillaryPlasma: "capillary_plasma"
        case .venousWholeBlood: "venous_whole_blood"
        case .venousPlasma: "venous_plasma"
        case .arterialWholeBlood: "arterial_whole_blood"
        case .arterialPlasma: "arterial_plasma"
        case .undeterminedWholeBlood: "undetermined_whole_blood"
        case .undeterminedPlasma: "undetermined_plasma"
        case .interstitialFluid: "interstitial_fluid"
        case .controlSolution: "control_solution"
        }
    }
}

/// Where the sample was taken: the Sample Location field of Glucose Measurement (2A18) and of CGM Feature (2AA8).
public enum GlucoseSampleLocation: UInt8, Sendable, Hashable, CaseIterable {
    /// A number the specification reserves: accepted, not interpreted.
    case reserved = 0
    case finger, alternateSite, earlobe
    /// Not a patient's value.
    case controlSolution
    /// Of continuous sensors only.
    case subcutaneousTissue
    case notAvailable = 15

    /// The name in documents: `finger`, `alternate_site`, …
    public var name: String {
        switch self {
        case .reserved: "reserved"
        case .finger: "finger"
        case .alternateSite: "alternate_site"
        case .earlobe: "earlobe"
        case .controlSolution: "control_solution"
        case .subcutaneousTissue: "subcutaneous_tissue"
        case .notAvailable: "not_available"
        }
    }
}

/// What a continuous sensor says beside a concentration.
public struct ContinuousGlucoseFacts: Sendable, Hashable {
    /// How fast the concentration changes, in mg/dL per minute; nil where none was sent.
    public private(set) var trend: Quantity?
    /// The quality of the value in per cent; nil where none was sent.
    public private(set) var quality: Quantity?

    /// Makes facts. What is implausible loses its number.
    public init(trend: Quantity? = nil, quality: Quantity? = nil) {
        self.trend = trend?.judged(as: .trend)
        self.quality = quality?.judged(as: .quality)
    }
}

/// A glucose record's value.
public struct GlucoseValue: Sendable, Hashable {
    /// The concentration in mg/dL or mmol/L as the device sent it; nil for a record without one.
    public var concentration: Quantity?
    /// Nil where the record carries no concentration.
    public var sampleType: GlucoseSampleType?
    /// Nil where the record carries no concentration.
    public var sampleLocation: GlucoseSampleLocation?
    /// What a continuous sensor (CGM service) says beside it; nil for any other device's record.
    public var continuous: ContinuousGlucoseFacts?

    /// Makes a glucose value.
    public init(
        concentration: Quantity?, sampleType: GlucoseSampleType? = nil, sampleLocation: GlucoseSampleLocation? = nil,
        continuous: ContinuousGlucoseFacts? = nil
    ) {
        self.concentration = concentration
        self.sampleType = sampleType
        self.sampleLocation = sampleLocation
        self.continuous = continuous
    }
}
