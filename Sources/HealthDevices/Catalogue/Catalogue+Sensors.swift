import GATTClient
import HealthReadings

extension Catalogue {
    /// Sensors that are read by touching them, and devices for other vital signs.
    static let sensors: [DeviceModel] = [
        DeviceModel(
            id: "nonin_3230", brand: "Nonin", name: "3230", kinds: [.spo2], names: [.prefix("Nonin3230")],
            services: [0x1822], provider: "manual", pairing: .passkey, memory: .sentOnce,
            howToPair: "put a finger into the oximeter; its six digits are printed in it",
            howToWake: "put a finger into the oximeter", tested: [.lab]),
        DeviceModel(
            id: "freestyle_libre", brand: "FreeStyle Libre", name: "Libre (the first)", kinds: [.glucose],
            services: [], transport: .nfc, provider: "freestyle_libre_ble", pairing: .none,
            howToPair: "nothing is paired: hold the sensor to the NFC reader",
            howToWake: "hold the NFC reader to the sensor", tested: [.lab]),
    ]
}
