import HealthReadings

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
