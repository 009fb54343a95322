import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension FHIRDestination {
    /// Looks for a reading's Observations, and stores each again as `entered-in-error`, without its values.
    ///
    /// A conditional update would need the reading, which may be erased here, and would create an Observation where the server
    /// has none. Fewer servers support it, too.
    ///
    /// The credentials need the permission to search for Observations and to update them.
    public func retract(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for item in items {
            do {
                let found = try await search(
                    "Observation",
                    FHIRBundle.identifiers(of: item.reading, kind: item.kind).map { (Self.uuidSystem, $0) })
                for observation in found where observation["status"]?.text != Self.withdrawnStatus {
                    try await withdraw(observation)
                }
                outcomes[item.key] = .delivered
            } catch is CannotUpdate {
                outcomes[item.key] = .refused("the server does not permit Observations to be updated")
            } catch {
                let failure = DeliveryFailure(error)
                // What was withdrawn is noted first; the rest is asked for again.
                guard outcomes.isEmpty || failure.isCancellation else { return outcomes }
                throw Self.retractionFailure(failure)
            }
        }
        return outcomes
    }

    private static let withdrawnStatus = "entered-in-error"

    /// The server has no way to update an Observation.
    private struct CannotUpdate: Error {}

    private func withdraw(_ observation: AnswerJSON) async throws {
        let route = "PUT /Observation"
        guard let id = observation["id"]?.text, Self.isID(id) else {
            throw DeliveryFailure(
                .target, code: "unexpected_answer", message: "\(route): the server names an Observation without its id")
        }
        var request = WebRequest(
            method: .PUT, url: client.server.address.joined("Observation/\(id)"), route: route)
        request.headers = [
            ("content-type", Masked(ReadingFormat.fhir.mediaType)), ("prefer", Masked("return=minimal")),
        ]
        // What somebody else has changed meanwhile is looked at again first.
        if let version = observation["meta"]?["versionId"]?.text, Self.isID(version) {
            request.headers.append(("if-match", Masked("W/\"\(version)\"")))
        }
        Self.withdrawn(observation).write(into: &request.body)
        CrashPoint.reach("fhir.withdraw")
        let (answer, client) = try await send(request)
        if answer.isGood, !answer.isPage { return }
        if [405, 501].contains(answer.status), !answer.isPage { throw CannotUpdate() }
        throw client.failure(of: answer, route)
    }

    /// An id of FHIR: nothing that would lead elsewhere in a URL.
    private static func isID(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.contains { $0 != "." }
            && text.utf8.allSatisfy { octet in
                switch octet {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }

    /// What stays of an Observation that is withdrawn. Whatever might repeat the value goes, the narrative above all.
    private static let kept: Set = [
        "resourceType", "id", "meta", "language", "implicitRules", "extension", "identifier", "basedOn", "partOf",
        "category", "code", "subject", "focus", "encounter", "effectiveDateTime", "effectivePeriod", "issued",
        "performer", "method", "device",
    ]

    private static func withdrawn(_ observation: AnswerJSON) -> JSONValue {
        let absence = JSONValue.object([
            "coding": .array([
                .object([
                    "system": "http://terminology.hl7.org/CodeSystem/data-absent-reason", "code": "error",
                ])
            ])
        ])
        var members = observation.members.filter { kept.contains($0.key) }.sorted { $0.key < $1.key }
            .map { JSONValue.Member($0.key, $0.value.document) }
        members.append(.init("status", .string(withdrawnStatus)))
        let components = observation["component"]?.elements ?? []
        let isCompound =
            !components.isEmpty && !observation.members.keys.contains { $0.hasPrefix("value") }
            && observation["dataAbsentReason"] == nil
        if isCompound {
            // The profile of blood pressures asks for the pressures, or for the reason why they are not there.
            members.append(
                .init(
                    "component",
                    .array(
                        components.filter { $0["valueQuantity"] != nil || $0["dataAbsentReason"] != nil }.map {
                            .object(["code": ($0["code"] ?? .null).document, "dataAbsentReason": absence])
                        })))
        } else {
            members.append(.init("dataAbsentReason", absence))
        }
        return .object(members)
    }

    /// What the failure to take back means: nothing about the readings that are delivered.
    private static func retractionFailure(_ failure: DeliveryFailure) -> DeliveryFailure {
        var failure = failure
        if failure.code == "forbidden" {
            failure.scope = .target
            failure.message +=
                "; taking readings back needs the permission to search for Observations and to update them"
        }
        return failure.elsewhere
    }
}

extension AnswerJSON {
    /// The value as it is sent again.
    var document: JSONValue {
        switch self {
        case .object(let members):
            .object(members.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.document) })
        case .array(let elements): .array(elements.map(\.document))
        case .text(let text): .string(text)
        case .number(let number):
            Int64(exactly: number).map(JSONValue.integer) ?? ExactDecimal("\(number)").map(JSONValue.number) ?? .null
        case .bool(let value): .bool(value)
        case .null: .null
        }
    }
}
