import HealthReadings
import ReadingImport
import Testing

@Suite("LibreView's CSV")
struct LibreViewTests {
    static let german =
        "Gerät,Seriennummer,Gerätezeitstempel,Aufzeichnungstyp,Glukosewert-Verlauf mg/dL,Glukose-Scan mg/dL,"
        + "Nicht numerisches schnellwirkendes Insulin,Schnellwirkendes Insulin (Einheiten),Nicht numerische Nahrungsdaten,"
        + "Kohlenhydrate (Gramm),Kohlenhydrate (Portionen),Nicht numerisches Depotinsulin,Depotinsulin (Einheiten),Notizen,"
        + "Glukose-Teststreifen mg/dL,Keton mmol/L,Mahlzeiteninsulin (Einheiten),Korrekturinsulin (Einheiten),"
        + "Insulin-Änderung durch Anwender (Einheiten)"
    static let english =
        "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mmol/L,Scan Glucose mmol/L,"
        + "Non-numeric Rapid-Acting Insulin,Rapid-Acting Insulin (units),Non-numeric Food,Carbohydrates (grams),"
        + "Carbohydrates (servings),Non-numeric Long-Acting Insulin,Long-Acting Insulin Value (units),Notes,"
        + "Strip Glucose mmol/L,Ketone mmol/L,Meal Insulin (units),Correction Insulin (units),User Change Insulin (units)"

    static func row(_ time: String, _ type: Int, historic: String = "", scan: String = "", strip: String = "") -> String
    {
        "FreeStyle LibreLink,ABC-123,\(time),\(type),\(historic),\(scan),,,,,,,,,\(strip),,,,"
    }

    static func file(
        _ header: String, _ rows: [String],
        before: String = "Glukose-Werte,Erstellt am,24-02-2026 12:12 UTC,Erstellt von,A B", end: String = "\r\n"
    ) -> String {
        "\u{FEFF}" + ([before, header] + rows).joined(separator: end) + end
    }

    @Test("history, scans and test strips are readings in the file's unit; the rest is counted")
    func types() throws {
        let rows = [
            Self.row("20-11-2026 07:30", 0, historic: "101"), Self.row("20-11-2026 07:31", 1, scan: "104"),
            Self.row("20-11-2026 07:32", 2, strip: "99"), Self.row("20-11-2026 07:33", 3),
            Self.row("20-11-2026 07:34", 5), Self.row("20-11-2026 07:35", 6), Self.row("20-11-2026 07:36", 9),
        ]
        let found = try Found(Self.file(Self.german, rows))
        #expect(found.refused.isEmpty && found.damage == nil)
        #expect(found.samples.map(\.main) == ["101 mg/dL", "104 mg/dL", "99 mg/dL"])
        #expect(found.counts.notTaken == ["ketone": 1, "food": 1, "note or change of time": 1, "record type 9": 1])
        let first = try #require(found.samples.first)
        #expect(first.provider == "freestyle_libre_ble" && first.source == "FreeStyle LibreLink")
        #expect(first.sourceDevice == "ABC-123")
        #expect(first.time.basis == .assumedZone && first.time.utcOffsetMinutes == nil)
        #expect(first.time.instant.description == "2026-11-20T06:30:00Z")
        #expect(first.time.wallTime.description == "2026-11-20T07:30:00")
        let types = found.samples.map { sample -> GlucoseSampleType? in
            if case .glucose(let glucose) = sample.value { glucose.sampleType } else { nil }
        }
        #expect(types == [.interstitialFluid, .interstitialFluid, nil])
    }

    @Test("only a scan is told from what the sensor keeps by itself, and its frame says so again")
    func scans() throws {
        let rows = [
            Self.row("20-11-2026 07:30", 0, historic: "101"), Self.row("20-11-2026 07:31", 1, scan: "104"),
            Self.row("20-11-2026 07:32", 2, strip: "99"),
        ]
        let samples = try Found(Self.file(Self.german, rows)).samples
        #expect(samples.map(\.sensorSource) == [nil, .scan, nil])
        // Where both are one reading, it is one of the history, whichever row comes first.
        let twice = [
            Self.row("20-11-2026 07:30", 1, scan: "101"), Self.row("20-11-2026 07:30", 0, historic: "101"),
            Self.row("20-11-2026 07:30", 1, scan: "102"),
        ]
        for rows in [twice, twice.reversed()] {
            let found = try Found(Self.file(Self.german, rows)).samples
            #expect(Set(found.map(\.id)).count == 2)
            for sample in found { #expect((sample.sensorSource == .scan) == (sample.main == "102 mg/dL")) }
        }
        for sample in samples {
            guard case .imported(let again) = DecodedFrame(importedSample: sample.octets) else {
                Issue.record("no sample")
                continue
            }
            #expect(again == sample && again.record.imported?.sensorSource == sample.sensorSource)
        }
    }

    @Test(
        "HI, LO and a passed limit are readings without a number",
        arguments: [("HI", true), ("LO", false), (">400", true), ("> 400", true), ("<40", false), ("Low", false)])
    func beyondLimits(_ cell: String, _ isHigh: Bool) throws {
        let rows = [Self.row("20-11-2026 07:30", 0, historic: cell)]
        let sample = try Found(Self.file(Self.german, rows)).only
        guard case .glucose(let glucose) = sample.value else {
            Issue.record("no glucose")
            return
        }
        let expected: MeasuredNumber = isHigh ? .positiveInfinity : .negativeInfinity
        #expect(glucose.concentration == Quantity(expected, .milligramsPerDecilitre))
        guard case .imported(let again) = DecodedFrame(importedSample: sample.octets) else {
            Issue.record("no sample")
            return
        }
        #expect(again == sample)
    }

    @Test("what looks like mmol/L among mg/dL is refused, and whole or large numbers are not")
    func wrongUnit() throws {
        let cells = ["5,6", "5.6", "39.9", "39", "101.0", "101.5", "56"]
        let rows = cells.enumerated().map { place, cell in
            Self.row("20-11-2026 07:3\(place)", 0, historic: "\"\(cell)\"")
        }
        let found = try Found(Self.file(Self.german, rows))
        #expect(found.refused.map(\.found) == ["'5,6'", "'5.6'", "'39.9'"])
        #expect(found.refused.allSatisfy { $0.expected.contains("mmol/L") })
        #expect(found.samples.count == 4)
    }

    @Test(
        "day and month are told apart by the file, or by the caller",
        arguments: [
            ("20-11-2026 07:30", "05-11-2026 07:30", "2026-11-05T06:30:00Z"),
            ("11-20-2026 07:30 AM", "11-05-2026 07:30 PM", "2026-11-05T18:30:00Z"),
            ("11-20-2026 12:05 AM", "11-05-2026 12:05 AM", "2026-11-04T23:05:00Z"),
            ("2026-11-20 07:30", "2026-11-05 07:30", "2026-11-05T06:30:00Z"),
            ("2026/11/20 07:30", "2026/11/05 07:30:15", "2026-11-05T06:30:15Z"),
            ("20/11/2026 07:30", "05/11/2026 07:30", "2026-11-05T06:30:00Z"),
            ("20.11.2026 07:30", "05.11.2026 07:30", "2026-11-05T06:30:00Z"),
        ])
    func orders(_ proof: String, _ time: String, _ expected: String) throws {
        let rows = [Self.row(time, 0, historic: "5.4"), Self.row(proof, 0, historic: "\"5,6\"")]
        let found = try Found(Self.file(Self.english, rows, before: "Glucose Data,Generated on"))
        #expect(found.samples.map(\.main) == ["5.4 mmol/L", "5.6 mmol/L"])
        #expect(found.samples.first?.time.instant.description == expected)
    }

    @Test("dates that may mean two days are refused unless the caller says which")
    func ambiguous() throws {
        let file = Self.file(Self.english, [Self.row("05-11-2026 07:30", 0, historic: "5.4")], before: "Glucose Data")
        let damage = try #require(try damage(of: file))
        #expect(damage.fault == .ambiguousDates && damage.line == 3)
        #expect(damage.hint?.contains("--date-order") == true)
        #expect(try Found(file, order: .dayFirst).only.time.instant.description == "2026-11-05T06:30:00Z")
        #expect(try Found(file, order: .monthFirst).only.time.instant.description == "2026-05-11T05:30:00Z")
        let both = Self.file(
            Self.english, [Self.row("20-11-2026 07:30", 0), Self.row("11-21-2026 07:30", 0)], before: "Glucose Data")
        #expect(try ReadingImportTests.damage(of: both)?.fault == .ambiguousDates)
        let same = Self.file(Self.english, [Self.row("05-05-2026 07:30", 0, historic: "5.4")], before: "Glucose Data")
        #expect(try Found(same).only.time.instant.description == "2026-05-05T05:30:00Z")
    }

    @Test(
        "an order that the file disproves is refused: its other days would be wrong",
        arguments: [
            (DateOrder.monthFirst, "20-11-2026 07:30", "first"), (DateOrder.dayFirst, "11-20-2026 07:30 AM", "second"),
        ])
    func disproved(_ order: DateOrder, _ proof: String, _ place: String) throws {
        let rows = [Self.row("05-11-2026 07:30", 0, historic: "5.4"), Self.row(proof, 0, historic: "5.6")]
        let file = Self.file(Self.english, rows, before: "Glucose Data")
        let damage = try #require(try damage(of: file, order: order))
        #expect(damage.fault == .ambiguousDates && damage.line == 4 && damage.found.hasSuffix(place))
        #expect(damage.hint?.contains("leave out `--date-order`") == true)
        let right: DateOrder = order == .dayFirst ? .monthFirst : .dayFirst
        #expect(try Found(file, order: right).samples == Found(file).samples)
        // Only the rows prove it: when the file was made may be written otherwise.
        let made = Self.file(Self.english, [rows[0]], before: "Glucose Data,Generated on,24-02-2026 12:12 UTC")
        #expect(try Found(made, order: .monthFirst).only.time.instant.description == "2026-05-11T05:30:00Z")
    }

    @Test("a value in which the file may have been cut is no reading; a last row without a line end is one")
    func cutValue() throws {
        func read(_ rest: String) throws -> Found {
            let row = "FreeStyle LibreLink,ABC-123,20-11-2026 07:30,0," + rest
            return try Found([Self.english, row].joined(separator: "\n"))
        }
        for rest in ["11.4", "11.", "1"] {
            let found = try read(rest)
            #expect(found.samples.isEmpty && found.refused.map(\.field) == ["row"])
        }
        for rest in ["11.4,", "11.4,,,,,,,,,,,,,,", "11.4\n"] {
            let sample = try read(rest).only
            #expect(sample.main == "11.4 mmol/L")
        }
        // Where the value's column is the last, all cells being there proves nothing.
        let short = "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mg/dL,Scan Glucose mg/dL\n"
        let last = try Found(short + "FreeStyle LibreLink,ABC-123,20-11-2026 07:30,1,,10")
        #expect(last.samples.isEmpty && last.refused.map(\.field) == ["row"])
        let whole = try Found(short + "FreeStyle LibreLink,ABC-123,20-11-2026 07:30,1,,101\n").only
        #expect(whole.main == "101 mg/dL")
    }

    @Test(
        "what precedes damage is read, whether or not the order has to be proven",
        arguments: [nil, DateOrder.dayFirst])
    func cut(_ order: DateOrder?) throws {
        let rows = [Self.row("20-11-2026 07:30", 0, historic: "5.4"), "\"FreeStyle LibreLink,ABC-123"]
        let found = try Found(Self.file(Self.english, rows), order: order)
        #expect(found.samples.map(\.main) == ["5.4 mmol/L"] && found.damage?.fault == .damaged)
    }

    @Test("an hour that is repeated or missing is said to be uncertain")
    func hours() throws {
        let rows = [Self.row("25-10-2026 02:30", 0, historic: "5.4"), Self.row("29-03-2026 02:30", 0, historic: "5.4")]
        let found = try Found(Self.file(Self.english, rows))
        #expect(found.samples.map(\.time.uncertaintyMinutes) == [60, 60])
        #expect(found.samples.map(\.time.instant.description) == ["2026-10-25T00:30:00Z", "2026-03-29T01:30:00Z"])
    }

    @Test("promise 1: in an hour that is repeated no row is lost, and a file read again changes nothing")
    func repeatedHour() throws {
        let (first, second) = ("5.4", "6.1")
        let rows = ["02:07", "02:22", "02:07", "02:22", "03:07"].enumerated().map { place, time in
            Self.row("25-10-2026 \(time)", 0, historic: place == 3 ? second : first)
        }
        let scan = Self.row("25-10-2026 02:07", 1, scan: first)
        let found = try Found(Self.file(Self.english, rows + [scan]))
        #expect(
            found.samples.map(\.time.instant.description) == [
                "2026-10-25T00:07:00Z", "2026-10-25T00:22:00Z", "2026-10-25T01:07:00Z", "2026-10-25T01:22:00Z",
                "2026-10-25T02:07:00Z", "2026-10-25T00:07:00Z",
            ])
        #expect(found.samples.prefix(4).allSatisfy { $0.time.uncertaintyMinutes == 60 })
        // A scan that stands beside the history's value is that.
        #expect(Set(found.samples.map(\.id)).count == 5 && found.samples[5].id == found.samples[0].id)
        #expect(try Found(Self.file(Self.english, rows + [scan])).samples == found.samples)
        let twice = try Found(Self.file(Self.english, Array(repeating: rows[4], count: 3)))
        #expect(Set(twice.samples.map(\.id)).count == 1)
        for sample in found.samples {
            #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
        }
    }

    @Test("two sensors that show the same value in the same minute are two readings")
    func twoSensors() throws {
        let row = Self.row("20-11-2026 07:30", 0, historic: "5.4")
        let serial = try #require(Found(Self.file(Self.english, [row])).only.sourceDevice)
        let found = try Found(Self.file(Self.english, [row, row.replacing(serial, with: "OTHER")]))
        #expect(Set(found.samples.map(\.id)).count == 2)
    }

    @Test("a test strip beside a sensor's equal value is a reading of its own")
    func strips() throws {
        let rows = [Self.row("20-11-2026 07:30", 0, historic: "5.4"), Self.row("20-11-2026 07:30", 2, strip: "5.4")]
        let found = try Found(Self.file(Self.english, rows))
        #expect(Set(found.samples.map(\.id)).count == 2)
        #expect(
            Set(try Found(Self.file(Self.english, rows.reversed())).samples.map(\.id)) == Set(found.samples.map(\.id)))
    }

    @Test("columns of another language are found by their order, and separators and quotes are heeded")
    func languages() throws {
        let french = Self.english.split(separator: ",").enumerated().map { place, name in
            name.hasSuffix("mmol/L") ? "Glucose \(place) mmol/L" : "Colonne \(place)"
        }
        let file = Self.file(french.joined(separator: ","), [Self.row("20-11-2026 07:30", 0, historic: "5.4")])
        #expect(try Found(file, format: .libreView).only.main == "5.4 mmol/L")
        let quoted = (["Glucose Data", Self.english, "\"Libre, the 3rd\",A,20-11-2026 07:30,0,\"5,4\",,,,,,,,,,,,,"])
            .joined(separator: "\n")
        let sample = try Found(quoted).only
        #expect(sample.source == "Libre, the 3rd" && sample.main == "5.4 mmol/L")
        let semicolons = file.replacing(",", with: ";")
        #expect(try Found(semicolons, format: .libreView).only.main == "5.4 mmol/L")
    }

    @Test(
        "a row that can be no sample is named with its line and column",
        arguments: [
            (row("20-11-2026 07:30", 0, historic: "high?"), "Historic Glucose mmol/L", "'high?'"),
            (row("20-11-2026 07:30", 0), "Historic Glucose mmol/L", "nothing"),
            (row("32-11-2026 07:30", 0, historic: "5.4"), "Device Timestamp", "'32-11-2026 07:30'"),
            (row("20-11-2026 27:30", 0, historic: "5.4"), "Device Timestamp", "'20-11-2026 27:30'"),
            (row("yesterday", 0, historic: "5.4"), "Device Timestamp", "'yesterday'"),
            ("FreeStyle LibreLink,ABC", "Record Type", "nothing"),
            (row("20-11-2026 07:30", 0, historic: "5,4"), "row", "20"),
        ])
    func refused(_ bad: String, _ field: String, _ text: String) throws {
        let good = Self.row("20-11-2026 07:30", 0, historic: "5.4")
        let found = try Found(Self.file(Self.english, [good, bad, good]))
        #expect(found.samples.count == 2 && found.damage == nil)
        #expect(
            found.refused == [
                ImportRefusal(line: 4, field: field, expected: found.refused.first?.expected ?? "", found: text)
            ])
    }

    @Test("of a file without LibreView's columns its first line is named, even one of NUL characters alone")
    func withoutColumns() throws {
        func found(_ text: String) throws -> String? {
            let damage = try damage(of: text, format: .libreView)
            return damage?.fault == .unknownFormat ? damage?.found : nil
        }
        #expect(try found("a,b\nc,d") == "a,b")
        #expect(try found("\0\0\0") == "\0\0\0")
        #expect(try found("\n") == "an empty file")
    }

    @Test("an id does not depend on the zone or the order of the file")
    func ids() throws {
        let file = Self.file(Self.english, [Self.row("20-11-2026 07:30", 0, historic: "5.4")])
        let there = try Found(file, zone: "America/New_York").only
        let here = try Found(file).only
        #expect(here.id == there.id && here.time.instant != there.time.instant)
    }
}

@Suite("Our own CSV")
struct OwnCSVTests {
    static let header =
        "id,kind,time,time_basis,device_time,address,model,serial,provider,sequence,"
        + "glucose_value,glucose_unit,systolic,diastolic,mean,pressure_unit,pulse,user,person,status,excluded,deliveries,value,unit"
    static let id = "9f1c0c8e9f1c0c8e9f1c0c8e9f1c0c8e"

    static func file(_ rows: String...) -> String { ([header] + rows).joined(separator: "\n") + "\n" }

    @Test("a row is the reading that it came from, with its id")
    func rows() throws {
        let found = try Found(
            Self.file(
                "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,2026-11-20T07:30:00,C0:00:00:00:18:08,accuchek_guide,123,accuchek_ble,5,95,mg/dL,,,,,,,grey_wolf,,,clinic:delivered,,",
                "\(Self.id),blood_pressure,2026-11-20T06:30:00Z,assumed_zone,,,,,omron_ble,,,,127.0,79.0,,mmHg,69.0,1,,irregular_pulse,,,,",
                "\(Self.id),weight,2026-11-20T06:30:00Z,reception,,,,,manual,,,,,,,,,,,,,,70.50,kg",
                "\(Self.id),spo2,2026-11-20T06:30:00Z,corrected,,,,,nonin,,,,,,,,64,,,,,,97,%",
                "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,95,mg/dL,,,,,,,,,control_solution,,,"))
        #expect(found.refused.isEmpty && found.damage == nil)
        #expect(found.samples.map(\.main) == ["95 mg/dL", "127.0 mmHg", "70.50 kg", "97 %"])
        #expect(found.samples.allSatisfy { $0.id == ReadingID(Self.id) })
        #expect(found.samples.map(\.person) == ["grey_wolf", "white_bear", "white_bear", "white_bear"])
        #expect(found.samples.map(\.time.basis) == [.corrected, .assumedZone, .reception, .corrected])
        #expect(found.samples.map(\.source) == ["accuchek_guide", nil, nil, nil])
        #expect(found.counts.notTaken == ["excluded: control_solution": 1])
        for sample in found.samples { #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample)) }
    }

    @Test("what a meter said of its record and what another program said come over")
    func facts() throws {
        let more =
            ",type,end_time,base_time,time_offset_minutes,time_uncertainty_minutes,sample_type,sample_location,source,"
            + "source_device,entered,utc_offset_minutes\n"
        let meter =
            "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,2026-11-20T07:30:00,C0:00:00:00:18:08,accuchek_guide,,accuchek_ble,5,"
            + "95,mg/dL,,,,,,,,,,,,,,,2026-11-20T06:30:00,60,,capillary_whole_blood,finger,,,,\n"
        let imported =
            "\(Self.id),weight,2026-11-20T06:30:00Z,corrected,2026-11-20T07:30:00,,imported,,apple_health_kit,,"
            + ",,,,,,,,,,,,70.5,kg,,2026-11-20T06:31:00Z,2026-11-20T07:30:00,,60,,,Scale,S200,true,60\n"
        let found = try Found(Self.header + more + meter + imported)
        #expect(found.refused.isEmpty)
        let (first, second) = (try #require(found.samples.first), try #require(found.samples.last))
        guard case .glucose(let glucose) = first.value else { throw Unexpected() }
        #expect(glucose.sampleType == .capillaryWholeBlood && glucose.sampleLocation == .finger)
        #expect(first.deviceTime?.base == WallTime("2026-11-20T06:30:00") && first.deviceTime?.offsetMinutes == 60)
        #expect(first.sequence == 5 && first.source == "accuchek_guide" && first.sourceDevice == "C0:00:00:00:18:08")
        #expect(second.end == Instant(rfc3339: "2026-11-20T06:31:00Z") && second.time.utcOffsetMinutes == 60)
        #expect(second.source == "Scale" && second.sourceDevice == "S200" && second.isEntered)
        #expect(second.time.uncertaintyMinutes == 60 && second.deviceTime == nil)
        let wrong =
            meter.replacing("finger", with: "toe") + meter.replacing(",60,,capillary", with: ",an hour,,capillary")
        #expect(
            try Found(Self.header + more + wrong).refused.map(\.field) == ["sample_location", "time_offset_minutes"])
    }

    @Test("a reading that is left out of figures comes with its reason; a reason that can be none is named")
    func omissions() throws {
        func file(_ omissions: [String]) -> String {
            let row = "\(Self.id),weight,2026-11-20T06:30:00Z,corrected,,,,,manual,,,,,,,,,,,,,,70.5,kg"
            return ([Self.header + ",left_out,left_out_reason"] + omissions.map { row + $0 }).joined(separator: "\n")
        }
        let reader = try ImportFile(
            octets: Array(file([",true,\"slipped, twice\"", ",,", ",true,", ",false,"]).utf8), format: .csv
        ).reader(ImportRules(person: "white_bear", zones: []))
        var omissions: [ImportedOmission?] = []
        while case .sample? = try reader.next() { omissions.append(reader.omission) }
        #expect(
            omissions == [ImportedOmission(reason: "slipped, twice"), nil, ImportedOmission(reason: nil), nil])
        let wrong = try Found(file([",yes,", ",true," + String(repeating: "a", count: 201), ",true,\"two\nlines\""]))
        #expect(wrong.samples.isEmpty)
        #expect(wrong.refused.map(\.field) == ["left_out", "left_out_reason", "left_out_reason"])
    }

    private struct Unexpected: Error {}

    @Test("quoted names, columns in another order and other line ends change nothing", arguments: ["\n", "\r\n", "\r"])
    func spreadsheets(_ end: String) throws {
        let row = "\(Self.id),weight,2026-11-20T06:30:00Z,corrected,,,,,manual,,,,,,,,,,,,,,70500,g"
        let plain = Self.file(row).replacing("\n", with: end)
        #expect(try Found(plain).only.main == "70.500 kg")
        let cells = { (line: String) in line.split(separator: ",", omittingEmptySubsequences: false) }
        let changed = [Self.header, row].map { line in
            cells(line).reversed().map { "\"\($0)\"" }.joined(separator: ",")
        }
        #expect(try Found(changed.joined(separator: end)).only == Found(plain).only)
    }

    @Test("what a spreadsheet makes of it is read: semicolons or tabs, a decimal comma and a byte order mark")
    func otherSpreadsheets() throws {
        let row = "\(Self.id),weight,2026-11-20T06:30:00Z,corrected,,,,,manual,,,,,,,,,,,,,,70.5,kg"
        let plain = Self.file(row)
        for (separator, comma) in [(";", ","), (";", "."), ("\t", ","), (",", ".")] {
            let text = plain.replacing(",", with: separator).replacing("70.5", with: "70\(comma)5")
            #expect(try Found(text).only == Found(plain).only)
            #expect(try Found("\u{FEFF}" + text).only == Found(plain).only)
        }
        // Where a comma parts cells, it is no decimal comma: 1,234 might be a thousand.
        let doubtful = try Found(plain.replacing("70.5", with: "\"70,5\""))
        #expect(doubtful.samples.isEmpty && doubtful.refused.map(\.field) == ["value"])
    }

    @Test(
        "true and false are read in the capitals, and in the language, that a spreadsheet writes them in",
        arguments: [("TRUE", "FALSE"), ("WAHR", "FALSCH"), ("VRAI", "FAUX"), ("VERDADERO", "FALSO")])
    func truthValues(yes: String, no: String) throws {
        let row = "\(Self.id),weight,2026-11-20T06:30:00Z,corrected,,,imported,,manual,,,,,,,,,,,,,,70.5,kg"
        func reader(_ entered: String, _ leftOut: String) throws -> any ImportReader {
            let text = Self.header + ",entered,left_out\n" + row + ",\(entered),\(leftOut)\n"
            return try ImportFile(octets: Array(text.utf8), format: .csv)
                .reader(ImportRules(person: "white_bear", zones: []))
        }
        for (entered, leftOut) in [("true", ""), ("false", "true"), ("false", "false")] {
            let words = ["true": yes, "false": no]
            let (plain, changed) = (
                try reader(entered, leftOut), try reader(words[entered] ?? "", words[leftOut] ?? "")
            )
            guard case .sample(let sample)? = try plain.next() else { throw Unexpected() }
            #expect(try changed.next() == ImportItem.sample(sample))
            #expect(changed.omission == plain.omission && sample.isEntered == (entered == "true"))
        }
    }

    @Test(
        "a row is read whose last cells are empty and were left out by a spreadsheet; one that was cut is not",
        arguments: ["\n", "\r\n", "\r"])
    func shortRows(_ end: String) throws {
        func found(_ row: String) throws -> Found { try Found(Self.header + end + row + end) }
        let start = "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,95,mg/dL"
        let whole = start + ",,,,,,,,,,clinic:delivered,,"
        let expected = try found(whole).only
        #expect(try found(start + ",,,,,,,,,,clinic:delivered").only == expected)
        #expect(try found(start + ",,,,,,,,,").only == expected)
        let excluded = try found(start + ",,,,,,,,,control_solution")
        #expect(excluded.samples.isEmpty && excluded.counts.notTaken == ["excluded: control_solution": 1])
        // It does not say whether it is excluded; it has too many cells; the file may have been cut in it.
        let refused = try [
            found(start + ",,,,,,,,"), found(whole + ","),
            Found(Self.header + end + start + ",,,,,,,,,,clinic:del"),
        ]
        #expect(refused.allSatisfy { $0.samples.isEmpty && $0.refused.map(\.field) == ["row"] })
        let last = try Found(Self.header + end + whole)
        #expect(try last.only == expected)
    }

    @Test("the CSV of a report is refused with what to give instead")
    func report() throws {
        let found = try damage(of: "id,time,local_date,local_time,time_zone,value,unit\n1,2,3,4,5,6,7\n")
        #expect(found?.hint?.contains("query --format csv") == true)
    }

    @Test("without the column that says what is no reading the file is refused")
    func withoutExclusions() throws {
        let file = Self.file("\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,95,mg/dL,,,,,,,,,error,,,")
            .replacing("excluded,", with: "was,")
        #expect(try damage(of: file, format: .csv)?.expected == "a column named excluded")
    }

    @Test("a cell that can be none is named")
    func refused() throws {
        let found = try Found(
            Self.file(
                "x,glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,95,mg/dL,,,,,,,,,,,,",
                "\(Self.id),glucose,2026-11-20,corrected,,,,,x,,95,mg/dL,,,,,,,,,,,,",
                "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,ninety,mg/dL,,,,,,,,,,,,",
                "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,95,stone,,,,,,,,,,,,",
                "\(Self.id),steps,2026-11-20T06:30:00Z,corrected,,,,,x,,95,mg/dL,,,,,,,,,,,,",
                "\(Self.id),glucose,2026-11-20T06:30:00Z,corrected"))
        #expect(found.samples.isEmpty)
        #expect(found.refused.map(\.field) == ["id", "time", "glucose_value", "glucose_unit", "kind", "row"])
        #expect(found.refused.map(\.line) == [2, 3, 4, 5, 6, 7])
    }

    @Test("quotes that do not end, and rows that do not, are damage")
    func damaged() throws {
        #expect(try Found(Self.file("\"\(Self.id),glucose")).damage?.line == 2)
        #expect(try Found(Self.file("\"" + String(repeating: "a", count: 100_000))).damage?.fault == .damaged)
    }
}

@Suite("Numbers and times of text")
struct TextValueTests {
    @Test(
        "numbers that a file writes keep their digits",
        arguments: [
            ("72", "72"), ("-0.50", "-0.50"), ("6.2e-05", "0.000062"), ("1E2", "100"),
            ("70.30681599999999", "70.30681599999999"),
            ("0.12345678901234567890123", "0.12345678901234567"), ("00012", "12"), ("1234567890123456789", nil),
            ("", nil), (".5", nil), ("1.2.3", nil), ("nan", nil), ("1e", nil), ("1e400", nil), ("12 ", nil),
            ("0x10", nil),
            ("0e99", "0"),
        ] as [(String, String?)])
    func decimals(_ text: String, _ expected: String?) throws {
        let row = AppleHealthTests.record("BodyMass", text, "kg")
        let found = try Found(AppleHealthTests.export(row))
        #expect(found.samples.first?.main == expected.map { "\($0) kg" })
    }
}
