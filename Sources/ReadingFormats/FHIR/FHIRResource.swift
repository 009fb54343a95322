import HealthReadings

/// A resource of a bundle, known by its own UUID.
struct FHIRResource {
    /// Its place in the bundle, and what other resources refer to it by.
    var uuid: NameUUID
    /// `Observation` or `Device`.
    var type: String
    /// What a server is asked for before it is stored.
    var identifier: FHIRIdentifier
    /// The resource.
    var json: JSONValue

    var reference: JSONValue { Self.reference(to: uuid) }

    static func reference(to uuid: NameUUID) -> JSONValue { .object(["reference": .string(uuid.urn)]) }

    static func profile(_ name: String) -> JSONValue {
        .object(["profile": .list(.string("http://hl7.org/fhir/uv/phd/StructureDefinition/\(name)"))])
    }

    /// An element that has to be there and is not known.
    static let unknown = JSONValue.object([
        "extension": .list(
            .object([
                "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown",
            ]))
    ])
}

/// The gateway, as a Device.
struct FHIRGateway {
    let facts: GatewayFacts
    let uuid: NameUUID

    init(_ facts: GatewayFacts) {
        self.facts = facts
        uuid = NameUUID("gateway/" + facts.id)
    }

    var resource: FHIRResource {
        let identifier = FHIRIdentifier(uuid)
        return FHIRResource(
            uuid: uuid, type: "Device", identifier: identifier,
            json: .object([
                "resourceType": "Device", "meta": FHIRResource.profile("PhgDevice"),
                "identifier": .list(identifier.json), "serialNumber": .string(facts.id),
                "deviceName": .list(.object(["name": "HealthRelay", "type": "model-name"])),
                "type": FHIRCoding.concept([.mdc(531981, "MDC_MOC_VMS_MDS_AHD")], text: "Personal health gateway"),
                "specialization": .list(
                    .object(["systemType": FHIRCoding.concept([.mdc(528457, "MDC_DEV_SPEC_PROFILE_GENERIC")])])),
                "version": .list(
                    .object([
                        "type": FHIRCoding.concept([.mdc(531975, "MDC_ID_PROD_SPEC_SW")]),
                        "value": .string(facts.version),
                    ])),
            ]))
    }
}

/// A meter or sensor, as a Device.
struct FHIRDevice {
    let description: DeviceDescription
    let facts: DeviceFacts
    let uuid: NameUUID
    /// What the readings of a bundle show that it measures.
    var specializations: Set<Specialization>

    /// What a device measures, by the code of the standard that its kind follows.
    enum Specialization: Int, CaseIterable, Comparable {
        case pulseOximeter = 528388
        case bloodPressure = 528391
        case thermometer = 528392
        case scale = 528399
        case glucose = 528401
        case bodyComposition = 528404
        case continuousGlucose = 528409
        case generic = 528457

        init(_ reading: Reading) {
            switch reading.record.value {
            case .glucose(let glucose):
                self =
                    glucose.continuous != nil || reading.record.sensor != nil ? .continuousGlucose : .glucose
            case .bloodPressure: self = .bloodPressure
            case .kept: self = .generic
            case .vital(let vital):
                switch vital.kind {
                case .spo2: self = .pulseOximeter
                case .temperature: self = .thermometer
                case .weight: self = .scale
                case .bodyComposition: self = .bodyComposition
                case .heartRate, .hrv, .glucose, .bloodPressure, .activity, .sleep, .other: self = .generic
                }
            }
        }

        private var name: String {
            switch self {
            case .pulseOximeter: "MDC_DEV_SPEC_PROFILE_PULS_OXIM"
            case .bloodPressure: "MDC_DEV_SPEC_PROFILE_BP"
            case .thermometer: "MDC_DEV_SPEC_PROFILE_TEMP"
            case .scale: "MDC_DEV_SPEC_PROFILE_SCALE"
            case .glucose: "MDC_DEV_SPEC_PROFILE_GLUCOSE"
            case .bodyComposition: "MDC_DEV_SPEC_PROFILE_BCA"
            case .continuousGlucose: "MDC_DEV_SPEC_PROFILE_CGM"
            case .generic: "MDC_DEV_SPEC_PROFILE_GENERIC"
            }
        }

        static func < (lhs: Specialization, rhs: Specialization) -> Bool { lhs.rawValue < rhs.rawValue }

        // The device doesn't say which version of the standard it follows.
        var json: JSONValue {
            .object(["systemType": FHIRCoding.concept([.mdc(rawValue, name)]), "_version": FHIRResource.unknown])
        }
    }

    init(_ reading: Reading, in context: FormatContext) {
        description = reading.device
        facts = context.device
        specializations = [Specialization(reading)]
        let key =
            if let address = description.address {
                "\(address.kind.rawValue)/\(address)"
            } else if let serial = description.serial {
                "serial/\(description.model ?? "")/\(serial)"
            } else {
                // Captures may show no address, and some devices have no serial number: known within this gateway only.
                "of/\(context.gateway.id)/\(description.model ?? "")/\(description.name ?? "")"
            }
        uuid = NameUUID("device/" + key)
    }

    /// The EUI-48 of a Bluetooth device in capitals; nil without an address.
    private var transportAddress: FHIRIdentifier? {
        description.address.map { address in
            FHIRIdentifier(
                type: FHIRCoding(
                    system: "http://terminology.hl7.org/CodeSystem/ContinuaDeviceIdentifiers", code: "BTMAC",
                    display: "Bluetooth MAC address"),
                system: "http://hl7.org/fhir/sid/eui-48/bluetooth",
                value: String(address.description.map { $0 == ":" ? "-" : $0 }))
        }
    }

    var resource: FHIRResource {
        // Other gateways know the device by its address too.
        let identifier = transportAddress ?? FHIRIdentifier(uuid)
        let model = facts.model ?? description.model
        return FHIRResource(
            uuid: uuid, type: "Device", identifier: identifier,
            json: .object(
                of: .init("resourceType", "Device"), .init("meta", FHIRResource.profile("PhdDevice")),
                .init("identifier", .list(identifier.json)),
                .optional("manufacturer", facts.manufacturer),
                facts.manufacturer == nil ? .init("_manufacturer", FHIRResource.unknown) : nil,
                .optional("serialNumber", description.serial),
                description.name.map { name in
                    .init("deviceName", .list(.object(["name": .string(name), "type": "user-friendly-name"])))
                },
                .optional("modelNumber", model), model == nil ? .init("_modelNumber", FHIRResource.unknown) : nil,
                .init(
                    "type",
                    FHIRCoding.concept([.mdc(65573, "MDC_MOC_VMS_MDS_SIMP")], text: "Personal health device")),
                .init("specialization", .array(specializations.sorted().map(\.json))),
                facts.firmware.map { firmware in
                    .init(
                        "version",
                        .list(
                            .object([
                                "type": FHIRCoding.concept([.mdc(531976, "MDC_ID_PROD_SPEC_FW")]),
                                "value": .string(firmware),
                            ])))
                }))
    }

    /// The device in the guide's identifier of a measurement: twelve hexadecimal digits in capitals; nil without an address.
    var measurementKey: String? { description.address.map { $0.description.filter { $0 != ":" } } }

    /// What the device's clock showed when the gateway read it; nil if it could not be read.
    func clock(of reading: Reading, in context: FormatContext, gateway: FHIRGateway) -> FHIRResource? {
        guard let comparison = reading.time.clock else { return nil }
        let readAt = comparison.readAt.flooredToSecond
        // The difference is one of wall clocks: the device's is shown with the offset that the gateway's had.
        let offsetSeconds = context.zone.offsetSeconds(at: readAt)
        guard let own = readAt.rfc3339(offsetSeconds: offsetSeconds),
            let shown = readAt.advanced(bySeconds: comparison.differenceSeconds).rfc3339(offsetSeconds: offsetSeconds)
        else { return nil }
        let uuid = NameUUID("clock/\(self.uuid)/\(readAt.seconds)")
        let identifier = FHIRIdentifier(uuid)
        return FHIRResource(
            uuid: uuid, type: "Observation", identifier: identifier,
            json: .object([
                "resourceType": "Observation", "meta": FHIRResource.profile("PhdCoincidentTimeStampObservation"),
                "identifier": .list(identifier.json), "status": "final",
                "code": FHIRCoding.concept([.mdc(67975, "MDC_ATTR_TIME_ABS")], text: "Time of the device's clock"),
                "subject": FHIRResource.reference(to: self.uuid), "effectiveDateTime": .string(own),
                "valueDateTime": .string(shown), "device": FHIRResource.reference(to: gateway.uuid),
            ]))
    }
}
