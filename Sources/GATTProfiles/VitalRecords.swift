import HealthReadings

extension HeartRateMeasurement: RecordCoding {
    /// The intervals in milliseconds, to a hundredth: the service's own resolution is a 1024th of a second.
    public var intervalMilliseconds: [ExactDecimal] {
        intervals.compactMap {
            ExactDecimal(significand: Int64($0) * 1000).divided(by: ExactDecimal(significand: 1024), places: 2)
        }
    }

    /// The record this is. A strap that says it does not touch the skin has no value of a person.
    public var record: Record {
        let rate = Quantity(ExactDecimal(significand: Int64(beatsPerMinute)), .beatsPerMinute)
        let value = VitalValue(
            kind: .heartRate, [.init(.heartRate, rate)], intervals: intervalMilliseconds, hasContact: hasContact)
        let isPlausible = Plausibility.isPlausible(value)
        return Record(
            value: .vital(value), exclusion: beatsPerMinute == 0 ? .noValue : isPlausible ? nil : .implausible)
    }
}

extension SaturationAndPulse {
    fileprivate func record(_ status: PulseOximeterStatus, baseTime: WallTime?) -> Record {
        let saturation = Quantity(saturation.number, .percent)
        let value = VitalValue(
            kind: .spo2,
            [.init(.saturation, saturation), .init(.pulse, Quantity(pulseRate.number, .beatsPerMinute))])
        let verdict = status.verdict
        var exclusion: Exclusion?
        if let failed = verdict.exclusion {
            exclusion = failed
        } else if saturation.number.number == nil {
            exclusion = .notANumber
        } else if !Plausibility.isPlausible(value) {
            exclusion = .implausible
        }
        return Record(value: .vital(value), baseTime: baseTime, status: verdict.status, exclusion: exclusion)
    }
}

extension PulseOximeterSpotCheck: RecordCoding {
    /// The record this is. A clock that was never set gives no time.
    public var record: Record { value.record(status, baseTime: clockIsNotSet ? nil : timeStamp?.wallTime) }
}

extension PulseOximeterContinuous: RecordCoding {
    /// The record this is: the normal response.
    public var record: Record { normal.record(status, baseTime: nil) }
}

extension TemperatureMeasurement: RecordCoding {
    /// The record this is.
    public var record: Record {
        let quantity = Quantity(temperature.number, isFahrenheit ? .degreesFahrenheit : .degreesCelsius)
        let value = VitalValue(kind: .temperature, [.init(.temperature, quantity)], site: siteName)
        return Record(
            value: .vital(value), baseTime: timeStamp?.wallTime,
            exclusion: quantity.number.number == nil
                ? .notANumber : Plausibility.isPlausible(value) ? nil : .implausible)
    }
}

extension WeightMeasurement: RecordCoding {
    /// The record this is.
    public var record: Record {
        var quantities = [VitalValue.Measured(.weight, weight)]
        if let stature {
            quantities.append(
                .init(
                    .bodyMassIndex,
                    Quantity(
                        ExactDecimal(significand: Int64(stature.bodyMassIndex), exponent: -1), .kilogramsPerSquareMetre)
                ))
            quantities.append(.init(.height, Self.height(stature.height, isImperial: isImperial)))
        }
        let value = VitalValue(kind: .weight, quantities)
        return Record(
            value: .vital(value), baseTime: timeStamp?.wallTime, userSlot: userID == Self.unknownUser ? nil : userID,
            exclusion: rawWeight == Self.failed ? .errorRecord : Plausibility.isPlausible(value) ? nil : .implausible)
    }

    static func height(_ raw: UInt16, isImperial: Bool) -> Quantity {
        isImperial
            ? Quantity(ExactDecimal(significand: Int64(raw), exponent: -1), .inches)
            : Quantity(ExactDecimal(significand: Int64(raw), exponent: -3), .metres)
    }
}

extension BodyCompositionMeasurement: RecordCoding {
    /// The record this is.
    public var record: Record {
        var quantities = [VitalValue.Measured(.bodyFat, bodyFat)]
        for field in Field.allCases {
            if let quantity = quantity(field) { quantities.append(.init(field.part, quantity)) }
        }
        let value = VitalValue(kind: .bodyComposition, quantities)
        return Record(
            value: .vital(value), baseTime: timeStamp?.wallTime,
            userSlot: userID == WeightMeasurement.unknownUser ? nil : userID,
            exclusion: rawBodyFat == Self.failed ? .errorRecord : Plausibility.isPlausible(value) ? nil : .implausible)
    }
}

extension BodyCompositionMeasurement.Field {
    fileprivate var part: VitalValue.Part {
        switch self {
        case .basalMetabolism: .basalMetabolism
        case .musclePercentage: .musclePercentage
        case .muscleMass: .muscleMass
        case .fatFreeMass: .fatFreeMass
        case .softLeanMass: .softLeanMass
        case .bodyWaterMass: .bodyWaterMass
        case .impedance: .impedance
        case .weight: .weight
        case .height: .height
        }
    }
}
