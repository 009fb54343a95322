import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// Each quirk of what a frame says, from octets; and the standard where it is not found.
@Suite struct QuirkDecodingTests {
    private func decode(_ characteristic: UInt16, _ octets: [UInt8], _ model: String?) -> DecodedFrame {
        ModelFrameDecoder().decode(
            Frame(
                format: FrameFormat(characteristic: characteristic), payload: octets, receivedAt: Instant(seconds: 0),
                ordinal: 0), model: model)
    }

    private func record(_ characteristic: UInt16, _ octets: [UInt8], _ model: String?) throws -> Record {
        guard case .record(let record) = decode(characteristic, octets, model) else {
            throw NotARecord(decoded: decode(characteristic, octets, model))
        }
        return record
    }

    struct NotARecord: Error { var decoded: DecodedFrame }

    /// 2A18 with time, offset and 95 mg/dL.
    private func glucose(month: UInt8 = 12, sequence: UInt16 = 5, value: UInt16 = 0xB05F, flags: UInt8 = 3) -> [UInt8] {
        [
            flags, UInt8(truncatingIfNeeded: sequence), UInt8(truncatingIfNeeded: sequence >> 8), 0xE9, 0x07, month, 1,
            0,
            5, 0, 0xC4, 0xFF, UInt8(truncatingIfNeeded: value), UInt8(truncatingIfNeeded: value >> 8), 0x11,
        ]
    }

    @Test("month 13 is January with i-SENS's meters, and no time with others", arguments: ["caresens", "isens"])
    func monthThirteen(model: String) throws {
        let odd = glucose(month: 13)
        #expect(try record(0x2A18, odd, model).baseTime?.description == "2025-01-01T00:05:00")
        #expect(try record(0x2A18, odd, model).deviceTime?.description == "2024-12-31T23:05:00")
        for other in [nil, "accuchek_guide", "generic_glucose", "no such model"] {
            #expect(try record(0x2A18, odd, other).baseTime == nil)
        }
        #expect(try record(0x2A18, glucose(), model) == record(0x2A18, glucose(), nil))
        #expect(try record(0x2A18, glucose(month: 14), model).baseTime == nil)
    }

    @Test("promise 6: meal 6 says ketone with i-SENS's meters; the record is then excluded as such")
    func ketone() throws {
        func context(_ meal: UInt8, _ model: String?) -> GlucoseContext? {
            guard case .glucoseContext(5, let context) = decode(0x2A34, [0x02, 5, 0, meal], model) else { return nil }
            return context
        }
        let record = try record(0x2A18, glucose(flags: 0x13), "caresens")
        #expect(record.exclusion(with: context(6, "caresens")) == .ketone)
        for meal: UInt8 in [0, 1, 3, 5, 7, 255] { #expect(record.exclusion(with: context(meal, "caresens")) == nil) }
        #expect(record.exclusion(with: context(6, nil)) == nil && record.exclusion(with: nil) == nil)
        var control = record
        control.exclusion = .controlSolution
        #expect(control.exclusion(with: context(6, "caresens")) == .controlSolution)
        control.exclusion = .implausible
        #expect(control.exclusion(with: context(6, "caresens")) == .ketone)
    }

    @Test("numbers that are ages make no identity; a record without a time keeps its number")
    func numbersByAge() throws {
        let numbered = try record(0x2A18, glucose(sequence: 0), "taidoc_fora")
        #expect(numbered.sequence == nil && numbered.baseTime != nil)
        #expect(try record(0x2A18, glucose(month: 0, sequence: 7), "taidoc_fora").sequence == 7)
        guard case .glucoseContext(5, _) = decode(0x2A34, [0x02, 5, 0, 1], "taidoc_fora") else {
            Issue.record("its context is none")
            return
        }
        let (a, b) = (glucose(sequence: 0), glucose(sequence: 1))
        func id(_ octets: [UInt8]) throws -> ReadingID {
            ReadingIdentity(
                of: try record(0x2A18, octets, "taidoc_fora"), epoch: 0,
                frame: Frame(
                    format: FrameFormat(characteristic: 0x2A18), payload: octets, receivedAt: Instant(seconds: 0),
                    ordinal: 0), contactStart: Instant(seconds: 0)
            ).id(device: nil, kind: .glucose)
        }
        #expect(try id(a) == id(b), "the same record, a measurement later")
    }

    @Test("promise 6: the high record behind a full memory is an error record; others say what they say")
    func fullMemory() throws {
        for high: UInt16 in [0x07FE, 0xB25D, 0xB3FF] {
            #expect(try record(0x2A18, glucose(sequence: 450, value: high), "taidoc_fora").exclusion == .errorRecord)
            let within = try record(0x2A18, glucose(sequence: 449, value: high), "taidoc_fora")
            // Beyond what the meter measures, and not called too high by it.
            #expect(within.exclusion == (high == 0x07FE ? .notANumber : .implausible))
            #expect(try record(0x2A18, glucose(sequence: 450, value: high), nil).exclusion != .errorRecord)
        }
        #expect(try record(0x2A18, glucose(sequence: 450), "taidoc_fora").exclusion == nil)
    }

    @Test("empty records behind others make no reading with meters that send such, and are what they are elsewhere")
    func partners() throws {
        let empty = Array(glucose(sequence: .max, flags: 0).prefix(10))
        let filled = glucose(sequence: 3, value: 0xFFFF)
        for octets in [empty, filled] {
            #expect(decode(0x2A18, octets, "myglucose") == .nothing)
            #expect(try record(0x2A18, octets, nil).exclusion != nil)
        }
        #expect(try record(0x2A18, glucose(sequence: .max), "myglucose").sequence == .max)
        #expect(GlucoseMeasurement.isEmptyPartner([1, 2]) == false)
    }

    /// A BM85's record as public code has recorded it: flags without a user, one octet more than they say.
    private let bm85: [UInt8] = [
        0x16, 0x7F, 0x00, 0x4F, 0x00, 0x5F, 0x00, 0xEA, 0x07, 11, 21, 7, 30, 0, 0x00, 0x45, 0x01, 0x00, 0x04,
    ]

    @Test("a BM85's pulse and status are big-endian with a user between them")
    func bigEndian() throws {
        let record = try record(0x2A35, bm85, "beurer_bm85")
        guard case .bloodPressure(let value) = record.value else {
            Issue.record("no blood pressure")
            return
        }
        #expect(value.systolic == Quantity(ExactDecimal(significand: 127), .millimetresOfMercury))
        #expect(value.pulse == Quantity(ExactDecimal(significand: 69), .beatsPerMinute))
        #expect(record.userSlot == 1 && record.status == .irregularPulse)
        #expect(record.baseTime?.description == "2026-11-21T07:30:00")
    }

    @Test("it is found in the octets, not guessed from the name: whatever lacks a sign is read by the standard")
    func notBigEndian() throws {
        // The standard's own record of the same cuff; the odd one of a cuff that is not known for it.
        let ordinary = Array(bm85[..<14]) + [0x45, 0x00, 0x04, 0x00]
        #expect(try record(0x2A35, ordinary, "beurer_bm85") == record(0x2A35, ordinary, nil))
        #expect(try record(0x2A35, bm85, "beurer_bm") == record(0x2A35, bm85, nil))
        // One octet more, and a pulse that makes no sense big-endian; two octets more; a user that is flagged.
        var little = bm85
        (little[14], little[15]) = (0x45, 0x00)
        #expect(try record(0x2A35, little, "beurer_bm85") == record(0x2A35, little, nil))
        #expect(try record(0x2A35, bm85 + [0], "beurer_bm85") == record(0x2A35, bm85 + [0], nil))
        var flagged = bm85
        flagged[0] |= 0x08
        #expect(try record(0x2A35, flagged, "beurer_bm85") == record(0x2A35, flagged, nil))
        for length in 0..<7 {
            guard case .malformed = decode(0x2A35, Array(bm85.prefix(length)), "beurer_bm85") else {
                Issue.record("\(length) octets are no record")
                continue
            }
        }
    }

    @Test("promise 5: a BM96's reserved bits and missing mean are accepted, its exponents kept")
    func reservedBits() throws {
        let octets: [UInt8] = [
            0xF6, 0xF6, 0xF4, 0x16, 0xF3, 0xFF, 0x07, 0xEA, 0x07, 11, 21, 7, 30, 0, 0xB2, 0xF2, 0x00, 0x80,
        ]
        let record = try record(0x2A35, octets, "beurer_bm96")
        guard case .bloodPressure(let value) = record.value else {
            Issue.record("no blood pressure")
            return
        }
        #expect(value.systolic.number.number?.description == "127.0" && value.meanArterial.number == .notANumber)
        #expect(value.pulse?.number.number?.description == "69.0" && record.status == [] && record.exclusion == nil)
    }

    @Test(
        "a Contour's offsets are whatever the user's edits have added up to",
        arguments: [(-1, "11:59"), (1441, "12:01"), (-10_080, "12:00"), (32_766, "06:06")] as [(Int16, String)])
    func oddOffsets(offset: Int16, time: String) throws {
        var octets = glucose()
        octets.replaceSubrange(7..<10, with: [12, 0, 0])
        (octets[10], octets[11]) = (UInt8(truncatingIfNeeded: offset), UInt8(truncatingIfNeeded: offset >> 8))
        let record = try record(0x2A18, octets, "contour_next")
        #expect(record.timeOffsetMinutes == offset && record.deviceTime?.description.contains("T" + time) == true)
    }

    @Test("any octets of any model of the catalogue are decoded or refused")
    func hostile() {
        var generator = SystemRandomNumberGenerator()
        for model in Catalogue().models {
            for characteristic: UInt16 in [0x2A18, 0x2A34, 0x2A35, 0x2A36] {
                for _ in 0..<200 {
                    let octets = (0..<Int.random(in: 0...24, using: &generator)).map { _ in
                        UInt8.random(in: .min ... .max, using: &generator)
                    }
                    _ = decode(characteristic, octets, model.id)
                }
            }
        }
    }

    @Test("a model without quirks, and one nobody knows, decode as the standard does")
    func standard() {
        for model in [nil, "accuchek_guide", "unheard_of"] {
            #expect(
                decode(0x2A18, glucose(), model)
                    == StandardFrameDecoder().decode(
                        Frame(
                            format: FrameFormat(characteristic: 0x2A18), payload: glucose(),
                            receivedAt: Instant(seconds: 0),
                            ordinal: 0), model: nil))
        }
    }
}
