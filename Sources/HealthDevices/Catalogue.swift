import GATTClient
import HealthReadings

/// The models the gateway knows.
///
/// Names, services and provider slugs are the makers' and the server's, as public projects and the server's interface
/// name them. A meter that is not listed is read by its standard service as a generic one.
public struct Catalogue: Sendable {
    /// All models; generic ones last.
    public let models: [DeviceModel]

    /// A catalogue of these models.
    public init(models: [DeviceModel] = Catalogue.known) { self.models = models }

    /// The model with this id.
    public subscript(id: String) -> DeviceModel? { models.first { $0.id == id } }

    /// The model that advertises like this: by name first, by its standard service else; nil for what is no meter.
    public func model(for advertisement: Advertisement) -> DeviceModel? {
        if let name = advertisement.name, let named = models.first(where: { $0.names.contains { $0.matches(name) } }) {
            return named
        }
        return models.first { $0.names.isEmpty && !Set($0.services).isDisjoint(with: advertisement.services) }
    }

    /// The entries of the catalogue.
    public static let known: [DeviceModel] = [
        DeviceModel(
            id: "accuchek_guide", brand: "Accu-Chek", name: "Guide, Guide Me, Instant", kinds: [.glucose],
            names: [.prefix("meter+")], services: [glucose], provider: "accuchek_ble", pairing: .passkey,
            howToPair: "start pairing on the meter: in its wireless settings, or by holding its button until the "
                + "Bluetooth sign blinks",
            howToWake: "switch the meter on with a press of its button", tested: [.lab]),
        DeviceModel(
            id: "contour_next", brand: "Contour", name: "Next One, Plus One", kinds: [.glucose],
            names: [.prefix("Contour")], services: [glucose], provider: "contour_ble", pairing: .any,
            howToPair: "with the meter off, hold its OK button until the blue light blinks",
            howToWake: "press the meter's OK button"),
        DeviceModel(
            id: "caresens", brand: "CareSens", name: "N, Dual, ReliOn", kinds: [.glucose],
            names: [.prefix("CareSens")], services: [glucose], provider: "manual", pairing: .any,
            howToPair: "switch Bluetooth on in the meter's settings and start pairing there",
            howToWake: "hold the meter's button until the Bluetooth sign shows"),
        DeviceModel(
            id: "omron_blesmart", brand: "Omron", name: "HEM-7xxx, M4, M7, X4", kinds: [.bloodPressure],
            names: [.prefix("BLESmart_"), .prefix("BLEsmart_")], services: [bloodPressure], provider: "omron_ble",
            pairing: .any, consumesRecords: true,
            howToPair: "hold the monitor's Bluetooth button until P blinks",
            howToWake: "press the monitor's Bluetooth button once", tested: [.lab]),
        DeviceModel(
            id: "and_ua651ble", brand: "A&D", name: "UA-651BLE", kinds: [.bloodPressure],
            names: [.prefix("A&D_UA-651BLE")], services: [bloodPressure], provider: "manual", pairing: .any,
            consumesRecords: true, howToPair: "hold the monitor's START button until Pr shows",
            howToWake: "take a measurement: the monitor connects when it is done"),
        DeviceModel(
            id: "beurer_bm", brand: "Beurer", name: "BM and BC cuffs", kinds: [.bloodPressure],
            names: [.prefixAndDigit("BM"), .prefixAndDigit("BC")], services: [bloodPressure], provider: "beurer_ble",
            pairing: .passkey, howToPair: "switch Bluetooth on in the monitor's settings and take a measurement",
            howToWake: "press the monitor's memory button", recordGap: .seconds(5)),
        DeviceModel(
            id: "medisana_bu", brand: "Medisana", name: "BU5xx, Transtek", kinds: [.bloodPressure],
            names: [.prefix("1872B"), .prefix("LS BPM")], services: [bloodPressure], provider: "manual",
            pairing: .any, howToPair: "with the monitor off, hold its START button until the Bluetooth sign blinks",
            howToWake: "press the monitor's memory button"),
        DeviceModel(
            id: "freestyle_libre", brand: "FreeStyle Libre", name: "Libre (the first)", kinds: [.glucose],
            services: [], transport: .nfc, provider: "freestyle_libre_ble", pairing: .none,
            howToPair: "nothing is paired: hold the sensor to the NFC reader",
            howToWake: "hold the NFC reader to the sensor", tested: [.lab]),
        DeviceModel(
            id: "generic_glucose", brand: "Generic", name: "Glucose meter", kinds: [.glucose], services: [glucose],
            provider: "manual", pairing: .any, howToPair: "put the meter into its pairing mode",
            howToWake: "switch the meter on, or press its Bluetooth button", tested: [.lab]),
        DeviceModel(
            id: "generic_blood_pressure", brand: "Generic", name: "Blood-pressure monitor", kinds: [.bloodPressure],
            services: [bloodPressure], provider: "manual", pairing: .any, consumesRecords: true,
            howToPair: "put the monitor into its pairing mode",
            howToWake: "press the monitor's Bluetooth or memory button, or take a measurement",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab]),
    ]

    private static let glucose: BluetoothUUID = 0x1808
    private static let bloodPressure: BluetoothUUID = 0x1810
}
