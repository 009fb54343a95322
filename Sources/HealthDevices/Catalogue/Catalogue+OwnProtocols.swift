import GATTClient
import HealthReadings

extension Catalogue {
    /// Devices that are found by their names and read by their makers' own protocols. `Documentation/makers.md` tells what
    /// is known of each.
    static let ownProtocols: [DeviceModel] = [
        // The octets are those that an owner has logged from a B3, by its cable: microlife_bp.
        microlife("b3", "B3 BT", [.prefix("B3 BT")], .verified),
        // Code that owners use: blood-pressure-monitor.
        microlife("bp3gy1", "BP3GY1-2N (sold by Costco)", [.prefix("BP3GY1")], .fromCode),
        microlife("b4", "B4 BT", [.prefix("B4 BT")], .fromCode),
        // Names that the maker's kits look for. Its older kit knows the generation before alone, and its newer one both, by what a
        // monitor answers: so each is asked, and one of the generation before is refused.
        microlife(
            "b6", "B6 Connect, BP3GT1-6B", [.prefix("B6 Connect"), .prefix("B6 BT"), .prefix("BP3GT1")],
            .fromDocuments),
        // Programs treat these as the generation before: Microlife-BP-A6, blopup.
        microlife(
            "a6", "A6 BT, A6 Basis Plus BT, A7 Touch BT, BP3GU1-7B (3G: recognised, not read)",
            [.prefix("A6 BT"), .prefix("A6 BASIS PLUS BT"), .prefix("A7 Touch BT"), .prefix("BP3GU1")], .fromDocuments),
        // Owners have logged an LP-BP2W's answers, and its list only in part: viatom_bp2_ha.
        viatom("lp_bp2w", "LP-BP2W", [.exact("LP-BP2W"), .prefix("LP-BP2W ")], .fromCode),
        viatom(
            "bp2", "BP2, BP2A, BP2W, LP-BP2, Checkme BP2",
            [
                .exact("BP2"), .prefix("BP2 "), .exact("BP2A"), .prefix("BP2A "), .exact("BP2W"), .prefix("BP2W "),
                .exact("LP-BP2"), .prefix("LP-BP2 "), .exact("LP-BP2A"), .prefix("LP-BP2A "), .prefix("Checkme BP2"),
            ], .fromDocuments),
        // Code that owners use: LibreArm and its ports, offline-qardio-app-ios, qardio, qardioarmv2reversed. The names are
        // those of the maker's own app.
        qardioArm,
        // Messages that several owners have logged.
        oximeter("viatom_pc60fw", "Viatom", "PC-60FW, PC-60F, OxySmart", ["PC-60F", "OxySmart"], .pc60fw, .verified),
        oximeter(
            "jumper_oximeter", "Jumper", "JPD-500F, My Oximeter, OXY500 BT, OXY550 BT",
            ["JPD-500", "My Oximeter", "OXY500 BT", "OXY550 BT"], .jumper, .fromCode),
        oximeter("berry_bm1000", "Berry", "BM1000", ["BerryMed"], .berry, .fromDocuments),
        // Advertisements that owners have logged: ble_monitor's issues 366 and 1094.
        scale(
            XiaomiScale.bodyComposition, "Mi Body Composition Scale, and Scale 2 (XMTZC02HM, XMTZC05HM)",
            ["MIBCS", "MIBFS"], XiaomiScale.compositionService, [.lab, .emulated, .bytes]),
        scale(
            XiaomiScale.weight, "Mi Scale, Mi Smart Scale 2 (XMTZC01HM, XMTZC04HM)", ["MI_SCALE", "MI SCALE2"],
            XiaomiScale.weightService, [.emulated, .bytes]),
        // Live values that an owner has logged (o2r), and code that owners read recordings by: no octets of a recording are
        // public. A digit follows: `O2Ring S` and its relatives do not answer this protocol.
        o2ring(
            "o2ring", "O2Ring",
            [.exact("O2Ring"), .prefixAndDigit("O2Ring "), .exact("O2RingF"), .prefixAndDigit("O2RingF ")], .fromCode),
        // Code that owners of a KidsO2 use: viatom-ble. An ESP32 program finds the others and reads them alike.
        o2ring(
            "checkme_o2", "Checkme O2, KidsO2, SleepU, SleepO2, WearO2",
            [
                .exact("Checkme O2"), .prefix("Checkme O2 "), .prefixAndDigit("O2 "), .exact("KidsO2"),
                .prefix("KidsO2 "), .exact("SleepU"), .prefix("SleepU "), .exact("SleepO2"), .prefix("SleepO2 "),
                .exact("WearO2"), .prefix("WearO2 "),
            ], .fromCode),
        // The names that the maker's kit reads by this protocol.
        o2ring(
            "o2_max", "Checkme O2 Max, BabyO2, Oxylink, OxyRing, OxyU, SnoreO2",
            [
                .exact("O2M"), .prefix("O2M "), .exact("BabyO2"), .prefix("BabyO2 "), .prefix("BabyO2N"),
                .prefix("Oxylink"), .prefix("OxyLink"), .prefix("OxyRing"), .prefix("OxyU"), .exact("O2BAND"),
                .prefix("O2BAND "),
            ], .fromDocuments),
    ]

    private static func scale(
        _ id: String, _ name: String, _ names: [String], _ service: BluetoothUUID, _ tested: [DeviceModel.Evidence]
    ) -> DeviceModel {
        DeviceModel(
            id: id, brand: "Xiaomi", name: name, kinds: [.weight], names: names.map { .exact($0) },
            services: [service], provider: "manual", pairing: .none, memory: .none, howToPair: "step onto the scale",
            howToWake: "step onto the scale", tested: tested, ownProtocol: (.xiaomiScale, .verified))
    }

    private static func o2ring(
        _ id: String, _ name: String, _ names: [NameRule], _ certainty: OmronMemory.Certainty
    ) -> DeviceModel {
        DeviceModel(
            id: "viatom_\(id)", brand: "Viatom", name: "\(name) (Wellue)", kinds: [.spo2, .heartRate],
            names: names, services: [Viatom.service], provider: "manual", pairing: .none, memory: .kept,
            howToPair: takeOff, howToWake: takeOff,
            // It switches itself off two minutes after the last connection: it is left alone for longer.
            quietTime: .seconds(300),
            tested: id == "o2ring" ? [.lab, .emulated, .bytes] : [.emulated],
            ownProtocol: (.oximeter(.o2ring), certainty))
    }

    private static let takeOff =
        "take the oximeter off, or put it onto its charger, and close the app on your phone that is connected to it"

    private static func oximeter(
        _ id: String, _ brand: String, _ name: String, _ names: [String], _ stream: OximeterStream,
        _ certainty: OmronMemory.Certainty
    ) -> DeviceModel {
        DeviceModel(
            id: id, brand: brand, name: name, kinds: [.spo2], names: names.map { .prefix($0) },
            services: [stream.service], provider: "manual", pairing: .none, memory: .none,
            howToPair: "put a finger into the oximeter", howToWake: "put a finger into the oximeter",
            tested: certainty == .verified ? [.emulated, .bytes] : [.emulated],
            ownProtocol: (.oximeter(stream), certainty))
    }

    private static func viatom(
        _ id: String, _ name: String, _ names: [NameRule], _ certainty: OmronMemory.Certainty
    ) -> DeviceModel {
        DeviceModel(
            id: "viatom_\(id)", brand: "Viatom", name: "\(name) (Wellue)", kinds: [.bloodPressure], names: names,
            services: [Viatom.service], provider: "manual", pairing: .none,
            howToPair: "switch the monitor on", howToWake: "switch the monitor on", tested: [.emulated],
            ownProtocol: (.viatom, certainty))
    }

    private static func microlife(
        _ id: String, _ name: String, _ names: [NameRule], _ certainty: OmronMemory.Certainty
    ) -> DeviceModel {
        DeviceModel(
            id: "microlife_\(id)", brand: "Microlife", name: name, kinds: [.bloodPressure], names: names,
            services: [Microlife.service], provider: "manual", pairing: .any,
            howToPair: "hold the monitor's START button for eight seconds, until the Bluetooth sign blinks",
            howToWake: "hold the monitor's START button for eight seconds, until the Bluetooth sign blinks",
            tested: certainty == .verified ? [.emulated, .bytes] : [.emulated], ownProtocol: (.microlife, certainty))
    }
}
