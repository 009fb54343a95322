import Crypto
import CryptoExtras
import Foundation
import HealthReadings
import ReadingFormats

/// The private key with which a client proves to a token endpoint who it is (SMART Backend Services).
public struct FHIRClientKey: Sendable, CustomReflectable {
    /// Why a text is no such key. It never repeats the text.
    public struct Malformed: Error, Sendable, Hashable {
        /// Half a sentence that says what was expected and found.
        public var reason: String
    }

    private enum Key: Sendable {
        case elliptic(P384.Signing.PrivateKey)
        case rsa(_RSA.Signing.PrivateKey)
    }

    private let key: Key
    /// What the server calls the key, in the `kid` of each assertion; `nil`: nothing.
    public let id: String?

    /// Reads a key.
    ///
    /// - Parameters:
    ///   - pem: a PEM file of an EC key of the curve P-384 or of an RSA key of 2048 bits or more, without a passphrase.
    ///   - id: what the server calls the key; `nil`: the server knows one key alone.
    /// - Throws: ``Malformed``.
    public init(pem: String, id: String?) throws(Malformed) {
        self.id = id
        if let key = try? P384.Signing.PrivateKey(pemRepresentation: pem) {
            self.key = .elliptic(key)
        } else if let key = try? _RSA.Signing.PrivateKey(pemRepresentation: pem) {
            self.key = .rsa(key)
        } else {
            throw Malformed(
                reason: pem.contains("ENCRYPTED")
                    ? "expected a key without a passphrase, found an encrypted one"
                    : pem.contains("PRIVATE KEY")
                        ? "expected a P-384 key, or an RSA key of 2048 bits or more, found another private key"
                        : "expected a private key in PEM, found none")
        }
    }

    /// `ES384` or `RS384`.
    public var algorithm: String {
        switch key {
        case .elliptic: "ES384"
        case .rsa: "RS384"
        }
    }

    /// Shows the algorithm and the id alone.
    public var customMirror: Mirror { Mirror(self, children: ["algorithm": algorithm, "id": id as Any]) }

    /// How long an assertion holds. The profile allows five minutes; the rest is for clocks that differ.
    static let lifetime: Int64 = 240

    /// A signed statement of who asks (RFC 7523), that the endpoint takes once.
    func assertion(client: String, endpoint: String, at now: Instant) throws -> Masked {
        let header = JSONValue.object(
            [.init("alg", .string(algorithm)), .init("typ", "JWT")] + (id.map { [.init("kid", .string($0))] } ?? []))
        let claims = JSONValue.object([
            "iss": .string(client), "sub": .string(client), "aud": .string(endpoint),
            "exp": .integer(now.seconds + Self.lifetime), "jti": .string(UUID().uuidString),
        ])
        let text = [header, claims].map { Self.base64URL(Array($0.text.utf8)) }.joined(separator: ".")
        let digest = SHA384.hash(data: Array(text.utf8))
        let signature: [UInt8] =
            switch key {
            case .elliptic(let key): Array(try key.signature(for: digest).rawRepresentation)
            case .rsa(let key): Array(try key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
            }
        return Masked(text + "." + Self.base64URL(signature))
    }

    private static func base64URL(_ octets: [UInt8]) -> String {
        Data(octets).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
