import FreeStyleLibre
import HealthReadings
import Testing

@Suite("A sensor's identity")
struct IdentityTests {
    @Test("the serial number is made of the UID's low 48 bits, with the family's digit before it")
    func serial() throws {
        let uid = try SensorUID(printed: hex("E007A00009352FBD"))
        #expect(uid.serialNumber(family: 0) == "0M000KE9GQM")
        #expect(uid.serialNumber(family: 3) == "3M000KE9GQM")
        #expect(uid.description == "E007A00009352FBD")
        #expect(uid.octetsOnAir == hex("BD2F3509 00A007E0"))
        #expect(try SensorUID(onAir: hex("BD2F3509 00A007E0")) == uid)
    }

    @Test("every symbol of a serial number is one of 32, and two sensors never share a serial number")
    func symbols() throws {
        let allowed = Set("0123456789ACDEFGHJKLMNPQRTUVWXYZ")
        var used: Set<Character> = []
        var known: [String: SensorUID] = [:]
        for symbol in 0..<32 {
            let bits = UInt64(symbol) << 43 | UInt64(symbol) << 20
            let uid = try SensorUID(
                onAir: (0..<8).map { UInt8(truncatingIfNeeded: (0xE0 << 56 | bits) >> UInt64(8 * $0)) })
            let serial = uid.serialNumber(family: 0)
            used.formUnion(serial)
            #expect(known.updateValue(uid, forKey: serial) == nil)
        }
        #expect(used == allowed)
    }

    @Test("a UID of another length, of no tag, or in the order of the air is refused, and the error says so")
    func badUID() {
        #expect(throws: MalformedFrame(subject: "UID", expected: "8 octets", octet: 0, found: "7")) {
            try SensorUID(printed: hex("E007A00009352F"))
        }
        #expect(throws: MalformedFrame.self) { try SensorUID(onAir: hex("E007A00009352FBD")) }
        do {
            _ = try SensorUID(printed: hex("BD2F350900A007E0"))
            Issue.record("octets in the order of the air were taken for printed ones")
        } catch {
            #expect(error.description.contains("in the order of the air"))
        }
    }

    @Test(
        "every model that is not the first Libre is refused by its name",
        arguments: [
            ("DF0000010102", SensorModel.libre1, ""), ("A20800040000", .libre1, ""),
            ("E50003020000", .libreUS14Day, "FreeStyle Libre 14 day"), ("E60003020000", .libreUS14Day, "14 day"),
            ("700010010000", .librePro, "Pro"), ("9D0830010000", .libre2, "FreeStyle Libre 2 ("),
            ("C50930010000", .libre2, "FreeStyle Libre 2 ("), ("C60931010000", .libre2Plus, "FreeStyle Libre 2 Plus"),
            ("7F0E30010000", .libre2, "FreeStyle Libre 2 ("), ("7F0E31010000", .libre2Plus, "FreeStyle Libre 2 Plus"),
            ("760A39020000", .libre2, "FreeStyle Libre 2 ("), ("2B0A39080000", .libre2, "FreeStyle Libre 2 ("),
            ("2B0A3A080000", .libre2Plus, "FreeStyle Libre 2 Plus"), ("2C0A3A020000", .libre2Plus, "2 Plus"),
            ("0000000000000000000000000000000000000000DF0000AA", .libre3, "FreeStyle Libre 3"),
            ("DF00000101020000000000000000000000000000DF0000AA", .libre3, "FreeStyle Libre 3"),
            ("A500040100000000000000000000000000000000000000AA1234", .libre3, "FreeStyle Libre 3"),
            ("AB0000010102", .unknown, "AB0000010102"), ("DF00", .unknown, "DF00"), ("", .unknown, "none"),
        ])
    func models(_ octets: String, _ model: SensorModel, _ named: String) {
        let patch = PatchInformation(hex(octets))
        #expect(patch.model == model)
        let foreign = ForeignSensor(patch)
        #expect((foreign == nil) == (model == .libre1))
        if let foreign { #expect(foreign.description.contains(named), "\(foreign)") }
    }
}
