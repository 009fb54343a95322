import HealthReadings

/// What a format needs to know beside a reading.
public struct FormatContext: Sendable {
    /// The person whose reading it is: the `client_user_id` in the settings.
    public var person: String
    /// The person's zone when it was measured. Formats that show local times use it; the host's zone is never read.
    public var zone: ZoneRules
    /// The gateway that sends it.
    public var gateway: GatewayFacts
    /// The device that measured it, beyond what the reading itself says.
    public var device: DeviceFacts
    /// The person at the receiver, for formats that name a patient; `nil` if the settings name none.
    public var patient: PatientIdentifier?

    /// Makes a context.
    ///
    /// - Parameters:
    ///   - person: the person whose reading it is.
    ///   - zone: the person's zone when it was measured.
    ///   - gateway: the gateway that sends it.
    ///   - device: the device that measured it.
    ///   - patient: the person at the receiver; `nil` if the settings name none.
    public init(
        person: String, zone: ZoneRules, gateway: GatewayFacts, device: DeviceFacts = DeviceFacts(),
        patient: PatientIdentifier? = nil
    ) {
        self.person = person
        self.zone = zone
        self.gateway = gateway
        self.device = device
        self.patient = patient
    }
}

/// The gateway, as documents name it.
public struct GatewayFacts: Sendable, Hashable {
    /// An id that no other gateway has and that never changes.
    public var id: String
    /// The version of the program: `0.2.0`.
    public var version: String

    /// Makes the facts.
    ///
    /// - Parameters:
    ///   - id: an id that no other gateway has and that never changes.
    ///   - version: the version of the program.
    public init(id: String, version: String) {
        self.id = id
        self.version = version
    }
}

/// A device, as documents name it: what the catalogue and the Device Information service (180A) say beyond a reading.
public struct DeviceFacts: Sendable, Hashable {
    /// The manufacturer or brand: `Omron`; `nil` if unknown.
    public var manufacturer: String?
    /// The model as people know it: `HEM-7361T`; `nil` if unknown.
    public var model: String?
    /// The firmware revision (2A26); `nil` if unknown.
    public var firmware: String?

    /// Makes the facts.
    ///
    /// - Parameters:
    ///   - manufacturer: the manufacturer or brand.
    ///   - model: the model as people know it.
    ///   - firmware: the firmware revision.
    public init(manufacturer: String? = nil, model: String? = nil, firmware: String? = nil) {
        self.manufacturer = manufacturer
        self.model = model
        self.firmware = firmware
    }
}

/// A patient at a receiver: a business identifier, as the settings write it.
public struct PatientIdentifier: Sendable, Hashable {
    /// The namespace of the value, a URI.
    public var system: String
    /// The identifier within it.
    public var value: String

    /// Makes an identifier.
    ///
    /// - Parameters:
    ///   - system: the namespace of the value, a URI.
    ///   - value: the identifier within it.
    public init(system: String, value: String) {
        self.system = system
        self.value = value
    }

    /// Reads `system|value`, as FHIR writes a token: `https://clinic.example/patients|4711`.
    ///
    /// - Parameter token: the text; the first bar ends the system.
    /// - Returns: `nil` if there is no bar, or nothing on one of its sides.
    public init?(token: String) {
        guard let bar = token.firstIndex(of: "|") else { return nil }
        let (system, value) = (token[..<bar], token[token.index(after: bar)...])
        guard !system.isEmpty, !value.isEmpty else { return nil }
        self.init(system: String(system), value: String(value))
    }
}
