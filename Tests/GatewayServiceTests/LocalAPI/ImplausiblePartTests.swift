import Foundation
import GatewayCommands
import HealthReadings
import Testing

@testable import LocalAPI

/// Promise 6: an implausible pulse is a number on no surface, and takes nothing else with it.
@Suite("Implausible parts of a reading")
struct ImplausiblePartTests {
    private static let time = Instant(seconds: 1_795_000_000)
    private static let garbage = ExactDecimal(significand: -256, exponent: 3)

    private static func millimetres(_ value: Int64) -> Quantity {
        Quantity(ExactDecimal(significand: value), .millimetresOfMercury)
    }

    private static func reading(_ value: RecordValue, context: GlucoseContext? = nil) -> Reading {
        Reading(
            id: ReadingID(high: 7, low: 9), record: Record(value: value), context: context,
            device: DeviceDescription(address: nil, model: "generic_blood_pressure"),
            time: ResolvedTime(instant: time, basis: .corrected), receivedAt: time)
    }

    /// A cuff's record whose pulse and mean are garbage.
    static let cuff = reading(
        .bloodPressure(
            BloodPressureValue(
                systolic: millimetres(127), diastolic: millimetres(79),
                meanArterial: Quantity(garbage, .millimetresOfMercury), pulse: Quantity(garbage, .beatsPerMinute))))

    @Test("the document says null and why; the lines for people and spreadsheets have no number")
    func documents() {
        let document = Self.cuff.document
        #expect(document["pulse"] == .null && document["blood_pressure"]?["mean"] == .null)
        #expect(document["blood_pressure"]?["systolic"]?.text == #"{"value":127,"unit":"mmHg"}"#)
        #expect(document["omitted"]?.text == #"{"mean":"implausible","pulse":"implausible"}"#)
        #expect(document["excluded"] == .null)
        var octets: [UInt8] = []
        Self.cuff.write(into: &octets)
        #expect(String(decoding: octets, as: UTF8.self) == document.text)
        for text in [document.text, Self.cuff.csv, Self.cuff.line] {
            #expect(!text.contains("256") && text.contains("127"), "\(text)")
        }
    }

    @Test("the Health Sync app gets the pressures and no heart rate")
    func healthSync() {
        let samples = HealthSyncSample.samples(of: Self.cuff, Set(HealthSyncType.allCases))
        #expect(samples.map(\.type) == [.bloodPressureSystolic, .bloodPressureDiastolic])
    }

    @Test("other parts beside a main value likewise: an oximeter's pulse, a scale's height, what a person told a meter")
    func others() {
        let pulse = VitalValue.Measured(.pulse, Quantity(ExactDecimal(significand: 0), .beatsPerMinute))
        let oximeter = Self.reading(
            .vital(
                VitalValue(
                    kind: .spo2,
                    [.init(.saturation, Quantity(ExactDecimal(significand: 97), .percent)), pulse])))
        #expect(oximeter.document["pulse"] == .null && oximeter.document["spo2"] != .null)
        #expect(oximeter.document["omitted"]?.text == #"{"pulse":"implausible"}"#)
        #expect(oximeter.csv.contains(",97,%") && oximeter.line.contains("97 %") && !oximeter.line.contains("pulse 0"))

        var context = GlucoseContext()
        context.carbohydrate = .init(id: "lunch", amount: Quantity(ExactDecimal(significand: -5), .grams))
        context.exercise = .init(seconds: 60, intensityPercent: 255)
        context.medication = .init(id: "x", amount: Quantity(ExactDecimal(significand: 2, exponent: 9), .milligrams))
        context.hba1c = Quantity(ExactDecimal(significand: 99), .percent)
        let glucose = Self.reading(
            .glucose(GlucoseValue(concentration: Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre))),
            context: context)
        let told = glucose.document["context"]
        #expect(told?["carbohydrate"]?["value"] == .null && told?["medication"]?["value"] == .null)
        #expect(told?["hba1c"] == .null && told?["exercise"]?["intensity_percent"] == .null)
        #expect(
            glucose.document["omitted"]?.text
                == #"{"carbohydrate":"implausible","intensity_percent":"implausible","medication":"implausible","hba1c":"implausible"}"#
        )
        var octets: [UInt8] = []
        glucose.write(into: &octets)
        #expect(String(decoding: octets, as: UTF8.self) == glucose.document.text)
    }
}
