import HealthReadings
import ReadingImport
import Testing

@Suite("Apple Health's export.xml")
struct AppleHealthTests {
    /// The document type that an export of today carries, shortened.
    static let type = """
        <!DOCTYPE HealthData [
        <!-- HealthKit Export Version: 14 -->
        <!ELEMENT HealthData (ExportDate,Me,(Record|Correlation|Workout|ActivitySummary|ClinicalRecord)*)>
        <!ATTLIST HealthData
          locale CDATA #REQUIRED
        >
        <!ELEMENT Record ((MetadataEntry|HeartRateVariabilityMetadataList)*)>
        <!-- Note: Any Records that appear as children of a correlation also appear as top-level records in this document. -->
        ]>
        """

    /// The document type of exports since iOS 16, which misses a bracket and has one too many.
    static let brokenType = """
        <!DOCTYPE HealthData [
        <!ATTLIST VisionPrescription
          type             CDATA #REQUIRED
          brand            CDATA #IMPLIED
        <!ELEMENT RightEye EMPTY>
          cylinder     CDATA #IMPLIED
          prism>
        ]>
        """

    static func export(_ body: String, type: String = type) -> String {
        """
        <?xml version="1.0" encoding="UTF-8"?>
        \(type)
        <HealthData locale="de_DE">
         <ExportDate value="2026-11-21 10:00:00 +0100"/>
         <Me HKCharacteristicTypeIdentifierDateOfBirth="1970-01-01"/>
        \(body)
        </HealthData>
        """
    }

    static func record(
        _ type: String, _ value: String, _ unit: String, at start: String = "2026-11-20 07:30:00 +0100",
        to end: String? = nil, source: String = "Omron Connect", more: String = "", body: String? = nil
    ) -> String {
        let tag =
            #" <Record type="HKQuantityTypeIdentifier\#(type)" sourceName="\#(source)" sourceVersion="1" \#(more) "#
            + #"unit="\#(unit)" creationDate="2026-11-20 07:31:00 +0100" startDate="\#(start)" endDate="\#(end ?? start)" "#
            + #"value="\#(value)""#
        return body.map { "\(tag)>\($0)</Record>" } ?? "\(tag)/>"
    }

    static func correlation(_ systolic: String, _ diastolic: String, metadata: String = "") -> String {
        """
         <Correlation type="HKCorrelationTypeIdentifierBloodPressure" sourceName="Omron Connect" sourceVersion="1" \
        creationDate="2026-11-20 07:31:00 +0100" startDate="2026-11-20 07:30:00 +0100" endDate="2026-11-20 07:30:00 +0100">
          \(metadata)
         \(record("BloodPressureSystolic", systolic, "mmHg"))
         \(record("BloodPressureDiastolic", diastolic, "mmHg"))
         </Correlation>
        """
    }

    @Test(
        "each type keeps the digits and the unit it was written with",
        arguments: [
            ("BloodGlucose", "5.6", "mmol&lt;180.1558800000541&gt;/L", "5.6 mmol/L"),
            ("BloodGlucose", "101", "mg/dL", "101 mg/dL"), ("HeartRate", "72", "count/min", "72 bpm"),
            ("HeartRate", "58.5134", "count/min", "58.5134 bpm"), ("OxygenSaturation", "0.97", "%", "97 %"),
            ("OxygenSaturation", "1", "%", "100 %"), ("OxygenSaturation", "0.968", "%", "96.8 %"),
            ("BodyTemperature", "36.80", "degC", "36.80 °C"), ("BodyTemperature", "98.6", "degF", "98.6 °F"),
            ("BodyMass", "70.35", "kg", "70.35 kg"), ("BodyMass", "155.1", "lb", "155.1 lb"),
            ("BodyMass", "11.5", "st", "161.0 lb"), ("BodyFatPercentage", "0.214", "%", "21.4 %"),
            ("HeartRateVariabilitySDNN", "42.1", "ms", "42.1 ms"), ("BodyMass", "7.035e+01", "kg", "70.35 kg"),
        ])
    func types(_ type: String, _ value: String, _ unit: String, _ expected: String) throws {
        let sample = try Found(Self.export(Self.record(type, value, unit))).only
        #expect(sample.main == expected)
        #expect(sample.provider == "apple_health_kit" && sample.source == "Omron Connect" && !sample.isEntered)
        #expect(sample.time.resolved.instant?.description == "2026-11-20T06:30:00Z")
        #expect(sample.time.utcOffsetMinutes == 60 && sample.time.basis == .corrected && sample.end == nil)
    }

    @Test("a document type that is not well-formed is no obstacle, nor is none", arguments: [type, brokenType, ""])
    func documentTypes(_ type: String) throws {
        let sample = try Found(Self.export(Self.record("BodyMass", "70", "kg"), type: type)).only
        #expect(sample.main == "70 kg")
    }

    @Test("a blood pressure is counted once, wherever its pressures stand")
    func correlations() throws {
        let records =
            Self.record("BloodPressureSystolic", "128", "mmHg") + "\n"
            + Self.record("BloodPressureDiastolic", "82", "mmHg")
        let entered = #"<MetadataEntry key="HKWasUserEntered" value="1"/>"#
        let both = try Found(Self.export(records + Self.correlation("128", "82", metadata: entered)))
        let sample = try both.only
        guard case .bloodPressure(let pressure) = sample.value else {
            Issue.record("no blood pressure")
            return
        }
        #expect(pressure.systolic == Quantity(ExactDecimal(significand: 128), .millimetresOfMercury))
        #expect(pressure.diastolic == Quantity(ExactDecimal(significand: 82), .millimetresOfMercury))
        #expect(sample.isEntered && both.counts.joined == 2 && both.counts.read == 3)
        let alone = try Found(Self.export(records))
        #expect(try alone.only.id == sample.id && alone.counts.joined == 1)
        let before = try Found(Self.export(Self.correlation("128", "82")))
        #expect(try before.only.id == sample.id && before.counts.joined == 0)
    }

    @Test("pressures that could be joined in two ways are refused: nobody measured what a guess makes of them")
    func ambiguousPressures() throws {
        let four = [("Systolic", "120"), ("Systolic", "140"), ("Diastolic", "95"), ("Diastolic", "80")].map {
            Self.record("BloodPressure" + $0.0, $0.1, "mmHg")
        }
        let found = try Found(Self.export(four.joined(separator: "\n")))
        #expect(found.samples.isEmpty && found.refused.count == 4)
        #expect(found.refused.allSatisfy { $0.found == "several" })
        // Their correlations say which belong together.
        let records = four.joined(separator: "\n")
        let joined = try Found(Self.export(records + Self.correlation("120", "80") + Self.correlation("140", "95")))
        #expect(joined.samples.map(\.main) == ["120 mmHg", "140 mmHg"] && joined.refused.isEmpty)
        // A file that is cut within its first correlation gives no other pressures than the whole one.
        let whole = Self.export(records + Self.correlation("120", "80"))
        let end = try #require(whole.firstRange(of: "<Correlation")?.lowerBound)
        let cut = try Found(String(whole[..<end]))
        #expect(cut.samples.isEmpty && cut.damage != nil)
    }

    @Test("a correlation with two of one pressure, or with two units, is refused")
    func oddCorrelations() throws {
        let two = Self.correlation("120", "80").replacing(
            "</Correlation>", with: Self.record("BloodPressureSystolic", "130", "mmHg") + "</Correlation>")
        let found = try Found(Self.export(two))
        #expect(found.samples.isEmpty && found.refused.first?.found == "two of one")
        let mixed =
            Self.record("BloodPressureSystolic", "16", "kPa") + "\n"
            + Self.record("BloodPressureDiastolic", "80", "mmHg")
        #expect(try Found(Self.export(mixed)).refused.first?.found == "kPa and mmHg")
    }

    @Test("a saturation above its whole is refused, not taken for per cent")
    func oddFractions() throws {
        let found = try Found(Self.export(Self.record("OxygenSaturation", "1.5", "%")))
        #expect(found.samples.isEmpty && found.refused.count == 1)
        #expect(try Found(Self.export(Self.record("OxygenSaturation", "97", "%"))).only.main == "97 %")
    }

    @Test("a pressure without its other is refused, and named")
    func lonePressure() throws {
        let found = try Found(Self.export(Self.record("BloodPressureSystolic", "128", "mmHg")))
        #expect(found.samples.isEmpty)
        #expect(found.refused.map(\.field) == ["type"])
        let other = try Found(
            Self.export(
                Self.record("BloodPressureSystolic", "128", "mmHg") + "\n"
                    + Self.record("BloodPressureDiastolic", "82", "mmHg", source: "Another")))
        #expect(other.samples.isEmpty && other.refused.count == 2)
    }

    @Test("two measurements of one second and source stay two")
    func sameSecond() throws {
        let found = try Found(Self.export(Self.correlation("128", "82") + Self.correlation("131", "85")))
        #expect(found.samples.count == 2 && found.refused.isEmpty)
    }

    @Test("what a person entered and the meal are kept")
    func metadata() throws {
        let body =
            #"<MetadataEntry key="HKWasUserEntered" value="1"/><MetadataEntry key="HKBloodGlucoseMealTime" value="2"/>"#
        let sample = try Found(Self.export(Self.record("BloodGlucose", "101", "mg/dL", body: body))).only
        #expect(sample.isEntered && sample.meal == "postprandial")
    }

    @Test("a device's name is kept, and what changes with each export is not")
    func device() throws {
        let device =
            "&lt;&lt;HKDevice: 0x2833e3a20&gt;, name:Apple Watch, manufacturer:Apple Inc., model:Watch, hardware:Watch6,1, software:9.1&gt;"
        let sample = try Found(
            Self.export(Self.record("HeartRate", "72", "count/min", more: #"device="\#(device)""#))
        ).only
        #expect(sample.sourceDevice == "Apple Watch")
    }

    @Test("types that are not taken are counted by name")
    func notTaken() throws {
        let found = try Found(
            Self.export(
                Self.record("StepCount", "12", "count") + Self.record("StepCount", "13", "count")
                    + Self.record("BodyMass", "70", "kg")
                    + #"<Workout workoutActivityType="HKWorkoutActivityTypeRunning"><WorkoutEvent type="a"/></Workout>"#
                    + #"<Correlation type="HKCorrelationTypeIdentifierFood"><Record type="HKQuantityTypeIdentifierDietaryWater"/></Correlation>"#
            ))
        #expect(found.samples.count == 1 && found.counts.read == 5)
        #expect(
            found.counts.notTaken == [
                "HKQuantityTypeIdentifierStepCount": 2, "Workout": 1, "HKCorrelationTypeIdentifierFood": 1,
            ])
    }

    @Test(
        "a record that can be no sample is named with its line and attribute, and the rest is read",
        arguments: [
            (record("BodyMass", "abc", "kg"), "value", "'abc'"), (record("BodyMass", "70", "stone"), "unit", "'stone'"),
            (record("BodyMass", "", "kg"), "value", "nothing"),
            (
                record("BodyMass", "70", "kg", at: "2026-13-20 07:30:00 +0100"), "startDate",
                "'2026-13-20 07:30:00 +0100'"
            ),
            (record("BodyMass", "70", "kg", at: "2026-11-20 07:30:00"), "startDate", "'2026-11-20 07:30:00'"),
            (
                record("BodyMass", "70", "kg", at: "9999-12-31 23:59:59 -0100"), "startDate",
                "'9999-12-31 23:59:59 -0100'"
            ),
            (record("BodyMass", "70", "kg", to: "2026-11-20 06:30:00 +0100"), "endDate", "'2026-11-20 06:30:00 +0100'"),
        ])
    func refused(_ bad: String, _ field: String, _ text: String) throws {
        let export = Self.export(
            Self.record("BodyMass", "70", "kg") + "\n" + bad + "\n" + Self.record("BodyMass", "71", "kg"))
        let found = try Found(export)
        #expect(found.samples.map(\.main) == ["70 kg", "71 kg"] && found.damage == nil)
        let refusal = try #require(found.refused.first)
        #expect(refusal.field == field && refusal.found == text)
        let lines = export.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines[refusal.line - 1].contains(bad))
    }

    @Test("of types without end no more than a thousand are counted by name")
    func manyTypes() throws {
        let records = (0..<1500).map { Self.record("Type\($0)", "1", "count") }.joined()
        let counts = try Found(Self.export(records)).counts
        #expect(counts.notTaken.count == 1001 && counts.notTaken["other types"] == 500 && counts.read == 1500)
    }

    @Test("a line past the 65535th is named as it is")
    func farLine() throws {
        let empty = String(repeating: "\n", count: 70_000)
        let found = try Found(Self.export(empty + Self.record("BodyMass", "x", "kg")))
        let expected = Self.export(empty).split(separator: "\n", omittingEmptySubsequences: false).count - 1
        // Past that line, libxml2 2.15 knows only the line of the text behind the element.
        #expect(found.refused.count == 1)
        #expect(found.refused.allSatisfy { (expected...expected + 1).contains($0.line) })
    }

    @Test("of a file that was cut what stands before is read, and the line is named", arguments: [0.3, 0.5, 0.8, 0.97])
    func cut(_ part: Double) throws {
        let records = (0..<500).map { Self.record("BodyMass", "\(70 + $0)", "kg") }.joined(separator: "\n")
        let export = Self.export(records)
        let found = try Found(octets: Array(export.utf8.prefix(Int(Double(export.utf8.count) * part))))
        #expect(found.damage?.fault == .damaged)
        let whole = export.prefix(Int(Double(export.count) * part)).components(of: "/>") - 2
        #expect(found.samples.count == whole)
        #expect((found.damage?.line ?? 0) >= found.samples.count)
    }

    @Test(
        "promise 1: what stands between text and a fault is read, though libxml2 has let go of the record before the text",
        arguments: ["text", "<!-- remark -->", "<![CDATA[text]]>", "text<?instruction?>text"])
    func textBeforeFault(_ between: String) throws {
        let before = Self.record("BodyMass", "70", "kg") + between
        let behind = Self.record("BodyMass", "71", "kg", body: "<MetadataEntry key=\"a\" value=\"b\"/>\(between)")
        let found = try Found(Self.export(before + behind + Self.record("BodyMass", "72", "kg") + between + "< "))
        #expect(found.damage?.fault == .damaged && found.counts.notTaken.isEmpty)
        #expect(found.samples.map(\.main) == ["70 kg", "71 kg", "72 kg"])
    }

    @Test("characters that XML does not allow are spaces")
    func controls() throws {
        let sample = try Found(Self.export(Self.record("BodyMass", "70", "kg", source: "a\u{B}b\u{1}c"))).only
        #expect(sample.source == "a b c")
    }

    @Test("references to characters that XML does not allow are spaces, wherever the buffer ends")
    func references() throws {
        let source = "a&#27;b&#x1;c&#031;d&#x00C;e&amp;f&#65;&#xe9;"
        let records = (0..<3000).map { place in
            Self.record("BodyMass", "70", "kg", source: String(repeating: "x", count: place % 17) + source)
        }
        let found = try Found(Self.export(records.joined(separator: "\n")))
        #expect(found.damage == nil && found.samples.count == 3000)
        for (place, sample) in found.samples.enumerated() {
            #expect(sample.source == String(repeating: "x", count: place % 17) + "a b c d e&fA\u{E9}")
        }
    }

    @Test("entities are refused, whether they are many, or are to be loaded")
    func entities() throws {
        let bomb = #"<!DOCTYPE HealthData [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>"#
        let external = "<!DOCTYPE HealthData [\n<!ENTITY file SYSTEM \"file:///etc/passwd\">\n]>"
        for (type, line) in [(bomb, 2), (external, 3)] {
            let found = try Found(Self.export(Self.record("BodyMass", "70", "kg", source: "&b;"), type: type))
            #expect(found.samples.isEmpty)
            #expect(found.damage?.fault == .entities && found.damage?.line == line)
        }
        let unknown = try Found(Self.export(Self.record("BodyMass", "70", "kg", source: "&b;")))
        #expect(unknown.damage?.fault == .damaged)
        let external2 = #"<!DOCTYPE HealthData SYSTEM "file:///etc/passwd">"#
        #expect(try Found(Self.export(Self.record("BodyMass", "70", "kg"), type: external2)).only.main == "70 kg")
    }

    @Test("a document type that stands behind another, or in another encoding, declares nothing")
    func hiddenTypes() throws {
        // Some kilobytes that would become four megabytes in one attribute.
        let entity = "<!ENTITY a \"\(String(repeating: "x", count: 1000))\">"
        let source = String(repeating: "&a;", count: 4000)
        let record = Self.record("BodyMass", "70", "kg", source: source)
        let second = try Found(Self.export(record, type: "<!DOCTYPE HealthData>\n<!DOCTYPE HealthData [\(entity)]>"))
        #expect(second.samples.isEmpty && second.refused.isEmpty)
        #expect(second.damage?.fault == .entities)
        let encoded = try Found(
            Self.export(record, type: "<!DOCTYPE HealthData [\(entity)]>").replacing("+", with: "+-")
                .replacing("UTF-8", with: "UTF-7").replacing("<!", with: "+ADwAIQ-").replacing("&", with: "+ACY-"))
        #expect(encoded.samples.isEmpty && encoded.damage?.fault == .entities)
    }

    @Test("what is no export is said to be none")
    func others() throws {
        #expect(try damage(of: "<html><body/></html>")?.expected == "<HealthData>")
        #expect(
            try damage(of: "<ClinicalDocument xmlns=\"urn:hl7-org:v3\"/>")?.hint?.contains("export_cda.xml") == true)
        #expect(try damage(of: "")?.fault == .unknownFormat)
        #expect(try damage(of: "PK\u{3}\u{4}rest")?.hint?.contains("unzip") == true)
        #expect(try damage(of: "hello\nworld")?.fault == .unknownFormat)
        #expect(try damage(of: "<HealthData")?.fault == .damaged)
        #expect(try damage(of: "<!--")?.fault == .damaged)
    }

    @Test("attributes may stand in any order")
    func order() throws {
        let sample = try Found(
            Self.export(
                #"<Record value="70" endDate="2026-11-20 07:30:00 +0100" unit="kg" startDate="2026-11-20 07:29:00 +0100" sourceName="Jane’s&#xA0;iPhone" type="HKQuantityTypeIdentifierBodyMass"/>"#
            )
        ).only
        #expect(sample.source == "Jane’s\u{A0}iPhone" && sample.main == "70 kg")
        #expect(sample.end?.description == "2026-11-20T06:30:00Z")
    }
}

extension Substring {
    /// How many parts there are between occurrences of a text.
    fileprivate func components(of text: String) -> Int {
        split(separator: text, omittingEmptySubsequences: false).count - 1
    }
}
