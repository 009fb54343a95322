import Crypto
import Foundation
import HealthReadings

/// What signs a webhook's requests: one key, or two while the receiver changes from one to the other.
///
/// Keys are octets in base64 (Standard Webhooks 1.0), or words as Terra and ROOK give them.
public struct WebhookSecret: Sendable, Hashable, CustomReflectable {
    private struct Key: Sendable, Hashable {
        /// As the owner wrote it.
        let text: Masked
        /// Made ready once for all requests.
        let code: HMAC<SHA256>

        init(_ text: String, _ octets: Data) {
            self.text = Masked(text)
            code = HMAC(key: SymmetricKey(data: octets))
        }

        static func == (lhs: Key, rhs: Key) -> Bool { lhs.text == rhs.text }

        func hash(into hasher: inout Hasher) { hasher.combine(text) }
    }

    private let keys: [Key]

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
        var keys: [Key] = []
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
            keys.append(Key(base64, key))
        }
        self.keys = keys
    }

    /// Reads words whose octets are the key, each on a line of its own.
    ///
    /// - Parameters:
    ///   - text: the words.
    ///   - limit: how many there may be: 1 for ROOK, whose hash is of one key.
    /// - Throws: ``Malformed``, also for white space within a line: it may be part of a secret, or between two.
    public init(words text: some StringProtocol, atMost limit: Int) throws(Malformed) {
        let words = text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty }
        guard (1...max(1, limit)).contains(words.count) else {
            throw Malformed(
                reason: limit > 1
                    ? "expected one secret, or the new and the former one, found \(words.count)"
                    : "expected one secret, found \(words.count)")
        }
        guard !words.contains(where: { $0.contains(where: \.isWhitespace) }) else {
            throw Malformed(
                reason: limit > 1
                    ? "white space is in the middle of a line; write the new and the former secret on a line each"
                    : "white space is in the middle of it")
        }
        keys = words.map { Key($0, Data($0.utf8)) }
    }

    private static let prefix = "whsec_"

    /// What a server may echo.
    var secrets: [Masked] { keys.map(\.text) }

    /// The `webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over id, timestamp and body, for each key.
    ///
    /// - Parameters:
    ///   - id: the `webhook-id`; it has no dot.
    ///   - timestamp: the `webhook-timestamp`, seconds since 1970.
    ///   - body: the body as it is sent.
    public func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        codes(over: Array("\(id).\(timestamp).".utf8) + body).map { "v1," + $0.base64EncodedString() }
            .joined(separator: " ")
    }

    /// Terra's signature: `t=` and the time, and for each key `v1=` and the hex of HMAC-SHA256 over time and body.
    ///
    /// - Parameters:
    ///   - timestamp: seconds since 1970.
    ///   - body: the body as it is sent.
    public func terraSignature(timestamp: Int64, body: [UInt8]) -> String {
        let codes = codes(over: Array("\(timestamp).".utf8) + body).map { "v1=" + $0.hexadecimal() }
        return (["t=\(timestamp)"] + codes).joined(separator: ",")
    }

    /// ROOK's hash: the hex of HMAC-SHA256 over a text of the document. It says nothing of the rest of the body.
    public func rookHash(of text: String) -> String {
        codes(over: Array(text.utf8)).first?.hexadecimal() ?? ""
    }

    private func codes(over octets: [UInt8]) -> [Data] {
        keys.map { key in
            var code = key.code
            code.update(data: octets)
            return Data(code.finalize())
        }
    }

    /// Shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
