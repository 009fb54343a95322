import Crypto
import Foundation
import NIOSSL
import SwiftASN1
import X509

/// A certificate authority of a test.
struct TestAuthority {
    private let key = P256.Signing.PrivateKey()
    private let name: DistinguishedName
    /// The PEM file of its own certificate.
    let path: String

    init(in folder: String) throws {
        name = try DistinguishedName { CommonName("authority") }
        path = folder + "/authority-\(UUID().uuidString).pem"
        let own = try certificate(
            name, key,
            Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            })
        try own.write(toFile: path, atomically: true, encoding: .utf8)
    }

    /// What a server of these names and addresses speaks TLS with, and what it speaks over TLS.
    func context(
        names: [String] = [], addresses: [[UInt8]] = [[127, 0, 0, 1]], protocols: [String] = []
    ) throws -> NIOSSLContext {
        let key = P256.Signing.PrivateKey()
        let alternatives =
            names.map { GeneralName.dnsName($0) }
            + addresses.map { GeneralName.ipAddress(ASN1OctetString(contentBytes: $0[...])) }
        let certificate = try certificate(
            DistinguishedName { CommonName("server") }, key,
            Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                SubjectAlternativeNames(alternatives)
            })
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(try NIOSSLCertificate(bytes: Array(certificate.utf8), format: .pem))],
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
        configuration.applicationProtocols = protocols
        return try NIOSSLContext(configuration: configuration)
    }

    private func certificate(
        _ subject: DistinguishedName, _ key: P256.Signing.PrivateKey, _ extensions: Certificate.Extensions
    ) throws -> String {
        try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.publicKey),
            notValidBefore: Date() - 86_400, notValidAfter: Date() + 86_400, issuer: name, subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions, issuerPrivateKey: .init(self.key)
        ).serializeAsPEM().pemString
    }
}
