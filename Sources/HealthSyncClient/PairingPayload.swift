import HealthReadings

/// What a phone's QR code holds: where the phone is, a code that pairs once, and the fingerprint of its certificate.
///
/// Source: the iOS Health Sync App (`PairingQRCode`): version 1, the code is good for five minutes and five tries.
public struct PairingPayload: Sendable, Hashable {
    /// The phone's address or name; an IPv6 address without brackets.
    public var host: String
    /// The port.
    public var port: Int
    /// The pairing code.
    public var code: String
    /// When the code expires, by the phone's clock; `nil` if nobody said.
    public var expiresAt: Instant?
    /// The fingerprint of the phone's certificate.
    public var fingerprint: CertificateFingerprint

    /// Why a text is no pairing payload, without repeating it: it holds a code.
    public struct Malformed: Error, Sendable, Hashable, CustomStringConvertible {
        /// What was expected.
        public var reason: String
        /// One line for people.
        public var description: String { "not what a QR code of the Health Sync app holds: \(reason)" }
    }

    /// The longest text that is looked at.
    static let longest = 8192

    /// Makes a payload of what somebody typed.
    ///
    /// - Throws: ``Malformed`` for a host, port, code or fingerprint that can't be one.
    public init(
        host: String, port: Int, code: String, fingerprint: String, expiresAt: Instant? = nil
    ) throws(Malformed) {
        var host = host.trimmingSpace()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        guard (1...253).contains(host.utf8.count),
            host.utf8.allSatisfy({ octet in
                (0x30...0x39).contains(octet) || (0x41...0x5A).contains(octet) || (0x61...0x7A).contains(octet)
                    || "-._:%".utf8.contains(octet)
            })
        else { throw Malformed(reason: "host: expected a name or an address") }
        guard (1...65535).contains(port) else { throw Malformed(reason: "port: expected 1 to 65535") }
        let code = code.trimmingSpace()
        guard (1...128).contains(code.utf8.count), code.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw Malformed(reason: "code: expected the characters that the phone shows")
        }
        guard let fingerprint = CertificateFingerprint(fingerprint.trimmingSpace()) else {
            throw Malformed(reason: "certificateFingerprint: expected 64 hexadecimal digits, a SHA-256")
        }
        self.host = host
        self.port = port
        self.code = code
        self.fingerprint = fingerprint
        self.expiresAt = expiresAt
    }

    /// Reads the JSON text of a QR code.
    ///
    /// - Throws: ``Malformed``.
    public init(json text: String) throws(Malformed) {
        guard text.utf8.count <= Self.longest else {
            throw Malformed(reason: "expected at most \(Self.longest) bytes")
        }
        let root: JSONNode
        do throws(JSONFailure) {
            root = try JSONReader.read(Array(text.utf8))
        } catch {
            throw Malformed(reason: "expected JSON: \(error.expected) at byte \(error.offset)")
        }
        guard root.members != nil else { throw Malformed(reason: "expected a JSON object") }
        func member(_ key: String) throws(Malformed) -> String {
            guard let text = root[key]?.text else { throw Malformed(reason: "\(key): expected a text") }
            return text
        }
        let version = try member("version")
        guard version == "1" else {
            throw Malformed(reason: "version: expected \"1\", and this is another: the app is newer than this gateway")
        }
        guard let port = root["port"]?.integer else { throw Malformed(reason: "port: expected a number") }
        guard let expiresAt = Instant(rfc3339: try member("expiresAt")) else {
            throw Malformed(reason: "expiresAt: expected a time")
        }
        try self.init(
            host: try member("host"), port: port, code: try member("code"),
            fingerprint: try member("certificateFingerprint"), expiresAt: expiresAt)
    }
}

extension PairingPayload: CustomStringConvertible, CustomReflectable {
    /// Shows no code.
    public var description: String { "PairingPayload(\(host):\(port), ****)" }
    /// Shows no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension String {
    /// Without white space around it, as it comes with pasting.
    func trimmingSpace() -> String {
        var rest = self[...]
        while rest.first?.isWhitespace == true { rest.removeFirst() }
        while rest.last?.isWhitespace == true { rest.removeLast() }
        return String(rest)
    }
}
