import HealthReadings

extension StandardFrameDecoder {
    /// A value of a characteristic that is no measurement, as `healthrelay decode` shows it: fields by name, every
    /// key always there, null where unknown or not sent.
    ///
    /// Records have a document of their own, see `Record.document()`, and are `nil` here, as is a characteristic this
    /// module does not know.
    ///
    /// - Throws: `MalformedFrame` where the octets are no such value.
    public func describe(characteristic: UInt16, octets: [UInt8]) throws(MalformedFrame) -> JSONValue? {
        try ServiceProfile.readers[characteristic]?.describe?(octets)
    }

    /// Whether ``describe(characteristic:octets:)`` or ``decode(_:model:)`` has something to say of a characteristic.
    public static func knows(characteristic: UInt16) -> Bool { ServiceProfile.readers[characteristic] != nil }

    /// The characteristics this module reads, by assigned number, in ascending order.
    public static let knownCharacteristics: [UInt16] = ServiceProfile.readers.keys.sorted()
}

extension DateTime: ClockCoding {
    var document: JSONValue { .object(["date_time": .optional(wallTime?.description)]) }
}

extension CurrentTime: ClockCoding {
    var document: JSONValue {
        .object([
            "date_time": .optional(wallTime?.description), "day_of_week": .optional(dayName),
            "fractions_256": .integer(Int64(fractions256)),
            "adjust_reason": .array(adjustReason.names.map(JSONValue.string)),
        ])
    }
}

extension LocalTimeInformation: DocumentCoding {
    var document: JSONValue {
        .object([
            "time_zone_minutes": .optional(standardOffsetMinutes),
            "dst_offset_minutes": .optional(daylightSavingMinutes),
        ])
    }
}

extension GlucoseFeature: DocumentCoding {
    var document: JSONValue { .object(["features": .array(names.map(JSONValue.string))]) }
}

extension BloodPressureFeature: DocumentCoding {
    var document: JSONValue { .object(["features": .array(names.map(JSONValue.string))]) }
}

extension BatteryLevel: DocumentCoding {
    var document: JSONValue { .object(["battery_percent": .optional(percent)]) }
}

extension GlucoseMeasurementContext {
    var document: JSONValue {
        var members = [JSONValue.Member("sequence", .integer(Int64(sequenceNumber)))]
        if case .object(let fields) = context.document { members += fields }
        return .object(members)
    }
}

extension SystemID: DocumentCoding {
    var document: JSONValue {
        .object([
            "manufacturer_identifier": .string(String(manufacturerIdentifier, digits: 10, radix: 16)),
            "organizationally_unique_identifier": .string(
                String(organizationallyUniqueIdentifier, digits: 6, radix: 16)),
        ])
    }
}

extension RecordAccessResponse {
    var document: JSONValue {
        var (opCode, count): (UInt8?, UInt16?)
        var result: String?
        switch self {
        case .numberOfRecords(let number): count = number
        case .succeeded(let request): (opCode, result) = (request, "success")
        case .failed(let request, let error): (opCode, result) = (request, error.code)
        }
        return .object([
            "response": .string(count == nil ? "response_code" : "number_of_stored_records"),
            "number_of_records": .optional(count), "request_op_code": .optional(opCode), "result": .optional(result),
        ])
    }
}

extension RecordAccessRequest {
    var document: JSONValue {
        switch self {
        case .report(let selection): selection.document(request: "report_stored_records")
        case .count(let selection): selection.document(request: "report_number_of_stored_records")
        case .abort: RecordSelection.document(request: "abort_operation", operator: nil)
        }
    }
}

extension RecordSelection {
    fileprivate func document(request: String) -> JSONValue {
        switch self {
        case .all: Self.document(request: request, operator: "all_records")
        case .atMost(let bound):
            Self.document(request: request, operator: "less_than_or_equal_to", filter: bound.filter, to: bound.document)
        case .atLeast(let bound):
            Self.document(
                request: request, operator: "greater_than_or_equal_to", filter: bound.filter, from: bound.document)
        case .sequenceNumbers(let from, let to):
            Self.document(
                request: request, operator: "within_range", filter: "sequence_number", from: .integer(Int64(from)),
                to: .integer(Int64(to)))
        case .userFacingTimes(let from, let to):
            Self.document(
                request: request, operator: "within_range", filter: "user_facing_time",
                from: .optional(from.wallTime?.description), to: .optional(to.wallTime?.description))
        case .first: Self.document(request: request, operator: "first_record")
        case .last: Self.document(request: request, operator: "last_record")
        }
    }

    fileprivate static func document(
        request: String, operator: String?, filter: String? = nil, from: JSONValue = nil, to: JSONValue = nil
    ) -> JSONValue {
        .object([
            "request": .string(request), "operator": .optional(`operator`), "filter": .optional(filter), "from": from,
            "to": to,
        ])
    }
}

extension RecordSelection.Bound {
    fileprivate var filter: String {
        switch self {
        case .sequenceNumber: "sequence_number"
        case .userFacingTime: "user_facing_time"
        }
    }

    fileprivate var document: JSONValue {
        switch self {
        case .sequenceNumber(let number): .integer(Int64(number))
        case .userFacingTime(let time): .optional(time.wallTime?.description)
        }
    }
}
