import GATTProfiles
import HealthReadings
import Testing

@Suite("glucose records 2A18 and contexts 2A34")
struct GlucoseTests {
    private func glucose(_ record: Record) -> GlucoseValue? {
        if case .glucose(let value) = record.value { value } else { nil }
    }

    @Test("a whole record: sequence, base time, signed offset, concentration, type, location, status")
    func whole() throws {
        // flags offset + concentration + status, 5, 2026-11-20 12:30:00, +60, 95 × 10^-5 kg/L, capillary whole blood, finger
        let record = try record(0x2A18, "0B 0500 EA070B140C1E00 3C00 5FB0 11 0100")
        let value = try #require(glucose(record))
        #expect(record.sequence == 5)
        #expect(record.baseTime?.description == "2026-11-20T12:30:00")
        #expect(record.timeOffsetMinutes == 60)
        #expect(record.deviceTime?.description == "2026-11-20T13:30:00")
        #expect(value.concentration == Quantity(decimal(95), .milligramsPerDecilitre))
        #expect(value.sampleType == .capillaryWholeBlood)
        #expect(value.sampleLocation == .finger)
        #expect(record.status.names == ["device_battery_low"])
        #expect(record.exclusion == nil)
        #expect(record.userSlot == nil)
    }

    @Test("mol/L becomes mmol/L, kg/L becomes mg/dL: the point moves, the digits stay")
    func units() throws {
        let molar = try record(0x2A18, "06 0100 EA070B140C1E00 37C0 11")
        #expect(glucose(molar)?.concentration == Quantity(decimal(55, -1), .millimolesPerLitre))
        let fine = try record(0x2A18, "02 0100 EA070B140C1E00 B6A3 11")
        #expect(glucose(fine)?.concentration == Quantity(decimal(950, -1), .milligramsPerDecilitre))
    }

    @Test(
        "the time offset is signed; 7FFF and 8000 say that the user's time is unknown",
        arguments: [
            ("C4FF", -60, "2026-11-20T11:30:00"), ("3C00", 60, "2026-11-20T13:30:00"),
            ("0000", 0, "2026-11-20T12:30:00"),
            ("60FA", -1440, "2026-11-19T12:30:00"), ("FF7F", nil, nil), ("0080", nil, nil),
        ] as [(String, Int16?, String?)])
    func offsets(octets: String, minutes: Int16?, deviceTime: String?) throws {
        let record = try record(0x2A18, "01 0100 EA070B140C1E00 \(octets)")
        #expect(record.timeOffsetMinutes == minutes)
        #expect(record.timeOffsetIsUnknown == (minutes == nil))
        #expect(record.deviceTime?.description == deviceTime)
        #expect(record.baseTime?.description == "2026-11-20T12:30:00")
    }

    @Test("promise 7: no offset sent is nil, and the base time is what the user sees")
    func noOffset() throws {
        let record = try record(0x2A18, "02 0100 EA070B140C1E00 5FB0 11")
        #expect(record.timeOffsetMinutes == nil)
        #expect(!record.timeOffsetIsUnknown)
        #expect(record.deviceTime == record.baseTime)
    }

    @Test("promise 7: a record without a known date has no time")
    func noDate() throws {
        let record = try record(0x2A18, "03 0100 00000000000000 3C00 5FB0 11")
        #expect(record.baseTime == nil)
        #expect(record.deviceTime == nil)
        #expect(record.exclusion == nil)
    }

    @Test(
        "promise 6: NaN, NRes, infinities and the reserved mantissa never become a number",
        arguments: [
            ("FF07", .notANumber), ("0008", .notAtThisResolution), ("FE07", .positiveInfinity),
            ("0208", .negativeInfinity), ("0108", .reserved),
        ] as [(String, MeasuredNumber)])
    func specials(octets: String, number: MeasuredNumber) throws {
        let record = try record(0x2A18, "02 0100 EA070B140C1E00 \(octets) 11")
        #expect(glucose(record)?.concentration?.number == number)
        #expect(record.exclusion == .notANumber)
    }

    @Test(
        "promise 6: why a record is never a patient's glucose, the first reason of several",
        arguments: [
            ("02 0100 EA070B140C1E00 5FB0 1A", .controlSolution), ("02 0100 EA070B140C1E00 5FB0 41", .controlSolution),
            ("02 0100 EA070B140C1E00 5FB0 4A", .controlSolution), ("00 0100 EA070B140C1E00", .noValue),
            ("0A 0100 EA070B140C1E00 5FB0 11 0200", .errorRecord), ("08 0100 EA070B140C1E00 0004", .errorRecord),
            ("0A 0100 EA070B140C1E00 FF07 4A 0400", .errorRecord), ("02 0100 EA070B140C1E00 FF07 4A", .notANumber),
            ("02 0100 EA070B140C1E00 00B0 4A", .controlSolution), ("02 0100 EA070B140C1E00 00B0 11", .implausible),
            ("02 0100 EA070B140C1E00 FFBF 11", .implausible), ("02 0100 EA070B140C1E00 DCB5 11", nil),
            ("02 0100 EA070B140C1E00 DDB5 11", .implausible), ("06 0100 EA070B140C1E00 53D0 11", nil),
            ("06 0100 EA070B140C1E00 3FC3 11", .implausible), ("02 0100 EA070B140C1E00 5F70 11", .implausible),
            ("0A 0100 EA070B140C1E00 5FB0 11 0108", nil), ("0A 0100 EA070B140C1E00 5FB0 11 00F0", nil),
        ] as [(String, Exclusion?)])
    func exclusions(octets: String, exclusion: Exclusion?) throws {
        #expect(try record(0x2A18, octets).exclusion == exclusion)
    }

    @Test("promise 5: reserved flags, types, locations and status bits are accepted; extra octets too")
    func reserved() throws {
        let plain = try record(0x2A18, "0A 0100 EA070B140C1E00 5FB0 11 0000")
        #expect(try record(0x2A18, "EA 0100 EA070B140C1E00 5FB0 11 00F0 DEADBEEF") == plain)
        let unnamed = try record(0x2A18, "02 0100 EA070B140C1E00 5FB0 CE")
        #expect(glucose(unnamed)?.sampleType == .reserved)
        #expect(glucose(unnamed)?.sampleLocation == .reserved)
        #expect(unnamed.exclusion == nil)
        #expect(glucose(try record(0x2A18, "02 0100 EA070B140C1E00 5FB0 F1"))?.sampleLocation == .notAvailable)
    }

    @Test("each type and location has its name", arguments: 0...255)
    func typesAndLocations(octet: Int) throws {
        let types = [
            nil, "capillary_whole_blood", "capillary_plasma", "venous_whole_blood", "venous_plasma",
            "arterial_whole_blood", "arterial_plasma", "undetermined_whole_blood", "undetermined_plasma",
            "interstitial_fluid", "control_solution",
        ]
        let locations = [nil, "finger", "alternate_site", "earlobe", "control_solution"]
        let (type, location) = (octet & 15, octet >> 4)
        let value = glucose(try record(0x2A18, hex("02 0100 EA070B140C1E00 5FB0") + [UInt8(octet)]))
        #expect(value?.sampleType?.name == (type < types.count ? types[type] : nil) ?? "reserved")
        #expect(
            value?.sampleLocation?.name
                == (location == 15 ? "not_available" : (location < locations.count ? locations[location] : nil))
                ?? "reserved")
    }

    @Test("each status bit has the specification's name", arguments: 0..<16)
    func statusBits(bit: Int) throws {
        let names = [
            "device_battery_low", "sensor_malfunction", "sample_insufficient", "strip_insertion_error",
            "strip_type_incorrect", "result_too_high", "result_too_low", "temperature_too_high", "temperature_too_low",
            "read_interrupted", "general_fault", "time_fault",
        ]
        var octets = hex("08 0100 EA070B140C1E00")
        octets += [UInt8(truncatingIfNeeded: 1 << bit), UInt8(truncatingIfNeeded: (1 << bit) >> 8)]
        #expect(try record(0x2A18, octets).status.names == (bit < names.count ? [names[bit]] : []))
    }

    private func context(_ text: String) throws -> (UInt16, GlucoseContext) {
        guard case .glucoseContext(let sequence, let context) = decode(0x2A34, hex(text)) else {
            throw NotARecord(decoded: decode(0x2A34, hex(text)))
        }
        return (sequence, context)
    }

    @Test("a context with every field, extended flags included")
    func wholeContext() throws {
        // 60 g lunch, fasting, self, no health issues, 30 min at 80 %, 5 mg rapid acting insulin, HbA1c 6.5 %
        let (sequence, context) = try context("DF 0500 00 02 3CD0 03 51 0807 50 01 05A0 41F0")
        #expect(sequence == 5)
        #expect(context.carbohydrate == .init(id: "lunch", amount: Quantity(decimal(60), .grams)))
        #expect(context.meal == "fasting")
        #expect(context.tester == "self")
        #expect(context.health == "no_health_issues")
        #expect(context.exercise == .init(seconds: 1800, intensityPercent: 80))
        #expect(context.medication == .init(id: "rapid_acting_insulin", amount: Quantity(decimal(5), .milligrams)))
        #expect(context.hba1c == Quantity(decimal(65, -1), .percent))
    }

    @Test("medication in litres, exercise overrun, reserved numbers, extra octets")
    func oddContext() throws {
        let litres = try context("30 0500 02 0FD0").1.medication
        #expect(litres == .init(id: "short_acting_insulin", amount: Quantity(decimal(15), .millilitres)))
        #expect(try context("08 0500 FFFF 50").1.exercise == .init(seconds: nil, intensityPercent: 80))
        #expect(try context("08 0500 FEFF 50").1.exercise?.seconds == 65534)
        let reserved = try context("17 0500 08 3CD0 06 64 06 05A0 FFFF").1
        #expect(reserved.carbohydrate?.id == "reserved")
        #expect(reserved.meal == "reserved")
        #expect(reserved.tester == "reserved")
        #expect(reserved.health == "reserved")
        #expect(reserved.medication?.id == "reserved")
        #expect(try context("04 0500 FF").1.tester == "not_available")
        #expect(try context("04 0500 FF").1.health == "not_available")
        #expect(try context("00 0500").1 == GlucoseContext())
        #expect(try context("03 0500 00 3CD0 00").1.carbohydrate?.id == "reserved")
    }

    @Test("promise 6: an amount that is no number stays none")
    func contextSpecials() throws {
        let context = try context("51 0500 01 FF07 01 0008 FE07").1
        #expect(context.carbohydrate?.amount.number == .notANumber)
        #expect(context.medication?.amount.number == .notAtThisResolution)
        #expect(context.hba1c?.number == .positiveInfinity)
    }
}
