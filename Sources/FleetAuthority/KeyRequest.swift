import Crypto
import HealthReadings
import SwiftASN1
import X509

/// A public key that somebody has asked a certificate for, and proven to hold.
///
/// Of a certification request (PKCS #10) nothing else is taken: neither the name nor an extension.
package struct KeyRequest: Sendable {
    package let key: Certificate.PublicKey

    /// SHA-256 of the key, by which it is told from others.
    package var digest: String { SHA256.hash(data: key.subjectPublicKeyInfoBytes).hexadecimal() }

    /// Reads a request.
    ///
    /// - Throws: ``AuthorityError``
    package init(pem: String) throws(AuthorityError) {
        let expected = "a certification request (PKCS #10) in PEM"
        let request: CertificateSigningRequest
        let document: PEMDocument
        do { document = try PEMDocument(pemString: pem) } catch {
            throw .badRequest(expected: expected, found: "no PEM document")
        }
        guard document.discriminator == CertificateSigningRequest.defaultPEMDiscriminator else {
            throw .badRequest(expected: expected, found: "another PEM document")
        }
        do { request = try CertificateSigningRequest(derEncoded: document.derBytes) } catch {
            // A key on another curve doesn't even parse.
            if let found = Self.kind(in: document.derBytes) { throw .keyUnsupported(found: found) }
            throw .badRequest(expected: expected, found: "other content under that name")
        }
        key = request.publicKey
        guard P256.Signing.PublicKey(key) != nil || Curve25519.Signing.PublicKey(key) != nil else {
            throw .keyUnsupported(found: Self.kind(in: document.derBytes) ?? "another kind")
        }
        guard key.isValidSignature(request.signature, for: request) else { throw .notProven }
    }

    /// What kind of key a request has, by its algorithm; `nil` if the request can't be read so far.
    private static func kind(in octets: [UInt8]) -> String? {
        guard let root = try? DER.parse(octets), let info = root.parts.first, info.parts.count > 2,
            let algorithm = info.parts[2].parts.first?.parts,
            let name = algorithm.first.flatMap({ try? ASN1ObjectIdentifier(derEncoded: $0) })
        else { return nil }
        if name == [1, 2, 840, 113549, 1, 1, 1] { return "an RSA key" }
        guard name == [1, 2, 840, 10045, 2, 1] else { return "a key of algorithm \(name)" }
        switch algorithm.dropFirst().first.flatMap({ try? ASN1ObjectIdentifier(derEncoded: $0) }) {
        case [1, 3, 132, 0, 34]: return "a key on P-384"
        case [1, 3, 132, 0, 35]: return "a key on P-521"
        case let curve?: return "a key on curve \(curve)"
        case nil: return "a key on a curve without a name"
        }
    }
}

extension ASN1Node {
    /// The nodes in a constructed one; none in another.
    var parts: [ASN1Node] {
        guard case .constructed(let nodes) = content else { return [] }
        return Array(nodes)
    }
}

extension Certificate {
    /// Its one common name; `nil` if it has none or several: its bearer could choose.
    package var commonName: String? {
        let names = subject.flatMap { $0 }.filter { $0.type == .RDNAttributeType.commonName }
        guard names.count == 1 else { return nil }
        return String(describing: names[0].value)
    }

    /// The serial number in hexadecimal, without zeros before it.
    package var serialText: String { Array(serialNumber.bytes).serialText }

    /// What tells its key from others: its subject key identifier, else the hash that most authorities use as one.
    package var keyIdentifier: [UInt8] {
        Array(
            (try? extensions.subjectKeyIdentifier)?.keyIdentifier
                ?? SubjectKeyIdentifier(hash: publicKey).keyIdentifier)
    }

    /// The key identifier of the authority that signed it; `nil` if the certificate names none.
    package var authorityKeyIdentifier: [UInt8]? {
        (try? extensions.authorityKeyIdentifier)?.keyIdentifier.map { Array($0) }
    }

    /// The certificates of a PEM file.
    package static func all(inPEM text: String) throws -> [Certificate] {
        try PEMDocument.parseMultiple(pemString: text).map { try Certificate(pemDocument: $0) }
    }

    package var pem: String {
        get throws { try serializeAsPEM().pemString + "\n" }
    }
}

extension [UInt8] {
    /// A serial number in hexadecimal, without zeros before it.
    var serialText: String {
        let digits = hexadecimal().drop { $0 == "0" }
        return digits.isEmpty ? "0" : String(digits)
    }

    /// Reads such a serial number; nothing where it is none.
    init(serial text: String) {
        self = [UInt8](hexadecimal: text.utf8.count.isMultiple(of: 2) ? text : "0" + text) ?? []
    }
}
