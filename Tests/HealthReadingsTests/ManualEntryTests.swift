import TestSupport
import Testing

@testable import HealthReadings

@Suite("Entries by hand")
struct ManualEntryTests {
    static let now = Instant(seconds: 1_795_262_400)  // 2026-11-21T12:00:00Z
    static let zones: [(begin: Instant, zone: ZoneRules)] = ["Europe/Berlin"].compactMap { name in
        ZoneRules.named(name).map { (Instant(microseconds: .min), $0) }
    }

    static func entry(_ text: EntryText, person: String = "white_bear") throws -> ManualEntry {
        try ManualEntry(text, person: person, zones: zones, now: now)
    }

    static func entry(
        _ kind: String, _ value: String, _ unit: String, at time: String? = "2026-11-21T08:00", pulse: String? = nil,
        meal: String? = nil, note: String? = nil
    ) throws -> ManualEntry {
        try entry(EntryText(kind: kind, value: value, unit: unit, pulse: pulse, time: time, meal: meal, note: note))
    }

    @Test(
        "each kind keeps the digits and the unit that were typed",
        arguments: [
            ("glucose", "5.60", "mmol/l", "5.60 mmol/L"), ("glucose", "101", "mg/dL", "101 mg/dL"),
            ("weight", "70.5", "KG", "70.5 kg"), ("weight", "155.0", "lbs", "155.0 lb"),
            ("temperature", "36.80", "C", "36.80 °C"), ("temperature", "98.6", "°F", "98.6 °F"),
            ("spo2", "97", "%", "97 %"),
        ])
    func digits(_ kind: String, _ value: String, _ unit: String, _ expected: String) throws {
        let record = try Self.entry(kind, value, unit).record
        let main: Quantity? =
            switch record.value {
            case .glucose(let glucose): glucose.concentration
            case .vital(let vital): vital.main
            case .bloodPressure, .kept: nil
            }
        let quantity = try #require(main)
        #expect("\(try #require(quantity.number.number)) \(quantity.unit.symbol)" == expected)
    }

    @Test("a blood pressure has both pressures and its pulse", arguments: [("128/82", "mmHg"), ("17.1/10.9", "kPa")])
    func pressure(_ value: String, _ unit: String) throws {
        guard case .bloodPressure(let pressure) = try Self.entry("blood_pressure", value, unit, pulse: "64").value
        else {
            Issue.record("another kind")
            return
        }
        #expect(
            "\(try #require(pressure.systolic.number.number))/\(try #require(pressure.diastolic.number.number))"
                == value)
        #expect(pressure.pulse == Quantity(ExactDecimal(significand: 64), .beatsPerMinute))
    }

    @Test(
        "what cannot be a reading is refused, with what was expected and what was found",
        arguments: [
            (EntryText(kind: "glucose", value: "-5.6", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "0", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "NaN", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "inf", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "5,6", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "5.6e0", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "5.60000000000", unit: "mmol/L"), "value", false),
            (EntryText(kind: "glucose", value: "5.6", unit: "mmHg"), "unit", false),
            (EntryText(kind: "weight", value: "70", unit: "st"), "unit", false),
            (EntryText(kind: "blood_pressure", value: "82/128", unit: "mmHg"), "value", false),
            (EntryText(kind: "blood_pressure", value: "82/82.0", unit: "mmHg"), "value", false),
            (EntryText(kind: "blood_pressure", value: "128", unit: "mmHg"), "value", false),
            (EntryText(kind: "blood_pressure", value: "128/82/70", unit: "mmHg"), "value", false),
            (EntryText(kind: "spo2", value: "100.1", unit: "%"), "value", false),
            (EntryText(kind: "spo2", value: "97", unit: "%", pulse: "-1"), "pulse", false),
            (EntryText(kind: "spo2", value: "97", unit: "%", note: "a\u{1B}b"), "note", false),
            (EntryText(kind: "spo2", value: "97", unit: "%", time: "2026-11-21T12:03:00Z"), "time", false),
            (EntryText(kind: "spo2", value: "97", unit: "%", time: "2026-11-21"), "time", true),
            (EntryText(kind: "spo2", value: "97", unit: "%", time: "yesterday"), "time", true),
            (EntryText(kind: "weight", value: "70", unit: "kg", pulse: "60"), "pulse", true),
            (EntryText(kind: "weight", value: "70", unit: "kg", meal: "fasting"), "meal", true),
            (EntryText(kind: "glucose", value: "5.6", unit: "mmol/L", meal: "dinner"), "meal", true),
            (EntryText(kind: "heart_rate", value: "60", unit: "bpm"), "kind", true),
            (EntryText(kind: "steps", value: "60", unit: "count"), "kind", true),
        ] as [(EntryText, String, Bool)])
    func refused(_ text: EntryText, _ part: String, _ isUsage: Bool) {
        let error = #expect(throws: EntryError.self) { try Self.entry(text) }
        #expect(error?.part == part && error?.isUsage == isUsage)
        #expect(error?.description.contains("expected") == true)
    }

    @Test("an entry may be as far ahead of the gateway's clock as clocks differ")
    func future() throws {
        #expect(throws: Never.self) { try Self.entry("spo2", "97", "%", at: "2026-11-21T12:02:00Z") }
    }

    @Test(
        "a time with an offset is that instant, one without is by the person's zone, and none is now",
        arguments: [
            ("2026-11-21T08:00:07+05:00", "2026-11-21T03:00:07Z", TimeBasis.corrected, nil, nil),
            ("2026-11-21T08:00", "2026-11-21T07:00:00Z", .assumedZone, nil, "2026-11-21T08:00:00"),
            // Shown twice: the earlier. Never shown: moved forward.
            ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z", .assumedZone, 60, "2026-10-25T02:30:00"),
            ("2026-03-29 02:30", "2026-03-29T01:30:00Z", .assumedZone, 60, "2026-03-29T02:30:00"),
            (nil, "2026-11-21T12:00:00Z", .reception, nil, nil),
        ] as [(String?, String, TimeBasis, Int?, String?)])
    func time(_ text: String?, _ instant: String, _ basis: TimeBasis, _ uncertainty: Int?, _ wall: String?) throws {
        let entry = try Self.entry("spo2", "97", "%", at: text)
        #expect(
            entry.time
                == ResolvedTime(instant: Instant(rfc3339: instant), basis: basis, uncertaintyMinutes: uncertainty))
        #expect(entry.record.deviceTime?.description == wall)
    }

    @Test("a wall-clock time is by the zone that was in force then")
    func zoneChange() throws {
        let tokyo = try #require(ZoneRules.named("Asia/Tokyo"))
        let moved = try #require(Instant(rfc3339: "2026-11-01T00:00:00Z"))
        func time(_ text: String) throws -> String? {
            try ManualEntry(
                EntryText(kind: "spo2", value: "97", unit: "%", time: text), person: "",
                zones: Self.zones + [(moved, tokyo)], now: Self.now
            ).time.instant?.description
        }
        #expect(try time("2026-10-31T08:00") == "2026-10-31T07:00:00Z")
        #expect(try time("2026-11-02T08:00") == "2026-11-01T23:00:00Z")
    }

    @Test(
        "an unusual value is asked about, and the unit that it would be usual in is named",
        arguments: [
            ("glucose", "5.6", "mg/dL", "mmol/L"), ("glucose", "100", "mmol/L", "mg/dL"),
            ("glucose", "40", "mmol/L", "mg/dL"),
            ("temperature", "98.6", "C", "°F"), ("temperature", "36.8", "F", "°C"), ("weight", "400", "kg", "lb"),
            ("spo2", "40", "%", nil),
        ] as [(String, String, String, String?)])
    func unusual(_ kind: String, _ value: String, _ unit: String, _ other: String?) throws {
        let doubts = try Self.entry(kind, value, unit).doubts(at: Self.now)
        guard case .unusual(_, let found, _, let named) = doubts.first, doubts.count == 1 else {
            Issue.record("\(doubts)")
            return
        }
        #expect(found.hasPrefix(value) && named == other)
    }

    @Test("pressures in the other unit are asked about, and so is a year that is long past; usual entries are not")
    func doubts() throws {
        #expect(try Self.entry("blood_pressure", "128/82", "kPa").doubts(at: Self.now).count == 2)
        #expect(try Self.entry("blood_pressure", "17/11", "mmHg").doubts(at: Self.now).count == 2)
        let old = try Self.entry("spo2", "97", "%", at: "2016-11-21T08:00")
        #expect(old.doubts(at: Self.now) == [.old(old.instant)])
        for (kind, value, unit) in [
            ("glucose", "5.6", "mmol/L"), ("glucose", "101", "mg/dL"), ("blood_pressure", "128/82", "mmHg"),
            ("blood_pressure", "17.1/10.9", "kPa"), ("weight", "70.5", "kg"), ("weight", "155", "lb"),
            ("temperature", "36.8", "C"), ("temperature", "98.6", "F"), ("spo2", "97", "%"),
        ] { #expect(try Self.entry(kind, value, unit).doubts(at: Self.now).isEmpty, "\(kind) \(value) \(unit)") }
    }

    @Test("the same person, time, values, meal and note are one id; any other is another")
    func identity() throws {
        let one = try Self.entry("glucose", "5.6", "mmol/L", meal: "fasting", note: "n")
        #expect(
            try Self.entry("glucose", "5.6", "mmol/L", at: "2026-11-21T07:00:00Z", meal: "fasting", note: "n").id
                == one.id)
        var corrected = one
        corrected.corrects = ReadingID(high: 1, low: 2)
        #expect(corrected.id == one.id)
        let others = [
            try Self.entry("glucose", "5.60", "mmol/L", meal: "fasting", note: "n"),
            try Self.entry("glucose", "5.6", "mg/dL", meal: "fasting", note: "n"),
            try Self.entry("glucose", "5.6", "mmol/L", meal: "casual", note: "n"),
            try Self.entry("glucose", "5.6", "mmol/L", meal: "fasting"),
            try Self.entry("glucose", "5.6", "mmol/L", at: "2026-11-21T08:01", meal: "fasting", note: "n"),
            try Self.entry(
                EntryText(
                    kind: "glucose", value: "5.6", unit: "mmol/L", time: "2026-11-21T08:00", meal: "fasting", note: "n"),
                person: "black_bear"),
        ]
        #expect(Set(others.map(\.id)).union([one.id]).count == 7)
    }

    @Test("an id that was given stays: entries are found by it for ever")
    func stable() throws {
        #expect(
            try Self.entry("glucose", "5.6", "mmol/L", meal: "fasting").document.text
                == #"{"format":1,"person":"white_bear","kind":"glucose","time":"2026-11-21T07:00:00Z","time_basis":"assumed_zone","#
                + #""time_uncertainty_minutes":null,"local_time":"2026-11-21T08:00:00","values":[{"name":"glucose","value":"5.6","#
                + #""unit":"mmol/L"}],"meal":"fasting","note":null,"corrects":null}"#)
    }

    /// Entries of every kind, with every part.
    private static func random(_ generator: inout SeededGenerator) -> ManualEntry? {
        let kinds = [
            ("glucose", ["mg/dL", "mmol/L"]), ("blood_pressure", ["mmHg", "kPa"]), ("weight", ["kg", "lb"]),
            ("temperature", ["°C", "°F"]), ("spo2", ["%"]),
        ]
        let (kind, units) = kinds[Int.random(in: 0..<kinds.count, using: &generator)]
        func number(_ most: Int64) -> String {
            ExactDecimal(
                significand: .random(in: 1...most, using: &generator), exponent: .random(in: -2...0, using: &generator)
            ).description
        }
        let value = kind == "blood_pressure" ? "\(number(99999))/\(number(999))" : number(kind == "spo2" ? 100 : 99999)
        let times: [String?] = [nil, "2026-11-20T08:00", "2026-11-20T08:00:00.5-03:00", "2026-10-25T02:15"]
        let notes: [String?] = [nil, "after \"breakfast\"", "é\\ 🩸", "a/b"]
        return try? entry(
            EntryText(
                kind: kind, value: value, unit: units[Int.random(in: 0..<units.count, using: &generator)],
                pulse: ["blood_pressure", "spo2"].contains(kind) && Bool.random(using: &generator) ? "64" : nil,
                time: times[Int.random(in: 0..<4, using: &generator)],
                meal: kind == "glucose" && Bool.random(using: &generator) ? "fasting" : nil,
                note: notes[Int.random(in: 0..<4, using: &generator)]))
    }

    @Test("a frame of an entry is decoded as the entry that it was made of")
    func roundTrip() {
        forAll(2000) { generator in
            guard let entry = Self.random(&generator) else {
                return (DecodedFrame.nothing, DecodedFrame.nothing, about: "none")
            }
            let decoded = DecodedFrame(manualEntry: entry.frame(receivedAt: Self.now).payload)
            return (decoded, .entry(entry), about: entry.document.text)
        }
        let withdrawal = EntryWithdrawal(person: "é", reading: ReadingID(high: 7, low: 9))
        #expect(DecodedFrame(manualEntry: withdrawal.frame(receivedAt: Self.now).payload) == .withdrawal(withdrawal))
    }

    @Test("promise 5: a changed octet or a cut makes a frame malformed, or another canonical entry")
    func changed() {
        forAll(2000) { generator in
            guard let entry = Self.random(&generator) else { return (true, true, about: "none") }
            var payload = entry.frame(receivedAt: Self.now).payload
            if Bool.random(using: &generator) {
                payload[Int.random(in: 0..<payload.count, using: &generator)] = UInt8.random(
                    in: 0...255, using: &generator)
            } else {
                payload.removeLast(Int.random(in: 1...payload.count, using: &generator))
            }
            let again: [UInt8]? =
                switch DecodedFrame(manualEntry: payload) {
                case .entry(let entry): entry.frame(receivedAt: Self.now).payload
                case .withdrawal(let withdrawal): withdrawal.frame(receivedAt: Self.now).payload
                case .malformed: payload
                default: nil
                }
            return (again == payload, true, about: String(decoding: payload, as: UTF8.self))
        }
    }

    @Test("a reading's document shows what a person wrote beside it, however it is written")
    func document() throws {
        let entry = try Self.entry("glucose", "5.60", "mmol/L", meal: "fasting", note: "before \"breakfast\"")
        let reading = Reading(
            id: entry.id, record: entry.record, context: entry.context, device: ManualEntry.device, time: entry.time,
            person: entry.person, receivedAt: Self.now)
        let text = reading.document.text
        #expect(text.contains(#""entry":{"note":"before \"breakfast\"","corrects":null}"#))
        #expect(text.contains(#""glucose":{"value":5.60,"unit":"mmol/L"}"#) && text.contains(#""meal":"fasting""#))
        var octets: [UInt8] = []
        reading.write(into: &octets)
        #expect(String(decoding: octets, as: UTF8.self) == text)
    }
}
