import HealthReadings
import TestSupport
import Testing

@testable import GATTProfiles

@Suite("health observations 2B8B, elapsed time 2BF2")
struct HealthObservationTests {
    private let decoder = StandardFrameDecoder()
    private static let shown = WallTime("2026-11-22T08:05:00")
    /// That on the sensor's wall: local, whole seconds, on the current timeline.
    private static let time = digits(
        ElapsedTime(flags: 0x20, count: UInt64((shown?.secondsSinceEpoch ?? 0) - 946_684_800)).encoded)

    /// An observation in one segment: its class, flags and what follows them.
    private func decode(_ kind: String, _ flags: String, _ fields: String) -> DecodedFrame {
        let body = hex(flags) + hex(fields)
        let length = [UInt8(truncatingIfNeeded: body.count), UInt8(truncatingIfNeeded: body.count >> 8)]
        return decoder.decode(characteristic: 0x2B8B, octets: (hex("03" + kind) + length + body).span.bytes)
    }

    private func record(_ kind: String, _ flags: String, _ fields: String) throws -> Record {
        guard case .record(let record) = decode(kind, flags, fields) else {
            throw MalformedFrame(
                subject: "test", expected: "a record", octet: 0, found: "\(decode(kind, flags, fields))")
        }
        return record
    }

    private func refusal(_ kind: String, _ flags: String, _ fields: String) -> String? {
        guard case .malformed(let error) = decode(kind, flags, fields) else { return nil }
        return error.description
    }

    private func vital(_ record: Record) -> VitalValue? {
        guard case .vital(let vital) = record.value else { return nil }
        return vital
    }

    private static func digits(_ octets: [UInt8]) -> String {
        octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    // MARK: Values

    @Test("numbers are readings of the kind that their code says, in the unit that theirs says")
    func numeric() throws {
        let saturation = try record("01", "2300", "B84B0200 \(Self.time) 02 2002 D30300FF")
        #expect(vital(saturation)?.kind == .spo2 && saturation.exclusion == nil)
        #expect(vital(saturation)?.main == Quantity(ExactDecimal(significand: 979, exponent: -1), .percent))
        #expect(saturation.baseTime == Self.shown && saturation.userSlot == 2)

        let ear = try record("01", "0100", "0CE00200 A017 720100FF")
        #expect(vital(ear)?.kind == .temperature && vital(ear)?.site == "ear" && ear.exclusion == nil)
        #expect(vital(ear)?.main == Quantity(ExactDecimal(significand: 370, exponent: -1), .degreesCelsius))
        let body = try record("01", "0100", "5C4B0200 4011 DA0300FF")
        #expect(vital(body)?.main?.unit == .degreesFahrenheit && vital(body)?.site == "body" && body.exclusion == nil)

        let weight = try record("01", "0100", "40E10200 C306 E80200FF")
        #expect(vital(weight)?.kind == .weight && vital(weight)?.main?.unit == .kilograms && weight.exclusion == nil)
        #expect(try vital(record("01", "0100", "40E10200 E006 E80200FF"))?.main?.unit == .pounds)
    }

    @Test("a compound is a blood pressure where it has both pressures; a mean need not come")
    func pressure() throws {
        let whole = try record(
            "07", "0100", "044A0200 03 054A0200 01 200F 78000000 064A0200 01 200F 50000000 074A0200 01 200F 5D000000")
        guard case .bloodPressure(let value) = whole.value else { throw Unexpected() }
        #expect(value.systolic == Quantity(ExactDecimal(significand: 120), .millimetresOfMercury))
        #expect(value.meanArterial.number.number?.description == "93" && whole.exclusion == nil)
        let kilopascal = try record(
            "07", "0100", "044A0200 02 054A0200 01 030F A00000FF 064A0200 01 030F 6B0000FF")
        guard case .bloodPressure(let value) = kilopascal.value else { throw Unexpected() }
        #expect(value.diastolic == Quantity(ExactDecimal(significand: 107, exponent: -1), .kilopascal))
        #expect(value.meanArterial.number == .notANumber && kilopascal.exclusion == nil)
        #expect(decode("07", "0100", "044A0200 01 054A0200 01 200F 78000000") == .nothing)
    }

    @Test("what a bundle says holds for its members, and its pulse goes with the first that is a reading")
    func bundle() throws {
        let pulse = "01 0C00 0100 1A480200 A00A 48000000"
        let saturation = "01 0C00 0100 B84B0200 2002 61000000"
        let both = try record("FF", "2200", "\(Self.time) 05 02 \(pulse) \(saturation)")
        #expect(vital(both)?.kind == .spo2 && both.baseTime == Self.shown && both.userSlot == 5)
        #expect(vital(both)?[.pulse] == Quantity(ExactDecimal(significand: 72), .beatsPerMinute))
        #expect(decode("FF", "0000", "01 \(pulse)") == .nothing)
        #expect(decode("FF", "0000", "00") == .nothing)
        // A pulse that the sensor doubts goes with nothing.
        let doubted = "01 0E00 0900 1A480200 0100 A00A 48000000"
        #expect(try vital(record("FF", "0000", "02 \(doubted) \(saturation)"))?[.pulse] == nil)
        #expect(refusal("FF", "0000", "01 FF 0300 0000 00")?.contains("an observation in a bundle") == true)
    }

    @Test("codes, texts, curves, other types and no type at all are kept, and nothing follows from them")
    func others() {
        for kind in ["02", "03", "04", "05", "06", "08", "77"] {
            #expect(decode(kind, "0000", "0102030405") == .nothing)
        }
        #expect(decode("01", "0100", "82410200 A00A 48000000") == .nothing)
        #expect(decode("01", "0000", "2002 61000000") == .nothing)
    }

    @Test(
        "special numbers and impossible values exclude, and are never numbers",
        arguments: [
            ("FFFF7F00", Exclusion.notANumber), ("00008000", .notANumber), ("FEFF7F00", .notANumber),
            ("02008000", .notANumber), ("01008000", .notANumber), ("00000000", .implausible),
            ("65000000", .implausible), ("FFFFFFFF", .implausible),
        ])
    func special(number: String, exclusion: Exclusion) throws {
        #expect(try record("01", "0100", "B84B0200 2002 \(number)").exclusion == exclusion)
    }

    @Test(
        "a status excludes the record or marks it as questionable; a value beyond the sensor's limits is like any other"
    )
    func status() throws {
        for bit in 0..<16 {
            let word = UInt16(1) << UInt16(bit)
            let status = Self.digits([UInt8(truncatingIfNeeded: word), UInt8(truncatingIfNeeded: word >> 8)])
            let found = try record("01", "0900", "B84B0200 \(status) 2002 61000000")
            let exclusion: Exclusion? = [0, 2, 3, 4, 6, 7].contains(bit) ? .errorRecord : nil
            let mark: ReadingStatus = [1, 5].contains(bit) ? .questionable : []
            #expect(found.exclusion == exclusion && found.status == mark, "bit \(bit)")
        }
    }

    @Test("a bundle's status and a questionable pulse mark a saturation; a temperature has no pulse")
    func doubtedPulse() throws {
        let pulse = "01 0E00 0900 1A480200 0200 A00A 48000000"
        let saturation = "01 0C00 0100 B84B0200 2002 61000000"
        let temperature = "01 0C00 0100 5C4B0200 A017 720100FF"
        let both = try record("FF", "0000", "02 \(pulse) \(saturation)")
        #expect(both.status == .questionable && both.exclusion == nil && vital(both)?[.pulse] != nil)
        #expect(try record("FF", "0000", "02 \(pulse) \(temperature)").status.isEmpty)
        #expect(try record("FF", "0800", "2000 01 \(saturation)").status == .questionable)
        #expect(try record("FF", "0800", "0100 01 \(saturation)").exclusion == .errorRecord)
    }

    // MARK: What is refused

    @Test("a unit that the type doesn't have, attributes, reserved flags and other components are refused by name")
    func refused() {
        #expect(refusal("01", "0100", "B84B0200 A00A 61000000")?.contains("unit code 2720") == true)
        #expect(refusal("01", "0102", "B84B0200 00 2002 61000000")?.contains("flags 0 to 8") == true)
        #expect(refusal("01", "0108", "B84B0200 2002 6100")?.contains("flags 0 to 8") == true)
        #expect(refusal("07", "0100", "044A0200 01 054A0200 02 00000000")?.contains("component value type 1") == true)
    }

    @Test("each field that is missing is named, and octets behind the last are accepted")
    func shortAndLong() throws {
        let whole =
            hex("B84B0200 20 00000000 0000 00 00 00000000 0000 01000000 FF")
            + hex("01 01000000 01 02000000 01 03000000 2002 61000000")
        func observation(_ fields: [UInt8]) -> [UInt8] {
            hex("03 01") + [UInt8(fields.count + 2), 0] + hex("FF01") + fields
        }
        for length in 0..<whole.count {
            let octets = observation(Array(whole.prefix(length)))
            guard case .malformed(let error) = decoder.decode(characteristic: 0x2B8B, octets: octets.span.bytes) else {
                Issue.record("\(length) octets are accepted")
                continue
            }
            #expect(error.subject == "Live Health Observations (2B8B)")
        }
        for octets in [observation(whole), observation(whole + [1, 2, 3]), observation(whole) + [4, 5]] {
            guard case .record(let record) = decoder.decode(characteristic: 0x2B8B, octets: octets.span.bytes) else {
                throw Unexpected()
            }
            #expect(record.userSlot == nil && record.exclusion == nil)
        }
        // A length that says more than there is, and one that says less.
        #expect(refusal("01", "0100", "")?.contains("observation type") == true)
        for length in ["FF00", "0300"] {
            let octets = hex("03 01 \(length) 0100 B84B0200 2002 61000000")
            guard case .malformed = decoder.decode(characteristic: 0x2B8B, octets: octets.span.bytes) else {
                Issue.record("length \(length) is accepted")
                continue
            }
        }
    }

    // MARK: Time

    @Test(
        "a time is read if it is whole seconds on the clock's timeline and the wall can be told",
        arguments: [
            (0x20, 0, "2026-11-22T08:05:00"), (0x32, 4, "2026-11-22T09:05:00"), (0x32, -14, "2026-11-22T04:35:00"),
            (0x30, 4, "2026-11-22T08:05:00"), (0x22, 0, nil), (0x32, -128, nil), (0x21, 0, nil), (0x00, 0, nil),
            (0x24, 0, nil), (0x28, 0, nil), (0x2C, 0, nil),
        ] as [(UInt8, Int8, String?)])
    func elapsed(flags: UInt8, offset: Int8, shown: String?) throws {
        let seconds = try #require(WallTime("2026-11-22T08:05:00")).secondsSinceEpoch - 946_684_800
        let time = ElapsedTime(flags: flags, count: UInt64(seconds), source: 6, offset: offset)
        #expect(time.wallTime == shown.flatMap { WallTime($0) })
        let octets = time.encoded
        let again = try CurrentElapsedTime(decoding: octets + [0, 0]).time
        #expect(octets.count == 9 && again == time)
        let document = try decoder.describe(characteristic: 0x2BF2, octets: octets)?.text
        #expect(document == #"{"date_time":\#(shown.map { "\"\($0)\"" } ?? "null")}"#)
    }

    @Test("an elapsed time is never a wrong one, whatever its nine octets say")
    func anyElapsedTime() throws {
        try forAll { generator in
            let octets = generator.octets(9)
            let time = try CurrentElapsedTime(decoding: octets).time
            guard let shown = time.wallTime else { return time.encoded == octets }
            return time.encoded == octets && octets[0] & 0x2D == 0x20 && (1999...2137).contains(shown.date.year)
        }
    }

    // MARK: Round trips and segments

    @Test("decode(encode(x)) == x, also with octets behind")
    func roundTrip() throws {
        try forAll { generator in
            let value = Self.observation(&generator, depth: 1)
            let octets = value.encoded
            return try HealthObservation(decoding: octets) == value
                && HealthObservation(decoding: octets + generator.octets(3)) == value
        }
        try forAll { generator in
            let segment = HealthObservationSegment(
                isFirst: Bool.random(using: &generator), isLast: Bool.random(using: &generator),
                counter: generator.octet(), part: generator.octets(Int.random(in: 0...40, using: &generator)))
            return try HealthObservationSegment(decoding: segment.encoded) == segment
        }
    }

    @Test("segments are joined to what was cut, and never where one is missing or comes twice")
    func segments() {
        forAll(500) { generator in
            let body = Self.observation(&generator, depth: 1).encoded
            let size = Int.random(in: 1...max(1, body.count - 1), using: &generator)
            let first = UInt8.random(in: 0...63, using: &generator)
            let parts = stride(from: 0, to: body.count, by: size).map { Array(body[$0..<min($0 + size, body.count)]) }
            let segments = parts.enumerated().map { place, part in
                HealthObservationSegment(
                    isFirst: place == 0, isLast: place == parts.count - 1,
                    counter: first &+ UInt8(truncatingIfNeeded: place), part: part)
            }
            var joiner = HealthObservationJoiner()
            let joined = segments.compactMap { joiner.take($0) }
            guard parts.count > 1 else { return joined.isEmpty && segments[0].isWhole }
            var faulty = segments
            let place = Int.random(in: faulty.indices, using: &generator)
            if Bool.random(using: &generator) {
                faulty.remove(at: place)
            } else if place > 0 {
                faulty.insert(faulty[place], at: place)
            }
            let others = faulty.compactMap { joiner.take($0) }
            // The last segment may come once more: the observation is whole by then.
            let isComplete = faulty.count == segments.count || faulty.prefix(segments.count) == segments[...]
            return joined.map(\.part) == [body] && joined[0].isWhole
                && others.map(\.part) == (isComplete ? [body] : [])
        }
        #expect(decoder.decode(characteristic: 0x2B8B, octets: hex("01 01 0200").span.bytes) == .nothing)
        #expect(decoder.decode(characteristic: 0x2B8B, octets: hex("06 0000").span.bytes) == .nothing)
    }

    @Test("segments of more than an observation can have are dropped, so that one without an end holds no memory")
    func longest() {
        func joined(_ length: Int) -> Int? {
            var joiner = HealthObservationJoiner()
            var (left, counter, whole): (Int, UInt8, Int?) = (length, 0, nil)
            while left > 0 {
                let part = [UInt8](repeating: 7, count: min(left, 500))
                let segment = HealthObservationSegment(
                    isFirst: left == length, isLast: left == part.count, counter: counter & 0x3F, part: part)
                whole = joiner.take(segment)?.part.count ?? whole
                left -= part.count
                counter &+= 1
            }
            return whole
        }
        #expect(joined(65_538) == 65_538)
        #expect(joined(65_539) == nil && joined(200_000) == nil)
    }

    private static func observation(_ generator: inout SeededGenerator, depth: Int) -> HealthObservation {
        func word32(_ generator: inout SeededGenerator) -> UInt32 {
            UInt32.random(in: .min ... .max, using: &generator)
        }
        func value(_ generator: inout SeededGenerator) -> HealthObservation.Value {
            HealthObservation.Value(unit: generator.word(), number: MedFloat32(rawValue: word32(&generator)))
        }
        func codes(_ generator: inout SeededGenerator) -> [UInt32] {
            (0..<Int.random(in: 0...3, using: &generator)).map { _ in word32(&generator) }
        }
        let content: HealthObservation.Content
        switch Int.random(in: 0...(depth > 0 ? 2 : 1), using: &generator) {
        case 0: content = .numeric(value(&generator))
        case 1:
            content = .compound(
                (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                    HealthObservation.Component(type: word32(&generator), value: value(&generator))
                })
        default:
            content = .bundle(
                (0..<Int.random(in: 0...3, using: &generator)).map { _ in observation(&generator, depth: depth - 1) })
        }
        return HealthObservation(
            type: generator.maybe { word32(&$0) },
            time: generator.maybe {
                ElapsedTime(
                    flags: $0.octet(), count: UInt64.random(in: 0...0xFFFF_FFFF_FFFF, using: &$0), source: $0.octet(),
                    offset: Int8(bitPattern: $0.octet()))
            },
            duration: generator.maybe { MedFloat32(rawValue: word32(&$0)) }, status: generator.maybe { $0.word() },
            id: generator.maybe { word32(&$0) }, person: generator.maybe { $0.octet() }, supplements: codes(&generator),
            sources: codes(&generator), groups: codes(&generator), content: content)
    }

    private struct Unexpected: Error {}
}
