import HealthReadings
import ReadingImport

/// Files of other programs.
extension FuzzTarget {
    /// An Apple Health export.
    static let appleHealth = FuzzTarget(
        "appleHealth", longest: 4096,
        words: [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "<!DOCTYPE HealthData [", "]>", "<!ENTITY a \"b\">", "<!--",
            "-->",
            "<HealthData>", "</HealthData>", "<Record ", "/>", "</Record>", "<Correlation ", "</Correlation>",
            "<MetadataEntry key=\"HKWasUserEntered\" value=\"1\"/>", "type=\"HKQuantityTypeIdentifierBodyMass\" ",
            "type=\"HKQuantityTypeIdentifierBloodPressureSystolic\" ", "unit=\"kg\" ", "unit=\"%\" ", "value=\"70.5\" ",
            "startDate=\"2026-11-20 07:30:00 +0100\" ", "endDate=\"2026-11-20 07:30:00 +0100\" ", "sourceName=\"a\" ",
            "&lt;", "&#10;", "&a;", "1e-05", "<![CDATA[",
        ],
        seeds: { _ in
            let pressure = { (side: String, value: Int) in
                "<Record type=\"HKQuantityTypeIdentifierBloodPressure\(side)\" sourceName=\"a\" unit=\"mmHg\" "
                    + "startDate=\"2026-11-20 07:30:00 +0100\" endDate=\"2026-11-20 07:30:00 +0100\" value=\"\(value)\"/>\n"
            }
            let body =
                pressure("Systolic", 128) + pressure("Diastolic", 82)
                + "<Record type=\"HKQuantityTypeIdentifierBloodGlucose\" sourceName=\"b\" unit=\"mmol&lt;180.1558800000541&gt;/L\" "
                + "startDate=\"2026-11-20 07:30:00 +0100\" endDate=\"2026-11-20 07:31:00 +0100\" value=\"5.6\">\n"
                + "<MetadataEntry key=\"HKBloodGlucoseMealTime\" value=\"1\"/></Record>\n"
            let correlation =
                "<Correlation type=\"HKCorrelationTypeIdentifierBloodPressure\" sourceName=\"a\" "
                + "startDate=\"2026-11-20 07:30:00 +0100\" endDate=\"2026-11-20 07:30:00 +0100\">\n"
                + pressure("Systolic", 128) + pressure("Diastolic", 82) + "</Correlation>\n"
            return [
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE HealthData [\n<!-- a -->\n]>\n"
                    + "<HealthData locale=\"de_DE\">\n\(body)\(correlation)</HealthData>\n",
                "<HealthData>\(body)</HealthData>",
                "<!DOCTYPE HealthData><!DOCTYPE HealthData [<!ENTITY a \"b\">]><HealthData>"
                    + body.replacing("\"b\"", with: "\"&a;&a;\"") + "</HealthData>",
            ].inputs
        }
    ) { octets in ImportProperties.check(octets, .appleHealth) }

    /// A CSV of LibreView.
    static let libreView = FuzzTarget(
        "libreView", longest: 2048,
        words: [
            "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mmol/L,Scan Glucose mmol/L",
            "Gerät", "Gerätezeitstempel", "\r\n", "\"", "20-11-2026 07:30", "11-20-2026 07:30 PM", "2026-11-20 07:30",
            ",0,", "5,6",
        ],
        seeds: { _ in
            let header = "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mmol/L,Scan Glucose mmol/L"
            return [
                "Glucose Data,Generated on,24-02-2026 12:12 UTC\n\(header)\nLibre,A,20-11-2026 07:30,0,5.4,\n"
                    + "\"Libre, 3\",A,05-11-2026 07:30,1,,\"5,6\"\n",
                "\u{FEFF}\(header)\r\nLibre,A,11-20-2026 07:30 PM,0,5.4,\r\nLibre,A,11-20-2026 07:30 PM,6,,\r\n",
            ].inputs
        }
    ) { octets in ImportProperties.check(octets, .libreView) }

    /// The CSV of `query`.
    static let readingCSV = FuzzTarget(
        "readingCSV", longest: 2048,
        words: [
            "glucose", "blood_pressure", "weight", "corrected", "assumed_zone", "mg/dL", "mmHg", "\"", "\"\"", ",,",
            "\n",
        ],
        seeds: { _ in
            [
                "id,kind,time,time_basis,provider,glucose_value,glucose_unit,systolic,diastolic,pressure_unit,value,unit,excluded\n"
                    + "9f1c0c8e9f1c0c8e9f1c0c8e9f1c0c8e,glucose,2026-11-20T06:30:00Z,corrected,x,95,mg/dL,,,,,,\n"
                    + "9f1c0c8e9f1c0c8e9f1c0c8e9f1c0c8f,blood_pressure,2026-11-20T06:30:00Z,corrected,x,,,127.0,79.0,mmHg,,,\n"
                    + "9f1c0c8e9f1c0c8e9f1c0c8e9f1c0c80,weight,2026-11-20T06:30:00Z,assumed_zone,\"x\",,,,,,70.5,kg,\n"
            ].inputs
        }
    ) { octets in ImportProperties.check(octets, .csv) }

    /// The frame of an imported sample.
    static let importedSample = FuzzTarget(
        "importedSample", longest: 1024,
        words: [
            "imported sample 1\n", "person ", "provider ", "kind glucose", "start ", "basis corrected", "offset ",
            "value glucose 5.6 mmol/L",
        ],
        seeds: { _ in
            let text =
                "imported sample 1\nperson p\nprovider x\nsource a b\nentered\nkind blood_pressure\nstart 1795156200\n"
                + "basis corrected\noffset 60\nend 1795156260\nvalue systolic 128 mmHg\nvalue diastolic 82 mmHg"
            return [text].inputs
        }
    ) { octets in
        guard case .imported(let sample) = DecodedFrame(importedSample: octets) else { return }
        expect(sample.octets == octets, "a sample is not what its octets say")
        _ = (sample.id, sample.record.document(context: sample.context).text)
    }
}

private enum ImportProperties {
    /// Reads it twice: it ends, says the same, and gives samples that can be stored.
    static func check(_ octets: [UInt8], _ format: ImportFormat) {
        let (first, second) = (read(octets, format), read(octets, format))
        expect(first == second, "the same file says two things")
        for item in first {
            switch item {
            case .sample(let sample):
                expect(
                    DecodedFrame(importedSample: sample.octets) == .imported(sample), "a sample that cannot be stored")
                _ = sample.id
            case .refused(let refusal):
                expect(
                    refusal.line >= 1 && !refusal.expected.isEmpty && !refusal.found.isEmpty, "a refusal says nothing")
            }
        }
    }

    private static func read(_ octets: [UInt8], _ format: ImportFormat) -> [ImportItem] {
        guard let zone = ZoneRules.named("Europe/Berlin") else { return [] }
        let rules = ImportRules(
            person: "white_bear", zones: [(Instant(microseconds: .min), zone)], takesPeople: true)
        var items: [ImportItem] = []
        do throws(ImportDamage) {
            let reader = try ImportFile(octets: octets, format: format).reader(rules)
            while let item = try reader.next() { items.append(item) }
        } catch {
            expect(!error.expected.isEmpty && !error.found.isEmpty, "damage says nothing")
        }
        return items
    }
}
