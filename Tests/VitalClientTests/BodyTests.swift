import Foundation
import HealthReadings
import OutgoingHTTP
import ScriptedServer
import TestSupport
import Testing

@testable import VitalClient

@Suite("Request bodies")
struct BodyTests {
    @Test("a glucose post is, octet for octet, what the API's description says")
    func glucoseGolden() {
        #expect(
            glucosePost().json.text == """
                {"stage":"daily","provider":"accuchek_ble","time_zone":"Europe/Berlin","is_final_chunk":true,"data":[\
                {"id":"9f1c0c8e00000000000000000000000a","value":5.2732,"unit":"mmol/L",\
                "start_date":"2023-11-14T22:13:20Z","end_date":"2023-11-14T22:13:20Z","type":"fingerprick",\
                "metadata":{"measured_unit":"mg/dL","measured_value":"95","someKey":"kept"}}]}
                """)
    }

    @Test("a pressure post leaves out what is not there and writes dates without a fraction")
    func pressureGolden() {
        let time = Instant(microseconds: 1_700_000_000_999_999)
        let sample = BloodPressureSample(
            systolic: .init(value: .init(significand: 1270, exponent: -1), unit: .millimetresOfMercury, at: time),
            diastolic: .init(value: .init(significand: 79), unit: .millimetresOfMercury, at: time, source: .cuff),
            pulse: .init(value: .init(significand: 690, exponent: -1), unit: .beatsPerMinute, at: time))
        let post = TimeSeriesPost(
            provider: "omron_ble", timeZone: "UTC", stage: .historical, isFinalChunk: false,
            data: .bloodPressure([sample]))
        let dates = #""start_date":"2023-11-14T22:13:20Z","end_date":"2023-11-14T22:13:20Z""#
        #expect(
            post.json.text == """
                {"stage":"historical","provider":"omron_ble","time_zone":"UTC","is_final_chunk":false,"data":[\
                {"systolic":{"value":127.0,"unit":"mmHg",\(dates)},\
                "diastolic":{"value":79,"unit":"mmHg",\(dates),"type":"cuff"},\
                "pulse":{"value":69.0,"unit":"bpm",\(dates)}}]}
                """)
    }

    /// Source of the name and the unit: vital-ios `ResourceData.swift` ("temperature"), and vital-android `Summary.kt`
    /// (`LocalQuantitySample`, "°C"). `body_temperature` is in the API's reference as a GET only.
    @Test("a temperature is posted as temperature, octet for octet")
    func temperatureGolden() {
        let sample = QuantitySample(
            id: "t1", value: .init(significand: 366, exponent: -1), unit: .degreesCelsius, at: noon, source: .unknown)
        let post = TimeSeriesPost(provider: "manual", timeZone: "Europe/Berlin", data: .temperature([sample]))
        #expect(post.data.resource == "temperature")
        #expect(
            post.json.text == """
                {"stage":"daily","provider":"manual","time_zone":"Europe/Berlin","is_final_chunk":true,"data":[\
                {"id":"t1","value":36.6,"unit":"°C","start_date":"2023-11-14T22:13:20Z",\
                "end_date":"2023-11-14T22:13:20Z","type":"unknown"}]}
                """)
    }

    /// Source of the names: vital-java `IngestibleTimeseriesResource.java` ("heartrate", "heartrate_variability"); of the
    /// units: vital-android `Summary.kt` (`SampleType`: "bpm", "rmssd").
    @Test("a heart rate and its variability are posted by the names that are written, octet for octet")
    func heartRateGolden() {
        func post(_ data: TimeSeriesData) -> TimeSeriesPost {
            TimeSeriesPost(provider: "manual", timeZone: "UTC", data: data)
        }
        let dates = #""start_date":"2023-11-14T22:13:20Z","end_date":"2023-11-14T22:13:20Z","type":"chest_strap""#
        let envelope = #"{"stage":"daily","provider":"manual","time_zone":"UTC","is_final_chunk":true,"data":["#
        let rate = post(
            .heartRate([.init(value: .init(significand: 72), unit: .beatsPerMinute, at: noon, source: .chestStrap)]))
        #expect(rate.data.resource == "heartrate")
        #expect(rate.json.text == envelope + #"{"value":72,"unit":"bpm",\#(dates)}]}"#)
        let variability = post(
            .heartRateVariability([
                .init(
                    value: .init(significand: 412, exponent: -1), unit: .rootMeanSquareOfSuccessiveDifferences,
                    at: noon,
                    source: .chestStrap)
            ]))
        #expect(variability.data.resource == "heartrate_variability")
        #expect(variability.json.text == envelope + #"{"value":41.2,"unit":"rmssd",\#(dates)}]}"#)
    }

    /// Source of the shape: vital-ios `BodyPatch.swift` (five lists without optionals; `time_zones` encoded as pairs of a
    /// day and a zone), `VitalClient+Summary.swift` (`/v2/summary/body/{user_id}`) and `HealthKitReads+Body.swift` (the
    /// days are those of the samples); vital-android `VitalPrivateService.kt` posts to the same path.
    @Test("a body summary is, octet for octet, what the SDKs send: every list, and the zones as pairs")
    func bodyGolden() async throws {
        func sample(_ value: Int64, _ exponent: Int16, _ unit: SampleUnit) -> QuantitySample {
            QuantitySample(
                id: "w1", value: .init(significand: value, exponent: exponent), unit: unit, at: noon, source: .scale)
        }
        let post = SummaryPost(
            BodySummary(
                bodyMass: [sample(70_500, -3, .kilograms)], bodyFatPercentage: [sample(225, -1, .percent)],
                bodyMassIndex: [sample(230, -1, .index)], leanBodyMass: [sample(54_638, -3, .kilograms)],
                timeZones: [.init(day: "2023-11-14", timeZone: "Europe/Berlin")]),
            provider: "manual", timeZone: "Europe/Berlin")
        let dates = #""start_date":"2023-11-14T22:13:20Z","end_date":"2023-11-14T22:13:20Z","type":"scale""#
        let body = """
            {"stage":"daily","provider":"manual","time_zone":"Europe/Berlin","is_final_chunk":true,"data":{\
            "body_mass":[{"id":"w1","value":70.500,"unit":"kg",\(dates)}],\
            "body_fat_percentage":[{"id":"w1","value":22.5,"unit":"%",\(dates)}],\
            "body_mass_index":[{"id":"w1","value":23.0,"unit":"index",\(dates)}],\
            "waist_circumference":[],\
            "lean_body_mass":[{"id":"w1","value":54.638,"unit":"kg",\(dates)}],\
            "time_zones":[["2023-11-14","Europe/Berlin"]]}}
            """
        #expect(post.json.text == body)
        try await ScriptedServer.with({ _ in .ok }) { server in
            try await client(of: server).post(post, for: "u-1")
            let request = try #require(server.requests.first)
            #expect(request.method == "POST" && request.path == "/v2/summary/body/u-1")
            #expect(request.headers["content-encoding"] == "gzip" && request.text == body)
        }
        #expect(
            BodySummary().json.text
                == #"{"body_mass":[],"body_fat_percentage":[],"body_mass_index":[],"waist_circumference":[],"#
                + #""lean_body_mass":[],"time_zones":[]}"#)
    }

    @Test("time series are gzipped, and gzip(1) gets the same octets back that the recorder saw")
    func gzipped() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "bodies-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let recorder = try DirectoryRequestRecorder(folder: folder)
        let request = try await ScriptedServer.with({ _ in .ok }) { server in
            try await client(of: server, recorder: recorder).post(glucosePost(), for: "u-1")
            return try #require(server.requests.first)
        }
        #expect(request.method == "POST")
        #expect(request.path == "/v2/timeseries/u-1/glucose")
        #expect(request.headers["content-encoding"] == "gzip")
        #expect(request.headers["content-type"] == "application/json")
        #expect(request.headers["x-vital-api-key"] == testKey)

        let packed = folder + "/body.gz"
        try Data(request.body).write(to: URL(fileURLWithPath: packed))
        let unpacked = try output(of: "/usr/bin/env", ["gzip", "-dc", packed])
        #expect(String(decoding: unpacked, as: UTF8.self) == glucosePost().json.text)

        let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".json") }
        let name = try #require(names.first)
        #expect(names.count == 1)
        #expect(name.wholeMatch(of: /timeseries_glucose-\d{5}_\d+\.json/) != nil)
        #expect(FileManager.default.contents(atPath: folder + "/" + name) == unpacked)
        let mode = try FileManager.default.attributesOfItem(atPath: folder + "/" + name)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)
    }

    @Test(
        "gzip: any length, compressible or not, comes back; the same octets give the same member",
        arguments: Gzip.Saving.allCases)
    func gzipProperty(_ saving: Gzip.Saving) throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        for size in [0, 1, 2, 255, 65_535, 200_000] {
            let octets = (0..<size).map { _ in
                UInt8.random(in: 0...(size.isMultiple(of: 2) ? 255 : 3), using: &generator)
            }
            let member = try #require(Gzip.compress(octets, saving: saving))
            #expect(member == Gzip.compress(octets, saving: saving))
            let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).gz").path
            defer { try? FileManager.default.removeItem(atPath: path) }
            try Data(member).write(to: URL(fileURLWithPath: path))
            #expect(try output(of: "/usr/bin/env", ["gzip", "-dc", path]) == Data(octets))
        }
    }

    private func output(of tool: String, _ arguments: [String]) throws -> Data {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: tool)
        process.arguments = arguments
        process.standardOutput = pipe
        try process.run()
        let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return data
    }
}
