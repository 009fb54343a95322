import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("The content of a row")
struct ContentTests {
    private static func number(_ random: inout some RandomNumberGenerator) -> MeasuredNumber {
        switch Int.random(in: 0..<8, using: &random) {
        case 0: .notANumber
        case 1: .notAtThisResolution
        case 2: .positiveInfinity
        case 3: .negativeInfinity
        case 4: .reserved
        default:
            .value(
                ExactDecimal(
                    significand: Int64.random(in: (.min)...(.max), using: &random)
                        >> Int64.random(in: 0..<64, using: &random),
                    exponent: .random(in: -20...20, using: &random)))
        }
    }

    private static func quantity(_ random: inout some RandomNumberGenerator) -> Quantity {
        Quantity(number(&random), MeasurementUnit.allCases.randomElement(using: &random) ?? .percent)
    }

    static func content(_ random: inout some RandomNumberGenerator) -> ReadingContent {
        func maybe<T>(_ value: (inout SystemRandomNumberGenerator) -> T) -> T? {
            var system = SystemRandomNumberGenerator()
            return Bool.random(using: &random) ? value(&system) : nil
        }
        let value: RecordValue =
            Bool.random(using: &random)
            ? .glucose(
                GlucoseValue(
                    concentration: maybe { quantity(&$0) },
                    sampleType: maybe { GlucoseSampleType.allCases.randomElement(using: &$0) ?? .reserved },
                    sampleLocation: maybe { GlucoseSampleLocation.allCases.randomElement(using: &$0) ?? .reserved }))
            : .bloodPressure(
                BloodPressureValue(
                    systolic: quantity(&random), diastolic: quantity(&random), meanArterial: quantity(&random),
                    pulse: maybe { quantity(&$0) }))
        var record = Record(value: value)
        record.status = ReadingStatus(rawValue: .random(in: 0...(.max), using: &random))
        record.userSlot = maybe { .random(in: 0...254, using: &$0) }
        record.occurrence = maybe { .random(in: 0...(.max), using: &$0) }
        record.sensor = maybe {
            SensorFacts(
                source: SensorFacts.Source.allCases.randomElement(using: &$0) ?? .trend,
                minute: .random(in: 0...(.max), using: &$0), glucose: .random(in: 0...(.max), using: &$0),
                temperature: .random(in: 0...(.max), using: &$0), adjustment: .random(in: (.min)...(.max), using: &$0),
                quality: .random(in: 0...(.max), using: &$0), flags: .random(in: 0...(.max), using: &$0),
                hasError: .random(using: &$0),
                calibration: SensorFacts.Calibration.allCases.randomElement(using: &$0) ?? .none)
        }
        let context: GlucoseContext? = maybe { random in
            var context = GlucoseContext()
            if Bool.random(using: &random) { context.carbohydrate = .init(id: "brunch", amount: quantity(&random)) }
            if Bool.random(using: &random) { context.meal = "préprandial" }
            if Bool.random(using: &random) { context.tester = "" }
            if Bool.random(using: &random) { context.health = "no_health_issues" }
            if Bool.random(using: &random) {
                context.exercise = .init(
                    seconds: Bool.random(using: &random) ? .max : nil, intensityPercent: .random(in: 0...255))
            }
            if Bool.random(using: &random) { context.medication = .init(id: "x", amount: quantity(&random)) }
            if Bool.random(using: &random) { context.hba1c = quantity(&random) }
            return context
        }
        return ReadingContent(of: record, context: context)
    }

    @Test("a pulse that was stored before it was known to be implausible is no number when it is read")
    func storedImplausiblePulse() throws {
        let millimetres = Quantity(ExactDecimal(significand: 127), .millimetresOfMercury)
        let digits = ExactDecimal(significand: -256, exponent: 3)
        let value = BloodPressureValue(
            systolic: millimetres, diastolic: millimetres, meanArterial: millimetres,
            pulse: Quantity(digits, .beatsPerMinute))
        // The octets are those that earlier versions wrote: the digits, and nothing that calls them implausible.
        var writer = ContentWriter()
        writer.put(Quantity(digits, .beatsPerMinute))
        let octets = ReadingContent(of: Record(value: .bloodPressure(value))).octets
        #expect(
            octets.count > writer.octets.count && octets.dropLast(2).suffix(writer.octets.count) == writer.octets[...])
        guard case .bloodPressure(let read) = try ReadingContent(octets).value else {
            Issue.record("another kind")
            return
        }
        #expect(read == value && read.pulse?.number.number == nil && read.pulse?.number.absence == .implausible)
        #expect(read.systolic.number.number != nil)
    }

    @Test(
        "an exponent that no device sends is a named error", arguments: [Int64(201), -201, 32_767, 32_768, .max, .min])
    func hostileExponent(exponent: Int64) {
        #expect(throws: StoreError.self) { try MeasuredNumber(digits: 1, exponent: exponent) }
        var writer = ContentWriter()
        for number: UInt64 in [1, 1, 0, 0, 1, 0] { writer.put(number) }
        writer.put(signed: 1)
        writer.put(signed: exponent)
        #expect(throws: StoreError.self) { try ReadingContent(writer.octets + [0, 0, 0, 0]) }
    }

    @Test("what was written is read, whatever it is")
    func roundTrip() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<5000 {
            let content = Self.content(&random)
            #expect(try ReadingContent(content.octets) == content)
        }
    }

    @Test("whatever else it is given is refused and never traps")
    func damaged() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            let whole = Self.content(&random).octets
            for count in 0..<whole.count {
                #expect(throws: StoreError.self) { try ReadingContent(Array(whole[..<count])) }
            }
            #expect(throws: StoreError.self) { try ReadingContent(whole + [0]) }
            var changed = whole
            changed[.random(in: 0..<whole.count)] ^= 1 << UInt8.random(in: 0..<8)
            _ = try? ReadingContent(changed)
            _ = try? ReadingContent((0..<Int.random(in: 0..<40)).map { _ in UInt8.random(in: 0...255) })
        }
    }
}
