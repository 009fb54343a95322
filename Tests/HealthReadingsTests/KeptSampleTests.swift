import HealthReadings
import Testing

@Suite("Samples that are kept as they came") struct KeptSampleTests {
    private static func imported(_ sample: KeptSample, originals: [String] = []) -> ImportedSample {
        ImportedSample(
            person: "ann", provider: "apple_health_kit", source: "Watch", value: .kept(sample),
            time: ImportedTime(Instant(seconds: 1_795_176_000), utcOffsetMinutes: 0),
            end: Instant(seconds: 1_795_179_600), originals: originals)
    }

    private static func decimal(_ significand: Int64, _ exponent: Int16 = 0) -> ExactDecimal {
        ExactDecimal(significand: significand, exponent: exponent)
    }

    @Test(
        "the frame holds it whole: type, unit, digits, metadata and what was sent",
        arguments: [
            (.activity, "steps", decimal(523), "count", [:], []),
            (.sleep, "sleepAnalysis", decimal(5), "category", ["sleepStage": "rem"], [#"{"id":"A","value":5}"#]),
            (.other, "vo2Max", decimal(421, -1), "mL/min·kg", ["a b": "c d", "é": "ü"], ["{}", "[\n1 ]"]),
            (.other, "tiny", decimal(-22, -17), "m", [:], []),
            (.other, "", decimal(0, -3), "", ["": "x", "y": ""], []),
            (.other, "line\nbreak", decimal(15, 3), "k\tg", ["k\ney": "v\ralue"], []),
        ] as [(ReadingKind, String, ExactDecimal, String, [String: String], [String])])
    func frames(
        kind: ReadingKind, type: String, value: ExactDecimal, unit: String, metadata: [String: String],
        originals: [String]
    ) {
        let sample = Self.imported(
            KeptSample(kind: kind, type: type, value: value, unit: unit, metadata: metadata), originals: originals)
        let frame = sample.frame(receivedAt: Instant(seconds: 1_795_180_000))
        #expect(DecodedFrame(importedSample: frame.payload) == .imported(sample))
        #expect(sample.kind == kind && sample.originals.count == originals.count)
    }

    @Test("it is told apart by type, unit, value, start, end and source, and not by metadata or by zeros at its end")
    func identity() {
        func id(_ type: String, _ value: ExactDecimal, _ unit: String = "m", _ metadata: [String: String] = [:])
            -> ReadingID
        {
            Self.imported(
                KeptSample(kind: .activity, type: type, value: value, unit: unit, metadata: metadata),
                originals: metadata.isEmpty ? [] : ["x"]
            ).id
        }
        let base = id("distance", Self.decimal(15, -1))
        #expect(id("distance", Self.decimal(1500, -3), "m", ["a": "b"]) == base)
        #expect(id("distance", Self.decimal(15)) != base)
        #expect(id("distance", Self.decimal(15, -1), "km") != base && id("steps", Self.decimal(15, -1)) != base)
        #expect(id("x", Self.decimal(97, 1)) == id("x", Self.decimal(970)))
    }

    @Test("what was sent and is too long is left out, and the sample stays")
    func longOriginals() {
        let long = String(repeating: "x", count: ImportedSample.longestOriginals + 1)
        let sample = Self.imported(
            KeptSample(kind: .other, type: "t", value: Self.decimal(1), unit: "u"), originals: [long])
        #expect(sample.originals.isEmpty)
        #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
    }

    @Test("no kind that is kept is delivered, and each says why")
    func kinds() {
        for kind in ReadingKind.allCases where kind.isKept {
            #expect(!kind.isDelivered && kind.keptBecause != nil && !kind.isLive)
        }
        #expect(KeptSample(kind: .glucose, type: "t", value: Self.decimal(1), unit: "u").kind == .other)
    }
}
