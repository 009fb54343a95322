import Foundation
import HealthReadings
import Testing

@testable import HealthSyncClient

@Suite("Readings made of a phone's samples") struct PhoneSampleImportTests {
    private static func sample(
        _ type: String, _ value: String, _ unit: String, at start: String = "2026-11-20T12:00:00Z",
        until end: String? = nil,
        id: String = UUID().uuidString, source: String = "Watch", metadata: String = "null"
    ) throws -> HealthSyncSample {
        try HealthSyncSample(
            json: Array(
                """
                {"id":"\(id)","type":"\(type)","value":\(value),"unit":"\(unit)","startDate":"\(start)",\
                "endDate":"\(end ?? start)","sourceName":"\(source)","metadata":\(metadata)}
                """.utf8)
        ).orThrow()
    }

    private func made(_ samples: HealthSyncSample...) -> [ImportedSample] {
        var run = PhoneSampleImport(person: "ann")
        return run.take(samples) + run.finish()
    }

    @Test(
        "what the gateway understands is a reading in its unit",
        arguments: [
            ("heartRate", "72", "count/min", "heart_rate", "72 bpm"),
            ("heartRateVariability", "0.0452", "s", "hrv", "45.2 ms"),
            ("heartRateVariability", "0.05", "s", "hrv", "50 ms"), ("bloodOxygen", "0.97", "%", "spo2", "97 %"),
            ("bloodOxygen", "1", "%", "spo2", "100 %"),
            ("bodyFatPercentage", "0.215", "%", "body_composition", "21.5 %"),
            ("bodyTemperature", "36.8", "degC", "temperature", "36.8 °C"),
            ("weight", "70.5", "kg", "weight", "70.5 kg"),
            ("weight", "70.099999999999994", "kg", "weight", "70.1 kg"),
        ])
    func interpreted(type: String, value: String, unit: String, kind: String, expected: String) throws {
        let reading = try #require(made(Self.sample(type, value, unit)).first)
        #expect(reading.kind.rawValue == kind && reading.provider == "apple_health_kit" && reading.source == "Watch")
        guard case .vital(let vital) = reading.value, let main = vital.main, let number = main.number.number else {
            Issue.record("no vital value")
            return
        }
        #expect("\(number) \(main.unit.symbol)" == expected)
    }

    @Test("glucose is a concentration")
    func glucose() throws {
        let reading = try #require(made(Self.sample("bloodGlucose", "100.5", "mg/dL")).first)
        guard case .glucose(let glucose) = reading.value else {
            Issue.record("no glucose")
            return
        }
        #expect(
            glucose.concentration == Quantity(ExactDecimal(significand: 1005, exponent: -1), .milligramsPerDecilitre))
    }

    @Test(
        "everything else is kept as it came, and so is what is not written as HealthKit writes it",
        arguments: [
            ("steps", "523", "count", "activity"), ("workouts", "1800", "s", "activity"),
            ("sleepAnalysis", "5", "category", "sleep"),
            ("vo2Max", "42.1", "mL/min·kg", "other"), ("restingHeartRate", "55", "count/min", "other"),
            ("moonPhase", "0.5", "x", "other"),
            ("heartRate", "1.2", "Hz", "other"), ("bloodOxygen", "97", "%", "other"),
            ("bloodOxygen", "-0.1", "%", "other"),
            ("weight", "155", "lb", "other"), ("bloodGlucose", "5.6", "mmol<180.1558800000541>/L", "other"),
        ])
    func kept(type: String, value: String, unit: String, kind: String) throws {
        let sample = try Self.sample(type, value, unit, metadata: #"{"a":"b"}"#)
        let reading = try #require(made(sample).first)
        guard case .kept(let kept) = reading.value else {
            Issue.record("it was interpreted")
            return
        }
        #expect(kept.kind.rawValue == kind && kept.type == type && kept.unit == unit && kept.metadata == ["a": "b"])
        #expect(reading.originals == [String(decoding: sample.json, as: UTF8.self)])
    }

    @Test("a night that comes under sleepAnalysis and under its stage is one reading")
    func sleep() throws {
        let (start, end) = ("2026-11-20T01:00:00Z", "2026-11-20T02:00:00Z")
        let all = made(
            try Self.sample("sleepAnalysis", "5", "category", at: start, until: end),
            try Self.sample("sleepREM", "5", "category", at: start, until: end),
            try Self.sample("sleepAnalysis", "3", "category", at: start, until: end))
        #expect(Set(all.map(\.id)).count == 2)
    }

    @Test("the two samples of a pressure are one reading, by correlation or by moment, also across pages")
    func pressure() throws {
        let systolic = try Self.sample("bloodPressureSystolic", "128", "mmHg")
        let diastolic = try Self.sample("bloodPressureDiastolic", "82", "mmHg")
        let later = try Self.sample("heartRate", "60", "count/min", at: "2026-11-20T11:00:00Z")
        var run = PhoneSampleImport(person: "ann")
        #expect(run.take([systolic]).isEmpty)
        #expect(run.take([diastolic]).isEmpty)
        let readings = run.take([later])
        #expect(readings.count == 2 && run.joined == 1 && run.finish().isEmpty)
        let pressure = try #require(readings.first { $0.kind == .bloodPressure })
        guard case .bloodPressure(let value) = pressure.value else {
            Issue.record("\(pressure.value)")
            return
        }
        #expect(value.systolic.number.number == ExactDecimal(significand: 128))
        #expect(value.diastolic.number.number == ExactDecimal(significand: 82))
        #expect(pressure.originals.count == 2)
        // Two measurements of one second are told apart by their correlation.
        let correlated = made(
            try Self.sample("bloodPressureSystolic", "128", "mmHg", metadata: #"{"correlationId":"A"}"#),
            try Self.sample("bloodPressureSystolic", "140", "mmHg", metadata: #"{"correlationId":"B"}"#),
            try Self.sample("bloodPressureDiastolic", "90", "mmHg", metadata: #"{"correlationId":"B"}"#),
            try Self.sample("bloodPressureDiastolic", "82", "mmHg", metadata: #"{"correlationId":"A"}"#))
        #expect(correlated.count == 2 && correlated.allSatisfy { $0.kind == .bloodPressure })
    }

    @Test("pressures that nobody can put together are kept by themselves: none is guessed")
    func ambiguous() throws {
        var run = PhoneSampleImport(person: "ann")
        let samples = [
            try Self.sample("bloodPressureSystolic", "128", "mmHg"),
            try Self.sample("bloodPressureSystolic", "140", "mmHg"),
            try Self.sample("bloodPressureDiastolic", "82", "mmHg"),
            try Self.sample("bloodPressureDiastolic", "90", "mmHg"),
            try Self.sample("bloodPressureSystolic", "120", "mmHg", at: "2026-11-20T11:00:00Z"),
        ]
        let readings = run.take(samples) + run.finish()
        #expect(readings.count == 5 && readings.allSatisfy { $0.kind == .other } && run.unpaired == 5)
    }
}
