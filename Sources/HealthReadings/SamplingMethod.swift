/// How a value was taken, as a server distinguishes its samples: those of one time that were taken in two ways are two.
public enum SamplingMethod: Sendable, Hashable {
    case fingerprick, cuff, manualScan, automatic, scale, unknown
}

extension Record {
    /// How the value was taken; nil for a kind that no server is told.
    ///
    /// Interstitial fluid has no drop of blood that a finger was pricked for: a sensor was scanned, whoever says it.
    public var samplingMethod: SamplingMethod? {
        switch value {
        case .glucose(let glucose):
            if glucose.continuous != nil { return .automatic }
            return sensor != nil || glucose.sampleType == .interstitialFluid ? .manualScan : .fingerprick
        case .bloodPressure: return .cuff
        case .kept: return nil
        case .vital(let vital):
            switch vital.kind {
            case .heartRate, .hrv: return .automatic
            case .spo2: return vital.series == nil ? .unknown : .automatic
            case .temperature: return .unknown
            case .weight, .bodyComposition: return .scale
            case .glucose, .bloodPressure, .activity, .sleep, .other: return nil
            }
        }
    }
}
