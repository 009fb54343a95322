import HealthReadings

extension ReadingFormat {
    /// What Home Assistant reads over MQTT.
    public static let homeAssistant = ReadingFormat(name: "home_assistant", mediaType: "application/json")
}

/// Writes what Home Assistant reads over MQTT: which sensors there are (discovery), and what they show (states).
///
/// Discovery is by device, which Home Assistant 2024.12 and later read: one document tells all sensors of a meter.
/// A meter that two people use is two devices there, so that each person's values can be shown, shared and hidden by
/// themselves.
///
/// Source: Home Assistant, "MQTT" and "MQTT Sensor" integrations, and `components/mqtt` of 2025.1.
public enum HomeAssistant {
    /// A meter of one person, as discovery tells of it.
    public struct Meter: Sendable, Hashable {
        /// An id of the characters `a-z 0-9` that no other meter and person has and that never changes.
        public var id: String
        /// What people call it: `Omron M7`.
        public var name: String
        /// What is known of the device.
        public var facts: DeviceFacts
        /// Whether its battery is known.
        public var hasBattery: Bool
        /// The newest reading of each kind that it measures.
        public var newest: [Reading]

        /// Makes a meter.
        public init(id: String, name: String, facts: DeviceFacts, hasBattery: Bool, newest: [Reading]) {
            self.id = id
            self.name = name
            self.facts = facts
            self.hasBattery = hasBattery
            self.newest = newest
        }
    }

    /// Where messages of a gateway go.
    public struct Topics: Sendable, Hashable {
        /// The topic that all others of the gateway begin with: `healthrelay`.
        public var base: String
        /// The gateway's id in discovery topics and of its device: `healthrelay_1f3a9c02`.
        public var node: String

        /// Makes topics.
        public init(base: String, node: String) {
            self.base = base
            self.node = node
        }

        /// Where Home Assistant tells that it has started or stops.
        public static let birth = "homeassistant/status"
        /// What it says there when it has started.
        public static let isStarted = "online"

        /// Whether the gateway is there: `online` or `offline`. Each gateway has its own, so that one that dies takes no other's
        /// meters with it.
        public var status: String { "\(base)/status/\(node)" }
        /// Where earlier versions told that, all gateways of a broker alike.
        public var sharedStatus: String { base + "/status" }
        /// The gateway's discovery.
        public var gateway: String { discovery(of: "gateway") }
        /// A meter's discovery.
        ///
        /// It has no level of its own for the gateway (`node_id`): Home Assistant 2025.1 removes no sensor of such a device.
        public func discovery(of id: String) -> String { "homeassistant/device/\(node)_\(id)/config" }
        /// The discovery of every device, others' too, as a filter of topics; see ``isOwnDiscovery(_:)``.
        public static let allDiscoveries = "homeassistant/device/+/config"
        /// Whether a topic is one of ``discovery(of:)``.
        public func isOwnDiscovery(_ topic: String) -> Bool { topic.hasPrefix("homeassistant/device/\(node)_") }
        /// What the discovery of every device begins with.
        public static let devices = "homeassistant/device/"
        /// What the topics of a meter's states begin with.
        public func states(of id: String) -> String { "\(base)/devices/\(id)/" }
        /// What a meter measured last.
        public func state(of id: String, _ kind: ReadingKind) -> String { states(of: id) + kind.rawValue }
        /// A meter's battery.
        public func battery(of id: String) -> String { states(of: id) + "battery" }
        /// Every state of this gateway, as a filter of topics.
        public var allStates: String { base + "/devices/+/+" }
    }

    // MARK: States

    /// What a reading shows: each of its quantities, `measured_at` (RFC 3339, UTC) and `reading_id`, and `status` if the device said
    /// something of the measurement.
    ///
    /// A quantity without a number is null, which Home Assistant shows as unknown.
    ///
    /// - Throws: ``FormatOmission`` for a reading that is excluded or has no time.
    public static func state(of reading: Reading) throws(FormatOmission) -> JSONValue {
        guard reading.excluded == nil else { throw FormatOmission(.excluded) }
        guard let instant = reading.time.instant else { throw FormatOmission(.noTime) }
        var members: [JSONValue.Member] = sensors(of: reading).map { sensor in
            .init(sensor.key, sensor.quantity?.number.number.map(JSONValue.number) ?? .null)
        }
        members += [
            .init("measured_at", .string(instant.flooredToSecond.description)),
            .init("reading_id", .string(reading.id.description)),
        ]
        let names = reading.record.status.names
        if !names.isEmpty { members.append(.init("status", .array(names.map(JSONValue.string)))) }
        return .object(members)
    }

    /// What a battery shows, in per cent.
    public static func state(battery percent: UInt8) -> JSONValue { .object(["battery": .integer(Int64(percent))]) }

    // MARK: Discovery

    /// The discovery of a meter of one person.
    public static func discovery(of meter: Meter, topics: Topics, gateway: GatewayFacts) -> JSONValue {
        var components: [JSONValue.Member] = []
        let newest = meter.newest.sorted { $0.kind.rawValue < $1.kind.rawValue }
        for reading in newest {
            let topic = topics.state(of: meter.id, reading.kind)
            for sensor in sensors(of: reading) {
                // With the kind, because two kinds may bring a pulse.
                let kind = reading.kind.rawValue
                let key = sensor.key == kind ? kind : "\(kind)_\(sensor.key)"
                components.append(.init(key, sensor.document(id: "\(meter.id)_\(key)", topic: topic)))
            }
            let isOnly = newest.count == 1
            let key = "\(reading.kind.rawValue)_measured_at"
            components.append(
                .init(
                    key,
                    .object([
                        "platform": "sensor", "unique_id": .string("\(unique(meter.id))_\(key)"),
                        "name": .string(isOnly ? "Measured at" : "\(title(of: reading.kind)) measured at"),
                        "device_class": "timestamp", "state_topic": .string(topic),
                        "value_template": "{{ value_json.measured_at }}",
                    ])))
        }
        if meter.hasBattery {
            components.append(
                .init(
                    "battery",
                    .object([
                        "platform": "sensor", "unique_id": .string("\(unique(meter.id))_battery"), "name": "Battery",
                        "device_class": "battery", "unit_of_measurement": "%", "state_class": "measurement",
                        "entity_category": "diagnostic", "state_topic": .string(topics.battery(of: meter.id)),
                        "value_template": "{{ value_json.battery }}",
                    ])))
        }
        var device: [JSONValue.Member] = [
            .init("identifiers", .array([.string(unique(meter.id))])), .init("name", .string(meter.name)),
        ]
        if let manufacturer = meter.facts.manufacturer { device.append(.init("manufacturer", .string(manufacturer))) }
        if let model = meter.facts.model { device.append(.init("model", .string(model))) }
        if let firmware = meter.facts.firmware { device.append(.init("sw_version", .string(firmware))) }
        device.append(.init("via_device", .string(topics.node)))
        return .object([
            "device": .object(device), "origin": origin(gateway), "availability_topic": .string(topics.status),
            "payload_available": "online", "payload_not_available": "offline", "qos": 1,
            "components": .object(components),
        ])
    }

    /// The discovery of the gateway itself, which meters are connected through.
    public static func discovery(ofGateway gateway: GatewayFacts, topics: Topics) -> JSONValue {
        .object([
            "device": .object([
                "identifiers": .array([.string(topics.node)]), "name": "HealthRelay", "manufacturer": "HealthRelay",
                "model": "Gateway", "sw_version": .string(gateway.version),
            ]),
            "origin": origin(gateway), "qos": 1,
            "components": .object([
                "status": .object([
                    "platform": "binary_sensor", "unique_id": .string("\(topics.node)_status"), "name": "Connection",
                    "device_class": "connectivity", "entity_category": "diagnostic",
                    "state_topic": .string(topics.status), "payload_on": "online", "payload_off": "offline",
                ])
            ]),
        ])
    }

    private static func origin(_ gateway: GatewayFacts) -> JSONValue {
        .object(["name": "HealthRelay", "sw_version": .string(gateway.version)])
    }

    private static func unique(_ id: String) -> String { "healthrelay_" + id }

    private static func title(of kind: ReadingKind) -> String {
        switch kind {
        case .glucose: "Glucose"
        case .bloodPressure: "Blood pressure"
        case .heartRate: "Heart rate"
        case .hrv: "Heart rate variability"
        case .spo2: "Oxygen saturation"
        case .temperature: "Temperature"
        case .weight: "Weight"
        case .bodyComposition: "Body composition"
        case .activity: "Activity"
        case .sleep: "Sleep"
        case .other: "Other"
        }
    }

    // MARK: Sensors

    /// A quantity as a sensor.
    private struct Sensor {
        var key: String
        var name: String
        var quantity: Quantity?
        /// The unit if the quantity was not measured.
        var usual: MeasurementUnit
        var deviceClass: String?
        var icon: String?
        var decimals: Int?
        /// Whether Home Assistant shows it unasked, even if the newest reading has no number for it.
        var isAlwaysShown = false

        func document(id: String, topic: String) -> JSONValue {
            let unit = quantity?.unit ?? usual
            var members: [JSONValue.Member] = [
                .init("platform", "sensor"), .init("unique_id", .string(unique(id))), .init("name", .string(name)),
            ]
            if let deviceClass { members.append(.init("device_class", .string(deviceClass))) }
            if let icon { members.append(.init("icon", .string(icon))) }
            members += [
                .init("unit_of_measurement", .string(unit.symbol)), .init("state_class", "measurement"),
            ]
            if let decimals = decimals ?? Self.decimals[unit] {
                members.append(.init("suggested_display_precision", .integer(Int64(decimals))))
            }
            if !isAlwaysShown, quantity?.number.number == nil { members.append(.init("enabled_by_default", false)) }
            members += [
                .init("state_topic", .string(topic)), .init("value_template", .string("{{ value_json.\(key) }}")),
            ]
            return .object(members)
        }

        private static let decimals: [MeasurementUnit: Int] = [
            .milligramsPerDecilitre: 0, .millimolesPerLitre: 1, .millimetresOfMercury: 0, .kilopascal: 1,
            .beatsPerMinute: 0, .degreesCelsius: 1, .degreesFahrenheit: 1, .kilograms: 1, .pounds: 1,
            .kilogramsPerSquareMetre: 1,
        ]
    }

    /// The sensors of a reading, in the order in which they are told.
    private static func sensors(of reading: Reading) -> [Sensor] {
        switch reading.record.value {
        case .glucose(let glucose):
            return [
                Sensor(
                    key: "glucose", name: "Glucose", quantity: glucose.concentration, usual: .milligramsPerDecilitre,
                    deviceClass: "blood_glucose_concentration", isAlwaysShown: true)
            ]
        case .bloodPressure(let pressure):
            func sensor(_ key: String, _ name: String, _ quantity: Quantity, _ isAlwaysShown: Bool) -> Sensor {
                // No device class: with `pressure`, a home with US units would show inches of mercury.
                Sensor(
                    key: key, name: name, quantity: quantity, usual: .millimetresOfMercury, icon: "mdi:heart-plus",
                    isAlwaysShown: isAlwaysShown)
            }
            return [
                sensor("systolic", "Systolic", pressure.systolic, true),
                sensor("diastolic", "Diastolic", pressure.diastolic, true),
                sensor("mean", "Mean arterial pressure", pressure.meanArterial, false), pulse(pressure.pulse),
            ]
        case .vital(let vital):
            let parts = parts(of: vital.kind)
            return parts.map { part in sensor(part, vital[part], isMain: part == parts.first) }
        case .kept: return []
        }
    }

    private static func pulse(_ quantity: Quantity?) -> Sensor {
        Sensor(
            key: "pulse", name: "Pulse", quantity: quantity, usual: .beatsPerMinute, icon: "mdi:heart-pulse")
    }

    /// What readings of a kind may have, the quantity that the kind is named for first.
    private static func parts(of kind: ReadingKind) -> [VitalValue.Part] {
        switch kind {
        case .glucose, .bloodPressure, .activity, .sleep, .other: []
        case .heartRate: [.heartRate]
        case .hrv: [.rmssd, .sdnn]
        case .spo2: [.saturation, .pulse]
        case .temperature: [.temperature]
        case .weight: [.weight, .bodyMassIndex]
        case .bodyComposition:
            [
                .bodyFat, .muscleMass, .musclePercentage, .bodyWaterMass, .fatFreeMass, .softLeanMass, .basalMetabolism,
                .impedance,
            ]
        }
    }

    private static func sensor(_ part: VitalValue.Part, _ quantity: Quantity?, isMain: Bool) -> Sensor {
        func sensor(
            _ name: String, _ usual: MeasurementUnit, _ deviceClass: String? = nil, icon: String? = nil
        ) -> Sensor {
            Sensor(
                key: part.name, name: name, quantity: quantity, usual: usual, deviceClass: deviceClass, icon: icon,
                isAlwaysShown: isMain)
        }
        return switch part {
        case .heartRate: sensor("Heart rate", .beatsPerMinute, icon: "mdi:heart-pulse")
        case .saturation: sensor("Oxygen saturation", .percent, icon: "mdi:water-percent")
        case .pulse: pulse(quantity)
        case .temperature: sensor("Temperature", .degreesCelsius, "temperature")
        case .weight: sensor("Weight", .kilograms, "weight")
        case .bodyMassIndex: sensor("Body mass index", .kilogramsPerSquareMetre, icon: "mdi:human")
        case .height: sensor("Height", .metres, "distance")
        case .bodyFat: sensor("Body fat", .percent, icon: "mdi:human")
        case .basalMetabolism: sensor("Basal metabolism", .kilojoules, icon: "mdi:fire")
        case .musclePercentage: sensor("Muscle", .percent, icon: "mdi:arm-flex")
        case .muscleMass: sensor("Muscle mass", .kilograms, "weight")
        case .fatFreeMass: sensor("Fat-free mass", .kilograms, "weight")
        case .softLeanMass: sensor("Soft lean mass", .kilograms, "weight")
        case .bodyWaterMass: sensor("Body water", .kilograms, "weight")
        case .impedance: sensor("Impedance", .ohms, icon: "mdi:omega")
        case .rmssd: sensor("Heart rate variability (RMSSD)", .milliseconds, icon: "mdi:heart-pulse")
        case .sdnn: sensor("Heart rate variability (SDNN)", .milliseconds, icon: "mdi:heart-pulse")
        }
    }
}
