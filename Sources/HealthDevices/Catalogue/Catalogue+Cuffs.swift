import GATTClient
import HealthReadings

extension Catalogue {
    /// Blood-pressure monitors with Bluetooth.
    static let cuffs: [DeviceModel] = [
        // Only the standard service is used: the maker's own reads and writes the memory itself.
        DeviceModel(
            id: "omron_blesmart", brand: "Omron", name: "HEM-7xxx, M4, M7, X4", kinds: [.bloodPressure],
            names: [.prefix("BLESmart_"), .prefix("BLEsmart_")], services: [0x1810], provider: "omron_ble",
            pairing: .any, memory: .sentOnce, howToPair: "hold the monitor's Bluetooth button until P blinks",
            howToWake: "press the monitor's Bluetooth button once", quirks: [.sendsUnsentOnly, .refusesClock],
            tested: [.lab]),
        // Deletes what it has sent: a public list of monitors by their behaviour (blood-pressure-monitor-fl).
        DeviceModel(
            id: "omron_smart", brand: "Omron", name: "X4 Smart, X2 Smart+", kinds: [.bloodPressure],
            names: [.prefix("X4 Smart"), .prefix("X2 Smart")], services: [0x1810], provider: "omron_ble",
            pairing: .any, memory: .sentOnce, howToPair: "hold the monitor's Bluetooth button until P blinks",
            howToWake: "press the monitor's Bluetooth button once", quirks: [.sendsUnsentOnly]),
        // A&D's own command frames: size, 0 for a question or 1 for an order, number, value.
        DeviceModel(
            id: "and_ua651ble", brand: "A&D", name: "UA-651BLE, UA-656BLE", kinds: [.bloodPressure],
            names: [.prefix("A&D_UA-651BLE"), .prefix("A&D_UA-656BLE")], services: [0x1810, AndCommand.service],
            provider: "manual", pairing: .any, memory: .sentOnce,
            howToPair: "hold the monitor's START button until Pr shows",
            howToWake: "take a measurement: the monitor connects when it is done",
            quirks: [.leavesAfterBonding, .wantsDateTime, .sendsUnsentOnly, .commandForAll], tested: [.emulated, .lab]),
        DeviceModel(
            id: "beurer_bm", brand: "Beurer", name: "BM54, BM57, BM64, BC54", kinds: [.bloodPressure],
            names: [.prefixAndDigit("BM"), .prefixAndDigit("BC")], services: [0x1810], provider: "beurer_ble",
            pairing: .passkey, howToPair: "switch Bluetooth on in the monitor's settings and take a measurement",
            howToWake: "press the monitor's memory button", recordGap: .seconds(5), tested: [.lab]),
        // Confirmed by octets of a BM85 alone; in the others it is looked for, and the standard holds where it is not.
        DeviceModel(
            id: "beurer_bm85", brand: "Beurer", name: "BM48, BM59, BM85, Elite 900", kinds: [.bloodPressure],
            names: [.prefix("BM48"), .prefix("BM59"), .prefix("BM85"), .prefix("Elite 900")], services: [0x1810],
            provider: "beurer_ble", pairing: .passkey,
            howToPair: "switch Bluetooth on in the monitor's settings and take a measurement",
            howToWake: "press the monitor's memory button", recordGap: .seconds(5),
            quirks: [.pauseBeforeNotifying, .bigEndianPulse], tested: [.emulated, .bytes, .lab]),
        DeviceModel(
            id: "beurer_bm96", brand: "Beurer", name: "BM96", kinds: [.bloodPressure], names: [.prefix("BM96")],
            services: [0x1810], provider: "beurer_ble", pairing: .passkey,
            howToPair: "switch Bluetooth on in the monitor's settings and take a measurement",
            howToWake: "press the monitor's memory button", recordGap: .seconds(5), quirks: [.reservedBits],
            tested: [.lab, .bytes]),
        DeviceModel(
            id: "medisana_bu", brand: "Medisana", name: "BU 5xx connect", kinds: [.bloodPressure],
            names: [.prefix("1872B")], services: [0x1810], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "with the monitor off, hold its START button until the Bluetooth sign blinks",
            howToWake: "press the monitor's memory button: it is awake for a few seconds"),
        DeviceModel(
            id: "transtek_lsbpm", brand: "Transtek", name: "LS BPM", kinds: [.bloodPressure],
            names: [.prefix("LS BPM")], services: [0x1810], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "with the monitor off, hold its START button until the Bluetooth sign blinks",
            howToWake: "press the monitor's memory button: it is awake for a few seconds"),
    ]

    /// A cuff with the standard service that measures when it is told to; it stands in ``ownProtocols``.
    static let qardioArm = DeviceModel(
        id: "qardio_arm", brand: "Qardio", name: "QardioArm, QardioArm 2", kinds: [.bloodPressure],
        names: [.prefix("QardioARM"), .prefix("QardioArm")], services: [0x1810],
        marks: [.init(Qardio.control, in: 0x1810)], provider: "manual", pairing: .any, memory: .none,
        howToPair:
            "unroll the cuff. If it was paired before, have that phone forget it, and press the reset switch under "
            + "the battery lid with a paper clip",
        howToWake: "unroll the cuff", tested: [.lab, .emulated], ownProtocol: (.qardio, .fromCode))
}
