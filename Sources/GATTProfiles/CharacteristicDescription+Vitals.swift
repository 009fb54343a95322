import HealthReadings

extension HeartRateMeasurement {
    /// The intervals in milliseconds, to a hundredth: the service's own resolution is a 1024th of a second.
    public var intervalMilliseconds: [ExactDecimal] {
        intervals.compactMap {
            ExactDecimal(significand: Int64($0) * 1000).divided(by: ExactDecimal(significand: 1024), places: 2)
        }
    }

    var document: JSONValue {
        .object([
            "heart_rate": Quantity(ExactDecimal(significand: Int64(beatsPerMinute)), .beatsPerMinute).document,
            "rr_ms": .array(intervalMilliseconds.map(JSONValue.number)),
            "contact": hasContact.map(JSONValue.bool) ?? .null, "energy_kj": .optional(energyExpended),
        ])
    }
}

extension SaturationAndPulse {
    /// `{"spo2", "pulse"}`.
    var document: JSONValue {
        .object([
            "spo2": Quantity(saturation.number, .percent).document,
            "pulse": Quantity(pulseRate.number, .beatsPerMinute).document,
        ])
    }
}

extension PulseOximeterSpotCheck {
    var document: JSONValue {
        .object([
            "spo2": Quantity(value.saturation.number, .percent).document,
            "pulse": Quantity(value.pulseRate.number, .beatsPerMinute).document,
            "date_time": .optional(timeStamp?.wallTime?.description),
            "status": .array(status.names.map(JSONValue.string)),
            "pulse_amplitude_index": pulseAmplitudeIndex.map { Quantity($0.number, .percent).document } ?? .null,
        ])
    }
}

extension PulseOximeterContinuous {
    var document: JSONValue {
        .object([
            "spo2": Quantity(normal.saturation.number, .percent).document,
            "pulse": Quantity(normal.pulseRate.number, .beatsPerMinute).document,
            "fast": fast?.document ?? .null, "slow": slow?.document ?? .null,
            "status": .array(status.names.map(JSONValue.string)),
            "pulse_amplitude_index": pulseAmplitudeIndex.map { Quantity($0.number, .percent).document } ?? .null,
        ])
    }
}

extension TemperatureMeasurement {
    var document: JSONValue {
        .object([
            "temperature": Quantity(temperature.number, isFahrenheit ? .degreesFahrenheit : .degreesCelsius).document,
            "date_time": .optional(timeStamp?.wallTime?.description), "site": .optional(siteName),
        ])
    }
}

extension WeightMeasurement {
    var document: JSONValue {
        .object([
            "weight": weight.document, "date_time": .optional(timeStamp?.wallTime?.description),
            "user": .optional(userID == Self.unknownUser ? nil : userID),
            "body_mass_index": stature.map { .number(ExactDecimal(significand: Int64($0.bodyMassIndex), exponent: -1)) }
                ?? .null,
            "height": stature.map { stature in
                isImperial
                    ? Quantity(ExactDecimal(significand: Int64(stature.height), exponent: -1), .inches).document
                    : Quantity(ExactDecimal(significand: Int64(stature.height), exponent: -3), .metres).document
            } ?? .null,
        ])
    }
}

extension BodyCompositionMeasurement {
    var document: JSONValue {
        let fields = Field.allCases.map { JSONValue.Member($0.name, quantity($0)?.document ?? .null) }
        return .object(
            [
                .init("body_fat", bodyFat.document), .init("date_time", .optional(timeStamp?.wallTime?.description)),
                .init("user", .optional(userID == WeightMeasurement.unknownUser ? nil : userID)),
            ] + fields)
    }
}

extension ContinuousGlucoseMeasurement {
    var document: JSONValue {
        .object([
            "glucose": Quantity(concentration.number, .milligramsPerDecilitre).document,
            "time_offset_minutes": .integer(Int64(timeOffset)), "status": .optional(status),
            "calibration": .optional(calibration), "warning": .optional(warning),
            "trend": trend?.number.number.map(JSONValue.number) ?? .null,
            "quality": quality?.number.number.map(JSONValue.number) ?? .null,
        ])
    }
}

extension ContinuousGlucoseSessionStart {
    var document: JSONValue {
        .object([
            "date_time": .optional(dateTime.wallTime?.description),
            "time_zone_minutes": .optional(zone.standardOffsetMinutes),
            "dst_offset_minutes": .optional(zone.daylightSavingMinutes),
        ])
    }
}
