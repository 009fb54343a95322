import Crypto
import Foundation
import HealthReadings
import NIOSSL
import SwiftASN1
import X509

/// The certificate with which the gateway proves to its clients that it is the one they were paired with.
///
/// It is the gateway's own work: no authority vouches for it, so a client keeps its fingerprint from the pairing and
/// compares. ECDSA with P-256, for a year and a month.
public struct GatewayCertificate: Sendable {
    /// How long one is good.
    public static let lifetime: TimeInterval = 397 * 86_400
    /// How long before its end another takes its place.
    public static let renewal: TimeInterval = 30 * 86_400

    /// The certificate in DER.
    public let octets: [UInt8]
    /// When it begins to be good.
    public let notBefore: Date
    /// When it ends to be good.
    public let notAfter: Date
    /// Certificate and key as PEM documents, one after the other: a secret.
    let pem: String

    /// SHA-256 of the certificate in DER, as 64 hexadecimal digits in lower case: what clients pin.
    public var fingerprint: String { SHA256.hash(data: octets).hexadecimal() }
    /// When another takes its place.
    public var renewsAt: Date { notAfter - Self.renewal }

    /// Makes a certificate.
    ///
    /// - Parameters:
    ///   - names: the names the gateway is reached by; the first is its subject.
    ///   - now: it is good from a day before, for clients whose clock is behind.
    ///   - key: its key; a new one where nothing else is said.
    ///   - isAnchor: whether clients verify against it as their authority, in place of pinning its fingerprint.
    public init(
        names: [String], now: Date, key: P256.Signing.PrivateKey = P256.Signing.PrivateKey(), isAnchor: Bool = false
    ) throws {
        let subject = try DistinguishedName { CommonName(names.first ?? "healthrelay") }
        let loopback = [[127, 0, 0, 1], [UInt8](repeating: 0, count: 15) + [1]]
        let alternatives =
            (names + ["localhost"]).map(GeneralName.dnsName)
            + loopback.map { GeneralName.ipAddress(ASN1OctetString(contentBytes: $0[...])) }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.publicKey),
            notValidBefore: now - 86_400, notValidAfter: now + Self.lifetime, issuer: subject, subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                // A verifier accepts as an authority only what may sign certificates, be it only this one.
                Critical(
                    isAnchor ? .isCertificateAuthority(maxPathLength: 0) : BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true, keyCertSign: isAnchor))
                try ExtendedKeyUsage([.serverAuth])
                SubjectAlternativeNames(alternatives)
            }, issuerPrivateKey: .init(key))
        try self.init(certificate, pem: certificate.serializeAsPEM().pemString + "\n" + key.pemRepresentation + "\n")
    }

    /// Reads what ``pem`` gave.
    init(pem: String) throws {
        let documents = try PEMDocument.parseMultiple(pemString: pem)
        guard documents.count == 2 else { throw MalformedCertificateFile(found: documents.map(\.discriminator)) }
        try self.init(Certificate(pemDocument: documents[0]), pem: pem)
        _ = try context()
    }

    private init(_ certificate: Certificate, pem: String) throws {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        octets = serializer.serializedBytes
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        self.pem = pem
    }

    /// What a server that shows this certificate works with: TLS 1.3 alone.
    public func context() throws -> NIOSSLContext {
        let key = try NIOSSLPrivateKey(bytes: Array(pem.utf8), format: .pem)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(try NIOSSLCertificate(bytes: octets, format: .der))],
            privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv13
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }
}

/// A file that should hold a certificate and its key, and does not.
public struct MalformedCertificateFile: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kinds of its PEM documents.
    public var found: [String]

    /// One line for people.
    public var description: String {
        "expected a certificate and its key, found \(found.isEmpty ? "neither" : found.joined(separator: ", "))"
    }
}
