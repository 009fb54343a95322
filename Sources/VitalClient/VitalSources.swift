import HealthReadings
import NIOHTTP1

/// A connected source: the right of a provider's data to be posted for a user.
public struct VitalSource: Sendable, Hashable {
    /// How the connection is.
    public enum Status: Sendable, Hashable {
        /// Data is taken.
        case connected
        /// The provider reports an error; see ``VitalSource/errorDetails``.
        case error
        /// Paused at the server.
        case paused
        /// A status this client does not know.
        case unknown(String)

        init(_ name: String?) {
            switch name?.lowercased() {
            case "connected": self = .connected
            case "error": self = .error
            case "paused": self = .paused
            case let name?: self = .unknown(String(name.prefix(40)))
            // The API always names one: without it nothing says that data is taken.
            case nil: self = .unknown("no status")
            }
        }

        fileprivate var severity: Int {
            switch self {
            case .connected: 0
            case .paused: 1
            case .unknown: 2
            case .error: 3
            }
        }

        /// The server's name of the status.
        public var name: String {
            switch self {
            case .connected: "connected"
            case .error: "error"
            case .paused: "paused"
            case .unknown(let name): name
            }
        }
    }

    /// Picks the worse of two entries about one provider: readings wait rather than go where they are not taken.
    public static func worse(_ one: VitalSource, _ other: VitalSource) -> VitalSource {
        one.status.severity >= other.status.severity ? one : other
    }

    /// What the server says about an error.
    public struct ErrorDetails: Sendable, Hashable {
        /// The kind: `TOKEN_REFRESH_FAILED`, …
        public var type: String
        /// The server's words.
        public var message: String
        /// When it began.
        public var erroredAt: Instant?
    }

    /// The provider's slug: `accuchek_ble`.
    public var provider: String
    /// How the connection is.
    public var status: Status
    /// When the source was connected.
    public var connectedAt: Instant?
    /// Why the status is ``Status/error``, where the server says so.
    public var errorDetails: ErrorDetails?
}

extension VitalAPI {
    /// The user's connected sources (`GET /v2/user/providers/{user_id}`).
    ///
    /// - Throws: ``VitalError/Kind/notFound`` where the server has no such user.
    public func connectedSources(of userID: String) async throws -> [VitalSource] {
        try await call(
            VitalRequest(
                method: .GET,
                path: [.fixed("v2"), .fixed("user"), .fixed("providers"), .value(userID, name: "user_id")]),
            answers: ProvidersAnswer.self
        ).providers.map(\.source)
    }

    /// Connects a source that needs no consent elsewhere (`POST /v2/link/provider/manual/{slug}`).
    ///
    /// - Returns: whether it is new; false where it was connected already (409).
    @discardableResult
    public func connectManualSource(_ provider: String, for userID: String) async throws -> Bool {
        do {
            try await call(
                VitalRequest(
                    method: .POST,
                    path: [
                        .fixed("v2"), .fixed("link"), .fixed("provider"), .fixed("manual"),
                        .value(provider, name: "provider"),
                    ],
                    body: .object(["user_id": .string(userID)])))
            return true
        } catch let error as VitalError where error.kind == .conflict {
            return false
        }
    }

    /// Disconnects a source (`DELETE /v2/user/{user_id}/{provider}`).
    ///
    /// - Returns: whether there was one; false for 404.
    @discardableResult
    public func deleteSource(_ provider: String, of userID: String) async throws -> Bool {
        do {
            try await call(
                VitalRequest(
                    method: .DELETE,
                    path: [
                        .fixed("v2"), .fixed("user"), .value(userID, name: "user_id"),
                        .value(provider, name: "provider"),
                    ]))
            return true
        } catch let error as VitalError where error.kind == .notFound {
            return false
        }
    }
}

private struct ProvidersAnswer: Decodable, Sendable {
    struct Provider: Decodable, Sendable {
        struct Details: Decodable, Sendable {
            var error_type: String?
            var error_message: String?
            var errored_at: String?
        }

        var slug: String
        var status: String?
        var created_on: String?
        var error_details: Details?

        var source: VitalSource {
            VitalSource(
                provider: slug, status: .init(status), connectedAt: created_on.flatMap { Instant(rfc3339: $0) },
                errorDetails: error_details.map {
                    .init(
                        type: $0.error_type ?? "unknown", message: $0.error_message ?? "",
                        erroredAt: $0.errored_at.flatMap { Instant(rfc3339: $0) })
                })
        }
    }

    var providers: [Provider]
}

extension AnswerReader {
    func sources(of answer: VitalAnswer) throws -> [VitalSource] {
        try decode(ProvidersAnswer.self, from: answer).providers.map(\.source)
    }
}
