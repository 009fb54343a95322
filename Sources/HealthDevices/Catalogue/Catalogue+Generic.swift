import GATTClient
import HealthReadings

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
            id: "generic_cgm", brand: "Generic", name: "Continuous glucose sensor", kinds: [.glucose],
            services: [0x181F], provider: "manual", pairing: .any,
            howToPair: "start the sensor's session with its own program, then put it into its pairing mode",
            howToWake: "keep the sensor in reach", tested: [.lab, .emulated, .bytes]),
        DeviceModel(
            id: "generic_blood_pressure", brand: "Generic", name: "Blood-pressure monitor", kinds: [.bloodPressure],
            services: [0x1810], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "put the monitor into its pairing mode",
            howToWake: "press the monitor's Bluetooth or memory button, or take a measurement",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab]),
        DeviceModel(
            id: "generic_heart_rate", brand: "Generic", name: "Heart-rate strap", kinds: [.heartRate, .hrv],
            services: [0x180D], provider: "manual", pairing: .any, memory: .none,
            howToPair: "wear the strap, its electrodes moist", howToWake: "wear the strap", tested: [.lab, .emulated]),
        DeviceModel(
            id: "generic_pulse_oximeter", brand: "Generic", name: "Pulse oximeter", kinds: [.spo2],
            services: [0x1822], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "put a finger into the oximeter", howToWake: "put a finger into the oximeter",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab, .emulated]),
        DeviceModel(
            id: "generic_thermometer", brand: "Generic", name: "Thermometer", kinds: [.temperature],
            services: [0x1809], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "put the thermometer into its pairing mode", howToWake: "take a measurement",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab, .emulated]),
        DeviceModel(
            id: "generic_body_composition", brand: "Generic", name: "Body-composition scale",
            kinds: [.weight, .bodyComposition], services: [0x181B], provider: "manual", pairing: .any,
            memory: .unknown, howToPair: "put the scale into its pairing mode", howToWake: "step onto the scale",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab, .emulated]),
        DeviceModel(
            id: "generic_weight_scale", brand: "Generic", name: "Weight scale", kinds: [.weight],
            services: [0x181D], provider: "manual", pairing: .any, memory: .unknown,
            howToPair: "put the scale into its pairing mode", howToWake: "step onto the scale",
            recordGap: UnpromptedTransfer.patientGap, tested: [.lab, .emulated]),
        DeviceModel(
            id: "generic_health_sensor", brand: "Generic", name: "Health sensor",
            kinds: [.spo2, .temperature, .weight, .bloodPressure], services: [0x1840], provider: "manual",
            pairing: .any, memory: .unknown, howToPair: "put the sensor into its pairing mode",
            howToWake: "take a measurement", recordGap: UnpromptedTransfer.patientGap, tested: [.emulated]),
    ]
}
