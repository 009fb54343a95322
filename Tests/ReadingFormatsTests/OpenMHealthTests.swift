import Foundation
import HealthReadings
import Testing

@testable import ReadingFormats

@Suite("Open mHealth data points")
struct OpenMHealthTests {
    private func points(
        _ value: RecordValue, context: GlucoseContext? = nil, header: OpenMHealth.Header = .openMHealth
    ) throws -> Formatted<[JSONValue]> {
        try OpenMHealth.dataPoints(
            of: Samples.reading(value, context: context), in: Samples.context(), header: header)
    }

    @Test("a glucose with its meal, as a whole")
    func glucose() throws {
        var context = GlucoseContext()
        context.meal = "preprandial"
        let found = try points(Samples.glucose("5.90", .millimolesPerLitre), context: context)
        #expect(
            found.document.map(\.text) == [
                // The id is Python's uuid5 of the name open_mhealth/0…1/blood-glucose.
                #"{"header":{"id":"1218141e-63c3-57d5-9837-12e663c9b956","creation_date_time":"2026-11-22T08:20:00+01:00","#
                    + #""schema_id":{"namespace":"omh","name":"blood-glucose","version":"4.0"},"#
                    + #""acquisition_provenance":{"source_name":"Omron HEM-7361T","#
                    + #""source_data_point_id":"00000000000000000000000000000001","#
                    + #""source_creation_date_time":"2026-11-22T08:15:00+01:00","modality":"sensed"},"user_id":"white_bear"},"#
                    + #""body":{"blood_glucose":{"value":5.90,"unit":"mmol/L"},"specimen_source":"capillary blood","#
                    + #""temporal_relationship_to_meal":"before meal","#
                    + #""effective_time_frame":{"date_time":"2026-11-22T08:15:00+01:00"}}}"#
            ])
        #expect(found.omissions == [FormatOmission(.noPlace, of: "sample_location")])
    }

    @Test("the header of IEEE 1752.1 has other names, and neither person nor source")
    func ieeeHeader() throws {
        let found = try points(Samples.glucose(location: nil), header: .ieee1752)
        let ours = try points(Samples.glucose(location: nil))
        let header = try #require(found.document.first?["header"])
        #expect(
            header.text
                == #"{"uuid":"1218141e-63c3-57d5-9837-12e663c9b956","schema_id":{"namespace":"omh","name":"blood-glucose","version":"4.0"},"#
                + #""source_creation_date_time":"2026-11-22T08:15:00+01:00","modality":"sensed"}"#)
        #expect(found.document.first?["body"] == ours.document.first?["body"])
        #expect(found.omissions.map(\.part) == ["person", "device"])
    }

    @Test("what a person typed, here or in another program, is self-reported", arguments: OpenMHealth.Header.allCases)
    func modality(header: OpenMHealth.Header) throws {
        func modalities(_ change: (inout Record) -> Void) throws -> [String] {
            var reading = try Samples.reading(Samples.pressures())
            change(&reading.record)
            let points = try OpenMHealth.dataPoints(of: reading, in: Samples.context(), header: header)
            let path = header == .ieee1752 ? "header.modality" : "header.acquisition_provenance.modality"
            return points.document.compactMap { $0.at(path)?.string }
        }
        let (typed, sensed) = (["self-reported", "self-reported"], ["sensed", "sensed"])
        #expect(try modalities({ $0.entry = EntryFacts() }) == typed)
        #expect(try modalities({ $0.imported = Self.imported(isEntered: true) }) == typed)
        #expect(try modalities({ $0.imported = Self.imported(isEntered: false) }) == sensed)
        #expect(try modalities({ _ in }) == sensed)
    }

    private static func imported(isEntered: Bool) -> ImportFacts? {
        let value = VitalValue(
            kind: .weight, [.init(.weight, Quantity(ExactDecimal(significand: 70), .kilograms))])
        let sample = ImportedSample(
            person: "white_bear", provider: "apple_health_kit", source: "Scale", isEntered: isEntered,
            value: .vital(value), time: ImportedTime(Instant(seconds: 1_790_000_000), utcOffsetMinutes: 0))
        return sample.record.imported
    }

    @Test("a blood pressure has another point for its pulse, and no place for mean and status")
    func bloodPressure() throws {
        let reading = try Samples.reading(
            Samples.pressures(mean: .value(Samples.decimal("97"))), status: .irregularPulse, uncertainty: 60)
        let found = try OpenMHealth.dataPoints(of: reading, in: Samples.context())
        #expect(
            found.document.compactMap { $0.at("header.schema_id.name")?.string } == ["blood-pressure", "heart-rate"])
        #expect(
            found.document.first?.at("body.systolic_blood_pressure")?.text == #"{"value":128.0,"unit":"mmHg"}"#)
        #expect(found.document.last?.at("body.heart_rate")?.text == #"{"value":64.0,"unit":"beats/min"}"#)
        #expect(
            found.omissions == [
                FormatOmission(.noPlace, of: "blood_pressure.mean"),
                FormatOmission(.noPlace, of: "status.irregular_pulse"),
                FormatOmission(.noPlace, of: "time_uncertainty_minutes"),
            ])
    }

    @Test("pressures in kPa are converted, and that is said")
    func kilopascal() throws {
        let found = try points(Samples.pressures("16.9", "10.5", pulse: nil, unit: .kilopascal))
        #expect(found.document.first?.at("body.diastolic_blood_pressure.value")?.text == "78.76")
        #expect(
            found.omissions == [
                FormatOmission(.converted, of: "blood_pressure.systolic"),
                FormatOmission(.converted, of: "blood_pressure.diastolic"),
                FormatOmission(.notANumber, of: "blood_pressure.mean"),
            ])
    }

    @Test("each kind has its schemas")
    func everyKind() throws {
        let context = try Samples.context()
        var found: [String] = []
        for reading in try Samples.everyKind() where reading.kind != .hrv {
            for point in try OpenMHealth.dataPoints(of: reading, in: context).document {
                let value = point["body"]?.text.firstMatch(of: /\{"value":([^}]*)\}/)?.1 ?? ""
                let version = point.at("header.schema_id.version")?.string ?? ""
                found.append("\(point.at("header.schema_id.name")?.string ?? ""):\(version) \(value)")
            }
        }
        #expect(
            found == [
                #"blood-glucose:4.0 106,"unit":"mg/dL""#, #"blood-pressure:4.0 128.0,"unit":"mmHg""#,
                #"heart-rate:2.0 64.0,"unit":"beats/min""#, #"heart-rate:2.0 72,"unit":"beats/min""#,
                #"oxygen-saturation:2.0 97,"unit":"%""#, #"heart-rate:2.0 61,"unit":"beats/min""#,
                #"body-temperature:4.0 36.60,"unit":"C""#, #"body-weight:3.0 71.205,"unit":"kg""#,
                #"body-mass-index:3.0 22.5,"unit":"kg/m^2""#, #"body-height:2.0 1.780,"unit":"m""#,
                #"body-fat-percentage:2.0 21.4,"unit":"%""#, #"body-weight:3.0 71.200,"unit":"kg""#,
            ])
    }

    @Test(
        "what a schema has no word for is named",
        arguments: [
            (GlucoseSampleType.venousWholeBlood, ["sample_type: no_place"]),
            (.capillaryPlasma, ["sample_type: no_place"]), (.interstitialFluid, []), (.reserved, []),
        ])
    func specimens(sample: GlucoseSampleType, omissions: [String]) throws {
        let found = try points(Samples.glucose(sample: sample, location: nil))
        #expect(found.omissions.map(\.description) == omissions)
    }

    @Test("bedtime is a relation to sleep, and a casual meal none")
    func meals() throws {
        var context = GlucoseContext()
        context.meal = "bedtime"
        let bedtime = try points(Samples.glucose(location: nil), context: context)
        #expect(bedtime.document.first?.at("body.temporal_relationship_to_sleep") == "before sleeping")
        #expect(bedtime.omissions.isEmpty)
        context.meal = "casual"
        let casual = try points(Samples.glucose(location: nil), context: context)
        #expect(casual.omissions == [FormatOmission(.noPlace, of: "context.meal")])
    }

    @Test("what can't be written is refused")
    func refused() throws {
        let context = try Samples.context()
        #expect(throws: FormatOmission(.excluded)) {
            try OpenMHealth.dataPoints(of: Samples.reading(Samples.glucose(), excluded: .ketone), in: context)
        }
        #expect(throws: FormatOmission(.noTime)) {
            try OpenMHealth.dataPoints(of: Samples.reading(Samples.glucose(), time: nil, basis: .unknown), in: context)
        }
        #expect(throws: FormatOmission(.noPlace, of: "hrv")) {
            try OpenMHealth.dataPoints(
                of: Samples.reading(Samples.vital(.hrv, [(.rmssd, "40", .milliseconds)])), in: context)
        }
        #expect(throws: FormatOmission(.notANumber, of: "glucose")) {
            try OpenMHealth.dataPoints(
                of: Samples.reading(
                    .glucose(GlucoseValue(concentration: Quantity(.notANumber, .milligramsPerDecilitre)))),
                in: context)
        }
    }
}
