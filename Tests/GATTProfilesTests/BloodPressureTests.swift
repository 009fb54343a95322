import GATTProfiles
import HealthReadings
import Testing

@Suite("blood pressure 2A35, cuff pressure 2A36")
struct BloodPressureTests {
    private func pressure(_ record: Record) -> BloodPressureValue? {
        if case .bloodPressure(let value) = record.value { value } else { nil }
    }

    @Test("a whole record keeps the cuff's digits")
    func whole() throws {
        // mmHg; 127.0, 79.0, mean NaN, 2026-11-21 07:00:00, pulse 69.0, user 1, irregular pulse
        let record = try record(0x2A35, "1E F6F4 16F3 FF07 EA070B15070000 B2F2 01 0400")
        let value = try #require(pressure(record))
        #expect(value.systolic == Quantity(decimal(1270, -1), .millimetresOfMercury))
        #expect(value.diastolic == Quantity(decimal(790, -1), .millimetresOfMercury))
        #expect(value.meanArterial == Quantity(.notANumber, .millimetresOfMercury))
        #expect(value.pulse == Quantity(decimal(690, -1), .beatsPerMinute))
        #expect(record.baseTime?.description == "2026-11-21T07:00:00")
        #expect(record.deviceTime?.description == "2026-11-21T07:00:00")
        #expect(record.sequence == nil)
        #expect(record.userSlot == 1)
        #expect(record.status.names == ["irregular_pulse"])
        #expect(record.exclusion == nil)
    }

    @Test("seven octets are a whole record: no time, no pulse, no user")
    func shortest() throws {
        let record = try record(0x2A35, "00 7F00 4F00 5F00")
        #expect(pressure(record)?.systolic == Quantity(decimal(127), .millimetresOfMercury))
        #expect(pressure(record)?.pulse == nil)
        #expect(record.baseTime == nil)
        #expect(record.userSlot == nil)
        #expect(record.exclusion == nil)
    }

    @Test("kPa stays kPa")
    func kilopascal() throws {
        let record = try record(0x2A35, "01 A9F0 69F0 7FF0")
        #expect(pressure(record)?.systolic == Quantity(decimal(169, -1), .kilopascal))
        #expect(pressure(record)?.diastolic == Quantity(decimal(105, -1), .kilopascal))
        #expect(record.exclusion == nil)
    }

    @Test("user 255 is unknown; 0 and 254 are slots")
    func users() throws {
        #expect(try record(0x2A35, "08 7F00 4F00 5F00 FF").userSlot == nil)
        #expect(try record(0x2A35, "08 7F00 4F00 5F00 00").userSlot == 0)
        #expect(try record(0x2A35, "08 7F00 4F00 5F00 FE").userSlot == 254)
    }

    @Test(
        "each status bit has the specification's name; the pulse range is a number of two bits",
        arguments: [
            (0x0001, ["body_movement"]), (0x0002, ["cuff_too_loose"]), (0x0004, ["irregular_pulse"]),
            (0x0008, ["pulse_rate_too_high"]), (0x0010, ["pulse_rate_too_low"]), (0x0018, []),
            (0x0020, ["improper_position"]), (0xFFC0, []),
            (
                0x002F,
                ["body_movement", "cuff_too_loose", "irregular_pulse", "pulse_rate_too_high", "improper_position"]
            ),
        ] as [(UInt16, [String])])
    func status(bits: UInt16, names: [String]) throws {
        var octets = hex("10 7F00 4F00 5F00")
        octets += [UInt8(truncatingIfNeeded: bits), UInt8(truncatingIfNeeded: bits >> 8)]
        #expect(try record(0x2A35, octets).status.names == names)
    }

    @Test(
        "promise 6: why a record is never a person's blood pressure",
        arguments: [
            ("00 FF07 4F00 5F00", .notANumber), ("00 7F00 FF07 5F00", .notANumber), ("00 FE07 4F00 5F00", .notANumber),
            ("00 7F00 4F00 FF07", nil), ("04 7F00 4F00 5F00 FF07", nil), ("00 0000 0000 0000", .implausible),
            ("00 7F00 0000 5F00", .implausible), ("00 7F00 FF0F 5F00", .implausible),
            ("00 4F00 7F00 5F00", .implausible),
            ("00 4F00 4F00 4F00", nil), ("00 9001 4F00 5F00", nil), ("00 9101 4F00 5F00", .implausible),
            ("00 A1FF 4F00 5F00", .implausible), ("01 15F2 69F0 7FF0", nil), ("01 16F2 69F0 7FF0", .implausible),
            ("01 7F00 4F00 5F00", .implausible), ("00 7FF0 0D00 5F00", .implausible), ("00 7FF0 0C00 5F00", nil),
            ("00 7F70 4F00 5F00", .implausible), ("00 7F00 4F80 5F00", nil),
        ] as [(String, Exclusion?)])
    func exclusions(octets: String, exclusion: Exclusion?) throws {
        #expect(try record(0x2A35, octets).exclusion == exclusion)
    }

    @Test("promise 6: cuff pressure is never a reading, and its unused NaN fields are no other reason")
    func intermediate() throws {
        #expect(
            StandardFrameDecoder().decode(characteristic: 0x2A36, octets: hex("00 B400 FF07 FF07").span.bytes)
                == .nothing)
        let record = try IntermediateCuffPressure(decoding: hex("00 B400 FF07 FF07")).record
        #expect(record.exclusion == .intermediate)
        #expect(pressure(record)?.systolic == Quantity(decimal(180), .millimetresOfMercury))
        #expect(
            try IntermediateCuffPressure(decoding: hex("00 B400 FF07 FF07")).cuffPressure
                == Quantity(decimal(180), .millimetresOfMercury))
        #expect(malformed(0x2A36, hex("00 B400"))?.subject == "Intermediate Cuff Pressure (2A36)")
    }

    @Test("promise 7: a time stamp of zeros or an impossible one is none")
    func noTime() throws {
        #expect(try record(0x2A35, "02 7F00 4F00 5F00 00000000000000").baseTime == nil)
        #expect(try record(0x2A35, "02 7F00 4F00 5F00 EA070D15070000").baseTime == nil)
    }

    @Test("promise 5: reserved flags and bits, and octets behind, are accepted")
    func reserved() throws {
        #expect(
            try record(0x2A35, "F0 7F00 4F00 5F00 C0FF 0102030405060708") == record(0x2A35, "10 7F00 4F00 5F00 0000"))
    }
}
