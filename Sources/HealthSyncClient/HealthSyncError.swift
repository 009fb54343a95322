import HealthReadings

/// Why a phone did not do what was asked.
///
/// It holds no token, no pairing code and no sample.
public struct HealthSyncError: Error, Sendable, Hashable {
    /// What went wrong.
    public enum Kind: Sendable, Hashable {
        /// 401: the token has expired, or the phone's owner has revoked it.
        case tokenExpired
        /// 403: a type that was asked for is not shared.
        case typeNotEnabled
        /// The phone refused the pairing code.
        case pairingRefused
        /// 423: health data cannot be read while the phone is locked.
        case locked
        /// The person has not permitted the app to read the data.
        case noPermission
        /// The phone says that it failed.
        case phoneFailed
        /// 413: the phone takes no request of this size.
        case payloadTooLarge
        /// 429: more requests than the phone allows.
        case rateLimitExceeded
        /// A status from 500 to 599.
        case serverError
        /// Another status that is not expected.
        case refused
        /// The phone sent the client elsewhere; that is not followed, since the token would go along.
        case redirected
        /// No answer in time.
        case timeout
        /// The phone cannot be reached.
        case noConnection
        /// The connection broke before the answer was whole.
        case connectionLost
        /// The server has another certificate than the one that was paired: nothing was sent.
        case wrongCertificate
        /// TLS failed otherwise: nothing was sent.
        case tlsFailed
        /// The answer is no JSON.
        case notJSON
        /// The answer is JSON and not what this route answers.
        case unexpectedAnswer
        /// The answer is larger than ``HealthSyncLimits/responseBytes``.
        case answerTooLarge
        /// A page brings nothing that was not there before, and the phone says that there is more.
        case pagesDoNotAdvance
        /// A page's samples are not newest first.
        case pagesOutOfOrder
        /// A sample lies outside the time that was asked for.
        case sampleOutOfRange
    }

    /// What went wrong.
    public var kind: Kind
    /// The route: `POST /api/v1/health/data`.
    public var route: String
    /// The status, if there was an answer.
    public var status: Int?
    /// What was found, or the phone's own words; at most 300 characters, one line.
    public var detail: String?
    /// How long the phone asks to wait; at most a day.
    public var retryAfter: Duration?

    /// Makes an error.
    public init(
        _ kind: Kind, route: String, status: Int? = nil, detail: String? = nil, retryAfter: Duration? = nil
    ) {
        self.kind = kind
        self.route = route
        self.status = status
        self.detail = detail
        self.retryAfter = retryAfter
    }

    /// The error's published name.
    public var code: String {
        switch kind {
        case .tokenExpired: "token_expired"
        case .typeNotEnabled: "type_not_enabled"
        case .pairingRefused: "pairing_refused"
        case .locked: "phone_locked"
        case .noPermission: "no_permission"
        case .phoneFailed: "phone_failed"
        case .payloadTooLarge: "payload_too_large"
        case .rateLimitExceeded: "rate_limit_exceeded"
        case .serverError: "server_error"
        case .refused: "refused"
        case .redirected: "redirected"
        case .timeout: "timeout"
        case .noConnection: "no_connection"
        case .connectionLost: "connection_lost"
        case .wrongCertificate: "wrong_certificate"
        case .tlsFailed: "untrusted_server"
        case .notJSON: "not_json"
        case .unexpectedAnswer: "unexpected_answer"
        case .answerTooLarge: "answer_too_large"
        case .pagesDoNotAdvance: "pages_do_not_advance"
        case .pagesOutOfOrder: "pages_out_of_order"
        case .sampleOutOfRange: "sample_out_of_range"
        }
    }

    /// Whether the same request may succeed a moment later.
    var isPassing: Bool {
        switch kind {
        case .timeout, .connectionLost, .serverError: true
        default: false
        }
    }
}

extension HealthSyncError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        let what =
            switch kind {
            case .tokenExpired: "the phone no longer accepts this gateway's token"
            case .typeNotEnabled: "the phone does not share a type that was asked for"
            case .pairingRefused: "the phone refused to pair"
            case .locked: "the phone is locked: health data cannot be read"
            case .noPermission: "the app may not read the health data"
            case .phoneFailed: "the phone could not read the health data"
            case .payloadTooLarge: "the request is larger than the phone takes"
            case .rateLimitExceeded: "the phone allows no more requests now"
            case .serverError: "the phone failed"
            case .refused: "the phone refused the request"
            case .redirected: "the server sent the request elsewhere, which is not followed"
            case .timeout: "no answer in time"
            case .noConnection: "the phone cannot be reached"
            case .connectionLost: "the connection broke before the answer was whole"
            case .wrongCertificate: "the server is not the phone that was paired; nothing was sent"
            case .tlsFailed: "no TLS 1.3 connection came about; nothing was sent"
            case .notJSON: "the answer is no JSON"
            case .unexpectedAnswer: "the answer is not what was expected"
            case .answerTooLarge: "the answer is too large"
            case .pagesDoNotAdvance: "the phone says that there is more, and sends nothing new"
            case .pagesOutOfOrder: "samples are not newest first, so that nobody can tell whether all came"
            case .sampleOutOfRange: "a sample lies outside the time that was asked for"
            }
        return "\(route): \(what)" + (status.map { " (\($0))" } ?? "") + (detail.map { ": \($0)" } ?? "")
    }
}
