/// Why a request to the server did not do what was asked.
///
/// It names the request by its route, never by its user, and holds no key, token or body.
public struct VitalError: Error, Sendable, Hashable {
    /// What went wrong.
    public enum Kind: Sendable, Hashable {
        /// 401: the key or token is not accepted.
        case authenticationFailed
        /// The session has ended, or there is none: somebody has to sign in again with a new sign-in token.
        case tokenExpired
        /// 403: the key is known and may not do this.
        case forbidden
        /// 404: there is no such thing at the server.
        case notFound
        /// 400 or 422: the server rejected what was sent.
        case validationFailed
        /// 409: what was to be made exists already.
        case conflict
        /// 413: the body is larger than the server takes.
        case payloadTooLarge
        /// 429: too many requests.
        case rateLimitExceeded
        /// A post names a provider that is no connected source of its user.
        case sourceNotConnected
        /// Another status from 400 to 499.
        case refused
        /// A status from 500 to 599.
        case serverError
        /// The server sent the client elsewhere (300 to 399); that is not followed, since the key would go along.
        case redirected
        /// 408, or no answer in time.
        case timeout
        /// The server cannot be reached, or the connection broke before the answer was whole.
        case noConnection
        /// The server's certificate is not trusted, or TLS failed otherwise.
        case untrustedServer
        /// The answer is no JSON.
        case notJSON
        /// The answer is JSON and not what this route answers.
        case unexpectedAnswer
        /// The answer is larger than ``VitalAPI/Limits/responseBytes``.
        case answerTooLarge
        /// The server has nothing of what was asked for.
        case noWearableData
    }

    /// What went wrong.
    public var kind: Kind
    /// The route, with placeholders: `POST /v2/timeseries/{user_id}/glucose`.
    public var route: String
    /// The status, where an answer came.
    public var status: Int?
    /// The server's own words, or for an answer that is no JSON what was found; at most 300 characters, one line.
    ///
    /// They may repeat a value that was sent: keep them beside the reading, never in a log.
    public var serverSaid: String?
    /// The `error_type` the server named: `INVALID_REQUEST`, `SOURCE_NOT_CONNECTED`, …
    public var serverErrorType: String?
    /// How long the server asks to wait (`Retry-After`); at most a day.
    public var retryAfter: Duration?
    /// Whether every place a 422 names lies outside the samples: taking samples away then mends nothing.
    public var isAboutEnvelope = false
    /// Whether the refusal names a place in a sample: evidence that the server has looked at it.
    public var namesPlace = false
    /// Whether the server may not know the resource that the path names: 404, 405, or a 422 about the path.
    ///
    /// A 404 can also mean that the server does not know the user.
    public var isAboutResource = false

    /// Makes an error.
    public init(
        _ kind: Kind, route: String, status: Int? = nil, serverSaid: String? = nil, serverErrorType: String? = nil,
        retryAfter: Duration? = nil
    ) {
        self.kind = kind
        self.route = route
        self.status = status
        self.serverSaid = serverSaid
        self.serverErrorType = serverErrorType
        self.retryAfter = retryAfter
    }

    /// The error's published name.
    public var code: String {
        switch kind {
        case .authenticationFailed: "authentication_failed"
        case .tokenExpired: "token_expired"
        case .forbidden: "forbidden"
        case .notFound: "not_found"
        case .validationFailed: "validation_failed"
        case .conflict: "conflict"
        case .payloadTooLarge: "payload_too_large"
        case .rateLimitExceeded: "rate_limit_exceeded"
        case .sourceNotConnected: "source_not_connected"
        case .refused: "refused"
        case .serverError: "server_error"
        case .redirected: "redirected"
        case .timeout: "timeout"
        case .noConnection: "no_connection"
        case .untrustedServer: "untrusted_server"
        case .notJSON: "not_json"
        case .unexpectedAnswer: "unexpected_answer"
        case .answerTooLarge: "answer_too_large"
        case .noWearableData: "no_wearable_data"
        }
    }

    /// The name that other clients of such services know the error by, as an enumeration's case: `tokenExpired`,
    /// `rateLimitExceeded`, `noWearableData`; a source that is not connected is `notConnected` there.
    public var name: String { kind == .sourceNotConnected ? "notConnected" : "\(kind)" }

    /// Whether the same request may succeed later without anyone doing anything.
    ///
    /// An answer that is no JSON counts: it is a proxy or a captive portal more often than the server.
    public var isRetryable: Bool {
        switch kind {
        case .rateLimitExceeded, .serverError, .timeout, .noConnection, .untrustedServer, .notJSON, .unexpectedAnswer,
            .answerTooLarge, .redirected:
            true
        case .authenticationFailed, .tokenExpired, .noWearableData, .forbidden, .notFound, .validationFailed, .conflict,
            .payloadTooLarge,
            .sourceNotConnected, .refused:
            false
        }
    }

    private var meaning: String {
        switch kind {
        case .authenticationFailed: "the server does not accept the key"
        case .tokenExpired: "the session has ended: sign in again with a new sign-in token"
        case .forbidden: "the key does not permit this"
        case .notFound: "the server does not know this"
        case .validationFailed: "the server rejected what was sent"
        case .conflict: "it already exists"
        case .payloadTooLarge: "the body is too large for the server"
        case .rateLimitExceeded: "too many requests"
        case .sourceNotConnected: "the provider is not a connected source of this user"
        case .refused: "the server refuses the request"
        case .serverError: "the server failed"
        case .redirected: "the server redirects to another address; redirects are not followed"
        case .timeout: "no answer in time"
        case .noConnection: "the server cannot be reached"
        case .untrustedServer: "the server's certificate is not trusted, or the server does not support TLS 1.2"
        case .notJSON: "the answer is not JSON"
        case .unexpectedAnswer: "the answer does not fit the request"
        case .answerTooLarge: "the answer is too large"
        case .noWearableData: "the server has no such data"
        }
    }

    /// What happened without the server's words: fit for a log.
    public var summary: String { "\(route): \(meaning)" + (status.map { " (status \($0))" } ?? "") }
}

extension VitalError: CustomStringConvertible {
    /// One line for people, with the server's words.
    public var description: String { summary + (serverSaid.map { ": \($0)" } ?? "") }
}
