import HealthReadings
import ScriptedServer
import TestSupport
import Testing

@testable import VitalClient

@Suite("Glucose in mg/dL")
struct GlucoseUnitTests {
    private func sample(_ value: ExactDecimal, _ unit: SampleUnit = .milligramsPerDecilitre) -> QuantitySample {
        QuantitySample(id: "g1", value: value, unit: unit, at: noon, source: .fingerprick)
    }

    @Test("it is posted in mmol/L, with what was measured beside it")
    func golden() async throws {
        let measured = sample(ExactDecimal(significand: 95))
        let post = TimeSeriesPost(provider: "accuchek_ble", timeZone: "Europe/Berlin", data: .glucose([measured]))
        try await ScriptedServer.with({ _ in .ok }) { server in
            try await client(of: server).post(post, for: "u-1")
            let request = try #require(server.requests.first)
            #expect(
                request.text == """
                    {"stage":"daily","provider":"accuchek_ble","time_zone":"Europe/Berlin","is_final_chunk":true,"data":[\
                    {"id":"g1","value":5.2732,"unit":"mmol/L",\
                    "start_date":"2023-11-14T22:13:20Z","end_date":"2023-11-14T22:13:20Z","type":"fingerprick",\
                    "metadata":{"measured_unit":"mg/dL","measured_value":"95"}}]}
                    """)
        }
    }

    @Test("mmol/L keeps its digits, and metadata of the caller's own stays")
    func unchanged() throws {
        let own = sample(ExactDecimal(significand: 550, exponent: -2), .millimolesPerLitre)
        #expect(own.inMillimolesPerLitre == own)
        var named = sample(ExactDecimal(significand: 100))
        named.metadata = ["measured_value": "five", "note": "kept"]
        let converted = try #require(named.inMillimolesPerLitre)
        #expect(
            converted.metadata == ["measured_value": "five", "measured_unit": "mg/dL", "note": "kept"]
                && converted.value.description == "5.5507")
    }

    /// Half to even at four places, checked against whole-number arithmetic of another kind: the value is within half a
    /// ten-thousandth of the quotient, and where it is just between two, it is the even one.
    @Test("every value of every precision is the nearest there is")
    func property() {
        var generator = SeededGenerator(seed: UInt64.random(in: .min ... .max))
        for round in 0..<20_000 {
            let places = Int16.random(in: 0...4, using: &generator)
            let digits = Int64.random(in: 0...99_999_999, using: &generator)
            let value = ExactDecimal(significand: digits, exponent: -places)
            guard let found = sample(value).inMillimolesPerLitre?.value, found.exponent == -4 else {
                Issue.record("\(value) has no conversion")
                return
            }
            // digits / 10^places / 18.0156 against found / 10^4, both times 10^(places + 8) × 18.0156.
            let scale = (0..<places).reduce(Int128(1)) { power, _ in power * 10 }
            let exact = Int128(digits) * 100_000_000
            let nearest = Int128(found.significand) * 180_156 * scale
            let twice = (exact - nearest).magnitude * 2
            let step = (180_156 * scale).magnitude
            let isNearest = twice < step || twice == step && found.significand.isMultiple(of: 2)
            #expect(isNearest, "\(value) became \(found) in round \(round)")
            if !isNearest { return }
        }
    }

    @Test("two values that a meter tells apart stay apart, and their order stays")
    func order() throws {
        var last = ExactDecimal(significand: -1)
        for digits in 0...10_000 {
            let value = try #require(
                sample(ExactDecimal(significand: Int64(digits), exponent: -1)).inMillimolesPerLitre?.value)
            #expect(last.isNumericallyLess(than: value))
            last = value
        }
    }

    @Test("what is no concentration, or doesn't fit, is an error before anything is sent")
    func refused() async throws {
        try await ScriptedServer.with({ _ in .ok }) { server in
            for wrong in [
                sample(ExactDecimal(significand: 70), .beatsPerMinute),
                sample(ExactDecimal(significand: .max, exponent: 3)),
            ] {
                let post = TimeSeriesPost(
                    provider: "manual", timeZone: "UTC", data: .glucose([glucosePost().first, wrong]))
                let error = await failure { try await client(of: server).post(post, for: "u-1") }
                #expect(error?.kind == .validationFailed && error?.route == "POST /v2/timeseries/{user_id}/glucose")
            }
            #expect(server.requests.isEmpty)
        }
    }
}

extension TimeSeriesPost {
    fileprivate var first: QuantitySample {
        guard case .glucose(let samples) = data, let first = samples.first else {
            return QuantitySample(value: ExactDecimal(significand: 5), unit: .millimolesPerLitre, at: noon)
        }
        return first
    }
}
