import HealthReadings
import ReadingFormats
import Testing

@Suite("Nightscout's documents")
struct NightscoutFormatTests {
    private static let moment = Instant(seconds: 1_795_331_700)

    private static func reading(
        _ value: RecordValue, sensor: SensorFacts? = nil, exclusion: Exclusion? = nil, context: GlucoseContext? = nil,
        at instant: Instant? = moment
    ) -> Reading {
        Reading(
            id: ReadingID(high: 0x9f1c_0c8e_0000_0000, low: 10), record: Record(value: value, sensor: sensor),
            context: context, device: device, time: ResolvedTime(instant: instant, basis: .corrected),
            excluded: exclusion, receivedAt: moment)
    }

    private static let device = DeviceDescription(
        address: DeviceAddress("C0:00:00:00:18:08"), model: "accuchek_guide", provider: "accuchek_ble")

    private static func glucose(
        _ digits: String, _ unit: MeasurementUnit = .milligramsPerDecilitre,
        type: GlucoseSampleType = .capillaryWholeBlood, change: String? = nil
    ) -> RecordValue {
        let trend = change.flatMap { ExactDecimal($0) }.map { Quantity($0, .milligramsPerDecilitrePerMinute) }
        return .glucose(
            GlucoseValue(
                concentration: Quantity(ExactDecimal(digits) ?? ExactDecimal(significand: 0), unit), sampleType: type,
                continuous: trend.map { ContinuousGlucoseFacts(trend: $0) }))
    }

    private static func member(_ document: JSONValue, _ key: String) -> JSONValue? {
        guard case .object(let members) = document else { return nil }
        return members.first { $0.key == key }?.value
    }

    @Test("a finger stick, with the offset of the person's clock")
    func meter() throws {
        let entry = try Nightscout.entry(Self.reading(Self.glucose("106")), offsetMinutes: 60)
        let alias = DeviceAlias(Self.device).description
        #expect(
            entry.document.text
                == #"{"type":"mbg","mbg":106,"date":1795331700000,"dateString":"2026-11-22T08:15:00.000+01:00","#
                + #""device":"\#(alias)","readingId":"9f1c0c8e00000000000000000000000a","readingDevice":"\#(alias)"}"#)
        #expect(entry.omissions.isEmpty)
    }

    @Test("many readings are the entries of each, and one that has no entry leaves nothing behind")
    func writer() throws {
        let readings = [
            Self.reading(Self.glucose("106")), Self.reading(Self.glucose("5.27", .millimolesPerLitre)),
            Self.reading(Self.glucose("118", type: .interstitialFluid, change: "1.1")),
        ]
        for offset in [-90, 0, 330] {
            var writer = NightscoutEntryWriter()
            #expect(throws: FormatOmission(.noTime)) {
                try writer.append(
                    Self.reading(Self.glucose("95"), at: Instant(seconds: -90_000_000_000)), offsetMinutes: offset)
            }
            #expect(writer.array.text == "[]")
            for reading in readings { try writer.append(reading, offsetMinutes: offset) }
            let entries = try readings.map { try Nightscout.entry($0, offsetMinutes: offset).document }
            #expect(writer.array.text == JSONValue.array(entries).text)
        }
    }

    @Test(
        "mmol/L become the whole mg/dL that the site's own factor gives",
        arguments: [("5.27", 95), ("5.5", 99), ("10.0", 180), ("22.2", 400), ("3.9", 70), ("33.3", 600)])
    func unit(digits: String, milligrams: Int64) throws {
        let entry = try Nightscout.entry(Self.reading(Self.glucose(digits, .millimolesPerLitre)), offsetMinutes: 0)
        #expect(Self.member(entry.document, "mbg") == .integer(milligrams))
    }

    @Test("a fraction of mg/dL is rounded, and that is said")
    func rounded() throws {
        let entry = try Nightscout.entry(Self.reading(Self.glucose("95.1")), offsetMinutes: 0)
        #expect(Self.member(entry.document, "mbg") == .integer(95))
        #expect(entry.omissions == [FormatOmission(.rounded, of: "glucose")])
        #expect(try Nightscout.entry(Self.reading(Self.glucose("95.0")), offsetMinutes: 0).omissions.isEmpty)
    }

    @Test(
        "a sensor's value has an arrow if the sensor says how it changes",
        arguments: [
            ("-3.5", "DoubleDown"), ("-2.0", "SingleDown"), ("-1.0", "FortyFiveDown"), ("0", "Flat"), ("1.0", "Flat"),
            ("1.1", "FortyFiveUp"), ("2.1", "SingleUp"), ("3.6", "DoubleUp"), (nil, nil),
        ] as [(String?, String?)])
    func direction(change: String?, direction: String?) throws {
        let entry = try Nightscout.entry(
            Self.reading(Self.glucose("118", type: .interstitialFluid, change: change)), offsetMinutes: 0)
        #expect(Self.member(entry.document, "type") == .string("sgv"))
        #expect(Self.member(entry.document, "direction") == direction.map(JSONValue.string))
    }

    @Test("a continuous sensor's value is one whatever the sensor says of its sample, or doesn't")
    func continuous() throws {
        for type in [GlucoseSampleType.capillaryWholeBlood, .venousPlasma, nil] {
            let value = RecordValue.glucose(
                GlucoseValue(
                    concentration: Quantity(ExactDecimal(significand: 118), .milligramsPerDecilitre), sampleType: type,
                    continuous: ContinuousGlucoseFacts(
                        trend: Quantity(ExactDecimal(significand: 2), .milligramsPerDecilitrePerMinute))))
            let reading = Self.reading(value)
            #expect(Nightscout.entryType(of: reading) == .sensor)
            let entry = try Nightscout.entry(reading, offsetMinutes: 0)
            #expect(Self.member(entry.document, "sgv") == .integer(118))
            #expect(Self.member(entry.document, "direction") == .string("FortyFiveUp"))
        }
    }

    @Test("what the page would show as a sensor's error, and what has no value or no time, has no entry")
    func none() throws {
        #expect(throws: FormatOmission(.noPlace, of: "glucose")) {
            try Nightscout.entry(Self.reading(Self.glucose("38", type: .interstitialFluid)), offsetMinutes: 0)
        }
        #expect(try Nightscout.entry(Self.reading(Self.glucose("20")), offsetMinutes: 0).omissions.isEmpty)
        #expect(throws: FormatOmission(.excluded)) {
            try Nightscout.entry(Self.reading(Self.glucose("95"), exclusion: .controlSolution), offsetMinutes: 0)
        }
        #expect(throws: FormatOmission(.noTime)) {
            try Nightscout.entry(Self.reading(Self.glucose("95"), at: nil), offsetMinutes: 0)
        }
    }

    @Test("a blood pressure is a note")
    func note() throws {
        func quantity(_ digits: String, _ unit: MeasurementUnit = .millimetresOfMercury) -> Quantity {
            Quantity(ExactDecimal(digits) ?? ExactDecimal(significand: 0), unit)
        }
        let pressure = BloodPressureValue(
            systolic: quantity("128.0"), diastolic: quantity("82"), meanArterial: quantity("97"),
            pulse: quantity("64.0", .beatsPerMinute))
        let note = try Nightscout.note(Self.reading(.bloodPressure(pressure)), offsetMinutes: -210)
        #expect(
            note.document.text
                == #"{"eventType":"Note","created_at":"2026-11-22T03:45:00.000-03:30","notes":"BP 128/82 pulse 64","#
                + #""enteredBy":"\#(DeviceAlias(Self.device))","identifier":"9f1c0c8e00000000000000000000000a"}"#)
        #expect(note.omissions == [FormatOmission(.noPlace, of: "blood_pressure.mean")])
        let other = BloodPressureValue(
            systolic: quantity("16.5", .kilopascal), diastolic: quantity("10", .kilopascal),
            meanArterial: Quantity(.notANumber, .kilopascal))
        let words = try Nightscout.note(Self.reading(.bloodPressure(other)), offsetMinutes: 0).document
        #expect(Self.member(words, "notes") == .string("BP 16.5/10 kPa"))
    }
}
