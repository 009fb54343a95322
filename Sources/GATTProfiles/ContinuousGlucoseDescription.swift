import HealthReadings

/// The values of the CGM service as `healthrelay decode` shows them.
extension ContinuousGlucoseMeasurement {
    var document: JSONValue {
        .object([
            "glucose": Quantity(concentration.number, .milligramsPerDecilitre).document,
            "time_offset_minutes": .integer(Int64(timeOffset)),
            "status": .array(annunciation.readingStatus.names.map(JSONValue.string)),
            "trend": trend.map { Quantity($0.number, .milligramsPerDecilitrePerMinute).document } ?? .null,
            "quality": quality.map { Quantity($0.number, .percent).document } ?? .null,
        ])
    }
}

extension ContinuousGlucoseFeature: DocumentCoding {
    var document: JSONValue {
        .object([
            "features": .array(names.map(JSONValue.string)), "sample_type": .string(type.name),
            "sample_location": .string(location.name),
        ])
    }
}

extension ContinuousGlucoseStatus: DocumentCoding {
    var document: JSONValue {
        .object([
            "time_offset_minutes": .integer(Int64(timeOffset)),
            "status": .array(annunciation.readingStatus.names.map(JSONValue.string)),
        ])
    }
}

extension ContinuousGlucoseSessionStart: DocumentCoding {
    var document: JSONValue {
        .object([
            "date_time": .optional(dateTime.wallTime?.description),
            "time_zone_minutes": .optional(zone.standardOffsetMinutes),
            "dst_offset_minutes": .optional(zone.daylightSavingMinutes),
        ])
    }
}

extension ContinuousGlucoseRunTime: DocumentCoding {
    var document: JSONValue { .object(["session_run_time_hours": .integer(Int64(hours))]) }
}

extension ContinuousGlucoseAnswer: DocumentCoding {
    var document: JSONValue {
        var (response, minutes): (String, UInt8?) = ("response_code", nil)
        var (level, requestOpCode, code): (Quantity?, UInt8?, UInt8?) = (nil, nil, nil)
        switch self {
        case .communicationInterval(let interval):
            (response, minutes) = (ContinuousGlucoseQuestion.communicationInterval.name, interval)
        case .level(let question, let number):
            let isRate = question == .rateOfDecreaseAlert || question == .rateOfIncreaseAlert
            response = question.name
            level = Quantity(number.number, isRate ? .milligramsPerDecilitrePerMinute : .milligramsPerDecilitre)
        case .response(let request, let result): (requestOpCode, code) = (request, result)
        }
        return .object([
            "response": .string(response), "communication_interval_minutes": .optional(minutes),
            "level": level?.document ?? .null, "request_op_code": .optional(requestOpCode),
            "response_code": .optional(code),
        ])
    }
}
