import HealthReadings
import Testing

@Suite("addresses and identities")
struct IdentityTests {
    @Test("an address comes back as it went out, in every spelling")
    func addresses() {
        forAll { generator in
            let kind = DeviceAddress.Kind.allCases.randomElement(using: &generator) ?? .public
            let address = DeviceAddress(bits: generator.next(), kind: kind)
            let text = address.description
            let spellings = [
                text, text.lowercased(), text.filter { $0 != ":" }, String(text.map { $0 == ":" ? "-" : $0 }),
            ]
            return (
                spellings.map { DeviceAddress($0, kind: kind) }, spellings.map { _ in address }, about: text
            )
        }
        #expect(DeviceAddress("C0:00:00:00:18:08")?.bits == 0xC000_0000_1808)
        #expect(DeviceAddress("C0:00:00:00:18:08")?.description == "C0:00:00:00:18:08")
    }

    @Test(
        "text that is no address is refused",
        arguments: [
            "", "C0:00:00:00:18", "C0:00:00:00:18:08:00", "G0:00:00:00:18:08", "C0:00:00:00:1808", " C00000001808",
            "C000000018081", "Ｃ0:00:00:00:18:08",
        ])
    func refusedAddresses(text: String) {
        #expect(DeviceAddress(text) == nil)
    }

    @Test("only a random address whose first two bits are 01 is resolvable and private")
    func resolvable() {
        #expect(DeviceAddress(bits: 0x4000_0000_0000, kind: .random).isResolvablePrivate)
        #expect(DeviceAddress(bits: 0x7FFF_FFFF_FFFF, kind: .random).isResolvablePrivate)
        #expect(!DeviceAddress(bits: 0x4000_0000_0000, kind: .public).isResolvablePrivate)
        #expect(!DeviceAddress(bits: 0xC000_0000_0000, kind: .random).isResolvablePrivate)
        #expect(!DeviceAddress(bits: 0x3FFF_FFFF_FFFF, kind: .random).isResolvablePrivate)
    }

    @Test("an id comes back as it went out, orders as its text does, and shows its octets")
    func ids() {
        forAll { generator in
            let id = ReadingID(high: generator.next(), low: generator.next())
            let text = id.description
            return ([ReadingID(text), ReadingID(text.uppercased())], [id, id], about: text)
        }
        forAll { generator in
            let (a, b) = (
                ReadingID(high: generator.next() & 1, low: generator.next()), ReadingID(high: 0, low: generator.next())
            )
            return (a < b, a.description < b.description, about: "\(a), \(b)")
        }
        #expect(ReadingID(high: 0x0102_0304_0506_0708, low: 0x090A_0B0C_0D0E_0F10).octets == Array(1...16))
        for text in [
            "", "0", String(repeating: "g", count: 32), String(repeating: "0", count: 33),
            "+" + String(repeating: "0", count: 31),
        ] {
            #expect(ReadingID(text) == nil)
        }
    }

    private let meter = DeviceAddress(bits: 0xC000_0000_1808, kind: .random)
    private let noGlucose = RecordValue.glucose(GlucoseValue(concentration: nil))

    @Test("promise 2: ids are for ever; these were computed with another SHA-256 over the documented key")
    func known() throws {
        let base = try #require(WallTime("2026-11-20T12:30:00"))
        let numbered = ReadingIdentity.numbered(sequence: 5, epoch: 0, baseTime: base, clash: 0)
        #expect(numbered.id(device: meter, kind: .glucose).description == "81a3a75ce9bfbab064a6b829a12fe7b6")
        let pressure = RecordValue.bloodPressure(
            BloodPressureValue(
                systolic: Quantity(ExactDecimal(significand: 1270, exponent: -1), .millimetresOfMercury),
                diastolic: Quantity(ExactDecimal(significand: 790, exponent: -1), .millimetresOfMercury),
                meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                pulse: Quantity(ExactDecimal(significand: 690, exponent: -1), .beatsPerMinute)))
        let time = try #require(WallTime("2026-11-21T07:00:00"))
        let timed = ReadingIdentity.timed(userSlot: 1, baseTime: time, value: pressure)
        #expect(timed.id(device: nil, kind: .bloodPressure).description == "a6e4ec95a7fe4c23723dd46dea3c80e7")
        let untimed = ReadingIdentity.untimed(contactStart: Instant(seconds: 1), ordinal: 3, value: noGlucose)
        let device = DeviceAddress(bits: 0xC000_0000_1808, kind: .public)
        #expect(untimed.id(device: device, kind: .glucose).description == "bcbcdccc7f7b9504fd6ae6919f2321e4")
        let recalled = ReadingIdentity.recalled(userSlot: 2, baseTime: nil, value: noGlucose, occurrence: 3)
        #expect(recalled.id(device: meter, kind: .glucose).description == "6716232059f6d1917fb6e1424797cb02")
    }

    @Test("that a number is implausible changes no id: a record is known by the digits it was stored under")
    func implausible() throws {
        let time = try #require(WallTime("2026-11-21T07:00:00"))
        let plain = Quantity(ExactDecimal(significand: -256, exponent: 3), .percent)
        let marked = Quantity(.implausible(ExactDecimal(significand: -256, exponent: 3)), .percent)
        let ids = [plain, marked].map { quantity in
            ReadingIdentity.timed(
                userSlot: 1, baseTime: time, value: .glucose(GlucoseValue(concentration: quantity))
            ).id(device: nil, kind: .glucose)
        }
        #expect(ids[0] == ids[1])
    }

    @Test("what tells two records apart changes the id; the value of a numbered record does not")
    func distinct() throws {
        let base = try #require(WallTime("2026-11-20T12:30:00"))
        let identities: [ReadingIdentity] = [
            .numbered(sequence: 5, epoch: 0, baseTime: base, clash: 0),
            .numbered(sequence: 6, epoch: 0, baseTime: base, clash: 0),
            .numbered(sequence: 5, epoch: 1, baseTime: base, clash: 0),
            .numbered(sequence: 5, epoch: 0, baseTime: nil, clash: 0),
            .numbered(sequence: 5, epoch: 0, baseTime: base.advanced(byMinutes: 1), clash: 0),
            .numbered(sequence: 5, epoch: 0, baseTime: base, clash: 1),
            .timed(userSlot: nil, baseTime: base, value: noGlucose),
            .timed(userSlot: 0, baseTime: base, value: noGlucose),
            .recalled(userSlot: nil, baseTime: base, value: noGlucose, occurrence: 0),
            .recalled(userSlot: nil, baseTime: nil, value: noGlucose, occurrence: 0),
            .recalled(userSlot: 0, baseTime: nil, value: noGlucose, occurrence: 0),
            .recalled(userSlot: 0, baseTime: nil, value: noGlucose, occurrence: 1),
            .recording(start: base, clash: 0), .recording(start: base, clash: 1),
            .recording(start: base.advanced(byMinutes: 1), clash: 0),
            .untimed(contactStart: Instant(seconds: 1), ordinal: 0, value: noGlucose),
            .untimed(contactStart: Instant(seconds: 1), ordinal: 1, value: noGlucose),
            .untimed(contactStart: Instant(seconds: 2), ordinal: 0, value: noGlucose),
        ]
        let devices = [meter, DeviceAddress(bits: meter.bits, kind: .public), nil]
        let ids = identities.flatMap { identity in
            devices.flatMap { device in ReadingKind.allCases.map { identity.id(device: device, kind: $0) } }
        }
        #expect(Set(ids).count == ids.count)

        func identity(_ concentration: Int64) -> ReadingIdentity {
            let value = GlucoseValue(
                concentration: Quantity(ExactDecimal(significand: concentration), .milligramsPerDecilitre))
            return ReadingIdentity(
                of: Record(value: .glucose(value), sequence: 5, baseTime: base), epoch: 0,
                frame: Frame(
                    format: FrameFormat(characteristic: 0x2A18), payload: [], receivedAt: Instant(seconds: 0),
                    ordinal: 9),
                contactStart: Instant(seconds: 0))
        }
        #expect(identity(95) == identity(96))
    }
}
