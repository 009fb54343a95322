import HealthReadings

extension ReadingFormat {
    /// HL7 FHIR R4, as the Personal Health Device implementation guide 2.0.0 profiles it: ``FHIRBundle``.
    public static let fhir = ReadingFormat(name: "fhir", mediaType: "application/fhir+json")
}

/// How a reading stands to what a FHIR server may have of it.
public enum FHIRChange: Sendable, Hashable, CaseIterable {
    /// The server was never sent the reading, or was sent it as it is now. A server that has it leaves it as it is.
    case new
    /// The reading has changed since it was sent: a context or a status came later. The server replaces what it has.
    ///
    /// Use it too for a reading that was retracted and is to be delivered again: the server still has it, withdrawn.
    case revised
    /// The reading is withdrawn. The server keeps a record of it without its values.
    case retracted

    /// The code of ObservationStatus.
    var status: String {
        switch self {
        case .new: "final"
        case .revised: "amended"
        case .retracted: "entered-in-error"
        }
    }
}

/// A FHIR bundle of readings, with their devices and the gateway.
///
/// Each reading becomes one Observation or more: a blood pressure has one for its pressures and one for its pulse. A
/// bundle has each device once, the gateway once, and one Observation for each time a device's clock was read.
///
/// Resources refer to each other by `urn:uuid:` references. The UUIDs are made of what the resources stand for, so that the
/// same reading gives the same bytes.
///
/// ### Repeats, revisions and retractions
///
/// In a transaction, a ``FHIRChange/new`` reading is a conditional create. A server that has it answers 200 and stores
/// nothing. For the same reason it ignores a changed reading that is sent as a new one. A ``FHIRChange/revised`` reading is
/// therefore a conditional update with the status `amended`, and a ``FHIRChange/retracted`` one a conditional update with the
/// status `entered-in-error` and without values.
///
/// The condition is the reading's own identifier (`urn:uuid:`), and not the identifier that the guide defines. The guide's is
/// made of device, patient, type and time, and two measurements within one minute have the same one if the device's clock has
/// no seconds: the second would be lost. The guide's identifier stands beside the own one, where the device sent a time, so
/// that other gateways can find the measurement.
///
/// ```swift
/// var bundle = FHIRBundle()
/// let omissions = try bundle.add(reading, in: context)
/// print(bundle.document.text, omissions)
/// ```
public struct FHIRBundle: Sendable {
    /// What a bundle is for.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// To be posted to a server, which stores all of it or nothing.
        case transaction
        /// To be read: a file of resources without requests.
        case collection
    }

    /// What the bundle is for.
    public let kind: Kind

    // In the order in which they were added.
    private var gateways = Ordered<FHIRGateway>()
    private var devices = Ordered<FHIRDevice>()
    private var clocks = Ordered<FHIRResource>()
    private var observations = Ordered<(FHIRResource, FHIRChange)>()

    /// Makes an empty bundle.
    ///
    /// - Parameter kind: what the bundle is for.
    public init(_ kind: Kind = .transaction) { self.kind = kind }

    /// How many entries the bundle has, the devices and the gateway among them.
    public var count: Int { gateways.count + devices.count + clocks.count + observations.count }

    /// Adds a reading. One that is added again replaces the former.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - context: what the resources need to know beside it. A transaction needs ``FormatContext/patient``.
    ///   - change: how the reading stands to what the server may have of it.
    /// - Returns: what the resources do not say of the reading.
    /// - Throws: a ``FormatOmission`` if the reading can't be written; the bundle is as it was. Its reason is
    ///   ``FormatOmission/Reason/excluded`` (unless the reading is retracted), ``FormatOmission/Reason/noTime``,
    ///   ``FormatOmission/Reason/notANumber`` for a glucose record without a concentration,
    ///   ``FormatOmission/Reason/noPlace`` for a reading of which nothing has a code, or
    ///   ``FormatOmission/Reason/notKnown`` for a transaction without a patient.
    @discardableResult
    public mutating func add(
        _ reading: Reading, in context: FormatContext, as change: FHIRChange = .new
    ) throws(FormatOmission) -> [FormatOmission] {
        let added = try FHIRObservations(
            of: reading, in: context, as: change, subject: subject(in: context))
        gateways.put(added.gateway, for: added.gateway.uuid)
        var device = added.device
        if let known = devices[device.uuid] { device.specializations.formUnion(known.specializations) }
        devices.put(device, for: device.uuid)
        if let clock = added.clock { clocks.put(clock, for: clock.uuid) }
        for resource in added.resources { observations.put((resource, change), for: resource.uuid) }
        return added.omissions
    }

    /// The identifiers by which a server can have the Observations of a reading, in the system `urn:ietf:rfc:3986`:
    /// `urn:uuid:…`. They are also the `fullUrl`s of the reading's entries.
    public static func identifiers(of reading: Reading) -> [String] { identifiers(of: reading.id, kind: reading.kind) }

    /// The identifiers by which a server can have the Observations of a reading that may be known by its id alone.
    ///
    /// - Parameters:
    ///   - id: the reading's id.
    ///   - kind: its kind.
    /// - Returns: identifiers in the system `urn:ietf:rfc:3986`. A reading need not have an Observation for each.
    public static func identifiers(of id: ReadingID, kind: ReadingKind) -> [String] {
        FHIRContent.parts(of: kind).map { FHIRObservations.uuid(of: id, $0).urn }
    }

    /// A transaction has the server find the patient by the identifier, and fails if it has none.
    private func subject(in context: FormatContext) throws(FormatOmission) -> JSONValue {
        guard let patient = context.patient else {
            guard kind == .collection else { throw FormatOmission(.notKnown, of: "person") }
            return .object(
                of: .init("type", "Patient"),
                context.person.nonEmpty.map { .init("identifier", .object(["value": .string($0)])) })
        }
        let identifier = FHIRIdentifier(system: patient.system, value: patient.value)
        return .object(
            of: kind == .transaction ? .init("reference", .string("Patient?\(identifier.query)")) : nil,
            .init("type", "Patient"), .init("identifier", identifier.json))
    }

    /// The bundle, a resource of FHIR.
    public var document: JSONValue {
        var entries: [JSONValue] = []
        for gateway in gateways.values { entries.append(entry(gateway.resource)) }
        for device in devices.values { entries.append(entry(device.resource)) }
        for clock in clocks.values { entries.append(entry(clock)) }
        for (observation, change) in observations.values { entries.append(entry(observation, change)) }
        return .object(
            of: .init("resourceType", "Bundle"), .init("type", .string(kind.rawValue)), .list("entry", entries))
    }

    private func entry(_ resource: FHIRResource, _ change: FHIRChange = .new) -> JSONValue {
        .object(
            of: .init("fullUrl", .string(resource.uuid.urn)), .init("resource", resource.json),
            kind == .transaction ? .init("request", request(resource, change)) : nil)
    }

    private func request(_ resource: FHIRResource, _ change: FHIRChange) -> JSONValue {
        switch change {
        case .new:
            .object([
                "method": "POST", "url": .string(resource.type), "ifNoneExist": .string(resource.identifier.query),
            ])
        case .revised, .retracted:
            .object(["method": "PUT", "url": .string("\(resource.type)?\(resource.identifier.query)")])
        }
    }
}

/// Values by their UUID, in the order in which they came.
private struct Ordered<Value: Sendable>: Sendable {
    private(set) var values: [Value] = []
    private var places: [NameUUID: Int] = [:]

    var count: Int { values.count }

    subscript(uuid: NameUUID) -> Value? { places[uuid].map { values[$0] } }

    mutating func put(_ value: Value, for uuid: NameUUID) {
        if let place = places[uuid] {
            values[place] = value
        } else {
            places[uuid] = values.count
            values.append(value)
        }
    }
}
