import Crypto
import Foundation
import HealthReadings

/// The centre's public key, which batches are sealed to: X25519.
///
/// `openssl pkey -in centre.key -pubout -out centre.pub` writes it.
public struct SealingKey: Sendable, Hashable {
    let key: Curve25519.KeyAgreement.PublicKey

    /// The first 16 hexadecimal digits of the SHA-256 of the key: which key a batch is sealed to.
    public var fingerprint: String { String(SHA256.hash(data: key.rawRepresentation).hexadecimal().prefix(16)) }

    init(key: Curve25519.KeyAgreement.PublicKey) { self.key = key }

    /// Reads a PEM document with a public key (RFC 8410).
    ///
    /// - Throws: ``FleetDocumentError/badKey(expected:found:)``
    public init(pem: String) throws(FleetDocumentError) {
        let octets = try KeyFile.octets(of: pem, label: "PUBLIC KEY", prefix: KeyFile.publicPrefix)
        do {
            key = try Curve25519.KeyAgreement.PublicKey(rawRepresentation: octets)
        } catch {
            throw KeyFile.bad("PUBLIC KEY", "another key")
        }
    }

    /// The PEM document.
    public var pem: String {
        KeyFile.pem(label: "PUBLIC KEY", KeyFile.publicPrefix + Array(key.rawRepresentation))
    }

    /// Whether both are the same key.
    public static func == (lhs: SealingKey, rhs: SealingKey) -> Bool {
        lhs.key.rawRepresentation == rhs.key.rawRepresentation
    }

    /// Hashes the key.
    public func hash(into hasher: inout Hasher) { hasher.combine(key.rawRepresentation) }
}

/// The centre's private key, which opens batches: X25519.
///
/// `openssl genpkey -algorithm X25519 -out centre.key` makes one.
public struct OpeningKey: Sendable {
    let key: Curve25519.KeyAgreement.PrivateKey

    /// Makes a new key.
    public init() { key = Curve25519.KeyAgreement.PrivateKey() }

    /// Reads a PEM document with a private key (PKCS #8, RFC 8410) without a passphrase.
    ///
    /// - Throws: ``FleetDocumentError/badKey(expected:found:)``
    public init(pem: String) throws(FleetDocumentError) {
        let octets = try KeyFile.octets(of: pem, label: "PRIVATE KEY", prefix: KeyFile.privatePrefix)
        do {
            key = try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: octets)
        } catch {
            throw KeyFile.bad("PRIVATE KEY", "another key")
        }
    }

    /// The PEM document.
    public var pem: String {
        KeyFile.pem(label: "PRIVATE KEY", KeyFile.privatePrefix + Array(key.rawRepresentation))
    }

    /// The key that batches are sealed to.
    public var sealingKey: SealingKey { SealingKey(key: key.publicKey) }
}

/// The files of X25519 keys as OpenSSL writes them. The DER in front of the 32 octets of a key is always the same.
private enum KeyFile {
    static let publicPrefix: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x6E, 0x03, 0x21, 0x00]
    static let privatePrefix: [UInt8] = [
        0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x6E, 0x04, 0x22, 0x04, 0x20,
    ]

    static func bad(_ label: String, _ found: String) -> FleetDocumentError {
        .badKey(expected: "a PEM file with an X25519 \(label.lowercased())", found: found)
    }

    static func octets(of pem: String, label: String, prefix: [UInt8]) throws(FleetDocumentError) -> [UInt8] {
        guard pem.utf8.count <= 4096 else { throw bad(label, "\(pem.utf8.count) bytes") }
        let lines = pem.split(whereSeparator: \.isNewline).map { $0.drop { $0 == " " } }
        guard let first = lines.first(where: { $0.hasPrefix("-----BEGIN ") }) else {
            throw bad(label, pem.isEmpty ? "an empty file" : "no line with BEGIN")
        }
        guard first.hasPrefix("-----BEGIN \(label)-----") else {
            throw bad(label, first.contains("PRIVATE") ? "a file with a private key of another form" : "another file")
        }
        let body = lines.drop { $0 != first }.dropFirst().prefix { !$0.hasPrefix("-----END ") }
        guard let data = Data(base64Encoded: body.joined()) else { throw bad(label, "no base64") }
        let octets = [UInt8](data)
        guard octets.starts(with: prefix), octets.count == prefix.count + 32 else {
            throw bad(label, "a key of another algorithm")
        }
        return Array(octets.dropFirst(prefix.count))
    }

    static func pem(label: String, _ octets: [UInt8]) -> String {
        "-----BEGIN \(label)-----\n\(Data(octets).base64EncodedString())\n-----END \(label)-----\n"
    }
}
