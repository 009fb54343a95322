import Foundation
import HealthFigures
import HealthReadings
import Testing

@testable import ReadingFormats

@Suite("Terra's body of a whole day")
struct TerraBodyTests {
    private func body(
        _ readings: [Reading], day: (Int, Int, Int) = (2026, 11, 22), zone: String = "Europe/Berlin"
    ) throws -> TerraBody {
        let day = try #require(LocalDay(year: day.0, month: day.1, day: day.2, in: Samples.zone(zone)))
        var body = TerraBody(day, in: try Samples.context(zone: zone))
        for reading in readings { try body.add(reading) }
        return body
    }

    @Test("a day of two cuff readings and a glucose, as a whole")
    func day() throws {
        let readings = try [
            Samples.reading(
                Samples.pressures("121.0", "80", pulse: nil), id: 3, device: Samples.cuff, time: "2026-11-22T19:30:00Z"),
            Samples.reading(Samples.pressures("128.0", "82"), id: 2, device: Samples.cuff),
            Samples.reading(
                Samples.glucose("5.9", .millimolesPerLitre), id: 1, time: "2026-11-22T06:00:00Z"),
        ]
        let document = try body(readings).document.text
        let device = #""name":"HEM-7361T","manufacturer":"Omron","serial_number""#
        #expect(
            document
                == #"{"type":"body","version":"2022-03-16","user":{"user_id":"ccd6b50e-b09a-533b-ab0f-da77667723c7","provider":"HEALTHRELAY","#
                + #""reference_id":"white_bear"},"data":[{"#
                + #""metadata":{"start_time":"2026-11-22T00:00:00.000000+01:00","end_time":"2026-11-23T00:00:00.000000+01:00","#
                + #""timestamp_localization":1},"device_data":{"# + device + #":"123","other_devices":[{"# + device
                + #":"20260101"}]},"blood_pressure_data":{"blood_pressure_samples":[{"#
                + #""timestamp":"2026-11-22T08:15:00.000000+01:00","systolic_bp":128.0,"diastolic_bp":82},{"#
                + #""timestamp":"2026-11-22T20:30:00.000000+01:00","systolic_bp":121.0,"diastolic_bp":80}],"#
                + #""day_avg_systolic_bp":124.5,"day_avg_diastolic_bp":81.0},"glucose_data":{"#
                + #""blood_glucose_samples":[{"timestamp":"2026-11-22T07:00:00.000000+01:00","#
                + #""blood_glucose_mg_per_dL":106.3}],"day_avg_blood_glucose_mg_per_dL":106.3},"heart_data":{"#
                + #""heart_rate_data":{"detailed":{"hr_samples":[{"timestamp":"2026-11-22T08:15:00.000000+01:00","#
                + #""bpm":64.0}]},"summary":{"avg_hr_bpm":64.0,"max_hr_bpm":64.0,"min_hr_bpm":64.0}}}}]}"#)
    }

    @Test("the order in which readings are added doesn't matter")
    func order() throws {
        let readings = try Samples.everyKind()
        #expect(try body(readings).document == body(readings.reversed()).document)
    }

    @Test("each kind has its list, and averages are exact")
    func everyKind() throws {
        let data = try #require(try body(Samples.everyKind()).document.at("data.0"))
        #expect(data.at("heart_data.heart_rate_data.detailed.hr_samples")?.elements.count == 3)
        // (64.0 + 72 + 61) / 3 = 65.666…
        #expect(data.at("heart_data.heart_rate_data.summary.avg_hr_bpm")?.text == "65.7")
        #expect(data.at("heart_data.heart_rate_data.summary.max_hr_bpm")?.text == "72")
        #expect(data.at("heart_data.heart_rate_data.detailed.hrv_samples_rmssd.0.hrv_rmssd")?.text == "41.50")
        #expect(
            data.at("oxygen_data.saturation_samples.0")?.text
                == #"{"timestamp":"2026-11-22T08:15:00.000000+01:00","percentage":97,"type":0}"#)
        #expect(data.at("temperature_data.day_avg_body_temperature_celsius")?.text == "36.60")
        #expect(
            data.at("measurements_data.measurements")?.elements.map(\.text) == [
                #"{"measurement_time":"2026-11-22T08:15:00.000000+01:00","BMI":22.5,"weight_kg":71.205,"height_cm":178.0}"#,
                #"{"measurement_time":"2026-11-22T08:15:00.000000+01:00","bodyfat_percentage":21.4,"weight_kg":71.200,"#
                    + #""lean_mass_g":55960}"#,
            ])
    }

    @Test("a scan's trend is in an average only behind the sensor's history; the list has all of it")
    func scan() throws {
        let meter = try Samples.reading(Samples.glucose("110"), time: "2026-11-22T06:00:00Z")
        let data = try #require(try body(Samples.scan() + [meter]).document.at("data.0.glucose_data"))
        #expect(data.at("blood_glucose_samples")?.elements.count == 30)
        // (13 × 100 + 110) / 14 = 100.714…
        #expect(data.at("day_avg_blood_glucose_mg_per_dL")?.text == "100.7")
        // Behind the history each counts by its minute: (13 × 15 × 100 + 16 × 300 + 15 × 110) / (13 × 15 + 16 + 15) = 114.82.
        let late = try #require(try body(Samples.scan(late: 30) + [meter]).document.at("data.0.glucose_data"))
        #expect(late.at("day_avg_blood_glucose_mg_per_dL")?.text == "114.8")
    }

    @Test("a day without readings has its metadata alone: what was there is taken back")
    func emptyDay() throws {
        let data = try #require(try body([]).document.at("data.0"))
        #expect(
            data.text
                == #"{"metadata":{"start_time":"2026-11-22T00:00:00.000000+01:00","#
                + #""end_time":"2026-11-23T00:00:00.000000+01:00","timestamp_localization":1}}"#)
    }

    @Test("a day of 25 hours begins and ends with different offsets")
    func longDay() throws {
        let metadata = try #require(try body([], day: (2026, 10, 25)).document.at("data.0.metadata"))
        #expect(metadata["start_time"] == "2026-10-25T00:00:00.000000+02:00")
        #expect(metadata["end_time"] == "2026-10-26T00:00:00.000000+01:00")
    }

    @Test("a reading of another day is refused, by the person's zone")
    func otherDay() throws {
        let late = try Samples.reading(Samples.glucose(), time: "2026-11-22T23:30:00Z")
        #expect(throws: FormatOmission(.otherDay)) { try body([late]) }
        let next = try body([late], day: (2026, 11, 23))
        #expect(
            next.document.at("data.0.glucose_data.blood_glucose_samples.0.timestamp")
                == "2026-11-23T00:30:00.000000+01:00")
        #expect(try body([late], zone: "America/New_York").document.has("data.0.glucose_data"))
    }

    @Test("a reading added again replaces the former, and one that is excluded is refused")
    func again() throws {
        var body = try body([Samples.reading(Samples.glucose("106"))])
        try body.add(Samples.reading(Samples.glucose("107")))
        #expect(body.document.at("data.0.glucose_data.blood_glucose_samples")?.elements.count == 1)
        #expect(throws: FormatOmission(.excluded)) {
            try body.add(Samples.reading(Samples.glucose("300"), id: 9, excluded: .controlSolution))
        }
        #expect(body.document.at("data.0.glucose_data.day_avg_blood_glucose_mg_per_dL")?.text == "107.0")
    }

    @Test("what Terra has no field for, or in another unit, is named")
    func omissions() throws {
        var body = try body([])
        var context = GlucoseContext()
        context.meal = "fasting"
        let glucose = try body.add(
            Samples.reading(
                Samples.glucose("5.9", .millimolesPerLitre), status: .deviceBatteryLow, context: context))
        #expect(
            glucose.map(\.description) == [
                "glucose: converted", "sample_type: no_place", "sample_location: no_place", "context.meal: no_place",
                "status.device_battery_low: no_place",
            ])
        let composition = try body.add(
            Samples.reading(
                Samples.vital(
                    .bodyComposition,
                    [
                        (.bodyFat, "20.1", .percent), (.basalMetabolism, "7000", .kilojoules),
                        (.bodyWaterMass, "40.0", .kilograms), (.impedance, "0", .ohms),
                    ]), id: 2))
        #expect(
            composition.map(\.description) == [
                "basal_metabolism: converted", "body_water_mass: no_place", "impedance: excluded",
            ])
        // 7000 / 4.184 = 1673.04
        #expect(body.document.at("data.0.measurements_data.measurements.0.BMR")?.text == "1673")
    }
}
