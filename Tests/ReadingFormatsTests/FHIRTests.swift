import Foundation
import HealthReadings
import TestSupport
import Testing

@testable import ReadingFormats

@Suite("FHIR Observations and their bundle")
struct FHIRTests {
    private func observations(
        _ readings: [Reading], as change: FHIRChange = .new, kind: FHIRBundle.Kind = .transaction
    ) throws -> [JSONValue] {
        var bundle = FHIRBundle(kind)
        for reading in readings { try bundle.add(reading, in: Samples.context(), as: change) }
        return resources(bundle, "Observation").filter { $0.at("code.coding.0.code") != "67975" }
    }

    private func resources(_ bundle: FHIRBundle, _ type: String) -> [JSONValue] {
        (bundle.document["entry"]?.elements ?? []).compactMap { $0["resource"] }
            .filter { $0["resourceType"]?.string == type }
    }

    private func observation(_ value: RecordValue, as change: FHIRChange = .new) throws -> JSONValue {
        try #require(try observations([Samples.reading(value)], as: change).first)
    }

    private func codes(_ concept: JSONValue?) -> [String] {
        (concept?["coding"]?.elements ?? []).compactMap { $0["code"]?.string }
    }

    // MARK: - Codes and units

    @Test(
        "each specimen has its code, and LOINC follows the unit",
        arguments: [
            (GlucoseSampleType.capillaryWholeBlood, "160184", "41653-7", "14743-9"),
            (.capillaryPlasma, "160188", "41653-7", "14743-9"), (.venousWholeBlood, "160192", "2339-0", "15074-8"),
            (.venousPlasma, "160196", "2345-7", "14749-6"), (.arterialWholeBlood, "160200", "2339-0", "15074-8"),
            (.arterialPlasma, "160204", "2345-7", "14749-6"), (.undeterminedWholeBlood, "160364", "2339-0", "15074-8"),
            (.undeterminedPlasma, "160368", "2345-7", "14749-6"), (.interstitialFluid, "160212", "99504-3", "105272-9"),
        ])
    func specimens(sample: GlucoseSampleType, mdc: String, mass: String, molar: String) throws {
        let inMass = try observation(Samples.glucose(sample: sample))
        #expect(codes(inMass["code"]) == [mdc, mass])
        let inMoles = try observation(Samples.glucose("5.9", .millimolesPerLitre, sample: sample))
        #expect(codes(inMoles["code"]) == [mdc, molar])
    }

    @Test("glucose of an unknown specimen has the general code and no LOINC")
    func unknownSpecimen() throws {
        #expect(codes(try observation(Samples.glucose(sample: .reserved, location: nil))["code"]) == ["160020"])
    }

    @Test("numbers keep the digits of the device", arguments: ["127.0", "5.90", "0.5", "98"])
    func digits(text: String) throws {
        let value = try observation(Samples.glucose(text)).at("valueQuantity.value")
        #expect(value?.text == text)
    }

    @Test("each vital sign has its codes and a unit of UCUM")
    func vitalSigns() throws {
        let found = try observations(Samples.everyKind()).map { observation in
            let value = observation.at("valueQuantity").map {
                " \($0["value"]?.text ?? "") \($0["code"]?.string ?? "")"
            }
            return codes(observation["code"]).joined(separator: "+") + (value ?? "")
        }
        #expect(
            found == [
                "160184+41653-7 106 mg/dL", "150020+85354-9", "149546+8867-4 64.0 /min", "8454258+8867-4 72 /min",
                "80404-7 52.10 ms", "150456+2708-6+59408-5 97 %", "149530+8867-4 61 /min", "188428+8310-5 36.60 Cel",
                "188736+29463-7 71.205 kg", "188752+39156-5 22.5 kg/m2", "188740+8302-2 178.0 cm",
                "188748+41982-0 21.4 %", "188736+29463-7 71.200 kg", "188756 55.960 kg",
            ])
    }

    @Test(
        "a temperature has the code of its site",
        arguments: [
            ("armpit", "188452"), ("body", "150364"), ("ear", "188428"), ("finger", "188432"),
            ("gastrointestinal_tract", "188456"), ("mouth", "188424"), ("rectum", "188420"), ("toe", "188448"),
            ("tympanum", "150392"), ("reserved", "150364"),
        ])
    func temperatureSites(site: String, code: String) throws {
        let value = try Samples.vital(.temperature, [(.temperature, "97.9", .degreesFahrenheit)], site: site)
        let observation = try observation(value)
        #expect(codes(observation["code"]) == [code, "8310-5"])
        #expect(observation.at("valueQuantity.code") == "[degF]")
    }

    @Test("pressures in kPa are written in mmHg, as the vital signs profile asks, with what was measured in a note")
    func kilopascal() throws {
        let observation = try observation(
            Samples.pressures("16.9", "10.5", mean: .value(Samples.decimal("12.7")), unit: .kilopascal))
        let values = (0..<3).map { observation.at("component.\($0).valueQuantity") }
        // 16.9 × 7.500617 = 126.7604273; 10.5 × 7.500617 = 78.7564785; 12.7 × 7.500617 = 95.2578359.
        #expect(values.map { $0?["value"]?.text } == ["126.76", "78.76", "95.26"])
        #expect(values.allSatisfy { $0?["code"] == "mm[Hg]" })
        #expect(
            observation.at("note.0.text") == "Measured as systolic 16.9 kPa, diastolic 10.5 kPa, mean 12.7 kPa.")
    }

    @Test(
        "what was no number has FHIR's reason in place of a value",
        arguments: [
            (MeasuredNumber.notANumber, "not-a-number"), (.positiveInfinity, "positive-infinity"),
            (.negativeInfinity, "negative-infinity"), (.notAtThisResolution, "error"), (.reserved, "error"),
            (.implausible(ExactDecimal(significand: 9999)), "error"),
        ])
    func absentValues(number: MeasuredNumber, reason: String) throws {
        let pressures = try observation(Samples.pressures(mean: number))
        #expect(pressures.at("component.2.dataAbsentReason.coding.0.code")?.string == reason)
        #expect(!pressures.has("component.2.valueQuantity"))
        let glucose = try observation(
            .glucose(GlucoseValue(concentration: Quantity(number, .milligramsPerDecilitre))))
        #expect(glucose.at("dataAbsentReason.coding.0.code")?.string == reason)
        #expect(!glucose.has("valueQuantity"))
    }

    @Test("a context has a component for each of its parts, and bedtime is text")
    func glucoseContext() throws {
        var context = GlucoseContext()
        context.carbohydrate = .init(id: "lunch", amount: Quantity(ExactDecimal(significand: 45), .grams))
        context.meal = "bedtime"
        context.tester = "self"
        context.health = "under_stress"
        context.exercise = .init(seconds: 1800, intensityPercent: 60)
        context.medication = .init(
            id: "rapid_acting_insulin", amount: Quantity(try Samples.decimal("4.5"), .millilitres))
        context.hba1c = Quantity(try Samples.decimal("6.5"), .percent)
        var bundle = FHIRBundle()
        let omissions = try bundle.add(
            Samples.reading(Samples.glucose(location: nil), context: context), in: Samples.context())
        #expect(omissions == [FormatOmission(.noPlace, of: "context.exercise.seconds")])
        let components = try #require(resources(bundle, "Observation").first?["component"]).elements
        let found = components.map { component in
            let value = component["valueQuantity"].map { "\($0["value"]?.text ?? "") \($0["code"]?.string ?? "")" }
            let concept = component["valueCodeableConcept"].map {
                codes($0).joined() + " " + ($0["text"]?.string ?? "")
            }
            return codes(component["code"]).joined(separator: "+") + ": " + (value ?? concept ?? "")
        }
        #expect(
            found == [
                "8417772: 45 g", "8417864:  bedtime", "8417884: 8417888 self", "8417820: 8417836 under_stress",
                "8417760: 60 %", "8417800: 4.5 mL", "160220+4548-4: 6.5 %",
            ])
    }

    @Test("the bits of a status are components, and those without a code are named")
    func status() throws {
        var bundle = FHIRBundle()
        let omissions = try bundle.add(
            Samples.reading(
                Samples.glucose(location: nil), status: [.deviceBatteryLow, .resultTooLow, .timeFault]),
            in: Samples.context())
        #expect(omissions == [FormatOmission(.noPlace, of: "status.time_fault")])
        let components = try #require(resources(bundle, "Observation").first?["component"]).elements
        #expect(components.map { codes($0["code"]) } == [["8417752.0"], ["8417752.6"]])
        #expect(components.allSatisfy { $0["valueBoolean"] == true })
    }

    @Test("what the device calls questionable has the guide's interpretation, unless it is withdrawn or has no value")
    func questionable() throws {
        let saturation = try Samples.vital(.spo2, [(.saturation, "88", .percent), (.pulse, "61", .beatsPerMinute)])
        func interpretations(_ reading: Reading, as change: FHIRChange = .new) throws -> [String?] {
            try observations([reading], as: change).map { $0.at("interpretation.0.coding.0.code")?.string }
        }
        let doubted = try Samples.reading(saturation, status: .questionable)
        let found = try observations([doubted])
        #expect(found.map { $0.at("interpretation.0.coding.0.code") == "questionable" } == [true, true])
        let system = found.first?.at("interpretation.0.coding.0.system")
        #expect(system == "http://hl7.org/fhir/uv/pocd/CodeSystem/measurement-status")
        var bundle = FHIRBundle()
        let omissions = try bundle.add(doubted, in: Samples.context())
        #expect(omissions.isEmpty)
        let plain = try interpretations(Samples.reading(saturation))
        let withdrawn = try interpretations(doubted, as: .retracted)
        #expect(plain == [nil, nil] && withdrawn == [nil, nil])
        let pressure = try interpretations(
            Samples.reading(Samples.pressures(), status: [.questionable, .irregularPulse]))
        #expect(pressure == ["questionable", "questionable"])
        let missing = VitalValue(
            kind: .spo2, [.init(.saturation, Quantity(.notANumber, .percent))])
        let absent = try interpretations(Samples.reading(.vital(missing), status: .questionable))
        #expect(absent == [nil])
    }

    @Test("what has no code is named: the rest of a body composition, RMSSD, the raw signal")
    func omissions() throws {
        let context = try Samples.context()
        func omissions(_ value: RecordValue, _ sensor: SensorFacts? = nil) throws -> [String] {
            var bundle = FHIRBundle()
            return try bundle.add(Samples.reading(value, sensor: sensor), in: context).map(\.description)
        }
        #expect(
            try omissions(
                Samples.vital(
                    .bodyComposition,
                    [(.bodyFat, "21.4", .percent), (.impedance, "512", .ohms), (.height, "0.000", .metres)]))
                == ["impedance: no_place", "height: excluded"])
        #expect(
            try omissions(
                Samples.vital(.hrv, [(.rmssd, "41", .milliseconds), (.sdnn, "52", .milliseconds)], windowSeconds: 60))
                == ["rmssd: no_place", "window_seconds: no_place"])
        #expect(
            try omissions(
                Samples.vital(
                    .heartRate, [(.heartRate, "70", .beatsPerMinute)], intervals: [Samples.decimal("856.45")],
                    hasContact: true)) == ["rr_ms: no_place", "contact: no_place"])
        let sensor = SensorFacts(
            source: .history, minute: 60, glucose: 900, temperature: 6000, adjustment: 0, quality: 0, flags: 0,
            hasError: false, calibration: .factoryEstimate)
        #expect(
            try omissions(Samples.glucose(sample: .interstitialFluid, location: nil), sensor) == ["raw: no_place"])
        #expect(throws: FormatOmission(.noPlace, of: "hrv")) {
            _ = try omissions(Samples.vital(.hrv, [(.rmssd, "41", .milliseconds)]))
        }
    }

    // MARK: - Time

    @Test("a note says how a time was found that no clock vouches for")
    func timeNotes() throws {
        let reading = try Samples.reading(
            Samples.glucose(), deviceTime: nil, basis: .reception, uncertainty: 60)
        let notes = try #require(observations([reading]).first?["note"]).elements.compactMap { $0["text"]?.string }
        #expect(
            notes == [
                "The device sent no time: this is when the gateway received the measurement.",
                "The time may be 60 minutes off.",
            ])
    }

    @Test("a repeated hour is told apart by its offset")
    func repeatedHour() throws {
        let times = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
        let readings = try times.enumerated().map { try Samples.reading(Samples.glucose(), id: UInt64($0), time: $1) }
        #expect(
            try observations(readings).map { $0["effectiveDateTime"]?.string } == [
                "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00",
            ])
    }

    @Test("one clock Observation serves all readings of a contact")
    func oneClock() throws {
        var bundle = FHIRBundle()
        let clock = ClockComparison(
            differenceSeconds: 3600, readAt: try Samples.instant("2026-11-22T07:20:00.75Z"))
        for id in 1...3 {
            try bundle.add(
                Samples.reading(Samples.glucose(), id: UInt64(id), basis: .corrected, clock: clock),
                in: Samples.context())
        }
        #expect(bundle.count == 6)
        let shown = try #require(bundle.document.at("entry.2.resource"))
        #expect(shown["effectiveDateTime"] == "2026-11-22T08:20:00+01:00")
        #expect(shown["valueDateTime"] == "2026-11-22T09:20:00+01:00")
    }

    // MARK: - Identity

    @Test("two measurements of one minute are two, whatever the guide's identifier says")
    func sameMinute() throws {
        let readings = try [
            Samples.reading(Samples.glucose("106"), id: 1), Samples.reading(Samples.glucose("112"), id: 2),
        ]
        var bundle = FHIRBundle()
        for reading in readings { try bundle.add(reading, in: Samples.context()) }
        let observations = try observations(readings)
        #expect(observations[0].at("identifier.1") == observations[1].at("identifier.1"))
        let conditions = (bundle.document["entry"]?.elements ?? []).compactMap { $0.at("request.ifNoneExist") }
        #expect(Set(conditions).count == 4)
    }

    @Test("without the device's time, its address or the patient there is no identifier of the guide")
    func withoutGuideIdentifier() throws {
        let noTime = try Samples.reading(Samples.glucose(), deviceTime: nil, basis: .reception)
        #expect(try observations([noTime]).first?["identifier"]?.elements.count == 1)
        let noAddress = try Samples.reading(
            Samples.glucose(), device: DeviceDescription(address: nil, model: "libre1", serial: "0M1"))
        #expect(try observations([noAddress]).first?["identifier"]?.elements.count == 1)
        var bundle = FHIRBundle(.collection)
        try bundle.add(Samples.reading(Samples.glucose()), in: Samples.context(patient: nil))
        #expect(bundle.document.at("entry.2.resource.identifier")?.elements.count == 1)
    }

    @Test("what search and URLs give a meaning is escaped in conditions")
    func escapedConditions() throws {
        var context = try Samples.context()
        context.patient = PatientIdentifier(system: "https://clinic.example/p?a=1&b", value: "47,11|ä +%")
        var bundle = FHIRBundle()
        try bundle.add(Samples.reading(Samples.glucose()), in: context)
        #expect(
            bundle.document.at("entry.2.resource.subject.reference")
                == "Patient?identifier=https://clinic.example/p%3Fa%3D1%26b|47%5C%2C11%5C%7C%C3%A4%20%2B%25")
        #expect(bundle.document.at("entry.2.resource.subject.identifier.value") == "47,11|ä +%")
    }

    @Test("a device that measures two kinds has both, and is there once")
    func deviceOfTwoKinds() throws {
        let scale = DeviceDescription(address: DeviceAddress(bits: 77, kind: .public), model: "scale")
        var bundle = FHIRBundle()
        try bundle.add(
            Samples.reading(Samples.vital(.bodyComposition, [(.bodyFat, "20", .percent)]), id: 1, device: scale),
            in: Samples.context())
        try bundle.add(
            Samples.reading(Samples.vital(.weight, [(.weight, "70", .kilograms)]), id: 2, device: scale),
            in: Samples.context())
        let devices = resources(bundle, "Device")
        #expect(devices.count == 2)
        let specializations = devices[1]["specialization"]?.elements.map { codes($0["systemType"]) }
        #expect(specializations == [["528399"], ["528404"]])
    }

    // MARK: - Changes

    @Test(
        "a new reading is a conditional create, and a changed or withdrawn one a conditional update",
        arguments: [
            (FHIRChange.new, "final"), (.revised, "amended"), (.retracted, "entered-in-error"),
        ])
    func changes(change: FHIRChange, status: String) throws {
        var bundle = FHIRBundle()
        try bundle.add(Samples.reading(Samples.glucose()), in: Samples.context(), as: change)
        let entry = try #require(bundle.document.at("entry.2"))
        let query = "identifier=urn:ietf:rfc:3986|urn:uuid:d38a9fd2-20ce-5d8f-928c-a9c4e05c7b46"
        let expected: JSONValue =
            change == .new
            ? .object(["method": "POST", "url": "Observation", "ifNoneExist": .string(query)])
            : .object(["method": "PUT", "url": .string("Observation?" + query)])
        #expect(entry["request"] == expected)
        #expect(entry.at("resource.status")?.string == status)
        // The devices are never changed: somebody may have completed them at the server.
        #expect(bundle.document.at("entry.1.request.method") == "POST")
    }

    @Test("a withdrawn reading has no values, and the same identifiers")
    func retraction() throws {
        let reading = try Samples.reading(
            Samples.pressures(mean: .value(Samples.decimal("97"))), status: .irregularPulse, excluded: .superseded)
        let withdrawn = try observations([reading], as: .retracted)
        var valid = reading
        valid.excluded = nil
        let delivered = try observations([valid])
        #expect(withdrawn.map { $0["identifier"] } == delivered.map { $0["identifier"] })
        #expect(withdrawn.map { $0["code"] } == delivered.map { $0["code"] })
        #expect(withdrawn[0]["component"]?.elements.count == 3)
        #expect(!withdrawn.contains { $0.text.contains("valueQuantity") || $0.text.contains("valueBoolean") })
        #expect(withdrawn[1].at("dataAbsentReason.coding.0.code") == "error")
    }

    @Test("a changed context reaches the server with the same identifier")
    func revision() throws {
        var context = GlucoseContext()
        context.meal = "preprandial"
        let first = try Samples.reading(Samples.glucose())
        let second = try Samples.reading(Samples.glucose(), context: context)
        let (before, after) = (try observations([first])[0], try observations([second], as: .revised)[0])
        #expect(before["identifier"] == after["identifier"])
        #expect(!before.has("component.1"))
        #expect(after.at("component.1.valueCodeableConcept.coding.0.code") == "8417868")
    }

    @Test("the newest of a reading's revisions is the one in the bundle")
    func twiceInOneBundle() throws {
        var bundle = FHIRBundle()
        try bundle.add(Samples.reading(Samples.glucose("106")), in: Samples.context())
        try bundle.add(
            Samples.reading(Samples.glucose("106"), status: .resultTooLow), in: Samples.context(), as: .revised)
        #expect(bundle.count == 3)
        #expect(bundle.document.at("entry.2.request.method") == "PUT")
    }

    // MARK: - What can't be written

    @Test("a reading that is excluded, has no time or no value, or whose patient is not known, is refused")
    func refused() throws {
        var bundle = FHIRBundle()
        let context = try Samples.context()
        #expect(throws: FormatOmission(.excluded)) {
            try bundle.add(Samples.reading(Samples.glucose(), excluded: .controlSolution), in: context)
        }
        #expect(throws: FormatOmission(.noTime)) {
            try bundle.add(Samples.reading(Samples.glucose(), time: nil, basis: .unknown), in: context)
        }
        #expect(throws: FormatOmission(.notANumber, of: "glucose")) {
            try bundle.add(Samples.reading(.glucose(GlucoseValue(concentration: nil))), in: context)
        }
        #expect(throws: FormatOmission(.notKnown, of: "person")) {
            try bundle.add(Samples.reading(Samples.glucose()), in: Samples.context(patient: nil))
        }
        #expect(bundle.count == 0)
        #expect(bundle.document.text == #"{"resourceType":"Bundle","type":"transaction"}"#)
    }
}
