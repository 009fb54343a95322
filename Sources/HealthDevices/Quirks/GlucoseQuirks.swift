import GATTProfiles
import HealthReadings

extension GlucoseMeasurement {
    /// How many records a TaiDoc meter keeps: its numbers are 0 … 449.
    static let fullTaiDocMemory: UInt16 = 450
    /// Meters show "high" above this many mg/dL (33.3 mmol/L).
    private static let highest = ExactDecimal(significand: 600)
    private static let highestMolar = ExactDecimal(significand: 333, exponent: -1)

    /// What the measurement is with the quirks of a model.
    func decoded(by model: DeviceModel) -> DecodedFrame {
        if model.has(.emptyPartners), isEmptyPartner { return .nothing }
        var measurement = self
        if model.has(.monthThirteen), baseTime.month == 13 { measurement.baseTime.month = 1 }
        var record = measurement.record
        if model.has(.fullMemoryAddsHigh), sequenceNumber >= Self.fullTaiDocMemory, saysHigh {
            record.exclusion = .errorRecord
        }
        // Without a time of its own a number is better than nothing.
        if model.has(.numbersByAge), record.baseTime != nil { record.sequence = nil }
        return .record(record)
    }

    /// Whether this is the empty record behind another: numbered FFFF without a value, or with FFFF in place of one.
    var isEmptyPartner: Bool {
        guard let concentration else { return sequenceNumber == .max }
        return concentration.value.rawValue == .max
    }

    /// Whether the meter shows "high" for it.
    private var saysHigh: Bool {
        guard let concentration else {
            return ReadingStatus(rawValue: UInt32(sensorStatus ?? 0)).contains(.resultTooHigh)
        }
        let quantity = concentration.quantity
        guard let number = quantity.number.number else { return quantity.number == .positiveInfinity }
        let limit = quantity.unit == .millimolesPerLitre ? Self.highestMolar : Self.highest
        return ReadingStatus(rawValue: UInt32(sensorStatus ?? 0)).contains(.resultTooHigh)
            || number.approximation > limit.approximation
    }

    /// Whether these octets of 2A18 are such an empty record; false for what is no record at all.
    package static func isEmptyPartner(_ octets: [UInt8]) -> Bool {
        (try? GlucoseMeasurement(decoding: octets))?.isEmptyPartner ?? false
    }
}

extension GlucoseMeasurementContext {
    /// The reserved meal by which i-SENS meters say "ketone".
    static let ketoneMeal: UInt8 = 6

    /// What the context is with the quirks of a model.
    func decoded(by model: DeviceModel) -> DecodedFrame {
        var context = context
        context.isOfKetone = model.has(.mealSixIsKetone) && meal == Self.ketoneMeal
        return .glucoseContext(sequence: sequenceNumber, context)
    }
}
