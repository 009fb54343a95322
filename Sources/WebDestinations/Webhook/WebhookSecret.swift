import Crypto
import Foundation

/// What signs a webhook's requests (Standard Webhooks 1.0): one key, or two while the receiver changes from one to the other.
public struct WebhookSecret: Sendable, Hashable, CustomReflectable {
    private let keys: [Masked]

    /// Why a text is no secret, without repeating it.
    public struct Malformed: Error, Sendable, Hashable, CustomStringConvertible {
        /// What was expected.
        public var reason: String
        /// One line for people.
        public var description: String { "not a webhook secret: \(reason)" }
    }

    /// Reads secrets: `whsec_` and the base64 of 24 to 64 octets each, with white space between two.
    ///
    /// - Throws: ``Malformed``.
    public init(_ text: some StringProtocol) throws(Malformed) {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard (1...2).contains(words.count) else {
            throw Malformed(reason: "expected one secret, or the new and the former one, found \(words.count)")
        }
        var keys: [Masked] = []
        for word in words {
            guard word.hasPrefix(Self.prefix) else {
                throw Malformed(reason: "expected it to begin with \(Self.prefix)")
            }
            let base64 = String(word.dropFirst(Self.prefix.count))
            guard let key = Data(base64Encoded: base64) else {
                throw Malformed(reason: "expected base64 behind \(Self.prefix)")
            }
            guard (24...64).contains(key.count) else {
                throw Malformed(reason: "expected 24 to 64 octets, found \(key.count)")
            }
            keys.append(Masked(base64))
        }
        self.keys = keys
    }

    private static let prefix = "whsec_"

    /// What a server may echo.
    var secrets: [Masked] { keys }

    /// The `webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over id, timestamp and body, for each key.
    ///
    /// - Parameters:
    ///   - id: the `webhook-id`; it has no dot.
    ///   - timestamp: the `webhook-timestamp`, seconds since 1970.
    ///   - body: the body as it is sent.
    public func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        keys.compactMap { key in
            guard let octets = Data(base64Encoded: key.value) else { return nil }
            var code = HMAC<SHA256>(key: SymmetricKey(data: octets))
            code.update(data: Data("\(id).\(timestamp).".utf8))
            code.update(data: body)
            return "v1," + Data(code.finalize()).base64EncodedString()
        }.joined(separator: " ")
    }

    /// Shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
