import HealthReadings

/// What a continuous glucose sensor says of itself: the 24 bits of Sensor Status Annunciation. Continuous Glucose
/// Monitoring Service 1.0.2, 3.1.1.5 and 3.3.1.
public struct ContinuousGlucoseAnnunciation: OptionSet, Sendable, Hashable {
    /// Status in the lowest octet, calibration and temperature in the next, warning in the third, reserved bits
    /// included.
    public let rawValue: UInt32

    /// Makes a set of its bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Makes a set of its three octets; one that was not sent says nothing.
    public init(status: UInt8?, calibration: UInt8?, warning: UInt8?) {
        rawValue = UInt32(status ?? 0) | UInt32(calibration ?? 0) << 8 | UInt32(warning ?? 0) << 16
    }

    /// The session has stopped: the sensor measures nothing.
    public static let sessionStopped = ContinuousGlucoseAnnunciation(rawValue: 1 << 0)

    /// Each bit with the status a reading has for it.
    private static let meanings: [(bit: UInt32, status: ReadingStatus)] = [
        (0, .sessionStopped), (1, .deviceBatteryLow), (2, .sensorTypeIncorrect), (3, .sensorMalfunction),
        (4, .deviceSpecificAlert), (5, .generalFault), (8, .timeSynchronizationRequired), (9, .calibrationNotAllowed),
        (10, .calibrationRecommended), (11, .calibrationRequired), (12, .temperatureTooHigh), (13, .temperatureTooLow),
        (16, .belowPatientLow), (17, .abovePatientHigh), (18, .belowHypo), (19, .aboveHyper),
        (20, .rateOfDecreaseExceeded), (21, .rateOfIncreaseExceeded), (22, .resultTooLow), (23, .resultTooHigh),
    ]

    /// The bits as a reading's status; reserved bits are left out.
    public var readingStatus: ReadingStatus {
        Self.meanings.reduce(into: []) { status, meaning in
            if rawValue & 1 << meaning.bit != 0 { status.insert(meaning.status) }
        }
    }
}
