import GATTClient

extension Catalogue {
    /// Devices of no listed model, known by a service alone. Of several that fit, the first counts.
    static let generic: [DeviceModel] = [
        DeviceModel(
            id: "isens", brand: "i-SENS", name: "Glucose meter with i-SENS's own service", kinds: [.glucose],
            services: [isensService], provider: "manual", pairing: .any,
            howToPair: "switch Bluetooth on in the meter's settings and start pairing there",
            howToWake: "hold the meter's button until the Bluetooth sign shows",
            quirks: [.monthThirteen, .mealSixIsKetone, .sendsTwice], tested: [.emulated, .bytes]),
        DeviceModel(
            id: "generic_glucose", brand: "Generic", name: "Glucose meter", kinds: [.glucose], services: [0x1808],
            provider: "manual", pairing: .any, howToPair: "put the meter into its pairing mode",
            howToWake: "switch the meter on, or press its Bluetooth button", tested: [.lab]),
        DeviceModel(
            id: "generic_blood_pressure", brand: "Generic", name: "Blood-pressure monitor", kinds: [.bloodPressure],
            services: [0x1810], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "put the monitor into its pairing mode",
            howToWake: "press the monitor's Bluetooth or memory button, or take a measurement",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab]),
    ]
}
