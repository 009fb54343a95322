import Crypto
import Foundation
import HealthReadings

/// One attempt to connect an account: the secrets that tie the browser's redirect, and the code in it, to who asked
/// (RFC 6749, 10.12; RFC 7636; RFC 8252).
public struct CloudAuthorization: Sendable {
    /// How the attempt ended, as the browser brings it.
    public enum End: Sendable, Hashable {
        /// The code to exchange.
        case code(CloudSecret)
        /// The wear service has exchanged the code itself; this is the account's id there.
        case user(String)
        /// The person or the vendor refused; the reason in their words, at most 300 characters, one line.
        case refused(String)
    }

    /// Why a redirect is not this attempt's end.
    public struct Refusal: Error, Sendable, Hashable, CustomStringConvertible {
        /// What was expected and what was found; no secret.
        public var description: String
    }

    /// 256 random bits that only this attempt's redirect has.
    public let state: String
    /// Where the browser is sent in the end: an address of this machine, whose port is known once somebody listens.
    public var redirectURI: String
    /// 256 random bits, of which the browser sees a hash only: without them the code is worth nothing.
    let verifier: CloudSecret

    /// Begins an attempt.
    ///
    /// - Parameter redirectURI: where the browser is sent, if that is known yet.
    public init(redirectURI: String = "") {
        state = Self.random()
        self.redirectURI = redirectURI
        verifier = CloudSecret(made: Self.random())
    }

    /// What the browser sees of the verifier: `S256` of RFC 7636, 4.2.
    var challenge: String { Self.base64URL(Array(SHA256.hash(data: Array(verifier.value.utf8)))) }

    /// Reads the query of a redirect.
    ///
    /// - Parameters:
    ///   - query: what follows the question mark, percent-encoded.
    ///   - service: who was asked. A wear service may come back without a state, since the redirect's address has it then;
    ///     with another state nobody may.
    /// - Returns: how the attempt ended.
    /// - Throws: ``Refusal``: whatever this is, it ends nothing.
    public func end(query: String, of service: CloudService) throws(Refusal) -> End {
        var fields: [String: String] = [:]
        for pair in query.split(separator: "&", maxSplits: 32) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = Self.decoded(parts[0])
            guard Self.known.contains(name), parts.count == 2 else { continue }
            // RFC 6749, 3.1: no parameter comes twice.
            guard fields.updateValue(Self.decoded(parts[1]), forKey: name) == nil else {
                throw Refusal(description: "the parameter \(name) comes twice")
            }
        }
        fields = fields.filter { !$0.value.isEmpty }
        switch fields["state"] {
        case state: break
        case nil where service.isWearService: break
        case nil: throw Refusal(description: "the parameter state is missing")
        default: throw Refusal(description: "the parameter state is another one than was sent")
        }
        let isRefused = fields["error"] != nil || fields["success"] == "false" || fields["status"] == "error"
        guard !isRefused else {
            let words = [fields["error"], fields["error_description"]].compactMap(\.self).joined(separator: ": ")
            return .refused(CloudText.oneLine(words) ?? "no reason was given")
        }
        if let code = fields["code"] {
            guard let code = CloudSecret(code) else { throw Refusal(description: "the code is none") }
            return .code(code)
        }
        if service.isWearService, let user = fields["user_id"],
            fields["success"] == "true" || fields["status"] == "success"
        {
            guard CloudAccount.isUser(user) else { throw Refusal(description: "the parameter user_id is no id") }
            return .user(user)
        }
        throw Refusal(description: "expected a code or an error, found neither")
    }

    private static let known: Set<String> = [
        "state", "code", "error", "error_description", "success", "status", "user_id",
    ]

    private static func decoded(_ text: Substring) -> String {
        let spaced = text.replacing("+", with: " ")
        return spaced.removingPercentEncoding ?? String(spaced)
    }

    private static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return base64URL((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// RFC 4648, 5, without padding.
    static func base64URL(_ octets: [UInt8]) -> String {
        Data(octets).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
