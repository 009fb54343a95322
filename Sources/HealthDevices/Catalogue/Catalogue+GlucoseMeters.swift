import GATTClient
import HealthReadings

extension Catalogue {
    /// Glucose meters with Bluetooth.
    static let glucoseMeters: [DeviceModel] = [
        DeviceModel(
            id: "accuchek_guide", brand: "Accu-Chek", name: "Guide, Guide Me, Instant", kinds: [.glucose],
            names: [.prefix("meter+")], services: [0x1808], provider: "accuchek_ble", pairing: .passkey,
            howToPair: "start pairing on the meter: in its wireless settings, or by holding its button until the "
                + "Bluetooth sign blinks",
            howToWake: "switch the meter on with a press of its button",
            ranges: .glucose(
                milligrams: (10, 600), centimillimoles: (60, 3330),
                source: "no public source for 10 mg/dL; in the US 20 … 600 mg/dL (Accu-Chek Guide Me user's manual, "
                    + "chapter 3, \"Symptoms of Low or High Blood Glucose\")"),
            tested: [.lab]),
        // Told from its younger siblings by its clock: Date Time inside the glucose service, no Current Time service.
        DeviceModel(
            id: "accuchek_aviva_connect", brand: "Accu-Chek", name: "Aviva Connect, Performa Connect",
            kinds: [.glucose], names: [.prefix("meter+")], services: [0x1808], marks: [.init(0x2A08, in: 0x1808)],
            provider: "accuchek_ble", pairing: .passkey,
            howToPair: "start pairing on the meter, in its wireless settings",
            howToWake: "switch the meter on with a press of its button", tested: [.emulated]),
        // The time offset is whatever the user's edits of the clock have added up to.
        DeviceModel(
            id: "contour_next", brand: "Contour", name: "Next One, Plus One, Plus", kinds: [.glucose],
            names: [.prefix("Contour")], services: [0x1808, contourService], provider: "contour_ble", pairing: .any,
            howToPair: "with the meter off, hold its OK button until the blue light blinks",
            howToWake: "press the meter's OK button",
            // The lower bound differs between the models, and not all of their manuals are public.
            ranges: .glucose(
                milligrams: (nil, 600), centimillimoles: (nil, 3330),
                source: "no public copy of the Contour Next One user guide was found: HI above 600 mg/dL (33.3 mmol/L)"),
            tested: [.lab, .bytes]),
        // Month 13, meal 6 and double notifications: Tidepool's driver for i-SENS meters, xDrip.
        DeviceModel(
            id: "caresens", brand: "CareSens", name: "N Premier, N Plus, Dual, S Fit", kinds: [.glucose],
            names: [.prefix("CareSens")], services: [0x1808, isensOlderService, isensService], provider: "manual",
            pairing: .any,
            howToPair: "switch Bluetooth on in the meter's settings and start pairing there",
            howToWake: "hold the meter's button until the Bluetooth sign shows", quirks: isens,
            // Lo is below 20 mg/dL with the N series; no public manual of the S Fit says it of that.
            ranges: .glucose(
                milligrams: (nil, 600), centimillimoles: (nil, 3330),
                source: "i-SENS, Frequently Asked Questions, question 6 (\"Hi\")"),
            tested: [.lab, .emulated, .bytes]),
        DeviceModel(
            id: "relion_premier", brand: "ReliOn", name: "Premier, Platinum", kinds: [.glucose],
            names: [.prefix("ReliOn 2395"), .prefix("ReliOn 0015")],
            services: [0x1808, isensOlderService, isensService], provider: "manual", pairing: .any,
            howToPair: "switch Bluetooth on in the meter's settings and start pairing there",
            howToWake: "hold the meter's button until the Bluetooth sign shows", quirks: isens,
            tested: [.emulated, .bytes]),
        // Order, numbering and the false record: public drivers of Fora's TN'G Voice. No manufacturer string.
        DeviceModel(
            id: "taidoc_fora", brand: "TaiDoc", name: "Fora TN'G Voice, TD-42xx", kinds: [.glucose],
            names: [.prefix("TNG VOICE"), .prefix("TAIDOC TD42")], services: [0x1808], provider: "manual",
            pairing: .any, howToPair: "with the meter off, hold its button until the Bluetooth sign blinks",
            howToWake: "switch the meter off after a measurement: it then transmits",
            quirks: [.numbersByAge, .readsAll, .fullMemoryAddsHigh],
            ranges: .glucose(
                milligrams: (10, 600), centimillimoles: (55, 3330),
                source: "ForaCare Suisse, Blood Glucose and Multi-Functional Monitoring System FAQs, Rev. 4.2 (2019), "
                    + "pages 5 to 7: 10 or 20 … 600 mg/dL by strip"),
            tested: [.lab, .emulated, .bytes]),
        DeviceModel(
            id: "myglucose", brand: "MyGlucose", name: "MyGlucose", kinds: [.glucose],
            names: [.prefix("MyGlucose")], services: [0x1808], provider: "manual", pairing: .any,
            howToPair: "put the meter into its pairing mode", howToWake: "switch the meter on",
            quirks: [.numbersOutOfOrder, .readsAll, .emptyPartners, .mealSixIsKetone],
            // It sends a ketone of 0.4 mmol/L as 13 mg/dL, with no context that says so.
            ranges: .glucose(
                milligrams: (20, 600), centimillimoles: (110, 3330),
                source: "no public source: the maker's statement, as owners of the meter report it"),
            tested: [.lab, .emulated, .bytes]),
        // The service is not advertised. Protocol: xDrip, Tidepool.
        DeviceModel(
            id: "onetouch_verio", brand: "OneTouch", name: "Verio Flex, Verio Reflect, Select Plus Flex",
            kinds: [.glucose], names: [.prefix("OneTouch")], services: [OneTouch.service], provider: "onetouch_ble",
            pairing: .any,
            howToPair: "with the meter off, hold its OK button until the Bluetooth sign and a number show",
            howToWake: "press the meter's OK button", quirks: [.oneTouchProtocol],
            ranges: .glucose(
                milligrams: (20, 600), centimillimoles: (110, 3330),
                source: "LifeScan support, \"OneTouch Verio Reflect: Interpreting Unexpected Results\" and \"OneTouch "
                    + "Ultra Plus Flex: Other Messages\""),
            tested: [.lab, .emulated, .bytes]),
    ]

    private static let isens: [Quirk] = [.monthThirteen, .mealSixIsKetone, .sendsTwice]

    /// i-SENS's own services for the meter's clock, of protocol 1.4 and 1.5.
    static let isensOlderService: BluetoothUUID = 0xFFF0
    static let isensService = BluetoothUUID(high: 0xC4DE_A010_5A9D_11E9, low: 0x8647_D663_BD87_3D93)
    /// Ascensia's own service.
    private static let contourService = BluetoothUUID(high: 0x0000_0000_0002_11E2, low: 0x9E96_0800_200C_9A66)
}
