import Crypto
import HealthReadings

/// The SHA-256 of a certificate's DER octets: what a phone shows in its QR code, and the only thing that is trusted of it.
public struct CertificateFingerprint: Sendable, Hashable {
    /// The 32 octets.
    let octets: [UInt8]

    /// Reads 64 hexadecimal digits, upper or lower case, with colons, spaces and `sha256:` in front or without.
    ///
    /// - Returns: `nil` for anything else.
    public init?(_ text: some StringProtocol) {
        var digits = text.lowercased()
        if digits.hasPrefix("sha256:") { digits.removeFirst("sha256:".count) }
        digits.removeAll { $0 == ":" || $0 == " " }
        guard digits.utf8.count == 64, let octets = [UInt8](hexadecimal: digits) else { return nil }
        self.octets = octets
    }

    /// The fingerprint of a certificate.
    init(ofCertificate der: [UInt8]) { octets = Array(SHA256.hash(data: der)) }
}

extension CertificateFingerprint: CustomStringConvertible {
    /// 64 hexadecimal digits in lower case, as the app writes them.
    public var description: String { octets.hexadecimal() }
}
