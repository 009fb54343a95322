import GATTClient

extension Catalogue {
    /// Sensors that are read by touching them.
    static let sensors: [DeviceModel] = [
        DeviceModel(
            id: "freestyle_libre", brand: "FreeStyle Libre", name: "Libre (the first)", kinds: [.glucose],
            services: [], transport: .nfc, provider: "freestyle_libre_ble", pairing: .none,
            howToPair: "nothing is paired: hold the sensor to the NFC reader",
            howToWake: "hold the NFC reader to the sensor", tested: [.lab])
    ]
}
