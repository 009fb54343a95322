import AsyncHTTPClient
import FleetDocuments
import Foundation
import HealthReadings
import NIOHTTP1
import OutgoingHTTP

/// The gateways' users at a RabbitMQ broker, through its management API.
///
/// A user has no password: the gateway's certificate signs it in. Each call may be repeated.
package struct BrokerUsers: Sendable {
    /// Where the API is, and who may change users there (tag `administrator`).
    package struct Plan: Sendable, Hashable {
        package var url: String
        package var user: String
        package var password: String
        package var authorityFile: String?
        package var virtualHost = "/"

        package init(url: String, user: String, password: String) {
            (self.url, self.user, self.password) = (url, user, password)
        }
    }

    /// Why the broker did not do it.
    package struct Failure: Error, Sendable, Hashable {
        package var words: String
    }

    /// Whose a user of the broker is.
    package enum Holder: Sendable, Hashable {
        /// There is no such user.
        case nobody
        /// A gateway's: made here, or by hand with a gateway's topics.
        case gateway
        /// Somebody else's: a collector's, or an administrator's.
        case other
    }

    /// Marks the users that are made here. The tag allows nothing.
    static let tag = "healthrelay-gateway"

    private let plan: Plan
    private let connections: HTTPConnections

    package init(_ plan: Plan) {
        self.plan = plan
        connections = HTTPConnections(
            HTTPLimits(connecting: .seconds(5), call: .seconds(15), responseBytes: 8 << 20),
            authorities: plan.authorityFile)
    }

    /// Whose a user is.
    package func holder(of name: String) async throws(Failure) -> Holder {
        guard name != plan.user else { return .other }
        let path = "users/\(HTTPAddress.encoded(name))"
        let user = try await call(.GET, path, allowsAbsence: true)
        guard user.status != 404 else { return .nobody }
        let words = Self.tags(try Self.json(user, path))
        if words.contains(Self.tag) { return .gateway }
        // Former versions and the operator's commands made users without a tag.
        guard words.isEmpty else { return .other }
        let permissions = try await call(.GET, path + "/topic-permissions", allowsAbsence: true)
        let topics = try Self.json(permissions, path).elements?.compactMap { $0["write"]?.text } ?? []
        let isGateway = topics.contains { topic in
            [name, "{username}"].contains { topic.hasPrefix("^healthrelay\\.\($0)\\.") }
        }
        return isGateway ? .gateway : .other
    }

    /// All users by their names, and of each whether it has the tag of those that are made here.
    package func all() async throws(Failure) -> [String: Bool] {
        let path = "users"
        guard let users = try Self.json(try await call(.GET, path), path).elements else {
            throw Failure(words: "the broker's answer to GET \(path) is no list")
        }
        var known: [String: Bool] = [:]
        for user in users {
            guard let name = user["name"]?.text else { continue }
            known[name] = Self.tags(user).contains(Self.tag)
        }
        return known
    }

    private static func tags(_ user: JSONNode) -> [String] {
        let tags = user["tags"]
        return tags?.elements?.compactMap(\.text) ?? (tags?.text ?? "").split(separator: ",").map(String.init)
    }

    private static func json(_ answer: HTTPAnswer, _ path: String) throws(Failure) -> JSONNode {
        do { return try JSONReader.read(answer.body) } catch {
            throw Failure(words: "the broker's answer to GET \(path) is no JSON")
        }
    }

    /// Lets a gateway in: it may publish to its own topics and subscribe to its own.
    ///
    /// A user of the same name that is no gateway's keeps its rights.
    package func admit(_ gateway: String) async throws(Failure) {
        guard try await holder(of: gateway) != .other else {
            throw Failure(words: "the broker has a user \(gateway) that is no gateway's")
        }
        let name = HTTPAddress.encoded(gateway)
        try await call(.PUT, "users/\(name)", .object(["password_hash": "", "tags": .string(Self.tag)]))
        // The client ids of the gateway's connection and of its tests, whose queues the broker names after them.
        let queue = "mqtt-subscription-(\(gateway)|\(gateway.prefix(19))-t[0-9]+)qos[01]"
        let own = "^(amq\\.topic|\(queue))$"
        try await call(
            .PUT, "permissions/\(host)/\(name)",
            .object(["configure": .string("^\(queue)$"), "write": .string(own), "read": .string(own)]))
        let topics = { (parts: [FleetTopic.Part]) -> JSONValue in
            .string("^healthrelay\\.\(gateway)\\.(\(parts.map(\.rawValue).joined(separator: "|")))$")
        }
        try await call(
            .PUT, "topic-permissions/\(host)/\(name)",
            .object([
                "exchange": "amq.topic", "write": topics([.readings, .hello, .status]),
                "read": topics([.receipts, .config]),
            ]))
    }

    /// Takes a gateway's user away and closes its connections. A user that is no gateway's stays.
    package func remove(_ gateway: String) async throws(Failure) {
        guard try await holder(of: gateway) != .other else { return }
        let name = HTTPAddress.encoded(gateway)
        // First the user: a gateway whose connection is closed comes back at once.
        try await call(.DELETE, "users/\(name)", allowsAbsence: true)
        try await call(.DELETE, "connections/username/\(name)", allowsAbsence: true)
    }

    private var host: String { HTTPAddress.encoded(plan.virtualHost) }

    @discardableResult
    private func call(
        _ method: HTTPMethod, _ path: String, _ body: JSONValue? = nil, allowsAbsence: Bool = false
    ) async throws(Failure) -> HTTPAnswer {
        var request = HTTPClientRequest(url: plan.url + "/api/" + path)
        request.method = method
        let credentials = Data("\(plan.user):\(plan.password)".utf8).base64EncodedString()
        request.headers.add(name: "Authorization", value: "Basic \(credentials)")
        if let body {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(Array(body.text.utf8))
        }
        let answer: HTTPAnswer
        do {
            answer = try await connections.answer(to: request)
        } catch {
            throw Failure(words: "\(plan.url): \(Self.words(error))")
        }
        if (200..<300).contains(answer.status) || allowsAbsence && answer.status == 404 { return answer }
        let said = PrintableText.escaped(String(decoding: answer.body.prefix(200), as: UTF8.self))
        throw Failure(words: "\(plan.url) answered \(answer.status) to \(method) \(path): \(said)")
    }

    private static func words(_ error: any Error) -> String {
        switch error {
        case HTTPExchangeError.timeout, HTTPExchangeError.connectingTimeout: "no answer in time"
        case HTTPExchangeError.noConnection(let words), HTTPExchangeError.connectionLost(let words),
            HTTPExchangeError.untrustedServer(let words), HTTPExchangeError.refusedIdentity(let words):
            words
        default: "\(error)"
        }
    }
}
