import Crypto
import HealthReadings

/// A UUID made of a name (RFC 9562, version 5), so that the same thing has the same UUID wherever it is written.
struct NameUUID: Sendable, Hashable, CustomStringConvertible {
    /// The namespace of all names here, ca33d533-a474-4280-9f38-96fa75bf4d34. It never changes: receivers know readings by what comes of it.
    private static let namespace: [UInt8] = [
        0xCA, 0x33, 0xD5, 0x33, 0xA4, 0x74, 0x42, 0x80, 0x9F, 0x38, 0x96, 0xFA, 0x75, 0xBF, 0x4D, 0x34,
    ]

    /// Lower case, in five groups: `3cfa8bb6-695d-5ddf-8219-4ba1531c4e0c`.
    let description: String

    init(_ name: String) { self.init(name, in: Self.namespace) }

    init(_ name: String, in namespace: [UInt8]) {
        var octets = Array(Insecure.SHA1.hash(data: namespace + Array(name.utf8)).prefix(16))
        octets[6] = octets[6] & 0x0F | 0x50
        octets[8] = octets[8] & 0x3F | 0x80
        let groups = [octets[0..<4], octets[4..<6], octets[6..<8], octets[8..<10], octets[10..<16]]
        description = groups.map { $0.hexadecimal() }.joined(separator: "-")
    }

    /// As a URN: `urn:uuid:…`.
    var urn: String { "urn:uuid:" + description }
}
