import Crypto
import Foundation
import NIOSSL

/// A certificate as the iOS Health Sync App makes it: self-signed, X.509 version 3 without any extension, named "HealthSync
/// Local", P-256, and with a NULL behind its signature algorithm, which RFC 5758 forbids and strict readers refuse.
package struct PhoneCertificate: Sendable {
    /// The certificate.
    package let der: [UInt8]
    let key: P256.Signing.PrivateKey

    /// Makes one.
    ///
    /// - Parameter notAfter: when it expires; in the past: it has.
    package init(notAfter: Date = Date().addingTimeInterval(365 * 86_400)) throws {
        let key = P256.Signing.PrivateKey()
        let algorithm = DER.sequence(DER.identifier([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02]) + DER.null)
        let name = DER.sequence(
            DER.tagged(
                0x31,
                DER.sequence(DER.identifier([0x55, 0x04, 0x03]) + DER.tagged(0x0C, Array("HealthSync Local".utf8)))))
        let publicKey = DER.sequence(
            DER.sequence(
                DER.identifier([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01])
                    + DER.identifier([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]))
                + DER.bits(Array(key.publicKey.x963Representation)))
        let serial = DER.tagged(0x02, [0x2A] + (0..<7).map { _ in UInt8.random(in: 0...255) })
        let toBeSigned = DER.sequence(
            DER.tagged(0xA0, DER.tagged(0x02, [2])) + serial + algorithm + name
                + DER.sequence(DER.time(notAfter.addingTimeInterval(-366 * 86_400)) + DER.time(notAfter)) + name
                + publicKey)
        let signature = try key.signature(for: toBeSigned)
        der = DER.sequence(toBeSigned + algorithm + DER.bits(Array(signature.derRepresentation)))
        self.key = key
    }

    /// The SHA-256 of the certificate, as the app writes it.
    package var fingerprint: String {
        SHA256.hash(data: der).map { String(format: "%02x", $0) }.joined()
    }

    func context(speaksOldTLS: Bool) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(try NIOSSLCertificate(bytes: der, format: .der))],
            privateKey: .privateKey(
                try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
        configuration.minimumTLSVersion = speaksOldTLS ? .tlsv12 : .tlsv13
        configuration.maximumTLSVersion = speaksOldTLS ? .tlsv12 : .tlsv13
        return try NIOSSLContext(configuration: configuration)
    }
}

/// The few elements of DER that a certificate is made of.
private enum DER {
    static let null: [UInt8] = [0x05, 0x00]

    static func tagged(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            count < 128
            ? [UInt8(count)] : count < 256 ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 255)]
        return [tag] + length + content
    }

    static func sequence(_ content: [UInt8]) -> [UInt8] { tagged(0x30, content) }
    static func identifier(_ content: [UInt8]) -> [UInt8] { tagged(0x06, content) }
    static func bits(_ content: [UInt8]) -> [UInt8] { tagged(0x03, [0] + content) }

    static func time(_ date: Date) -> [UInt8] {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "UTC")
        formatter.dateFormat = "yyMMddHHmmss'Z'"
        return tagged(0x17, Array(formatter.string(from: date).utf8))
    }
}
