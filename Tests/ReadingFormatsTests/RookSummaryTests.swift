import HealthFigures
import HealthReadings
import Testing

@testable import ReadingFormats

@Suite("ROOK's summary of a whole day")
struct RookSummaryTests {
    private func document(
        _ readings: [Reading], version: Int = 1, zone: String = "Europe/Berlin"
    ) throws -> JSONValue {
        let day = try #require(LocalDay(year: 2026, month: 11, day: 22, in: Samples.zone(zone)))
        var summary = DaySummary(PersonDay(day))
        for reading in readings { summary.add(reading) }
        return try RookSummary.document(
            of: summary, in: Samples.context(zone: zone), clientUUID: "9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11",
            documentVersion: version
        ) { $0.model == "omron_bp7000" ? DeviceFacts(manufacturer: "Omron", model: "BP7000") : DeviceFacts() }
    }

    @Test("a day of two cuff readings and two glucoses, as a whole")
    func day() throws {
        let readings = try [
            Samples.reading(
                Samples.pressures("121.0", "80", pulse: nil), id: 3, device: Samples.cuff, time: "2026-11-22T19:30:00Z"),
            Samples.reading(Samples.pressures("128.0", "83"), id: 2, device: Samples.cuff),
            Samples.reading(Samples.glucose("5.9", .millimolesPerLitre), id: 1, time: "2026-11-22T06:00:00Z"),
            Samples.reading(Samples.glucose("111"), id: 4, time: "2026-11-22T08:00:00Z"),
        ]
        #expect(
            try document(readings, version: 3).text
                == #"{"client_uuid":"9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11","user_id":"white_bear","version":2,"document_version":3,"#
                + #""auto_detected":false,"data_structure":"body_summary","body_health":{"summary":{"body_summary":{"#
                + #""metadata":{"datetime_string":"2026-11-22T00:00:00.000000Z","user_id_string":"white_bear","#
                + #""sources_of_data_array":["Omron BP7000","accuchek_guide"]},"#
                + #""blood_glucose":{"blood_glucose_avg_mg_per_dL_int":109,"blood_glucose_granular_data_array":["#
                + #"{"blood_glucose_mg_per_dL_int":106,"datetime_string":"2026-11-22T06:00:00.000000Z","interval_duration_seconds_float":0},"#
                + #"{"blood_glucose_mg_per_dL_int":111,"datetime_string":"2026-11-22T08:00:00.000000Z","interval_duration_seconds_float":0}]},"#
                + #""blood_pressure":{"blood_pressure_avg_object":{"systolic_mmHg_int":124,"diastolic_mmHg_int":82},"#
                + #""blood_pressure_granular_data_array":["#
                + #"{"systolic_mmHg_int":128,"diastolic_mmHg_int":83,"datetime_string":"2026-11-22T07:15:00.000000Z","interval_duration_seconds_float":0},"#
                + #"{"systolic_mmHg_int":121,"diastolic_mmHg_int":80,"datetime_string":"2026-11-22T19:30:00.000000Z","interval_duration_seconds_float":0}]},"#
                + #""heart_rate":{"hr_maximum_bpm_int":64,"hr_minimum_bpm_int":64,"hr_avg_bpm_int":64,"hr_resting_bpm_int":null,"#
                + #""hr_granular_data_array":[{"hr_bpm_int":64,"datetime_string":"2026-11-22T07:15:00.000000Z","interval_duration_seconds_float":0}],"#
                + #""hrv_avg_rmssd_float":null,"hrv_avg_sdnn_float":null,"hrv_sdnn_granular_data_array":[],"hrv_rmssd_granular_data_array":[]},"#
                + #""non_structured_data_array":[]}}}}"#)
    }

    @Test("each kind has its part, and a body composition the parts that ROOK has")
    func everyKind() throws {
        let document = try document(Samples.everyKind())
        let summary = try #require(document.at("body_health.summary.body_summary"))
        // (64.0 + 72 + 61) / 3 = 65.666…
        #expect(summary.at("heart_rate.hr_avg_bpm_int")?.text == "66")
        #expect(summary.at("heart_rate.hrv_rmssd_granular_data_array.0.hrv_rmssd_float")?.text == "41.50")
        #expect(summary.at("oxygenation.saturation_avg_percentage_int")?.text == "97")
        #expect(summary.at("temperature.temperature_avg_object.temperature_celsius_float")?.text == "36.60")
        #expect(summary.at("body_metrics.height_cm_int")?.text == "178")
        #expect(summary.at("body_metrics.bmi_float")?.text == "22.5")
    }

    @Test("a scan's trend is in an average only behind the sensor's history; the list has all of it")
    func scan() throws {
        let meter = try Samples.reading(Samples.glucose("110"), time: "2026-11-22T06:00:00Z")
        let summary = try #require(
            try document(Samples.scan() + [meter]).at("body_health.summary.body_summary.blood_glucose"))
        #expect(summary.at("blood_glucose_granular_data_array")?.elements.count == 30)
        #expect(summary.at("blood_glucose_avg_mg_per_dL_int")?.text == "101")
        // Behind the history each counts by its minute: 114.82, as in Terra's.
        let late = try #require(
            try document(Samples.scan(late: 30) + [meter]).at("body_health.summary.body_summary.blood_glucose"))
        #expect(late.at("blood_glucose_avg_mg_per_dL_int")?.text == "115")
    }

    @Test("a date is the person's own wherever they are, and the hash is over it")
    func date() throws {
        for zone in ["Pacific/Kiritimati", "Pacific/Honolulu"] {
            let document = try document([], zone: zone)
            #expect(
                RookSummary.hashedText(of: document)
                    == "9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11white_bear2026-11-22T00:00:00.000000Z")
            // Nothing was measured, or what was is taken back: the document replaces the former one.
            #expect(!document.has("body_health.summary.body_summary.blood_glucose"))
        }
    }

    @Test("nobody's day is written for nobody")
    func nobody() throws {
        var context = try Samples.context()
        context.person = ""
        let day = try #require(LocalDay(year: 2026, month: 11, day: 22, in: Samples.zone()))
        #expect(throws: FormatOmission(.notKnown, of: "person")) {
            try RookSummary.document(of: DaySummary(PersonDay(day)), in: context, clientUUID: "")
        }
    }
}
