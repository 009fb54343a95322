import HealthReadings

/// Why a cloud did not do what was asked. It holds no token, no code and no value that was measured.
public struct CloudError: Error, Sendable, Hashable {
    /// What went wrong.
    public enum Kind: Sendable, Hashable {
        /// The account is no longer connected there: its tokens were revoked or have expired, and can't be renewed.
        case tokenExpired
        /// The person, the vendor or the service refused to connect the account, or the key of the app is wrong.
        case authenticationFailed
        /// A record is another account's than those that were fetched before for this person.
        case otherAccount
        /// 403: the app may not have this.
        case forbidden
        /// 429: more requests than the service allows.
        case rateLimitExceeded
        /// The service can't be reached: it was asked nothing.
        case noConnection
        /// No answer in time.
        case timeout
        /// The connection broke before the answer was whole.
        case connectionLost
        /// A status from 500 to 599.
        case serverError
        /// The certificate is not trusted, or TLS failed otherwise.
        case untrustedServer
        /// 404 or 501: the service has no such collection. A wear service answers so for what Garmin sends to webhooks only.
        case notSupported
        /// Another status that is not expected.
        case refused
        /// The service sent the request elsewhere; that is not followed, since tokens would go along.
        case redirected
        /// The answer is no JSON.
        case notJSON
        /// The answer is JSON and not what this route answers.
        case unexpectedAnswer
        /// The answer is larger than ``CloudClient/longestAnswer``.
        case answerTooLarge
        /// A page has the cursor of an earlier one, or many in a row have nothing that was not there before: following them may never
        /// end.
        case pagesDoNotAdvance
    }

    /// What went wrong.
    public var kind: Kind
    /// The route: `GET whoop/recovery`.
    public var route: String
    /// The status, if there was an answer.
    public var status: Int?
    /// What was found, or the service's own words; at most 300 characters, one line.
    public var detail: String?
    /// How long the service asks to wait; at most a day.
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
        case .authenticationFailed: "authentication_failed"
        case .otherAccount: "other_account"
        case .forbidden: "forbidden"
        case .rateLimitExceeded: "rate_limit_exceeded"
        case .noConnection: "no_connection"
        case .timeout: "timeout"
        case .connectionLost: "connection_lost"
        case .serverError: "server_error"
        case .untrustedServer: "untrusted_server"
        case .notSupported: "not_supported"
        case .refused: "refused"
        case .redirected: "redirected"
        case .notJSON: "not_json"
        case .unexpectedAnswer: "unexpected_answer"
        case .answerTooLarge: "answer_too_large"
        case .pagesDoNotAdvance: "pages_do_not_advance"
        }
    }

    /// The name that Synheart's SDK has for it; `nil` if it has none.
    public var name: String? {
        switch kind {
        case .tokenExpired: "tokenExpired"
        case .authenticationFailed, .otherAccount, .forbidden: "authenticationFailed"
        case .rateLimitExceeded: "rateLimitExceeded"
        case .noConnection, .connectionLost, .untrustedServer: "noConnection"
        case .timeout: "timeout"
        case .serverError: "serverError"
        case .notJSON, .unexpectedAnswer, .answerTooLarge, .pagesDoNotAdvance: "invalidResponse"
        case .notSupported, .refused, .redirected: "apiError"
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

extension CloudError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        let what =
            switch kind {
            case .tokenExpired: "the account is no longer connected"
            case .authenticationFailed: "the account was not connected"
            case .otherAccount: "the records are another account's than before"
            case .forbidden: "the app may not have this"
            case .rateLimitExceeded: "the service allows no more requests now"
            case .noConnection: "the service can't be reached"
            case .timeout: "no answer in time"
            case .connectionLost: "the connection broke before the answer was whole"
            case .serverError: "the service failed"
            case .untrustedServer: "the service's certificate is not trusted"
            case .notSupported: "the service doesn't have this"
            case .refused: "the service refused the request"
            case .redirected: "the service sent the request elsewhere, which is not followed"
            case .notJSON: "the answer is no JSON"
            case .unexpectedAnswer: "the answer is not what was expected"
            case .answerTooLarge: "the answer is too large"
            case .pagesDoNotAdvance: "the pages go round in a circle, so that nobody can tell whether all came"
            }
        return "\(route): \(what)" + (status.map { " (\($0))" } ?? "") + (detail.map { ": \($0)" } ?? "")
    }
}
