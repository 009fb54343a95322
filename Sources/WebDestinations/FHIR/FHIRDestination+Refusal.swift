import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension FHIRDestination {
    /// The failure that the refusal of a whole bundle is.
    func failure(
        of answer: HTTPAnswer, _ client: WebClient, _ route: String, _ shipment: Shipment
    ) async throws(DeliveryFailure) -> DeliveryFailure {
        var failure = client.failure(of: answer, route)
        let isOutcome = answer.json?["resourceType"]?.text == "OperationOutcome"
        switch answer.status {
        case 403:
            // It may be about this person alone.
            failure.scope = .target
            return failure
        case 409:
            failure.code = "conflict"
            failure.message = "\(route): something else changed the same resources (status 409)"
            return failure
        case 404 where isOutcome, 400 where !answer.isPage, 412 where !answer.isPage, 422 where !answer.isPage:
            failure.scope = .items
            failure.code = "validation_failed"
            failure.message = "\(route): the server rejects what was sent (status \(answer.status))"
        default: return failure
        }
        guard shipment.items.count == 1, let item = shipment.items.first else { return failure }
        failure.namesReading = Self.names(answer, shipment.places[item.id] ?? [])
        return try await explained(failure, answer.status, item, shipment)
    }

    /// Whether an OperationOutcome names one of these entries.
    private static func names(_ answer: HTTPAnswer, _ places: [Int]) -> Bool {
        let issues = answer.json?["issue"]?.elements ?? []
        let paths = issues.flatMap { ($0["expression"]?.elements ?? []) + ($0["location"]?.elements ?? []) }
        return paths.compactMap(\.text).contains { path in
            places.contains { path.contains("Bundle.entry[\($0)]") }
        }
    }

    /// Finds out why a reading was refused that stood alone: whether its patient is there, and what has its identifier.
    func explained(
        _ failure: DeliveryFailure, _ status: Int, _ item: OutboxItem, _ shipment: Shipment
    ) async throws(DeliveryFailure) -> DeliveryFailure {
        let patient = shipment.patient
        let found = try await permitted { () async throws(DeliveryFailure) -> [AnswerJSON] in
            try await search("Patient", [(patient.system, patient.value)])
        }
        if let found, found.count > 1 {
            let words =
                "the server has \(found.count) Patients with the identifier that `patients` names for this person"
            throw DeliveryFailure(DeliveryHold(.noPatient, reason: words))
        }
        // A server may hide its Patients from this client: only if it says so too is the patient what is missing.
        if let found, found.isEmpty, failure.serverSaid?.lowercased().contains("patient") == true {
            let words = "the server has no Patient with the identifier that `patients` names for this person"
            throw DeliveryFailure(DeliveryHold(.noPatient, reason: words))
        }
        guard status == 412 else { return failure }
        var failure = failure
        if let counts = try await permitted({ () async throws(DeliveryFailure) in
            try await stored([item.reading])
        }), counts.values.contains(where: { $0.count > 1 }) {
            failure.namesReading = true
            failure.serverSaid = Self.ambiguous
            return failure
        }
        for entry in shipment.document["entry"]?.elements ?? [] {
            guard let resource = entry["resource"], resource["resourceType"] == "Device",
                let identifier = resource["identifier"]?.elements.first, let system = identifier["system"]?.string,
                let value = identifier["value"]?.string
            else { continue }
            let found = try await permitted { () async throws(DeliveryFailure) in
                try await search("Device", [(system, value)])
            }
            guard let found, found.count > 1 else { continue }
            return DeliveryFailure(
                .target, code: "ambiguous_device",
                message: "the server has \(found.count) Devices with the same identifier: remove all but one there",
                serverSaid: failure.serverSaid, needsPerson: true)
        }
        return failure
    }

    /// What was found; `nil` if the server does not let this client look for it.
    func permitted<Found: Sendable>(
        _ look: () async throws(DeliveryFailure) -> Found
    ) async throws(DeliveryFailure) -> Found? {
        do throws(DeliveryFailure) {
            return try await look()
        } catch {
            guard ["forbidden", "not_found", "refused", "validation_failed"].contains(error.code) else { throw error }
            return nil
        }
    }

    // MARK: What the server has

    /// The server's Observations of these readings, by their identifier.
    func stored(_ readings: [Reading]) async throws(DeliveryFailure) -> [String: [AnswerJSON]] {
        let identifiers = readings.flatMap(FHIRBundle.identifiers(of:))
        var found: [String: [AnswerJSON]] = [:]
        // Some servers and proxies limit a URL to 2000 octets.
        for asked in identifiers.pieces(of: 16) {
            for observation in try await search("Observation", asked.map { (Self.uuidSystem, $0) }) {
                for identifier in observation.identifiers(of: Self.uuidSystem) where asked.contains(identifier) {
                    found[identifier, default: []].append(observation)
                }
            }
        }
        return found
    }

    /// What the server calls a patient; nothing if it does not say.
    func ids(of patient: PatientIdentifier) async throws(DeliveryFailure) -> Set<String> {
        let found = try await permitted { () async throws(DeliveryFailure) in
            try await search("Patient", [(patient.system, patient.value)])
        }
        return Set((found ?? []).compactMap { $0["id"]?.text })
    }

    static let uuidSystem = "urn:ietf:rfc:3986"

    /// The resources that have one of these identifiers.
    func search(
        _ type: String, _ identifiers: [(system: String, value: String)], by client: WebClient? = nil
    ) async throws(DeliveryFailure) -> [AnswerJSON] {
        let tokens = identifiers.map { "\(Self.escaped($0.system))|\(Self.escaped($0.value))" }
        let route = "GET /\(type)"
        let request = WebRequest(
            method: .GET,
            url: self.client.server.address.joined(
                type, ["identifier": tokens.joined(separator: ","), "_count": "\(4 * identifiers.count)"]),
            route: route)
        let (answer, client) = try await send(request, by: client)
        guard answer.isGood, !answer.isPage, let json = answer.json, json["resourceType"]?.text == "Bundle" else {
            throw client.failure(of: answer, route)
        }
        // A server that does not know the parameter may answer with everything that it has.
        return (json["entry"]?.elements ?? []).compactMap { $0["resource"] }.filter { resource in
            resource["resourceType"]?.text == type
                && identifiers.contains { resource.identifiers(of: $0.system).contains($0.value) }
        }
    }

    /// A part of a token, with what search gives a meaning escaped (FHIR R4, 3.1.1.4.1).
    private static func escaped(_ text: String) -> String {
        text.escaping(["\\": "\\\\", ",": "\\,", "$": "\\$", "|": "\\|"])
    }

    /// How a reading stands to what the server has of it, if that may be anything; `nil` if the server has it as it is.
    ///
    /// - Parameters:
    ///   - stored: what the server has of readings; `nil` if it does not say.
    ///   - subjects: what it calls the patient; nothing if it does not say.
    static func change(
        of item: OutboxItem, in context: FormatContext, _ stored: [String: [AnswerJSON]]?, subjects: Set<String>
    ) throws(FormatOmission) -> FHIRChange? {
        let reading = item.reading
        guard let stored else { return .revised }
        guard FHIRBundle.identifiers(of: reading).contains(where: { stored[$0] != nil }) else { return .new }
        var bundle = FHIRBundle()
        try bundle.add(reading, in: context)
        let isSame = (bundle.document["entry"]?.elements ?? []).allSatisfy { entry in
            let urn = entry["fullUrl"]?.string ?? ""
            guard FHIRBundle.identifiers(of: reading).contains(urn), let resource = entry["resource"] else {
                return true
            }
            guard let there = stored[urn], there.count == 1, let one = there.first else { return false }
            return one.isCurrent && one.says(resource) && one.isAbout(subjects)
        }
        return isSame ? nil : .revised
    }
}

extension AnswerJSON {
    fileprivate func identifiers(of system: String) -> [String] {
        (self["identifier"]?.elements ?? []).filter { $0["system"]?.text == system }.compactMap { $0["value"]?.text }
    }

    /// Whether an Observation was not withdrawn.
    fileprivate var isCurrent: Bool { ["final", "amended", "corrected"].contains(self["status"]?.text) }

    /// Whether an Observation is of one of these patients, as far as can be seen.
    fileprivate func isAbout(_ patients: Set<String>) -> Bool {
        let parts = self["subject"]?["reference"]?.text?.split(separator: "/") ?? []
        guard !patients.isEmpty, let place = parts.lastIndex(of: "Patient"), place + 1 < parts.count else {
            return true
        }
        return patients.contains(String(parts[place + 1]))
    }

    /// What of an Observation is about the measurement. Servers rewrite references and add elements of their own.
    private static let measured = [
        "code", "effectiveDateTime", "effectivePeriod", "valueQuantity", "dataAbsentReason", "component", "note",
    ]

    /// Whether an Observation says of the measurement what another does, and nothing else.
    fileprivate func says(_ other: JSONValue) -> Bool {
        // A server may flag values by its own ranges.
        if let interpretation = other["interpretation"], self["interpretation"]?.contains(interpretation) != true {
            return false
        }
        return Self.measured.allSatisfy { key in
            switch (self[key], other[key]) {
            case (nil, nil): true
            case (let own?, let theirs?): own.contains(theirs)
            default: false
            }
        }
    }

    /// Whether everything that a value says is said here.
    private func contains(_ value: JSONValue) -> Bool {
        switch (self, value) {
        case (.object(let members), .object(let others)):
            others.allSatisfy { members[$0.key]?.contains($0.value) == true }
        case (.array(let elements), .array(let others)):
            elements.count == others.count && zip(elements, others).allSatisfy { $0.contains($1) }
        case (.text(let text), .string(let other)): text == other
        case (.bool(let value), .bool(let other)): value == other
        case (.number(let number), .integer(let other)): number == Double(other)
        case (.number(let number), .number(let other)): Double(other.description) == number
        default: false
        }
    }
}
