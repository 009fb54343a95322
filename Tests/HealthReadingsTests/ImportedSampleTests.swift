import HealthReadings
import Testing

@Suite("Imported samples")
struct ImportedSampleTests {
    private static let start = Instant(seconds: 1_795_156_200)

    static func quantity(_ text: String, _ unit: MeasurementUnit) -> Quantity {
        Quantity(ExactDecimal(text) ?? ExactDecimal(significand: 0), unit)
    }

    static func glucose(
        _ text: String = "5.6", _ unit: MeasurementUnit = .millimolesPerLitre, at instant: Instant = start,
        source: String? = "Omron Connect"
    ) -> ImportedSample {
        ImportedSample(
            person: "white_bear", provider: "apple_health_kit", source: source,
            value: .glucose(GlucoseValue(concentration: quantity(text, unit))),
            time: ImportedTime(instant, utcOffsetMinutes: 60), meal: "preprandial")
    }

    static var every: [ImportedSample] {
        let pressure = BloodPressureValue(
            systolic: quantity("128", .millimetresOfMercury), diastolic: quantity("82.5", .millimetresOfMercury),
            meanArterial: Quantity(.notANumber, .millimetresOfMercury), pulse: quantity("64", .beatsPerMinute))
        let composition = VitalValue(
            kind: .bodyComposition,
            [.init(.bodyFat, quantity("21.4", .percent)), .init(.weight, quantity("70", .kilograms))])
        let zone = ZoneRules.named("Europe/Berlin")
        let local = zone.map { ImportedTime(local: WallTime(secondsSinceEpoch: 1_793_000_000), in: $0) }
        return [
            glucose(), glucose("101", .milligramsPerDecilitre, source: nil),
            ImportedSample(
                person: "", provider: "apple_health_kit", source: "Jane\u{2019}s\u{A0}iPhone",
                sourceDevice: "HEM-7361T",
                isEntered: true, value: .bloodPressure(pressure), time: ImportedTime(start, utcOffsetMinutes: -210),
                end: start.advanced(bySeconds: 60)),
            ImportedSample(
                person: "a b", provider: "x", value: .vital(composition),
                time: local ?? ImportedTime(start, utcOffsetMinutes: 0),
                originalID: ReadingID(high: 1, low: 2)),
            ImportedSample(
                person: "p", provider: "omron_ble", sourceDevice: "C0:00:00:00:18:08", value: .bloodPressure(pressure),
                time: ImportedTime(start, utcOffsetMinutes: 0), originalID: ReadingID(high: 1, low: 2),
                deviceTime: .init(base: WallTime(secondsSinceEpoch: 1_795_159_800), offsetMinutes: -60),
                sequence: 65535,
                status: [.irregularPulse, .bodyMovement],
                distinction: "ABC later"),
            ImportedSample(
                person: "p", provider: "x",
                value: .vital(
                    VitalValue(
                        kind: .temperature, [.init(.temperature, quantity("36.80", .degreesCelsius))], site: "ear")),
                time: ImportedTime(start, utcOffsetMinutes: nil, basis: .sensorStart, uncertaintyMinutes: 60)),
        ]
    }

    @Test("a sample's octets are decoded to the same sample", arguments: every)
    func octets(_ sample: ImportedSample) {
        #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
        #expect(sample.record.imported?.isEntered == sample.isEntered)
    }

    @Test("octets that no sample gives are malformed", arguments: every)
    func malformed(_ sample: ImportedSample) {
        let octets = sample.octets
        for count in stride(from: 0, to: octets.count, by: 7) {
            switch DecodedFrame(importedSample: Array(octets[..<count])) {
            case .malformed: break
            case .imported(let shorter): #expect(shorter.octets == Array(octets[..<count]))
            default: Issue.record("decoded as something else")
            }
        }
        guard case .malformed = DecodedFrame(importedSample: octets + [0x0A]) else {
            Issue.record("an empty line was taken")
            return
        }
    }

    @Test("the same measurement has one id in either unit, with whichever offset and digits")
    func sameID() {
        let sample = Self.glucose()
        #expect(Self.glucose("5.60").id == sample.id)
        #expect(Self.glucose("100.88729", .milligramsPerDecilitre).id == sample.id)
        var other = sample
        other.time = ImportedTime(Self.start, utcOffsetMinutes: 120)
        #expect(other.id == sample.id && other != sample)
    }

    private static func weight(_ text: String, _ unit: MeasurementUnit) -> ImportedSample {
        var sample = glucose()
        sample.meal = nil
        sample.value = .vital(VitalValue(kind: .weight, [.init(.weight, quantity(text, unit))]))
        return sample
    }

    @Test("a weight in steps of 5 g may have either of two ids; the one that it always had is the first")
    func weights() {
        var (ties, doubled) = (0, 0)
        // From 20 g to 300 kg.
        for steps in stride(from: Int64(4), to: 60_000, by: 41) {
            let kilograms = ExactDecimal(significand: steps * 5, exponent: -3)
            let ours = Self.weight(kilograms.description, .kilograms)
            let (id, others) = (ours.id, ours.otherIDs)
            // With as many digits as programs write.
            for places: Int16 in 2...6 {
                let pounds = kilograms.divided(by: ExactDecimal(significand: 45_359_237, exponent: -8), places: places)
                let theirs = Self.weight(pounds?.description ?? "", .pounds)
                guard theirs.id != id else { continue }
                doubled += 1
                #expect(others == [theirs.id] && theirs.otherIDs == [id], "\(kilograms) kg")
            }
            let isBetween = !steps.isMultiple(of: 2)
            ties += isBetween ? 1 : 0
            #expect(others.count == (isBetween ? 1 : 0), "\(kilograms) kg")
        }
        #expect(ties > 500 && doubled > 500)
        // A difference that a scale shows.
        #expect(!Self.weight("70.01", .kilograms).otherIDs.contains(Self.weight("70.02", .kilograms).id))
        // Nothing else has another, nor what is known by a name.
        let withOthers = Self.every.filter { !$0.otherIDs.isEmpty }
        #expect(withOthers.isEmpty)
        var named = Self.weight("70.005", .kilograms)
        named.recordName = "bodyComps/1/weight"
        #expect(named.otherIDs.isEmpty)
    }

    @Test("a rounded glucose of a device with a serial number has the ids that it has in the other unit")
    func otherUnits() {
        func serial(_ text: String, _ unit: MeasurementUnit, _ distinction: String? = "ABC") -> ImportedSample {
            var sample = Self.glucose(text, unit)
            sample.distinction = distinction
            return sample
        }
        // What programs take for a mmol/L, in mg/dL.
        let factors = ["18", "18.0156", "18.016", "18.0182", "18.02"].compactMap { ExactDecimal($0) }
        for whole in Int64(20)...500 {
            let ours = serial("\(whole)", .milligramsPerDecilitre)
            let (id, others) = (ours.id, ours.otherIDs)
            for factor in factors {
                let tenths = ExactDecimal(significand: whole).divided(by: factor, places: 1)
                let theirs = serial(tenths?.description ?? "", .millimolesPerLitre)
                let isKnown = theirs.id == id || others.contains(theirs.id) && theirs.otherIDs.contains(id)
                #expect(isKnown, "\(whole) mg/dL by \(factor)")
            }
        }
        let limits = [MeasurementUnit.milligramsPerDecilitre, .millimolesPerLitre].map { unit in
            var sample = serial("1", unit)
            sample.value = .glucose(GlucoseValue(concentration: Quantity(.positiveInfinity, unit)))
            return sample
        }
        #expect(limits[0].otherIDs == [limits[1].id] && limits[1].otherIDs == [limits[0].id])
        // A difference that a device shows; digits that no device shows; another program.
        #expect(!serial("5.6", .millimolesPerLitre).otherIDs.contains(serial("103", .milligramsPerDecilitre).id))
        #expect(serial("5.605", .millimolesPerLitre).otherIDs.isEmpty)
        #expect(serial("101", .milligramsPerDecilitre, nil).otherIDs.isEmpty)
    }

    @Test("another person, provider, source, time, end, kind or value has another id")
    func otherID() {
        let sample = Self.glucose()
        var others = [
            Self.glucose("5.7"), Self.glucose(at: Self.start.advanced(bySeconds: 1)), Self.glucose(source: "Health"),
            Self.glucose(source: nil),
        ]
        others += (0..<3).map { _ in sample }
        others[4].person = "grey_wolf"
        others[5].provider = "health_connect"
        others[6].end = Self.start.advanced(bySeconds: 60)
        #expect(Set((others + [sample]).map(\.id)).count == others.count + 1)
    }

    @Test("a local time has one id whatever zone the person is in")
    func localID() throws {
        let wall = WallTime(secondsSinceEpoch: 1_793_000_000)
        let ids = try ["Europe/Berlin", "America/New_York"].map { name in
            var sample = Self.glucose()
            sample.time = ImportedTime(local: wall, in: try #require(ZoneRules.named(name)))
            return sample.id
        }
        #expect(ids[0] == ids[1])
    }

    @Test("control characters and long texts lose what cannot be stored on a line")
    func texts() {
        let sample = ImportedSample(
            person: "p", provider: "x", source: " a\nb\t" + String(repeating: "c", count: 300),
            value: Self.glucose().value,
            time: ImportedTime(Self.start, utcOffsetMinutes: 0))
        #expect(sample.source?.hasPrefix("a b c") == true && sample.source?.count == ImportedSample.longestText)
        #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
    }

    @Test(
        "a text that was cut is read again as it was stored",
        arguments: [
            String(repeating: "a", count: 199) + " b", String(repeating: "a ", count: 150),
            "a" + String(repeating: "\u{301}", count: 100_000),
            "a" + String(repeating: "\u{301}", count: 2047) + "b \u{301}c",
            String(repeating: "é", count: 300), String(repeating: "👩‍👩‍👧‍👦", count: 300),
        ])
    func cutTexts(_ text: String) {
        let sample = ImportedSample(
            person: "p", provider: "x", source: text, sourceDevice: text, value: Self.glucose().value,
            time: ImportedTime(Self.start, utcOffsetMinutes: 0))
        #expect(sample.source?.isEmpty == false)
        #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
    }
}
