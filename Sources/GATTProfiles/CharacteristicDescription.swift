import HealthReadings

extension StandardFrameDecoder {
    /// A value of a characteristic that is no measurement, as `healthrelay decode` shows it: fields by name, every
    /// key always there, null where unknown or not sent.
    ///
    /// Records (2A18, 2A35, 2A36, 2A37, 2A5E, 2A5F, 2A1C, 2A9D, 2A9C) have a document of their own, see `Record.document()`, and are nil here, as is a
    /// characteristic this module does not know.
    /// - Throws: ``MalformedFrame`` where the octets are no such value.
    public func describe(characteristic: UInt16, octets: [UInt8]) throws(MalformedFrame) -> JSONValue? {
        if let kind = DeviceInformationString.Kind(rawValue: characteristic) {
            let value = DeviceInformationString(decoding: octets)
            return .object([kind.name: .string(value.text)])
        }
        switch characteristic {
        case DateTime.assignedNumber: return try DateTime(decoding: octets).document
        case CurrentTime.assignedNumber: return try CurrentTime(decoding: octets).document
        case LocalTimeInformation.assignedNumber: return try LocalTimeInformation(decoding: octets).document
        case GlucoseMeasurementContext.assignedNumber: return try GlucoseMeasurementContext(decoding: octets).document
        case GlucoseFeature.assignedNumber: return names(try GlucoseFeature(decoding: octets).names)
        case BloodPressureFeature.assignedNumber: return names(try BloodPressureFeature(decoding: octets).names)
        case SystemID.assignedNumber: return try SystemID(decoding: octets).document
        case BatteryLevel.assignedNumber:
            return .object(["battery_percent": .optional(try BatteryLevel(decoding: octets).percent)])
        case RecordAccessResponse.assignedNumber: return try describeRecordAccess(octets)
        case ContinuousGlucoseMeasurement.assignedNumber:
            let values = try ContinuousGlucoseMeasurement.all(in: octets.span.bytes)
            return .object(["measurements": .array(values.map(\.document))])
        case ContinuousGlucoseFeature.assignedNumber: return try ContinuousGlucoseFeature(decoding: octets).document
        case ContinuousGlucoseStatus.assignedNumber: return try ContinuousGlucoseStatus(decoding: octets).document
        case ContinuousGlucoseSessionStart.assignedNumber:
            return try ContinuousGlucoseSessionStart(decoding: octets).document
        case ContinuousGlucoseRunTime.assignedNumber: return try ContinuousGlucoseRunTime(decoding: octets).document
        case ContinuousGlucoseAnswer.assignedNumber: return try ContinuousGlucoseAnswer(decoding: octets).document
        default: return nil
        }
    }

    /// Whether ``describe(characteristic:octets:)`` or ``decode(_:model:)`` has something to say of a characteristic.
    public static func knows(characteristic: UInt16) -> Bool { knownCharacteristics.contains(characteristic) }

    /// The characteristics this module reads, by assigned number.
    public static let knownCharacteristics: [UInt16] =
        [
            DateTime.assignedNumber, LocalTimeInformation.assignedNumber, GlucoseMeasurement.assignedNumber,
            BatteryLevel.assignedNumber, SystemID.assignedNumber,
        ] + DeviceInformationString.Kind.allCases.map(\.rawValue) + [
            CurrentTime.assignedNumber, GlucoseMeasurementContext.assignedNumber,
            BloodPressureMeasurement.assignedNumber, IntermediateCuffPressure.assignedNumber,
            BloodPressureFeature.assignedNumber, GlucoseFeature.assignedNumber, RecordAccessResponse.assignedNumber,
            HeartRateMeasurement.assignedNumber, PulseOximeterSpotCheck.assignedNumber,
            PulseOximeterContinuous.assignedNumber, TemperatureMeasurement.assignedNumber,
            WeightMeasurement.assignedNumber, BodyCompositionMeasurement.assignedNumber,
            ContinuousGlucoseMeasurement.assignedNumber, ContinuousGlucoseFeature.assignedNumber,
            ContinuousGlucoseStatus.assignedNumber, ContinuousGlucoseSessionStart.assignedNumber,
            ContinuousGlucoseRunTime.assignedNumber, ContinuousGlucoseAnswer.assignedNumber,
        ]

    private func names(_ names: [String]) -> JSONValue { .object(["features": .array(names.map(JSONValue.string))]) }

    private func describeRecordAccess(_ octets: [UInt8]) throws(MalformedFrame) -> JSONValue {
        // Op codes of answers are 5 and 6, those of requests are below.
        guard let opCode = octets.first, opCode < 5 else { return try RecordAccessResponse(decoding: octets).document }
        return try RecordAccessRequest(decoding: octets).document
    }
}

extension DateTime {
    fileprivate var document: JSONValue { .object(["date_time": .optional(wallTime?.description)]) }
}

extension CurrentTime {
    fileprivate var document: JSONValue {
        .object([
            "date_time": .optional(wallTime?.description), "day_of_week": .optional(dayName),
            "fractions_256": .integer(Int64(fractions256)),
            "adjust_reason": .array(adjustReason.names.map(JSONValue.string)),
        ])
    }
}

extension LocalTimeInformation {
    fileprivate var document: JSONValue {
        .object([
            "time_zone_minutes": .optional(standardOffsetMinutes),
            "dst_offset_minutes": .optional(daylightSavingMinutes),
        ])
    }
}

extension GlucoseMeasurementContext {
    fileprivate var document: JSONValue {
        var members = [JSONValue.Member("sequence", .integer(Int64(sequenceNumber)))]
        if case .object(let fields) = context.document { members += fields }
        return .object(members)
    }
}

extension SystemID {
    fileprivate var document: JSONValue {
        func hex(_ value: UInt64, _ digits: Int) -> JSONValue {
            let text = String(value, radix: 16)
            return .string(String(repeating: "0", count: digits - text.count) + text)
        }
        return .object([
            "manufacturer_identifier": hex(manufacturerIdentifier, 10),
            "organizationally_unique_identifier": hex(UInt64(organizationallyUniqueIdentifier), 6),
        ])
    }
}

extension RecordAccessResponse {
    fileprivate var document: JSONValue {
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
    fileprivate var document: JSONValue {
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
