import Crypto
import CryptoExtras
import Foundation
import HealthReadings
import ScriptedServer
import Synchronization

@testable import WebDestinations

/// A stand-in for a FHIR R4 server, as strict as real ones are.
///
/// - A transaction is stored whole or not at all. Its entries need a `fullUrl` of their own, a resource and a request.
/// - A conditional create that finds one match answers 200 and leaves it as it is; several matches are 412.
/// - A conditional update that finds one match stores a new version of it; none creates one.
/// - `urn:uuid:` references become those of what the bundle's entries were stored as, and `Patient?identifier=…` that of the
///   one patient who matches.
/// - Fields that R4 does not have are refused, as are an unknown status and a time without a zone.
/// - Tokens come from an endpoint that checks the client's assertion by itself, and expire.
final class FHIRServer: Sendable {
    struct Stored: Sendable, Equatable {
        var type: String
        var id: String
        var version = 1
        var resource: AnswerJSON
    }

    /// A client that the token endpoint knows.
    struct Client: Sendable {
        enum Key: Sendable {
            case elliptic(P384.Signing.PublicKey)
            case rsa(_RSA.Signing.PublicKey)
        }

        var id = "gateway"
        var key: Key
        var keyID: String?
        /// What `aud` has to say.
        var endpoint = ""
    }

    struct Options: Sendable {
        var version = "4.0.1"
        /// Tokens that may do everything; `nil`: everybody may.
        var tokens: Set<String>?
        var client: Client?
        /// How long the endpoint says that its tokens last, and after how many requests they really end.
        var expiresIn = 300
        var requestsOfToken = Int.max
        var scope = "system/Observation.crus system/Device.crs system/Patient.rs"
        var maySearch = true
        var mayUpdate = true
        /// Ids of resources that may not be updated.
        var locked: Set<String> = []
        /// It finds no Patients for this client, and resolves references to them all the same.
        var hidesPatients = false
        /// Values of glucose that the server does not take, and whether it says where they stand.
        var refuses: Set<Double> = []
        var namesPlaces = false
        var bodyLimit = 1 << 20
        /// It stores what it can of a transaction, entry by entry.
        var isLenient = false
        var conditionalCreate: Bool? = true
    }

    struct State: Sendable {
        var options = Options()
        var stored: [Stored] = []
        /// Answers of the next requests, before the server behaves.
        var next: [ScriptedAnswer] = []
        /// Whether the next answers are lost after the server has done what they were for.
        var losesAnswers = 0
        var usedAssertions: Set<String> = []
        var issued: [String: Int] = [:]
        /// What was wrong with assertions.
        var complaints: [String] = []
        fileprivate var ids = 0
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Int64
    /// Where the server keeps what it has stored, so that it is there again after its process has died.
    private let file: String?

    init(
        now: @escaping @Sendable () -> Int64 = { Instant.systemClock.seconds }, patients: Int = 1, file: String? = nil
    ) throws {
        self.now = now
        self.file = file
        if let file, let octets = FileManager.default.contents(atPath: file) {
            let stored = (AnswerJSON(Array(octets))?.elements ?? []).compactMap { Stored($0) }
            state.withLock { state in
                state.stored = stored
                state.ids = stored.count
            }
        } else {
            state.withLock { state in
                for _ in 0..<patients { addPatient(&state) }
            }
        }
    }

    private func save(_ state: State) {
        guard let file else { return }
        let texts = state.stored.map { stored in
            AnswerJSON.object([
                "type": .text(stored.type), "id": .text(stored.id), "version": .number(Double(stored.version)),
                "resource": stored.resource,
            ])
        }
        try? AnswerJSON.array(texts).document.text.write(toFile: file, atomically: true, encoding: .utf8)
    }

    /// The system and value of the patient.
    static let patient = "https://hospital.example/mrn|47,11"

    private func addPatient(_ state: inout State) {
        state.ids += 1
        state.stored.append(
            Stored(
                type: "Patient", id: "p\(state.ids)",
                resource: .object([
                    "resourceType": .text("Patient"),
                    "identifier": .array([
                        .object(["system": .text("https://hospital.example/mrn"), "value": .text("47,11")])
                    ]),
                ])))
    }

    var current: State { state.withLock(\.self) }
    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// The Observations of measurements.
    var observations: [Stored] { current.stored.filter { $0.type == "Observation" } }

    /// The Observations as a clinician sees them: status, time and value.
    var shown: [String] {
        observations.map { stored in
            var value = "-"
            if case .number(let number)? = stored.resource["valueQuantity"]?["value"] { value = String(Int(number)) }
            return [
                stored.resource["status"]?.text ?? "?", stored.resource["effectiveDateTime"]?.text ?? "?", value,
            ].joined(separator: " ")
        }
    }

    // MARK: Requests

    func answer(_ request: ReceivedRequest) async -> ScriptedAnswer {
        state.withLock { (state: inout State) -> ScriptedAnswer in
            if !state.next.isEmpty { return state.next.removeFirst() }
            let made = self.answer(request, &state)
            save(state)
            guard state.losesAnswers > 0, request.method != "GET" else { return made }
            state.losesAnswers -= 1
            return .cut
        }
    }

    private static func outcome(_ status: Int, _ words: String, at place: String? = nil) -> ScriptedAnswer {
        var issue: [String: AnswerJSON] = [
            "severity": .text("error"), "code": .text("processing"), "diagnostics": .text(words),
        ]
        if let place { issue["expression"] = .array([.text(place)]) }
        return .json(
            status,
            AnswerJSON.object(["resourceType": .text("OperationOutcome"), "issue": .array([.object(issue)])]).document
                .text)
    }

    private func answer(_ request: ReceivedRequest, _ state: inout State) -> ScriptedAnswer {
        guard let components = URLComponents(string: request.path) else { return Self.outcome(400, "no URL") }
        let query = Dictionary(
            (components.queryItems ?? []).map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { first, _ in first })
        switch (request.method, components.path) {
        case ("POST", "/token"): return token(request, &state)
        case ("GET", "/r4/.well-known/smart-configuration"):
            return .json(200, #"{"token_endpoint":"\#(state.options.client?.endpoint ?? "")"}"#)
        case ("GET", "/r4/metadata"): return metadata(state.options)
        default: break
        }
        guard components.path == "/r4" || components.path.hasPrefix("/r4/") else {
            return .other(404, "<html>no such page</html>", type: "text/html")
        }
        if let refusal = authorize(request, &state) { return refusal }
        if request.method != "GET",
            request.headers["content-type"]?.split(separator: ";").first != "application/fhir+json"
        {
            return Self.outcome(415, "the content type is not application/fhir+json")
        }
        let parts = components.path.split(separator: "/").dropFirst().map(String.init)
        switch (request.method, parts.count) {
        case ("POST", 0): return transaction(request, &state)
        case ("GET", 1):
            guard state.options.maySearch else { return Self.outcome(403, "searching is not permitted") }
            return search(parts[0], query, state)
        case ("PUT", 2): return update(request, parts[0], parts[1], &state)
        default: return Self.outcome(404, "unknown: \(request.method) \(components.path)")
        }
    }

    private func authorize(_ request: ReceivedRequest, _ state: inout State) -> ScriptedAnswer? {
        guard state.options.tokens != nil || state.options.client != nil else { return nil }
        let given = request.headers["authorization"].flatMap {
            $0.hasPrefix("Bearer ") ? String($0.dropFirst("Bearer ".count)) : nil
        }
        if let given, state.options.tokens?.contains(given) == true { return nil }
        if let given, let used = state.issued[given], used < state.options.requestsOfToken {
            state.issued[given] = used + 1
            return nil
        }
        return Self.outcome(401, "the token is unknown or has expired")
    }

    private func metadata(_ options: Options) -> ScriptedAnswer {
        let conditional = options.conditionalCreate.map { ",\"conditionalCreate\":\($0)" } ?? ""
        return .json(
            200,
            """
            {"resourceType":"CapabilityStatement","status":"active","kind":"instance","fhirVersion":"\(options.version)",\
            "rest":[{"mode":"server","interaction":[{"code":"transaction"}],\
            "resource":[{"type":"Observation"\(conditional)}]}]}
            """)
    }

    // MARK: Searching and updating

    private static func matches(_ resource: AnswerJSON, _ system: String, _ value: String) -> Bool {
        resource["identifier"]?.elements.contains { $0["system"]?.text == system && $0["value"]?.text == value } == true
    }

    /// A token of search: system, bar, value, with what has a meaning escaped.
    private static func parsed(_ token: String) -> (system: String, value: String)? {
        var (parts, isEscaped) = ([""], false)
        for character in token {
            if isEscaped {
                parts[parts.count - 1].append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "|" {
                parts.append("")
            } else {
                parts[parts.count - 1].append(character)
            }
        }
        return parts.count == 2 && !parts[0].isEmpty && !parts[1].isEmpty ? (parts[0], parts[1]) : nil
    }

    /// Tokens, between commas that are not escaped.
    private static func tokens(_ text: String) -> [String] {
        var (tokens, isEscaped) = ([""], false)
        for character in text {
            if character == ",", !isEscaped {
                tokens.append("")
            } else {
                tokens[tokens.count - 1].append(character)
            }
            isEscaped = character == "\\" && !isEscaped
        }
        return tokens
    }

    private func search(_ type: String, _ query: [String: String], _ state: State) -> ScriptedAnswer {
        guard let text = query["identifier"] else { return Self.outcome(400, "identifier is missing") }
        let wanted = Self.tokens(text).compactMap(Self.parsed)
        guard wanted.count == Self.tokens(text).count else { return Self.outcome(400, "malformed identifier") }
        let found = state.stored.filter { stored in
            stored.type == type && !(type == "Patient" && state.options.hidesPatients)
                && wanted.contains { Self.matches(stored.resource, $0.system, $0.value) }
        }
        let entries = found.map { AnswerJSON.object(["resource": Self.shown($0)]) }
        return .json(
            200,
            AnswerJSON.object([
                "resourceType": .text("Bundle"), "type": .text("searchset"), "entry": .array(entries),
            ]).document.text)
    }

    private static func shown(_ stored: Stored) -> AnswerJSON {
        var members = stored.resource.members
        members["id"] = .text(stored.id)
        var meta = members["meta"]?.members ?? [:]
        meta["versionId"] = .text(String(stored.version))
        members["meta"] = .object(meta)
        // Servers make a narrative.
        members["text"] = .object([
            "status": .text("generated"), "div": .text("<div>\(stored.resource.document.text)</div>"),
        ])
        return .object(members)
    }

    private func update(
        _ request: ReceivedRequest, _ type: String, _ id: String, _ state: inout State
    ) -> ScriptedAnswer {
        guard state.options.mayUpdate, !state.options.locked.contains(id) else {
            return Self.outcome(403, "updating is not permitted")
        }
        guard let resource = AnswerJSON(request.body),
            resource["id"]?.text == id, let place = state.stored.firstIndex(where: { $0.type == type && $0.id == id })
        else { return Self.outcome(400, "the id differs") }
        if let fault = Self.fault(resource) { return Self.outcome(422, fault) }
        if let version = request.headers["if-match"], version != "W/\"\(state.stored[place].version)\"" {
            return Self.outcome(412, "another version is current")
        }
        state.stored[place].version += 1
        state.stored[place].resource = resource
        return .json(200, "")
    }

    // MARK: Transactions

    private static let fields: [String: Set<String>] = [
        "Observation": [
            "resourceType", "id", "meta", "implicitRules", "language", "text", "contained", "extension",
            "modifierExtension",
            "identifier", "basedOn", "partOf", "status", "category", "code", "subject", "focus", "encounter",
            "effectiveDateTime", "effectivePeriod", "effectiveTiming", "effectiveInstant", "issued", "performer",
            "valueQuantity", "valueCodeableConcept", "valueString", "valueBoolean", "valueInteger", "valueRange",
            "valueRatio",
            "valueSampledData", "valueTime", "valueDateTime", "valuePeriod", "dataAbsentReason", "interpretation",
            "note",
            "bodySite", "method", "specimen", "device", "referenceRange", "hasMember", "derivedFrom", "component",
        ],
        "Device": [
            "resourceType", "id", "meta", "implicitRules", "language", "text", "contained", "extension",
            "modifierExtension",
            "identifier", "definition", "udiCarrier", "status", "statusReason", "distinctIdentifier", "manufacturer",
            "manufactureDate", "expirationDate", "lotNumber", "serialNumber", "deviceName", "modelNumber", "partNumber",
            "type",
            "specialization", "version", "property", "patient", "owner", "contact", "location", "url", "note", "safety",
            "parent", "_manufacturer", "_modelNumber",
        ],
    ]

    private static func fault(_ resource: AnswerJSON) -> String? {
        guard let type = resource["resourceType"]?.text, let known = fields[type] else { return "unknown resource" }
        if let field = resource.members.keys.first(where: { !known.contains($0) }) { return "unknown field \(field)" }
        guard type == "Observation" else { return nil }
        guard ["final", "amended", "entered-in-error"].contains(resource["status"]?.text) else { return "no status" }
        guard resource["code"] != nil else { return "no code" }
        let times = ["effectiveDateTime", "effectivePeriod"].compactMap { resource[$0] }
        guard times.count == 1, let time = times.first, Self.isInZone(time) || Self.isPeriod(time) else {
            return "no time with a zone"
        }
        guard resource["valueQuantity"] == nil || resource["dataAbsentReason"] == nil else {
            return "obs-6: a value and the reason why there is none"
        }
        return nil
    }

    private static func isInZone(_ time: AnswerJSON?) -> Bool { time?.text.flatMap { Instant(rfc3339: $0) } != nil }

    private static func isPeriod(_ time: AnswerJSON) -> Bool { isInZone(time["start"]) && isInZone(time["end"]) }

    /// Why an entry is refused, and whether it was several matches.
    private struct Refusal: Error {
        var status: Int
        var words: String
    }

    private func transaction(_ request: ReceivedRequest, _ state: inout State) -> ScriptedAnswer {
        guard request.body.count <= state.options.bodyLimit else {
            return .other(413, "<html>too large</html>", type: "text/html")
        }
        guard let bundle = AnswerJSON(request.body),
            bundle["resourceType"]?.text == "Bundle", bundle["type"]?.text == "transaction",
            let entries = bundle["entry"]?.elements, !entries.isEmpty
        else { return Self.outcome(400, "no transaction") }
        let urls = entries.compactMap { $0["fullUrl"]?.text }
        guard Set(urls).count == entries.count else { return Self.outcome(400, "fullUrls are missing or repeated") }
        let before = state.stored
        var (copy, responses, references): (State, [AnswerJSON], [String: String]) = (state, [], [:])
        // Where everything will be is known before references are resolved.
        for (place, entry) in entries.enumerated() {
            do throws(Refusal) {
                let (id, status) = try prepare(entry, before, &copy)
                references[urls[place]] = "\(entry["resource"]?["resourceType"]?.text ?? "")/\(id)"
                responses.append(.object(["status": .text(status)]))
            } catch {
                guard state.options.isLenient else {
                    return Self.outcome(
                        error.status, error.words,
                        at: state.options.namesPlaces ? "Bundle.entry[\(place)].resource" : nil)
                }
                responses.append(
                    .object([
                        "status": .text("\(error.status) Refused"),
                        "outcome": .object([
                            "resourceType": .text("OperationOutcome"),
                            "issue": .array([.object(["diagnostics": .text(error.words)])]),
                        ]),
                    ]))
            }
        }
        for index in copy.stored.indices where !before.contains(copy.stored[index]) {
            do throws(Refusal) {
                copy.stored[index].resource = try resolved(copy.stored[index].resource, references, before)
            } catch {
                return Self.outcome(error.status, error.words)
            }
        }
        state = copy
        return .json(
            200,
            AnswerJSON.object([
                "resourceType": .text("Bundle"), "type": .text("transaction-response"),
                "entry": .array(responses.map { .object(["response": $0]) }),
            ]).document.text)
    }

    private func prepare(
        _ entry: AnswerJSON, _ before: [Stored], _ state: inout State
    ) throws(Refusal) -> (id: String, status: String) {
        guard let resource = entry["resource"], let type = resource["resourceType"]?.text,
            let request = entry["request"], let url = request["url"]?.text
        else { throw Refusal(status: 400, words: "the entry has no resource or no request") }
        if let fault = Self.fault(resource) { throw Refusal(status: 422, words: fault) }
        if case .number(let value)? = resource["valueQuantity"]?["value"], state.options.refuses.contains(value) {
            throw Refusal(status: 422, words: "the value is not plausible")
        }
        let isCreate = request["method"]?.text == "POST"
        let condition = isCreate ? request["ifNoneExist"]?.text : url.split(separator: "?").last.map(String.init)
        guard url.split(separator: "?").first.map(String.init) == type, isCreate || request["method"]?.text == "PUT",
            let condition, let identifier = Self.condition(condition)
        else { throw Refusal(status: 400, words: "the condition \(condition ?? "") cannot be read") }
        let found = before.filter { $0.type == type && Self.matches($0.resource, identifier.system, identifier.value) }
        guard found.count <= 1 else {
            throw Refusal(status: 412, words: "Multiple resources match the search \(type)?\(condition)")
        }
        if let there = found.first {
            if isCreate { return (there.id, "200 OK") }
            guard let place = state.stored.firstIndex(where: { $0.type == type && $0.id == there.id }) else {
                throw Refusal(status: 500, words: "gone")
            }
            state.stored[place].version += 1
            state.stored[place].resource = resource
            return (there.id, "200 OK")
        }
        state.ids += 1
        state.stored.append(Stored(type: type, id: "r\(state.ids)", resource: resource))
        return ("r\(state.ids)", "201 Created")
    }

    /// `identifier=system|value`, as a URL writes it.
    private static func condition(_ text: String) -> (system: String, value: String)? {
        guard !text.hasPrefix("?"), text.wholeMatch(of: /identifier=[^|&= ]+\|[^|&= ]+/) != nil,
            let decoded = String(text.dropFirst("identifier=".count)).removingPercentEncoding
        else { return nil }
        return parsed(decoded)
    }

    private func resolved(
        _ json: AnswerJSON, _ references: [String: String], _ before: [Stored]
    ) throws(Refusal) -> AnswerJSON {
        switch json {
        case .object(var members):
            if let text = members["reference"]?.text {
                members["reference"] = .text(try reference(text, references, before))
            }
            for (key, value) in members { members[key] = try resolved(value, references, before) }
            return .object(members)
        case .array(let elements):
            var resolvedElements: [AnswerJSON] = []
            for element in elements { resolvedElements.append(try resolved(element, references, before)) }
            return .array(resolvedElements)
        default: return json
        }
    }

    private func reference(
        _ text: String, _ references: [String: String], _ before: [Stored]
    ) throws(Refusal) -> String {
        if text.hasPrefix("urn:uuid:") {
            guard let place = references[text] else {
                throw Refusal(status: 400, words: "\(text) is not in the bundle")
            }
            return place
        }
        let parts = text.split(separator: "?", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { return text }
        guard let identifier = Self.condition(parts[1]) else { throw Refusal(status: 400, words: "Invalid match URL") }
        let found = before.filter {
            $0.type == parts[0] && Self.matches($0.resource, identifier.system, identifier.value)
        }
        guard let one = found.first, found.count == 1 else {
            throw Refusal(
                status: found.isEmpty ? 404 : 412,
                words: "Invalid match URL \"\(text)\" - \(found.count) resources match")
        }
        return "\(one.type)/\(one.id)"
    }

    // MARK: Tokens

    private func token(_ request: ReceivedRequest, _ state: inout State) -> ScriptedAnswer {
        func refuse(_ words: String) -> ScriptedAnswer {
            state.complaints.append(words)
            return .json(401, #"{"error":"invalid_client","error_description":"\#(words)"}"#)
        }
        guard let client = state.options.client,
            request.headers["content-type"] == "application/x-www-form-urlencoded",
            let form = URLComponents(string: "?" + request.text)?.queryItems
        else { return .json(400, #"{"error":"invalid_request"}"#) }
        let fields = Dictionary(form.map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { first, _ in first })
        guard fields["grant_type"] == "client_credentials", fields["scope"]?.isEmpty == false,
            fields["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        else { return .json(400, #"{"error":"invalid_request"}"#) }
        let parts = (fields["client_assertion"] ?? "").split(separator: ".").map(String.init)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Self.decoded(parts[2])
        else { return refuse("no JWT") }
        let signed = Data("\(parts[0]).\(parts[1])".utf8)
        let isSigned: Bool
        switch client.key {
        case .elliptic(let key):
            guard header["alg"]?.text == "ES384",
                let signature = try? P384.Signing.ECDSASignature(rawRepresentation: signature)
            else { return refuse("no ES384 signature") }
            isSigned = key.isValidSignature(signature, for: SHA384.hash(data: signed))
        case .rsa(let key):
            guard header["alg"]?.text == "RS384" else { return refuse("no RS384 signature") }
            isSigned = key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA384.hash(data: signed),
                padding: .insecurePKCS1v1_5)
        }
        guard isSigned else { return refuse("the signature is not the client's") }
        guard header["typ"]?.text == "JWT", header["kid"]?.text == client.keyID else { return refuse("kid") }
        guard claims["iss"]?.text == client.id, claims["sub"]?.text == client.id else { return refuse("iss or sub") }
        guard claims["aud"]?.text == client.endpoint else { return refuse("aud") }
        guard case .number(let end)? = claims["exp"], Int64(end) > now(), Int64(end) <= now() + 300 else {
            return refuse("exp")
        }
        guard let id = claims["jti"]?.text, state.usedAssertions.insert(id).inserted else { return refuse("jti") }
        let token = "granted-\(state.usedAssertions.count)-0123456789"
        state.issued[token] = 0
        return .json(
            200,
            """
            {"access_token":"\(token)","token_type":"bearer","expires_in":\(state.options.expiresIn),\
            "scope":"\(state.options.scope)"}
            """)
    }

    private static func decoded(_ text: String) -> Data? {
        guard !text.contains(where: { "+/=".contains($0) }) else { return nil }
        let base = text.replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: base + String(repeating: "=", count: (4 - base.count % 4) % 4))
    }

    private static func json(_ text: String) -> AnswerJSON? {
        decoded(text).flatMap { AnswerJSON(Array($0)) }
    }
}

extension FHIRServer.Stored {
    /// Reads what a server has kept in its file.
    fileprivate init?(_ kept: AnswerJSON) {
        guard let type = kept["type"]?.text, let id = kept["id"]?.text, case .number(let version)? = kept["version"],
            let resource = kept["resource"]
        else { return nil }
        self.init(type: type, id: id, version: Int(version), resource: resource)
    }
}
