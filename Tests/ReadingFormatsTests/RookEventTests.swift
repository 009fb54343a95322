import Foundation
import HealthReadings
import Testing

@testable import ReadingFormats

@Suite("ROOK's events")
struct RookEventTests {
    private func documents(_ value: RecordValue, version: Int = 1) throws -> Formatted<[JSONValue]> {
        try RookEvents.documents(
            of: Samples.reading(value), in: Samples.context(), clientUUID: "c0ffee", documentVersion: version)
    }

    @Test("a blood pressure, as a whole")
    func bloodPressure() throws {
        let found = try documents(Samples.pressures(pulse: nil), version: 2)
        #expect(
            found.document.map(\.text) == [
                #"{"client_uuid":"c0ffee","user_id":"white_bear","version":2,"document_version":2,"auto_detected":false,"#
                    + #""data_structure":"blood_pressure_event","body_health":{"events":{"blood_pressure_event":[{"#
                    + #""metadata":{"datetime_string":"2026-11-22T07:15:00.000000Z","user_id_string":"white_bear","#
                    + #""sources_of_data_array":["Omron HEM-7361T"],"was_the_user_under_physical_activity_bool":false},"#
                    + #""blood_pressure":{"blood_pressure_avg_object":{"systolic_mmHg_int":128,"diastolic_mmHg_int":82},"#
                    + #""blood_pressure_granular_data_array":[{"systolic_mmHg_int":128,"diastolic_mmHg_int":82,"#
                    + #""datetime_string":"2026-11-22T07:15:00.000000Z","interval_duration_seconds_float":0}]},"#
                    + #""non_structured_data_array":[]}]}}}"#
            ])
        #expect(found.omissions == [FormatOmission(.notANumber, of: "blood_pressure.mean")])
    }

    @Test("whole numbers are rounded half to even, and that is said")
    func rounding() throws {
        let pressures = try documents(Samples.pressures("128.5", "81.5", pulse: "64.0"))
        let object = pressures.document.first?.at("body_health.events.blood_pressure_event.0.blood_pressure")
        #expect(object?.at("blood_pressure_avg_object.systolic_mmHg_int")?.text == "128")
        #expect(object?.at("blood_pressure_avg_object.diastolic_mmHg_int")?.text == "82")
        #expect(
            pressures.omissions.prefix(2) == [
                FormatOmission(.rounded, of: "blood_pressure.systolic"),
                FormatOmission(.rounded, of: "blood_pressure.diastolic"),
            ])
        // 64.0 is 64: no digit that says anything is lost.
        #expect(pressures.omissions.count == 3)
        let glucose = try documents(Samples.glucose("5.9", .millimolesPerLitre, sample: nil, location: nil))
        #expect(
            glucose.document.first?.at(
                "body_health.events.blood_glucose_event.0.blood_glucose.blood_glucose_avg_mg_per_dL_int")?.text == "106"
        )
        #expect(glucose.omissions == [FormatOmission(.converted, of: "glucose")])
    }

    @Test("each kind has its structures")
    func everyKind() throws {
        var found: [String] = []
        for reading in try Samples.everyKind() {
            let documents = try RookEvents.documents(of: reading, in: Samples.context(), clientUUID: "c").document
            for document in documents {
                let structure = document["data_structure"]?.string ?? ""
                found.append(structure)
                #expect(document.at("body_health.events.\(structure).0.metadata.user_id_string") == "white_bear")
            }
        }
        #expect(
            found == [
                "blood_glucose_event", "blood_pressure_event", "heart_rate_event", "heart_rate_event",
                "heart_rate_event", "oxygenation_event", "heart_rate_event", "temperature_event", "body_metrics_event",
                "body_metrics_event",
            ])
    }

    @Test("weights and temperatures keep their digits")
    func decimals() throws {
        let weight = try documents(
            Samples.vital(.weight, [(.weight, "71.205", .kilograms), (.height, "1.785", .metres)]))
        #expect(
            weight.document.first?.at("body_health.events.body_metrics_event.0.body_metrics")?.text
                == #"{"weight_kg_float":71.205,"height_cm_int":178}"#)
        #expect(weight.omissions == [FormatOmission(.rounded, of: "height")])
        let temperature = try documents(
            Samples.vital(.temperature, [(.temperature, "97.9", .degreesFahrenheit)], site: "ear"))
        #expect(
            temperature.document.first?.at("body_health.events.temperature_event.0.temperature.temperature_avg_object")?
                .text
                == #"{"temperature_celsius_float":36.61,"measurement_type_string":"ear"}"#)
        #expect(temperature.omissions == [FormatOmission(.converted, of: "temperature")])
    }

    @Test("a body composition without a weight has no place")
    func withoutPlace() throws {
        #expect(throws: FormatOmission(.noPlace, of: "body_composition")) {
            try documents(Samples.vital(.bodyComposition, [(.bodyFat, "20", .percent)]))
        }
        let found = try documents(
            Samples.vital(.bodyComposition, [(.bodyFat, "20", .percent), (.weight, "70.0", .kilograms)]))
        #expect(found.omissions == [FormatOmission(.noPlace, of: "body_composition")])
    }
}
