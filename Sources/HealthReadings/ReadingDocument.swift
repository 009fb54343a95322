extension Reading {
    /// The reading as the command line, the local API and the page show it: every key always there, null when absent.
    public var document: JSONValue {
        record.document(
            id: .string(id.description), device: device.document, provider: .string(device.provider), time: time,
            context: context, person: person, excluded: excluded, leftOut: leftOut, deliveries: deliveries)
    }
}

extension Record {
    /// The record alone, as `decode` prints it: id, device, provider and time are null.
    public func document(context: GlucoseContext? = nil) -> JSONValue {
        document(
            id: nil, device: nil, provider: nil, time: nil, context: context, person: nil, excluded: exclusion,
            deliveries: [])
    }

    func document(
        id: JSONValue, device: JSONValue, provider: JSONValue, time: ResolvedTime?, context: GlucoseContext?,
        person: String?, excluded: Exclusion?, leftOut: FigureOmission? = nil, deliveries: [DestinationDelivery]
    ) -> JSONValue {
        var members: [JSONValue.Member] = [
            .init("id", id),
            .init("kind", .string(value.kind.rawValue)),
            .init("device", device),
            .init("provider", provider),
            .init("sequence", .optional(sequence)),
            .init("base_time", .optional(baseTime?.description)),
            .init("time_offset_minutes", .optional(timeOffsetMinutes)),
            .init("device_time", .optional(deviceTime?.description)),
            .init("time", .optional(time?.instant?.description)),
            .init("time_basis", .string((time?.basis ?? .unknown).rawValue)),
            .init("time_uncertainty_minutes", .optional(time?.uncertaintyMinutes)),
            .init("clock", time?.clock?.document ?? .null),
        ]
        switch value {
        case .glucose(let glucose):
            members += [
                .init("glucose", glucose.concentration?.document ?? .null),
                .init("sample_type", .optional(glucose.sampleType?.name)),
                .init("sample_location", .optional(glucose.sampleLocation?.name)),
                .init("context", context?.document ?? .null),
            ]
            members += glucose.continuous?.members ?? []
        case .bloodPressure(let pressure):
            members += [
                .init(
                    "blood_pressure",
                    .object([
                        "systolic": pressure.systolic.document,
                        "diastolic": pressure.diastolic.document,
                        "mean": pressure.meanArterial.document,
                    ])),
                .init("pulse", pressure.pulse?.document ?? .null),
            ]
        case .vital(let vital): members += vital.members
        case .kept(let sample): members += sample.members
        }
        if let sensor { members += sensor.members }
        if let entry { members += entry.members }
        if let imported { members += imported.members }
        if let leftOut { members += leftOut.members }
        members += [
            .init("user", .optional(userSlot)),
            .init("status", .array(status.names.map(JSONValue.string))),
            .init("omitted", .object(omissions(context))),
            .init("person", .optional(person)),
            .init("excluded", .optional(excluded?.rawValue)),
            .init("deliveries", .array(deliveries.map(\.document))),
        ]
        return .object(members)
    }
}

extension Record {
    /// The quantities that were sent and have no number, by name, each with its reason: `not_a_number` or `implausible`.
    func omissions(_ context: GlucoseContext?) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = []
        func add(_ name: String, _ quantity: Quantity?) {
            guard let absence = quantity?.number.absence else { return }
            members.append(.init(name, .string(absence.rawValue)))
        }
        switch value {
        case .glucose(let glucose):
            add("glucose", glucose.concentration)
            add("trend", glucose.continuous?.trend)
            add("quality", glucose.continuous?.quality)
            add("carbohydrate", context?.carbohydrate?.amount)
            if let exercise = context?.exercise, exercise.plausibleIntensity == nil {
                members.append(.init("intensity_percent", .string(Exclusion.implausible.rawValue)))
            }
            add("medication", context?.medication?.amount)
            add("hba1c", context?.hba1c)
        case .bloodPressure(let pressure):
            add("systolic", pressure.systolic)
            add("diastolic", pressure.diastolic)
            add("mean", pressure.meanArterial)
            add("pulse", pressure.pulse)
        case .vital(let vital):
            for measured in vital.quantities { add(measured.part.name, measured.quantity) }
        case .kept: break
        }
        return members
    }
}

extension ContinuousGlucoseFacts {
    /// What a continuous sensor's reading shows besides: `trend` and `quality`.
    var members: [JSONValue.Member] {
        [.init("trend", trend?.document ?? .null), .init("quality", quality?.document ?? .null)]
    }
}

extension SensorFacts {
    /// What a sensor's reading shows besides: `source`, `minute`, `raw` and `calibration`.
    var members: [JSONValue.Member] {
        [
            .init("source", .string(source.name)), .init("minute", .integer(Int64(minute))),
            .init(
                "raw",
                .object([
                    "glucose": .integer(Int64(glucose)), "temperature": .integer(Int64(temperature)),
                    "adjustment": .integer(Int64(adjustment)), "quality": .integer(Int64(quality)),
                    "flags": .integer(Int64(flags)), "error": .bool(hasError),
                ])),
            .init("calibration", .string(calibration.name)),
        ]
    }
}

extension DeviceDescription {
    /// `{"address", "model", "serial"}`.
    public var document: JSONValue {
        .object(["address": .optional(address?.description), "model": .optional(model), "serial": .optional(serial)])
    }
}

extension ClockComparison {
    /// `{"difference_seconds", "read_at"}`.
    public var document: JSONValue {
        .object([
            "difference_seconds": .integer(differenceSeconds), "read_at": .string(readAt.flooredToSecond.description),
        ])
    }
}

extension Quantity {
    /// `{"value", "unit"}`; null where there is no number, never a stand-in for one.
    public var document: JSONValue {
        guard let number = number.number else { return .null }
        return .object(["value": .number(number), "unit": .string(unit.symbol)])
    }
}

extension GlucoseContext {
    /// Every key of the context, null where the person told nothing.
    public var document: JSONValue {
        .object([
            "carbohydrate": carbohydrate?.document ?? .null,
            "meal": .optional(meal),
            "tester": .optional(tester),
            "health": .optional(health),
            "exercise": exercise.map {
                .object(["seconds": .optional($0.seconds), "intensity_percent": .optional($0.plausibleIntensity)])
            } ?? .null,
            "medication": medication?.document ?? .null,
            "hba1c": hba1c?.number.number.map(JSONValue.number) ?? .null,
        ])
    }
}

extension GlucoseContext.Intake {
    /// `{"id", "value", "unit"}`; the value is null where the meter sent none.
    public var document: JSONValue {
        .object([
            "id": .string(id), "value": amount.number.number.map(JSONValue.number) ?? .null,
            "unit": .string(amount.unit.symbol),
        ])
    }
}
