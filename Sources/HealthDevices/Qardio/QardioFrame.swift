import GATTProfiles
import HealthReadings

/// A value of 2A35 as a QardioArm means it: the pressure in the cuff while it measures, its result, or that there is none.
///
/// Public code that owners use agrees on this: LibreArm and its ports, offline-qardio-app-ios, qardio. While the cuff measures, the
/// pressure stands in the systolic field and the diastolic one is 0. A result has a diastolic pressure, and pulse and status
/// with it. A measurement that came to nothing has NaN, which public code shows as 2047, or values that nobody has
/// ("2047/2", "2047/238", "1823/43").
public struct QardioFrame: Sendable, Hashable {
    /// What a value says.
    public enum Meaning: Sendable, Hashable {
        /// The pressure in the cuff. Never a person's blood pressure.
        case pressure(Quantity)
        /// What was measured.
        case result
        /// The measurement came to nothing.
        case failure(Failure)
    }

    /// Why a measurement came to nothing, as far as the cuff says it.
    public enum Failure: Sendable, Hashable {
        /// The status says that the cuff is too loose.
        case cuffTooLoose
        /// The status says that the arm has moved.
        case bodyMovement
        /// No public source says what the cuff means.
        case unknown
    }

    /// The fields of 2A35.
    public var measurement: BloodPressureMeasurement

    /// Makes a value of its fields.
    public init(measurement: BloodPressureMeasurement) { self.measurement = measurement }

    /// Reads a value.
    ///
    /// - Throws: `MalformedFrame` where it is no 2A35.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        measurement = try BloodPressureMeasurement(decoding: octets)
    }

    /// What it says.
    public var meaning: Meaning {
        let isFinal = measurement.pulseRate != nil || measurement.measurementStatus != nil || hasDiastolic
        if !isFinal, measurement.systolic.number.number != nil {
            return .pressure(Quantity(measurement.systolic.number, measurement.unit.measurementUnit))
        }
        guard measurement.record.exclusion != nil else { return .result }
        let status = measurement.status
        if status.contains(.cuffTooLoose) { return .failure(.cuffTooLoose) }
        return .failure(status.contains(.bodyMovement) ? .bodyMovement : .unknown)
    }

    /// The record it is. What is no result is excluded: no pressure in a cuff is ever a reading of a person.
    public var record: Record {
        var record = measurement.record
        switch meaning {
        case .pressure: record.exclusion = .intermediate
        case .failure: record.exclusion = record.exclusion ?? .errorRecord
        case .result: break
        }
        return record
    }

    /// Whether there is a diastolic pressure.
    private var hasDiastolic: Bool { (measurement.diastolic.number.number?.significand ?? 0) > 0 }
}

extension FrameFormat {
    /// A value of a QardioArm that ends a measurement, as it came: its result, which is also a frame of 2A35 once nothing
    /// followed it, an error, or octets that are no 2A35.
    public static let qardioMessage = FrameFormat(rawValue: 0x1_0022)
}
