import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore

/// The arguments of `id`.
public enum IdentityOperation: Codable, Sendable, Hashable {
    case show
    /// Takes the id of another gateway, which this one replaces. Where readings were delivered under the former id, only if
    /// `replaces`.
    case adopt(id: String, replaces: Bool)
}

/// `id`: which gateway this is.
struct IdentityRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: IdentityOperation) async throws {
        if case .adopt(let id, let replaces) = operation { try await adopt(id, replaces: replaces) }
        let id = try await gateway.store.gatewayID()
        let person = try await gateway.store.currentUser().clientUserID
        guard !json else {
            return try await output.data(GatewayIdentity(gatewayID: id, referenceID: person).document.text)
        }
        try await output.data("gateway: \(id)")
        try await output.data("reference: \(person.isEmpty ? "no user is set" : person)")
    }

    private func adopt(_ text: String, replaces: Bool) async throws {
        guard let id = GatewayIdentity.id(text) else {
            throw Problem(
                "identity_malformed", .badData, "expected a gateway's id, a UUID, found '\(text.prefix(64))'")
        }
        let former = try await gateway.store.gatewayID()
        guard id != former else {
            return try await output.note("this gateway has the id already")
        }
        let delivered = try await gateway.store.statistics().delivered
        guard replaces || delivered == 0 else {
            throw Problem(
                "identity_in_use", .configuration,
                "this gateway has delivered \(delivered) readings as \(former); as \(id) it would be another gateway to their "
                    + "receivers, which may then have readings twice",
                hint: "`--replace` changes the id all the same")
        }
        try await gateway.store.setGatewayID(id)
        try await output.note("this gateway was \(former); make sure that the machine that had \(id) no longer runs")
        if gateway.isService {
            try await output.note("restart the gateway, so that its open connections have the new id")
        }
    }
}

/// Which gateway delivers, and for whom: Terra's device and reference.
public struct GatewayIdentity: Sendable, Hashable {
    /// The gateway's id, a UUID in lower case.
    public var gatewayID: String
    /// The client's id of the current user; empty if none is set.
    public var referenceID: String

    /// Makes an identity.
    public init(gatewayID: String, referenceID: String) {
        (self.gatewayID, self.referenceID) = (gatewayID, referenceID)
    }

    /// What `id show --json` prints and `id export` writes: `{"format","version","gateway_id","reference_id"}`.
    public var document: JSONValue {
        .object([
            "format": .string(Self.format), "version": 1, "gateway_id": .string(gatewayID),
            "reference_id": .optional(referenceID.nonEmpty),
        ])
    }

    /// The gateway's id in a document that `id export` wrote.
    ///
    /// - Throws: `Problem` with status 65.
    public static func gatewayID(in data: Data) throws(Problem) -> String {
        struct Document: Decodable {
            var format: String
            var version: Int
            var gateway_id: String
        }
        guard data.count <= 1 << 16, let document = try? JSONDecoder().decode(Document.self, from: data),
            document.format == format
        else {
            throw Problem(
                "identity_malformed", .badData, "expected what `id export` writes: JSON with \"format\":\"\(format)\"")
        }
        guard document.version == 1 else {
            throw Problem(
                "identity_malformed", .badData,
                "expected version 1 of an identity, found \(document.version): a newer program wrote it")
        }
        guard let id = id(document.gateway_id) else {
            throw Problem(
                "identity_malformed", .badData,
                "gateway_id: expected a UUID, found '\(document.gateway_id.prefix(64))'")
        }
        return id
    }

    /// A UUID in lower case; the nil UUID is nobody's.
    static func id(_ text: String) -> String? {
        guard let id = UUID(uuidString: text)?.uuidString.lowercased(), id.contains(where: { $0 != "0" && $0 != "-" })
        else { return nil }
        return id
    }

    private static let format = "healthrelay-identity"
}

/// `auth check`: whether receivers accept the gateway's credentials, as a yes or no with a reason.
struct AuthRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// What was found of one destination.
    private struct Verdict {
        var destination: String
        /// `nil`: unknown.
        var isAuthenticated: Bool?
        var reason: String?
        var hint: String?
        var status = Problem.ExitStatus.notPermitted

        var document: JSONValue {
            .object([
                "destination": .string(destination),
                "authenticated": isAuthenticated.map(JSONValue.bool) ?? .null, "reason": .optional(reason),
            ])
        }
    }

    func check(_ name: String?) async throws {
        let links = try gateway.destinations.chosen(name)
        guard !links.isEmpty else { throw gateway.destinations.nothingDelivered ?? Problem.noServer }
        var verdicts: [Verdict] = []
        for link in links {
            verdicts.append(Self.verdict(on: link.name, await DestinationRunner.findings(of: link)))
        }
        let refused = verdicts.first { $0.isAuthenticated == false }
        let unknown = verdicts.first { $0.isAuthenticated == nil }
        if json {
            let all: JSONValue = refused != nil ? false : unknown != nil ? .null : true
            try await output.data(
                JSONValue.object(["authenticated": all, "destinations": .array(verdicts.map(\.document))]).text)
        } else {
            for verdict in verdicts {
                let word = verdict.isAuthenticated.map { $0 ? "yes" : "no" } ?? "unknown"
                try await output.data("\(verdict.destination): \(word)" + (verdict.reason.map { ": \($0)" } ?? ""))
            }
        }
        if let refused {
            throw Problem(
                "not_authenticated", refused.status, "\(refused.destination): \(refused.reason ?? "refused")",
                hint: refused.hint)
        }
        // A receiver that nothing can be asked of is no failure.
        if let unknown, unknown.hint != nil {
            throw Problem(
                "authentication_unknown", .unavailable, "\(unknown.destination): \(unknown.reason ?? "not known")",
                hint: unknown.hint)
        }
    }

    private static func verdict(on name: String, _ findings: [DestinationFinding]) -> Verdict {
        guard let bad = findings.first(where: { $0.ok == false }) else {
            let proof = findings.first { $0.name == "credentials" }
            return Verdict(
                destination: name, isAuthenticated: proof?.ok, reason: proof?.ok == true ? nil : proof?.found)
        }
        let isRefusal = ["settings", "credentials", "permission"].contains(bad.name)
        return Verdict(
            destination: name, isAuthenticated: isRefusal ? false : nil, reason: "\(bad.name): \(bad.found)",
            hint: bad.mend ?? "`healthrelay destination test \(name)` shows every check",
            status: bad.name == "settings" ? bad.status ?? .configuration : .notPermitted)
    }
}
