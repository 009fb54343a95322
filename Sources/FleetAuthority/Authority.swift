import Crypto
import Foundation
import HealthReadings
import SwiftASN1
import X509

/// The fleet's certificate authority: a key on P-256 and a certificate, in a directory of their own.
///
/// The key never leaves the directory, and only this type signs with it.
package struct Authority: Sendable {
    package static let keyFile = "ca.key"
    package static let certificateFile = "ca.pem"
    /// How long the authority's certificate is good: ten years.
    static let lifetime: Int64 = 3652 * 86_400
    /// By how much certificates begin before they are made, for gateways whose clock is behind.
    package static let backdating: Int64 = 300
    /// How long a certificate of a server of the fleet is good: as long as browsers and their like take one.
    package static let serverLifetime: Int64 = 397 * 86_400

    /// How long a certificate that it gives out may be good (`ca.certificate_days`).
    static let longestLifetime: Int64 = 397 * 86_400

    package let certificate: Certificate
    private let key: P256.Signing.PrivateKey

    /// Makes an authority.
    ///
    /// If a former attempt was stopped after the key was written, the certificate is made for that key.
    ///
    /// - Throws: ``AuthorityError/present(directory:)``, ``AuthorityError/unusableFile(path:reason:)``
    package static func make(in directory: String, at now: Instant) throws(AuthorityError) -> Authority {
        let (keyPath, path) = (directory + "/" + keyFile, directory + "/" + certificateFile)
        guard !isThere(path) else { throw .present(directory: directory) }
        let key: P256.Signing.PrivateKey
        if isThere(keyPath) {
            key = try readKey(keyPath)
        } else {
            key = P256.Signing.PrivateKey()
            try write(key.pemRepresentation + "\n", to: keyPath)
        }
        do {
            let certificate = try selfSigned(key, at: now)
            try write(try certificate.pem, to: path)
            return Authority(certificate: certificate, key: key)
        } catch let error as AuthorityError {
            throw error
        } catch {
            throw .unusableFile(path: path, reason: "\(error)")
        }
    }

    /// Reads an authority.
    ///
    /// - Throws: ``AuthorityError/absent(directory:)``, ``AuthorityError/unusableFile(path:reason:)``
    package init(in directory: String) throws(AuthorityError) {
        let (keyPath, path) = (directory + "/" + Self.keyFile, directory + "/" + Self.certificateFile)
        guard Self.isThere(path) else { throw .absent(directory: directory) }
        guard let octets = PrivateFile.read(path, upTo: 65_536),
            let certificate = try? Certificate(pemEncoded: String(decoding: octets, as: UTF8.self))
        else { throw .unusableFile(path: path, reason: "expected a certificate in PEM") }
        let key = try Self.readKey(keyPath)
        guard certificate.publicKey == .init(key.publicKey) else {
            throw .unusableFile(path: path, reason: "it is not the certificate of the key in \(Self.keyFile)")
        }
        self.init(certificate: certificate, key: key)
    }

    private init(certificate: Certificate, key: P256.Signing.PrivateKey) {
        (self.certificate, self.key) = (certificate, key)
    }

    /// The certificate in PEM.
    package var pem: String { (try? certificate.pem) ?? "" }

    /// SHA-256 of the certificate in DER.
    package var fingerprint: String { certificate.fingerprint }

    /// When the certificate ends.
    package var validUntil: Instant { certificate.notValidAfter.moment }

    // MARK: Certificates

    /// Signs a gateway's certificate: good for a TLS client, for nothing else.
    func certificate(for gateway: String, _ key: KeyRequest, days: Int, at now: Instant) throws -> Certificate {
        try requireValid(at: now)
        return try sign(
            name: gateway, key: key.key, lifetime: Int64(days) * 86_400, at: now, purposes: [.clientAuth], names: [])
    }

    /// Signs a certificate for a server of the fleet.
    ///
    /// - Parameters:
    ///   - names: host names and IP addresses; the first is its subject.
    ///   - isClient: whether it is good for a client too, as a collector is at its broker.
    package func serverCertificate(
        names: [String], _ key: Certificate.PublicKey, isClient: Bool = false, at now: Instant
    ) throws -> Certificate {
        try requireValid(at: now)
        return try sign(
            name: names.first ?? "localhost", key: key, lifetime: Self.serverLifetime, at: now,
            purposes: isClient ? [.serverAuth, .clientAuth] : [.serverAuth], names: names)
    }

    /// Signs octets, for the revocation list.
    func signature(of octets: [UInt8]) throws -> [UInt8] {
        Array(try key.signature(for: octets).derRepresentation)
    }

    /// A certificate that begins in the future, or outlives its issuer, is of no use to anybody.
    func requireValid(at now: Instant) throws(AuthorityError) {
        let (from, until) = (certificate.notValidBefore.moment, certificate.notValidAfter.moment)
        guard from <= now, now < until else { throw .authorityNotValid(from: from, until: until) }
    }

    private func sign(
        name: String, key subject: Certificate.PublicKey, lifetime: Int64, at now: Instant,
        purposes: [ExtendedKeyUsage.Usage], names: [String]
    ) throws -> Certificate {
        let authorityKey = Certificate.PublicKey(key.publicKey)
        let end = min(now.advanced(bySeconds: lifetime).flooredToSecond.date, certificate.notValidAfter)
        return try Certificate(
            version: .v3, serialNumber: .init(), publicKey: subject,
            notValidBefore: max(
                now.advanced(bySeconds: -Self.backdating).flooredToSecond.date, certificate.notValidBefore),
            notValidAfter: end, issuer: certificate.subject, subject: try DistinguishedName { CommonName(name) },
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage(purposes)
                SubjectKeyIdentifier(hash: subject)
                AuthorityKeyIdentifier(keyIdentifier: SubjectKeyIdentifier(hash: authorityKey).keyIdentifier)
                if !names.isEmpty { SubjectAlternativeNames(names.map(Self.generalName)) }
            }, issuerPrivateKey: .init(key))
    }

    private static func generalName(_ name: String) -> GeneralName {
        var (four, six) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, name, &four) == 1 {
            return .ipAddress(ASN1OctetString(contentBytes: withUnsafeBytes(of: &four) { Array($0)[...] }))
        }
        if inet_pton(AF_INET6, name, &six) == 1 {
            return .ipAddress(ASN1OctetString(contentBytes: withUnsafeBytes(of: &six) { Array($0)[...] }))
        }
        return .dnsName(name)
    }

    private static func selfSigned(_ key: P256.Signing.PrivateKey, at now: Instant) throws -> Certificate {
        let subjectKey = Certificate.PublicKey(key.publicKey)
        let identifier = SubjectKeyIdentifier(hash: subjectKey)
        // Two authorities of one fleet, the old and the new, are told apart by their names too.
        let mark = Array(identifier.keyIdentifier.prefix(4)).hexadecimal()
        let name = try DistinguishedName { CommonName("HealthRelay fleet authority \(mark)") }
        return try Certificate(
            version: .v3, serialNumber: .init(), publicKey: subjectKey,
            notValidBefore: now.advanced(bySeconds: -backdating).flooredToSecond.date,
            notValidAfter: now.advanced(bySeconds: lifetime).flooredToSecond.date, issuer: name, subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                Critical(KeyUsage(keyCertSign: true, cRLSign: true))
                identifier
            }, issuerPrivateKey: .init(key))
    }

    // MARK: Files

    private static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

    private static func readKey(_ path: String) throws(AuthorityError) -> P256.Signing.PrivateKey {
        guard !isOpenToOthers(fileAt: path) else {
            throw .unusableFile(path: path, reason: "others may read it; give it mode 0600")
        }
        guard let octets = PrivateFile.read(path, upTo: 4096) else {
            throw .unusableFile(path: path, reason: "it can't be read")
        }
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: String(decoding: octets, as: UTF8.self)) else {
            throw .unusableFile(path: path, reason: "expected a private key on P-256 in PEM")
        }
        return key
    }

    private static func write(_ text: String, to path: String) throws(AuthorityError) {
        do { try PrivateFile.write(Array(text.utf8), to: path) } catch {
            throw .unusableFile(path: path, reason: error.reason)
        }
    }
}

extension Certificate {
    /// SHA-256 of the certificate in DER, as 64 hexadecimal digits.
    package var fingerprint: String {
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(self)) != nil else { return "" }
        return SHA256.hash(data: serializer.serializedBytes).hexadecimal()
    }
}

extension Instant {
    var date: Date { Date(timeIntervalSince1970: TimeInterval(seconds)) }
}

extension Date {
    /// The same moment, to the second.
    var moment: Instant { Instant(seconds: Int64(timeIntervalSince1970.rounded(.down))) }
}
