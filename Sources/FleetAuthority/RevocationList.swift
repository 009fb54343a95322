import Crypto
import Foundation
import HealthReadings
import SwiftASN1
import X509

/// A certificate revocation list (RFC 5280, section 5): which of an authority's certificates no longer count.
package struct RevocationList: Sendable, Hashable {
    /// One certificate.
    package struct Entry: Sendable, Hashable {
        package var serial: [UInt8]
        package var since: Instant

        package init(serial: [UInt8], since: Instant) { (self.serial, self.since) = (serial, since) }
    }

    /// Why a list isn't taken.
    package enum Refusal: Error, Sendable, Hashable, CustomStringConvertible {
        case unreadable(String)
        /// No authority that is trusted here has signed it.
        case notSigned

        package var description: String {
            switch self {
            case .unreadable(let words): "expected a certificate revocation list in PEM or DER, found \(words)"
            case .notSigned: "the revocation list isn't signed by an authority that is trusted here"
            }
        }
    }

    /// The key identifier of the authority that has signed it: two authorities may have one name.
    package let issuer: [UInt8]
    /// Grows with each list of an authority (CRL number); `nil`: the list has none.
    package let number: Int64?
    /// When it was made.
    package let made: Instant
    /// When the next one is due; a list that is older may be one that an attacker kept.
    package let expires: Instant
    /// The certificates.
    package let entries: [Entry]
    /// Their serial numbers as ``X509/Certificate/serialText`` writes them.
    package let serials: Set<String>
    /// The list in PEM.
    package let pem: String

    static let discriminator = "X509 CRL"
    private static let ecdsaWithSHA256: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 2]
    private static let numberExtension: ASN1ObjectIdentifier = [2, 5, 29, 20]

    /// Whether a certificate is in the list.
    package func contains(_ certificate: Certificate) -> Bool { serials.contains(certificate.serialText) }

    /// Whether it is older than another list of its authority.
    ///
    /// Numbers decide: the authority's clock may have been wrong when it made either of them.
    package func isOlder(than other: RevocationList) -> Bool {
        if let number, let known = other.number { return number < known }
        return made < other.made
    }

    // MARK: Making one

    /// Signs a list.
    ///
    /// - Parameter number: grows with each list.
    init(
        _ entries: [Entry], number: Int64, by authority: Authority, at now: Instant, lifetime: Int64
    ) throws {
        let (made, expires) = (now.flooredToSecond, now.advanced(bySeconds: lifetime).flooredToSecond)
        var body = DER.Serializer()
        try body.appendConstructedNode(identifier: .sequence) { list in
            try list.serialize(Int64(1))
            Self.writeAlgorithm(into: &list)
            try list.serialize(authority.certificate.subject)
            try Self.write(made, into: &list)
            try Self.write(expires, into: &list)
            if !entries.isEmpty {
                try list.appendConstructedNode(identifier: .sequence) { rows in
                    for entry in entries {
                        try rows.appendConstructedNode(identifier: .sequence) { row in
                            Self.write(serial: entry.serial, into: &row)
                            try Self.write(entry.since, into: &row)
                        }
                    }
                }
            }
            try list.appendConstructedNode(identifier: .init(tagWithNumber: 0, tagClass: .contextSpecific)) { tagged in
                try tagged.appendConstructedNode(identifier: .sequence) { extensions in
                    let key = SubjectKeyIdentifier(hash: authority.certificate.publicKey).keyIdentifier
                    let identifier = try Certificate.Extension(
                        AuthorityKeyIdentifier(keyIdentifier: key), critical: false)
                    try Self.writeExtension(identifier.oid, Array(identifier.value), into: &extensions)
                    var value = DER.Serializer()
                    try value.serialize(number)
                    try Self.writeExtension(Self.numberExtension, value.serializedBytes, into: &extensions)
                }
            }
        }
        let signature = try authority.signature(of: body.serializedBytes)
        var whole = DER.Serializer()
        try whole.appendConstructedNode(identifier: .sequence) { list in
            list.serializeRawBytes(body.serializedBytes)
            Self.writeAlgorithm(into: &list)
            try list.serialize(ASN1BitString(bytes: signature[...]))
        }
        issuer = authority.certificate.keyIdentifier
        self.number = number
        self.made = made
        self.expires = expires
        self.entries = entries
        serials = Set(entries.map(\.serial.serialText))
        pem = PEMDocument(type: Self.discriminator, derBytes: whole.serializedBytes).pemString + "\n"
    }

    private static func writeAlgorithm(into list: inout DER.Serializer) {
        list.appendConstructedNode(identifier: .sequence) { try? $0.serialize(ecdsaWithSHA256) }
    }

    private static func writeExtension(
        _ name: ASN1ObjectIdentifier, _ value: [UInt8], into list: inout DER.Serializer
    ) throws {
        try list.appendConstructedNode(identifier: .sequence) { row in
            try row.serialize(name)
            try row.serialize(ASN1OctetString(contentBytes: value[...]))
        }
    }

    /// A positive number keeps a zero before a first bit that is set.
    private static func write(serial: [UInt8], into list: inout DER.Serializer) {
        let digits = serial.drop { $0 == 0 }
        list.appendPrimitiveNode(identifier: .integer) { octets in
            if digits.first.map({ $0 >= 0x80 }) ?? true { octets.append(0) }
            octets.append(contentsOf: digits)
        }
    }

    private static func write(_ moment: Instant, into list: inout DER.Serializer) throws {
        let parts = Calendar(identifier: .gregorian).dateComponents(in: .gmt, from: moment.date)
        let (year, month, day) = (parts.year ?? 0, parts.month ?? 0, parts.day ?? 0)
        let (hour, minute, second) = (parts.hour ?? 0, parts.minute ?? 0, parts.second ?? 0)
        if (1950..<2050).contains(year) {
            try list.serialize(
                UTCTime(year: year, month: month, day: day, hours: hour, minutes: minute, seconds: second))
        } else {
            try list.serialize(
                GeneralizedTime(
                    year: year, month: month, day: day, hours: hour, minutes: minute, seconds: second,
                    fractionalSeconds: 0))
        }
    }

    // MARK: Reading one

    /// Reads the first list of a file and checks its signature.
    ///
    /// - Parameters:
    ///   - octets: PEM or DER.
    ///   - authorities: who may have signed it.
    package init(_ octets: [UInt8], signedBy authorities: [Certificate]) throws(Refusal) {
        guard let der = try Self.documents(octets).first else { throw .unreadable("none") }
        try self.init(der: der, signedBy: authorities)
    }

    /// Reads all lists of a file, each of which counts by itself.
    ///
    /// - Throws: ``Refusal`` if the file has no list.
    package static func all(
        _ octets: [UInt8], signedBy authorities: [Certificate]
    ) throws(Refusal) -> [Result<RevocationList, Refusal>] {
        try documents(octets).map { der in
            do throws(Refusal) {
                return .success(try RevocationList(der: der, signedBy: authorities))
            } catch {
                return .failure(error)
            }
        }
    }

    /// The lists of a file in DER; at least one.
    private static func documents(_ octets: [UInt8]) throws(Refusal) -> [[UInt8]] {
        if octets.first == 0x30 { return [octets] }
        let documents = try? PEMDocument.parseMultiple(pemString: String(decoding: octets, as: UTF8.self))
        let lists = (documents ?? []).filter { $0.discriminator == discriminator }.map(\.derBytes)
        guard !lists.isEmpty else { throw .unreadable("none") }
        return lists
    }

    private init(der: [UInt8], signedBy authorities: [Certificate]) throws(Refusal) {
        guard let root = try? DER.parse(der), root.parts.count == 3,
            let signature = try? ASN1BitString(derEncoded: root.parts[2])
        else { throw .unreadable("another structure") }
        let body = root.parts[0]
        var parts = body.parts[...]
        if parts.first?.identifier == .integer { parts.removeFirst() }
        guard parts.count >= 4, let issuer = try? DistinguishedName(derEncoded: parts[parts.startIndex + 1]),
            let made = Self.moment(parts[parts.startIndex + 2]), let expires = Self.moment(parts[parts.startIndex + 3])
        else { throw .unreadable("a list without a time of the next one") }
        guard root.parts[1].parts.first.flatMap({ try? ASN1ObjectIdentifier(derEncoded: $0) }) == Self.ecdsaWithSHA256
        else { throw .unreadable("a signature that isn't ECDSA with SHA-256") }
        let signer = authorities.first { authority in
            guard authority.subject == issuer, let key = P256.Signing.PublicKey(authority.publicKey),
                let signature = try? P256.Signing.ECDSASignature(derRepresentation: signature.bytes)
            else { return false }
            return key.isValidSignature(signature, for: body.encodedBytes)
        }
        guard let signer else { throw .notSigned }
        var entries: [Entry] = []
        if let rows = parts.dropFirst(4).first, rows.identifier == .sequence {
            for row in rows.parts {
                guard row.parts.count > 1, case .primitive(let digits) = row.parts[0].content,
                    let since = Self.moment(row.parts[1])
                else { throw .unreadable("an entry without a serial number and a time") }
                entries.append(Entry(serial: Array(digits), since: since))
            }
        }
        self.issuer = signer.keyIdentifier
        number = Self.number(in: parts.dropFirst(4))
        (self.made, self.expires, self.entries) = (made, expires, entries)
        serials = Set(entries.map(\.serial.serialText))
        pem = PEMDocument(type: Self.discriminator, derBytes: der).pemString + "\n"
    }

    /// The CRL number of a list's last parts.
    private static func number(in parts: ArraySlice<ASN1Node>) -> Int64? {
        let tag = ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
        guard let tagged = parts.first(where: { $0.identifier == tag }), let extensions = tagged.parts.first else {
            return nil
        }
        let found = extensions.parts.first { row in
            row.parts.first.flatMap { try? ASN1ObjectIdentifier(derEncoded: $0) } == numberExtension
        }
        return found?.parts.last.flatMap { try? ASN1OctetString(derEncoded: $0) }.flatMap {
            try? Int64(derEncoded: Array($0.bytes))
        }
    }

    private static func moment(_ node: ASN1Node) -> Instant? {
        var parts = DateComponents()
        if let time = try? UTCTime(derEncoded: node) {
            (parts.year, parts.month, parts.day) = (time.year, time.month, time.day)
            (parts.hour, parts.minute, parts.second) = (time.hours, time.minutes, time.seconds)
        } else if let time = try? GeneralizedTime(derEncoded: node) {
            (parts.year, parts.month, parts.day) = (time.year, time.month, time.day)
            (parts.hour, parts.minute, parts.second) = (time.hours, time.minutes, time.seconds)
        } else {
            return nil
        }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar.date(from: parts)?.moment
    }
}
