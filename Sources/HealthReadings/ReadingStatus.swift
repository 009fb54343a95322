/// What a device says about a record: the status bits of its profile under the specification's names.
///
/// Glucose (Sensor Status Annunciation, 2A18 and 2AA7) and blood pressure (Measurement Status, 2A35) share this set, so
/// that a reading has one kind of status. Oximeters (2A5E, 2A5F) and health sensors (2B8B) have one bit for all their doubts,
/// ``questionable``. Reserved bits are accepted and not kept here; the frame keeps them.
///
/// All 32 bits have a name. Stored readings have them as a number that is written with as many octets as it needs, so a wider
/// ``rawValue`` reads what is stored.
public struct ReadingStatus: OptionSet, Sendable, Hashable {
    /// One bit for each name in ``names``.
    public let rawValue: UInt32

    /// Makes a status of raw bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// 2A18 bit 0: the battery was low during the measurement.
    public static let deviceBatteryLow = ReadingStatus(rawValue: 1 << 0)
    /// 2A18 bit 1: the sensor failed or faulted.
    public static let sensorMalfunction = ReadingStatus(rawValue: 1 << 1)
    /// 2A18 bit 2: too little blood or control solution.
    public static let sampleInsufficient = ReadingStatus(rawValue: 1 << 2)
    /// 2A18 bit 3: the strip was inserted wrongly.
    public static let stripInsertionError = ReadingStatus(rawValue: 1 << 3)
    /// 2A18 bit 4: a strip of the wrong type for the meter.
    public static let stripTypeIncorrect = ReadingStatus(rawValue: 1 << 4)
    /// 2A18 bit 5: the result is above what the meter can measure.
    public static let resultTooHigh = ReadingStatus(rawValue: 1 << 5)
    /// 2A18 bit 6: the result is below what the meter can measure.
    public static let resultTooLow = ReadingStatus(rawValue: 1 << 6)
    /// 2A18 bit 7: too warm for a valid test.
    public static let temperatureTooHigh = ReadingStatus(rawValue: 1 << 7)
    /// 2A18 bit 8: too cold for a valid test.
    public static let temperatureTooLow = ReadingStatus(rawValue: 1 << 8)
    /// 2A18 bit 9: the strip was pulled too soon.
    public static let readInterrupted = ReadingStatus(rawValue: 1 << 9)
    /// 2A18 bit 10: a general fault of the meter.
    public static let generalFault = ReadingStatus(rawValue: 1 << 10)
    /// 2A18 bit 11: the meter's clock failed; its time may be wrong.
    public static let timeFault = ReadingStatus(rawValue: 1 << 11)
    /// 2AA7 bit 0: the sensor's session has stopped.
    public static let sessionStopped = ReadingStatus(rawValue: 1 << 12)
    /// 2AA7 bit 2: a sensor of the wrong type for the device.
    public static let sensorTypeIncorrect = ReadingStatus(rawValue: 1 << 13)
    /// 2AA7 bit 4: an alert of the device's own.
    public static let deviceSpecificAlert = ReadingStatus(rawValue: 1 << 14)
    /// 2AA7 bit 8: the sensor's time is to be set.
    public static let timeSynchronizationRequired = ReadingStatus(rawValue: 1 << 15)
    /// 2A35 bit 0: the body moved.
    public static let bodyMovement = ReadingStatus(rawValue: 1 << 16)
    /// 2A35 bit 1: the cuff was too loose.
    public static let cuffTooLoose = ReadingStatus(rawValue: 1 << 17)
    /// 2A35 bit 2: an irregular pulse was detected.
    public static let irregularPulse = ReadingStatus(rawValue: 1 << 18)
    /// 2A35 bits 3-4 = 1: the pulse rate exceeds the upper limit.
    public static let pulseRateTooHigh = ReadingStatus(rawValue: 1 << 19)
    /// 2A35 bits 3-4 = 2: the pulse rate is below the lower limit.
    public static let pulseRateTooLow = ReadingStatus(rawValue: 1 << 20)
    /// 2A35 bit 5: improper measurement position.
    public static let improperPosition = ReadingStatus(rawValue: 1 << 21)

    /// 2AA7 bit 9: the sensor may not be calibrated now.
    public static let calibrationNotAllowed = ReadingStatus(rawValue: 1 << 22)
    /// 2AA7 bit 10: the sensor is better calibrated.
    public static let calibrationRecommended = ReadingStatus(rawValue: 1 << 23)
    /// 2AA7 bit 11: the sensor must be calibrated.
    public static let calibrationRequired = ReadingStatus(rawValue: 1 << 24)
    /// 2AA7 bit 16: below the low level that is set in the sensor for its patient.
    public static let belowPatientLow = ReadingStatus(rawValue: 1 << 25)
    /// 2AA7 bit 17: above the high level that is set in the sensor for its patient.
    public static let abovePatientHigh = ReadingStatus(rawValue: 1 << 26)
    /// 2AA7 bit 18: below the hypo level that is set in the sensor.
    public static let belowHypo = ReadingStatus(rawValue: 1 << 27)
    /// 2AA7 bit 19: above the hyper level that is set in the sensor.
    public static let aboveHyper = ReadingStatus(rawValue: 1 << 28)
    /// 2AA7 bit 20: it falls faster than is set in the sensor.
    public static let rateOfDecreaseExceeded = ReadingStatus(rawValue: 1 << 29)
    /// 2AA7 bit 21: it rises faster than is set in the sensor.
    public static let rateOfIncreaseExceeded = ReadingStatus(rawValue: 1 << 30)

    /// The device itself doubts the value: it calls it questionable or an early estimate, or says that its signal is weak or
    /// disturbed. Measurement Status of 2A5E and 2A5F (bits 6, 14) and 2B8B (1, 5), and Device and Sensor Status of 2A5E and
    /// 2A5F. This is the last bit; which doubt it was, the frame says.
    public static let questionable = ReadingStatus(rawValue: 1 << 31)

    /// Bits that say the measurement itself failed, so that its number is no value of the patient.
    public static let measurementFailed: ReadingStatus = [
        .sensorMalfunction, .sampleInsufficient, .stripInsertionError, .stripTypeIncorrect, .readInterrupted,
        .generalFault, .sessionStopped, .sensorTypeIncorrect,
    ]

    private static let all: [(ReadingStatus, String)] = [
        (.deviceBatteryLow, "device_battery_low"), (.sensorMalfunction, "sensor_malfunction"),
        (.sampleInsufficient, "sample_insufficient"), (.stripInsertionError, "strip_insertion_error"),
        (.stripTypeIncorrect, "strip_type_incorrect"), (.resultTooHigh, "result_too_high"),
        (.resultTooLow, "result_too_low"), (.temperatureTooHigh, "temperature_too_high"),
        (.temperatureTooLow, "temperature_too_low"), (.readInterrupted, "read_interrupted"),
        (.generalFault, "general_fault"), (.timeFault, "time_fault"), (.bodyMovement, "body_movement"),
        (.cuffTooLoose, "cuff_too_loose"), (.irregularPulse, "irregular_pulse"),
        (.pulseRateTooHigh, "pulse_rate_too_high"), (.pulseRateTooLow, "pulse_rate_too_low"),
        (.improperPosition, "improper_position"), (.sessionStopped, "session_stopped"),
        (.sensorTypeIncorrect, "sensor_type_incorrect"), (.deviceSpecificAlert, "device_specific_alert"),
        (.timeSynchronizationRequired, "time_synchronization_required"),
        (.calibrationNotAllowed, "calibration_not_allowed"), (.calibrationRecommended, "calibration_recommended"),
        (.calibrationRequired, "calibration_required"), (.belowPatientLow, "below_patient_low"),
        (.abovePatientHigh, "above_patient_high"), (.belowHypo, "below_hypo"), (.aboveHyper, "above_hyper"),
        (.rateOfDecreaseExceeded, "rate_of_decrease_exceeded"), (.rateOfIncreaseExceeded, "rate_of_increase_exceeded"),
        (.questionable, "questionable"),
    ]

    /// The names of the set bits, those of 2A18 first, then those of 2A35 and those that 2AA7 alone has, each in the order
    /// of their bits, and `questionable` last: `irregular_pulse`, …
    public var names: [String] { Self.all.compactMap { contains($0.0) ? $0.1 : nil } }

    /// The bits with these names; `nil` if one is no bit's.
    ///
    /// - Parameter names: names as ``names`` gives them.
    public init?(names: [some StringProtocol]) {
        self = []
        for name in names {
            guard let bit = Self.all.first(where: { $0.1 == name }) else { return nil }
            formUnion(bit.0)
        }
    }
}
