import HealthReadings
import ReadingFormats
import Testing

@Suite("Line protocol")
struct LineProtocolTests {
    private static let moment = Instant(seconds: 1_795_331_700)

    private static func reading(
        _ value: RecordValue, device: DeviceDescription = device, status: ReadingStatus = [],
        exclusion: Exclusion? = nil, context: GlucoseContext? = nil, at instant: Instant? = moment
    ) -> Reading {
        Reading(
            id: ReadingID(high: 0x9f1c_0c8e_0000_0000, low: 10), record: Record(value: value, status: status),
            context: context, device: device, time: ResolvedTime(instant: instant, basis: .corrected),
            excluded: exclusion, receivedAt: moment)
    }

    private static let device = DeviceDescription(
        address: DeviceAddress("C0:00:00:00:18:08"), model: "accuchek_guide", provider: "accuchek_ble")

    private static func glucose(_ digits: String, _ unit: MeasurementUnit) -> RecordValue {
        .glucose(
            GlucoseValue(
                concentration: Quantity(ExactDecimal(digits) ?? ExactDecimal(significand: 0), unit),
                sampleType: .capillaryWholeBlood, sampleLocation: .finger))
    }

    @Test("a finger stick, in the unit it was measured in and in the other")
    func glucose() throws {
        let alias = DeviceAlias(Self.device).description
        let line = try LineProtocol.line(
            Self.reading(Self.glucose("95", .milligramsPerDecilitre)), person: "white_bear")
        #expect(
            line.document
                == "glucose,device=\(alias),person=white_bear,sample_type=capillary_whole_blood "
                + #"mg_dl=95,mmol_l=5.2732,reading_id="9f1c0c8e00000000000000000000000a" 1795331700000"#)
        #expect(line.omissions.isEmpty)
        var context = GlucoseContext()
        context.meal = "fasting"
        context.tester = "self"
        let other = try LineProtocol.line(
            Self.reading(
                Self.glucose("5.50", .millimolesPerLitre), status: [.deviceBatteryLow], context: context),
            person: "white_bear", at: Instant(seconds: 1_795_331_701))
        #expect(
            other.document
                == "glucose,device=\(alias),person=white_bear,sample_type=capillary_whole_blood "
                + #"mmol_l=5.50,mg_dl=99.09,meal="fasting",reading_id="9f1c0c8e00000000000000000000000a","#
                + #"status="device_battery_low",original_time="2026-11-22T07:15:00Z" 1795331701000"#)
        #expect(other.omissions == [FormatOmission(.noPlace, of: "context.tester")])
    }

    @Test("many readings are the lines of each, and one that has no line leaves nothing behind")
    func writer() throws {
        let readings = [
            Self.reading(Self.glucose("95", .milligramsPerDecilitre)),
            Self.reading(Self.glucose("96.5", .milligramsPerDecilitre)),
            Self.reading(Self.glucose("5.50", .millimolesPerLitre)),
        ]
        var writer = LineWriter()
        try writer.append(readings[0], person: "u1")
        #expect(throws: FormatOmission(.noPlace, of: "person")) { try writer.append(readings[1], person: "u\\") }
        #expect(throws: FormatOmission(.unit, of: "glucose")) {
            try writer.append(Self.reading(Self.glucose("5", .kilograms)), person: "u1")
        }
        for reading in readings[1...] { try writer.append(reading, person: "u 2") }
        let lines = [
            try LineProtocol.line(readings[0], person: "u1").document,
            try LineProtocol.line(readings[1], person: "u 2").document,
            try LineProtocol.line(readings[2], person: "u 2").document,
        ]
        #expect(String(decoding: writer.octets, as: UTF8.self) == lines.joined(separator: "\n"))
    }

    @Test("a blood pressure in mmHg; a mean that is no number is left out, and said so")
    func pressure() throws {
        func pressure(_ unit: MeasurementUnit, _ digits: [String], mean: MeasuredNumber) -> RecordValue {
            let numbers = digits.map { ExactDecimal($0) ?? ExactDecimal(significand: 0) }
            return .bloodPressure(
                BloodPressureValue(
                    systolic: Quantity(numbers[0], unit), diastolic: Quantity(numbers[1], unit),
                    meanArterial: Quantity(mean, unit), pulse: Quantity(numbers[2], .beatsPerMinute)))
        }
        let cuff = try LineProtocol.line(
            Self.reading(
                pressure(
                    .millimetresOfMercury, ["127.0", "79.0", "69.0"], mean: .value(ExactDecimal(significand: 95))),
                status: [.irregularPulse]), person: "u1")
        #expect(cuff.document.contains(" systolic=127.0,diastolic=79.0,mean=95,pulse=69.0,reading_id="))
        #expect(cuff.document.contains(#"status="irregular_pulse""#) && cuff.omissions.isEmpty)
        let other = try LineProtocol.line(
            Self.reading(pressure(.kilopascal, ["16.0", "10.0", "69"], mean: .notANumber)), person: "u1")
        #expect(other.document.contains(" systolic=120.01,diastolic=75.01,pulse=69,reading_id="))
        #expect(other.omissions == [FormatOmission(.notANumber, of: "blood_pressure.mean")])
    }

    @Test("vital signs, each field in a unit that never changes")
    func vitals() throws {
        func fields(_ value: VitalValue) throws -> Substring {
            let line = try LineProtocol.line(Self.reading(.vital(value)), person: "u1").document
            return try #require(line.split(separator: " ").dropFirst().first).prefix { $0 != "\"" }
        }
        func quantity(_ digits: String, _ unit: MeasurementUnit) -> Quantity {
            Quantity(ExactDecimal(digits) ?? ExactDecimal(significand: 0), unit)
        }
        #expect(
            try fields(
                VitalValue(
                    kind: .spo2,
                    [.init(.saturation, quantity("97", .percent)), .init(.pulse, quantity("64", .beatsPerMinute))]))
                == "percent=97,pulse=64,reading_id=")
        #expect(
            try fields(VitalValue(kind: .temperature, [.init(.temperature, quantity("98.6", .degreesFahrenheit))]))
                == "celsius=37.00,reading_id=")
        #expect(
            try fields(
                VitalValue(
                    kind: .weight,
                    [.init(.weight, quantity("150", .pounds)), .init(.height, quantity("70", .inches))]))
                == "kg=68.039,height_m=1.7780,reading_id=")
        #expect(
            try fields(
                VitalValue(
                    kind: .bodyComposition,
                    [.init(.bodyFat, quantity("21.5", .percent)), .init(.weight, quantity("71.20", .kilograms))]))
                == "fat_percent=21.5,weight_kg=71.20,reading_id=")
    }

    @Test("commas, spaces and equals signs of tags are escaped; what nothing escapes is refused")
    func escapes() throws {
        let value = Self.glucose("95", .milligramsPerDecilitre)
        let line = try LineProtocol.line(Self.reading(value), person: #"a b,c=d\e"f"#)
        #expect(line.document.contains(#",person=a\ b\,c\=d\e"f,sample_type="#))
        #expect(try !LineProtocol.line(Self.reading(value), person: "").document.contains("person="))
        for person in [#"back\"#, "two\nlines", #"a\ b"#, #"a\,b"#, #"a\=b"#, #"a\\ b"#] {
            #expect(throws: FormatOmission(.noPlace, of: "person")) {
                try LineProtocol.line(Self.reading(value), person: person)
            }
        }
    }

    @Test("what is excluded, has no time or no number has no line")
    func none() {
        let value = Self.glucose("95", .milligramsPerDecilitre)
        #expect(throws: FormatOmission(.excluded)) {
            try LineProtocol.line(Self.reading(value, exclusion: .ketone), person: "u1")
        }
        #expect(throws: FormatOmission(.noTime)) { try LineProtocol.line(Self.reading(value, at: nil), person: "u1") }
        #expect(throws: FormatOmission(.notANumber, of: "glucose")) {
            try LineProtocol.line(
                Self.reading(.glucose(GlucoseValue(concentration: Quantity(.notANumber, .milligramsPerDecilitre)))),
                person: "u1")
        }
    }
}
