import HealthReadings

/// A record of a sensor with its place in the sensor's life, and what it is estimated to mean.
public struct LibreRecord: Sendable, Hashable {
    /// The ring it stands in.
    public let source: SensorFacts.Source
    /// Minutes from the sensor's start to the record.
    public let minute: UInt16
    /// The raw numbers.
    public let raw: RawRecord
    /// The concentration, or why there is none.
    public let estimate: Result<GlucoseEstimate, EstimateFault>

    /// Makes a record.
    public init(
        source: SensorFacts.Source, minute: UInt16, raw: RawRecord, estimate: Result<GlucoseEstimate, EstimateFault>
    ) {
        self.source = source
        self.minute = minute
        self.raw = raw
        self.estimate = estimate
    }

    /// The minutes after its start in which a sensor warms up: what it measures then is not right yet.
    public static let warmUpMinutes: UInt16 = 60

    /// Why the record is never delivered, in the order of `Exclusion`; nil where it may be.
    ///
    /// A record of the warm-up is one of a sensor that is not active, whatever the sensor is when it is read. So is one from
    /// the end of its life on; what it measured before counts also when it is read after the end. A sensor that has ended
    /// before its life was over had a reason for that, and nothing in its memory counts.
    ///
    /// - Parameters:
    ///   - state: the sensor's state when it was read.
    ///   - age: the minutes since its start when it was read.
    ///   - life: the minutes that the sensor measures for.
    @inline(__always)
    public func exclusion(inState state: SensorState?, atAge age: UInt16, ofLife life: UInt16?) -> Exclusion? {
        if raw.hasError { return .errorRecord }
        guard case .success(let estimate) = estimate else { return .noValue }
        guard estimate.isPlausible else { return .implausible }
        return minute >= Self.warmUpMinutes && isOfActiveSensor(state, age, life) ? nil : .sensorNotActive
    }

    @inline(__always)
    private func isOfActiveSensor(_ state: SensorState?, _ age: UInt16, _ life: UInt16?) -> Bool {
        switch state {
        case .active: true
        case .expired, .shutDown: life.map { age >= $0 && minute < $0 } ?? false
        default: false
        }
    }

    /// The record as meters' records are, in mg/dL of interstitial fluid; a sensor does not tell where it is worn.
    ///
    /// - Parameters:
    ///   - state: the sensor's state when it was read.
    ///   - age: the minutes since its start when it was read.
    ///   - life: the minutes that the sensor measures for.
    @inline(__always)
    public func record(inState state: SensorState?, atAge age: UInt16, ofLife life: UInt16?) -> Record {
        var concentration: Quantity?
        if case .success(let estimate) = estimate {
            concentration = Quantity(
                ExactDecimal(significand: Int64(estimate.milligramsPerDecilitre)), .milligramsPerDecilitre)
        }
        return Record(
            value: .glucose(
                GlucoseValue(
                    concentration: concentration, sampleType: .interstitialFluid, sampleLocation: .notAvailable)),
            exclusion: exclusion(inState: state, atAge: age, ofLife: life),
            sensor: SensorFacts(
                source: source, minute: minute, glucose: raw.glucose, temperature: raw.temperature,
                adjustment: raw.adjustment, quality: raw.quality, flags: raw.flags, hasError: raw.hasError,
                calibration: concentration == nil ? .none : .factoryEstimate))
    }
}
