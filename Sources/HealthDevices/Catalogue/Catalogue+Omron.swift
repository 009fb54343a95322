import GATTClient
import HealthReadings

extension Catalogue {
    /// The brand.
    static let omron = "Omron"

    /// Omron's monitors whose memory is known, one row for each layout.
    ///
    /// None is found by its name: monitors advertise a name that many models share, so a person says which it is, by the
    /// HEM number on its label. `Documentation/omron.md` tells how a row is added.
    static let omronMonitors: [DeviceModel] = highFirst + lowFirst + withoutKey

    /// Four channels and a key; records of 14 octets, the high octet of each word first.
    private static let highFirst: [DeviceModel] =
        [
            omron(
                "7322T, 7321T, 7280T, 7281T, 7282T", soldAs: "M6, M700, BP786",
                .big(users: 0x02AC, 0x0824, count: 100, .verified)),
            omron("7600T, 7270C, 7271T", soldAs: "EVOLV, BP7000", .big(users: 0x02AC, count: 100, .verified)),
            omron("7511T", .big(users: 0x02AC, 0x0798, count: 90, .fromDocuments)),
            omron("7325T", .big(users: 0x02AC, count: 90, .fromDocuments)),
            omron("8732T", .big(users: 0x02AC, 0x05F4, count: 60, .fromDocuments)),
            omron("8732K", .big(users: 0x02AC, 0x0522, count: 45, .fromDocuments)),
            // Which octet of a word comes first is not public.
            omron("8725T, 7320T", .big(users: 0x02AC, 0x05F4, count: 60, order: nil, .fromDocuments)),
            omron(
                "6321T, 6324T", soldAs: "BP653",
                .big(
                    users: 0x0370, 0x08E8, count: 100, settings: 0x0F74, order: nil, isAtWrist: true, .fromDocuments)),
            omron(
                "6320T, 6323T",
                .big(users: 0x0370, count: 100, settings: 0x0F74, order: nil, isAtWrist: true, .fromDocuments)),
            omron(
                "6232T, 6233T", soldAs: "RS7, BP6350, BP4350",
                .big(users: 0x02E8, 0x0860, count: 100, clock: 0x2C..<0x3C, isAtWrist: true, .verified)),
            // A 7271T with this suffix is laid out otherwise than the others: hass-omron's catalogue.
            omron(
                "7530T, 7271T-SH3", soldAs: "Complete, BP7900",
                .big(users: 0x02E8, count: 90, clock: 0x2C..<0x3C, .fromCode)),
            omron("6231T", .big(users: 0x02E8, count: 100, clock: 0x2C..<0x3C, isAtWrist: true, .fromCode)),
            omron(
                "6161T", soldAs: "RS2, RS3",
                .big(users: 0x02E8, count: 30, clock: 0x2C..<0x3C, isAtWrist: true, .fromCode)),
            omron("7136T, 7138T, 7139T", .big(users: 0x02E8, count: 60, clock: 0x2C..<0x3C, .fromDocuments)),
        ]

    /// Four channels and a key; records of 16 octets, the low octet of each word first. More than one record in a request
    /// is refused by some of them.
    private static let lowFirst: [DeviceModel] =
        [
            omron(
                "7150T, 7153T, 7156T", soldAs: "BP7250",
                .little(.key, users: 0x0098, count: 60, longestRead: 16, .fromCode)),
            omron("7151T", soldAs: "M3, BP5250", .little(.key, users: 0x0098, count: 80, longestRead: 16, .fromCode)),
            omron("7157T, 7158T", .little(.key, users: 0x0098, count: 100, longestRead: 16, .fromCode)),
            omron("7153JT", .little(.key, users: 0x0098, count: 30, longestRead: 16, .fromCode)),
            omron(
                "7155T, 7340T, 7341T", soldAs: "M4, M400, X4, X4 Smart, BP7350",
                .little(.key, users: 0x0098, 0x0458, count: 60, longestRead: 16, .fromCode)),
            omron(
                "7361T, 7342T, 7343T, 7344T, 7346T, 7347T", soldAs: "M7, M500, BP7450",
                .little(.key, users: 0x0098, 0x06D8, count: 100, longestRead: 16, .fromCode)),
            omron("1026T2", .little(.key, users: 0x02E8, 0x0928, count: 100, settings: 0x0260, .fromDocuments)),
        ]

    /// One channel and a bond; the low octet of each word first.
    private static let withoutKey: [DeviceModel] =
        [
            omron(
                "7143T1, 7143T2, 7144T2, 7146T, 7146T2", soldAs: "X2 Smart+",
                .little(.bond, octets: 14, users: 0x02E8, count: 30, settings: 0x0260, .verified)),
            omron(
                "7140T1, 7141T1, 7142T1, 7142T2", soldAs: "M2, BP7150",
                .little(.bondAndEcho, octets: 14, users: 0x02E8, count: 14, settings: 0x0260, .verified)),
            omron(
                "716BT2, 716CT2, 7149T2", soldAs: "BP5255",
                .little(.bondAndEcho, octets: 14, users: 0x02E8, count: 30, settings: 0x0260, .fromCode)),
            omron(
                "7155T-K4, 7340T-K4, 7341T-K4", soldAs: "M4, M400, X4 Smart, BP7350",
                .little(.bond, users: 0x02E8, 0x06A8, count: 60, settings: 0x0260, .fromDocuments)),
            omron("7155T-MW", .little(.bond, users: 0x0098, 0x0458, count: 60, .fromCode)),
            omron(
                "7155T-MW3, 7155T-ESL1", soldAs: "X4 Smart",
                .little(.bondAndEcho, users: 0x02E8, 0x06A8, count: 60, settings: 0x0260, .verified)),
            omron(
                "7380T1, 7383T1, 7384T1", soldAs: "M7 AFib, X7 AFib",
                .little(.bondAndEcho, users: 0x01C4, 0x0804, count: 100, .verified)),
            omron(
                "7376T1", .little(.bondAndEcho, users: 0x080C, 0x0BCC, count: 60, clock: 0x30..<0x40, .fromDocuments)),
            omron(
                "7377T1", .little(.bondAndEcho, users: 0x080C, 0x0D0C, count: 80, clock: 0x30..<0x40, .fromDocuments)),
            omron(
                "7386T1, 7381T1, 7382T1, 7388T1", soldAs: "BP5465",
                .little(.bondAndEcho, users: 0x080C, 0x0E4C, count: 100, clock: 0x30..<0x40, .fromCode)),
            omron("7188T1, 7183T1", soldAs: "X2+, M2+", .little(.bondAndEcho, users: 0x01C4, count: 30, .verified)),
            omron("7191T1", .little(.bondAndEcho, users: 0x01C4, count: 60, .fromDocuments)),
            omron("7194T1, 7196T1", .little(.bondAndEcho, users: 0x01C4, 0x0584, count: 60, .fromDocuments)),
        ]

    /// The rows whose layout the lab's monitor has had behind a real bluetoothd.
    private static let labs: Set<String> = ["7322t", "7361t", "7143t1", "7380t1", "7155tmw3"]

    /// A row.
    ///
    /// - Parameters:
    ///   - numbers: the HEM numbers, the id's first.
    ///   - names: under which names shops sell them; several models share a name, and names differ by country.
    private static func omron(_ numbers: String, soldAs names: String = "", _ memory: OmronMemory) -> DeviceModel {
        let first = numbers.prefix { $0 != "," }.lowercased().filter { $0.isLetter || $0.isNumber }
        return DeviceModel(
            id: "omron_hem\(first)", brand: Catalogue.omron,
            name: "HEM-\(numbers)" + (names.isEmpty ? "" : " (\(names))"),
            kinds: [.bloodPressure],
            services: [memory.stack == .key ? Omron.keyService : Omron.bondService, 0x1810], provider: "omron_ble",
            pairing: .any, howToPair: "hold the monitor's Bluetooth button for three seconds, until P blinks",
            howToWake: "press the monitor's Bluetooth button once",
            quirks: [.refusesClock, .secondsTo63, .batteryReadsZero],
            tested: (labs.contains(first) ? [.lab] : []) + [.emulated]
                + (memory.certainty == .verified ? [.bytes] : []),
            standsFor: ["omron_blesmart", "omron_smart", "generic_blood_pressure"], omronMemory: memory)
    }
}

extension OmronMemory {
    fileprivate static func big(
        users: UInt16..., count: Int, settings: UInt16 = 0x0260, clock: Range<UInt16> = 0x14..<0x1E,
        order: OmronRecordLayout.Order? = .highFirst, isAtWrist: Bool = false, _ certainty: Certainty
    ) -> OmronMemory {
        OmronMemory(
            .key, order, octets: 14, users: users, count: count, settings: settings, clock: clock,
            isAtWrist: isAtWrist, certainty)
    }

    fileprivate static func little(
        _ stack: Stack, octets: Int = 16, users: UInt16..., count: Int, settings: UInt16 = 0x0010,
        clock: Range<UInt16> = 0x2C..<0x3C, longestRead: Int = OmronFrame.mostData, _ certainty: Certainty
    ) -> OmronMemory {
        OmronMemory(
            stack, .lowFirst, octets: octets, users: users, count: count, settings: settings, clock: clock,
            longestRead: longestRead, certainty)
    }
}
