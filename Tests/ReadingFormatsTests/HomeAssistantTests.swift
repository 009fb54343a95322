import HealthReadings
import ReadingFormats
import Testing

@Suite("Home Assistant's documents") struct HomeAssistantTests {
    private static let topics = HomeAssistant.Topics(base: "healthrelay", node: "healthrelay_1f3a9c02")
    private static let gateway = GatewayFacts(id: "healthrelay_1f3a9c02", version: "1.0")

    private static func reading(_ value: RecordValue, excluded: Exclusion? = nil, hasTime: Bool = true) -> Reading {
        Reading(
            id: ReadingID(high: 1, low: 2), record: Record(value: value),
            device: DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08"), model: "m", serial: "123"),
            time: ResolvedTime(instant: hasTime ? Instant(seconds: 1_795_331_700) : nil, basis: .corrected),
            excluded: excluded, receivedAt: Instant(seconds: 1_795_331_800))
    }

    private static let pressure = RecordValue.bloodPressure(
        BloodPressureValue(
            systolic: Quantity(ExactDecimal(significand: 1270, exponent: -1), .millimetresOfMercury),
            diastolic: Quantity(ExactDecimal(significand: 79), .millimetresOfMercury),
            meanArterial: Quantity(.notANumber, .millimetresOfMercury),
            pulse: Quantity(ExactDecimal(significand: 64), .beatsPerMinute)))

    private static func meter(_ readings: [Reading], hasBattery: Bool = false) -> HomeAssistant.Meter {
        HomeAssistant.Meter(
            id: "0a1b2c3d4e5f", name: "Omron M7", facts: DeviceFacts(manufacturer: "Omron", model: "M7"),
            hasBattery: hasBattery, newest: readings)
    }

    private static func components(_ readings: [Reading], hasBattery: Bool = false) -> JSONValue? {
        HomeAssistant.discovery(of: meter(readings, hasBattery: hasBattery), topics: topics, gateway: gateway)[
            "components"]
    }

    @Test("a state has the digits that were measured, null for what was not, when and which reading")
    func state() throws {
        #expect(
            try HomeAssistant.state(of: Self.reading(Self.pressure)).text
                == #"{"systolic":127.0,"diastolic":79,"mean":null,"pulse":64,"measured_at":"2026-11-22T07:15:00Z","reading_id":"00000000000000010000000000000002"}"#
        )
        let glucose = RecordValue.glucose(
            GlucoseValue(
                concentration: Quantity(ExactDecimal(significand: 59, exponent: -1), .millimolesPerLitre)))
        #expect(try HomeAssistant.state(of: Self.reading(glucose)).text.hasPrefix(#"{"glucose":5.9,"measured_at""#))
        #expect(HomeAssistant.state(battery: 87).text == #"{"battery":87}"#)
    }

    @Test("a state has what the cuff said of the measurement")
    func status() throws {
        var reading = Self.reading(Self.pressure)
        reading.record.status = [.irregularPulse, .questionable]
        let state = try HomeAssistant.state(of: reading).text
        #expect(state.hasSuffix(#","status":["irregular_pulse","questionable"]}"#))
    }

    @Test("what is excluded or has no time has no state")
    func omitted() {
        #expect(throws: FormatOmission(.excluded)) {
            try HomeAssistant.state(of: Self.reading(Self.pressure, excluded: .controlSolution))
        }
        #expect(throws: FormatOmission(.noTime)) {
            try HomeAssistant.state(of: Self.reading(Self.pressure, hasTime: false))
        }
    }

    @Test("discovery of a cuff")
    func cuff() {
        let document = HomeAssistant.discovery(
            of: Self.meter([Self.reading(Self.pressure)], hasBattery: true), topics: Self.topics, gateway: Self.gateway)
        #expect(
            document["device"]?.text
                == #"{"identifiers":["healthrelay_0a1b2c3d4e5f"],"name":"Omron M7","manufacturer":"Omron","model":"M7","via_device":"healthrelay_1f3a9c02"}"#
        )
        #expect(document["origin"]?.text == #"{"name":"HealthRelay","sw_version":"1.0"}"#)
        #expect(document["availability_topic"] == "healthrelay/status/healthrelay_1f3a9c02")
        #expect(
            document["components"]?["blood_pressure_systolic"]?.text
                == #"{"platform":"sensor","unique_id":"healthrelay_0a1b2c3d4e5f_blood_pressure_systolic","name":"Systolic","icon":"mdi:heart-plus","unit_of_measurement":"mmHg","state_class":"measurement","suggested_display_precision":0,"state_topic":"healthrelay/devices/0a1b2c3d4e5f/blood_pressure","value_template":"{{ value_json.systolic }}"}"#
        )
        // The cuff sends no mean pressure: nobody is shown a sensor without a value.
        #expect(document["components"]?["blood_pressure_mean"]?["enabled_by_default"] == false)
        #expect(document["components"]?["blood_pressure_pulse"]?["enabled_by_default"] == nil)
        #expect(document["components"]?["blood_pressure_measured_at"]?["device_class"] == "timestamp")
        #expect(document["components"]?["blood_pressure_measured_at"]?["name"] == "Measured at")
        #expect(document["components"]?["battery"]?["state_topic"] == "healthrelay/devices/0a1b2c3d4e5f/battery")
        #expect(!document.text.contains("C0:00") && !document.text.contains("123"))
    }

    @Test(
        "a sensor has the unit that was measured in",
        arguments: [
            (MeasurementUnit.milligramsPerDecilitre, "mg/dL", 0), (.millimolesPerLitre, "mmol/L", 1),
        ] as [(MeasurementUnit, String, Int64)])
    func units(unit: MeasurementUnit, symbol: String, decimals: Int64) {
        let sensor = Self.components([
            Self.reading(.glucose(GlucoseValue(concentration: Quantity(ExactDecimal(significand: 6), unit))))
        ])?["glucose"]
        #expect(sensor?["unit_of_measurement"] == .string(symbol))
        #expect(sensor?["device_class"] == "blood_glucose_concentration")
        #expect(sensor?["suggested_display_precision"] == .integer(decimals))
    }

    @Test("every kind that is delivered has sensors with ids of their own", arguments: ReadingKind.allCases)
    func kinds(kind: ReadingKind) throws {
        let value: RecordValue =
            switch kind {
            case .glucose: .glucose(GlucoseValue(concentration: nil))
            case .bloodPressure: Self.pressure
            default: .vital(VitalValue(kind: kind, []))
            }
        let pulse = Self.reading(Self.pressure)
        let readings = kind == .bloodPressure ? [pulse] : [Self.reading(value), pulse]
        guard case .object(let members)? = Self.components(readings) else {
            Issue.record("no components")
            return
        }
        let ids = members.map { $0.value["unique_id"]?.text ?? "" }
        #expect(Set(ids).count == ids.count && Set(members.map(\.key)).count == members.count)
        #expect(members.allSatisfy { $0.value["platform"] == "sensor" })
        let times = members.filter { $0.value["device_class"] == "timestamp" }
        #expect(times.count == readings.count && times.allSatisfy { $0.value["state_class"] == nil })
        #expect(try HomeAssistant.state(of: readings[0])["measured_at"] != nil)
    }

    @Test("the gateway is a device of its own")
    func gatewayItself() {
        let document = HomeAssistant.discovery(ofGateway: Self.gateway, topics: Self.topics)
        #expect(document["device"]?["identifiers"] == .array(["healthrelay_1f3a9c02"]))
        #expect(document["components"]?["status"]?["device_class"] == "connectivity")
        #expect(Self.topics.gateway == "homeassistant/device/healthrelay_1f3a9c02_gateway/config")
    }
}
