import HealthReadings

/// The file with which a gateway enrols: one token, for one gateway, good once.
///
/// It carries the fleet's authority, so that the gateway knows whom it talks to before it sends the token.
public struct EnrolmentTicket: Sendable, Hashable {
    /// The longest file, in bytes.
    public static let mostBytes = 65_536
    /// What a token looks like.
    private static let tokenLength = 64

    /// The gateway that the token is for.
    public var gateway: GatewayID
    /// Where the authority listens: `https://ca.example:8491`.
    public var url: String
    /// The token: a secret.
    public var token: String
    /// The authority's certificate, in PEM.
    public var authority: String
    /// SHA-256 of that certificate in DER, as 64 hexadecimal digits.
    public var fingerprint: String
    /// When the file was made.
    public var made: Instant
    /// When the token ends.
    public var expires: Instant

    /// Creates a ticket.
    public init(
        gateway: GatewayID, url: String, token: String, authority: String, fingerprint: String, made: Instant,
        expires: Instant
    ) {
        (self.gateway, self.url, self.token) = (gateway, url, token)
        (self.authority, self.fingerprint) = (authority, fingerprint)
        (self.made, self.expires) = (made, expires)
    }

    /// Reads a file.
    ///
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8]) throws(FleetDocumentError) {
        let part = try DocumentPart.document(octets, limit: Self.mostBytes)
        gateway = try part["gateway"].gateway()
        url = try part["url"].text(1...1024)
        token = try part["token"].hexadecimalDigits(Self.tokenLength)
        authority = try part["authority"].text(1...EnrolmentAnswer.mostAuthorityBytes)
        fingerprint = try part["authority_sha256"].hexadecimalDigits(64)
        made = try part["made"].instant()
        expires = try part["expires"].instant()
    }

    /// The file's content: a secret.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("url", .string(url)),
            .init("token", .string(token)), .init("authority_sha256", .string(fingerprint)),
            .init("authority", .string(authority)), .init("made", .string(made.description)),
            .init("expires", .string(expires.description)),
        ])
    }
}

extension EnrolmentTicket: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The gateway and the address, never the token.
    public var description: String { "a token for \(gateway) at \(url)" }
    /// The gateway and the address, never the token.
    public var debugDescription: String { description }
    /// Nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What a gateway sends to get a certificate: with a token the first time, with its present certificate to renew it.
public struct EnrolmentRequest: Sendable {
    /// The longest request, in bytes.
    public static let mostBytes = 16_384

    /// The gateway. The authority compares it with the token's, or with the certificate's.
    public var gateway: GatewayID
    /// The token; `nil`: the connection's certificate proves who asks.
    public var token: String?
    /// A certification request (PKCS #10) in PEM. Only its public key counts.
    public var request: String

    /// Creates a request.
    public init(gateway: GatewayID, token: String?, request: String) {
        (self.gateway, self.token, self.request) = (gateway, token, request)
    }

    /// Reads a request.
    ///
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8]) throws(FleetDocumentError) {
        let part = try DocumentPart.document(octets, limit: Self.mostBytes)
        gateway = try part["gateway"].gateway()
        token = try part["token"].optional { part throws(FleetDocumentError) in try part.text(1...256) }
        request = try part["request"].text(1...8192)
    }

    /// The document: a secret if it has a token.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("token", .optional(token)),
            .init("request", .string(request)),
        ])
    }
}

/// What the authority answers: the certificate, and whom the gateway trusts.
public struct EnrolmentAnswer: Sendable, Hashable {
    /// The longest answer, in bytes.
    public static let mostBytes = 131_072
    static let mostAuthorityBytes = 65_536

    /// The gateway.
    public var gateway: GatewayID
    /// The gateway's certificate, in PEM.
    public var certificate: String
    /// The authorities of the fleet's brokers and collectors, in PEM: the one that signed the certificate, and others
    /// that the operator trusts.
    public var authorities: String

    /// Creates an answer.
    public init(gateway: GatewayID, certificate: String, authorities: String) {
        (self.gateway, self.certificate, self.authorities) = (gateway, certificate, authorities)
    }

    /// Reads an answer.
    ///
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8]) throws(FleetDocumentError) {
        let part = try DocumentPart.document(octets, limit: Self.mostBytes)
        gateway = try part["gateway"].gateway()
        certificate = try part["certificate"].text(1...16_384)
        authorities = try part["authorities"].text(1...Self.mostAuthorityBytes)
    }

    /// The document.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("certificate", .string(certificate)),
            .init("authorities", .string(authorities)),
        ])
    }
}

extension DocumentPart {
    /// So many hexadecimal digits in lower case.
    func hexadecimalDigits(_ count: Int) throws(FleetDocumentError) -> String {
        guard let text = string, text.utf8.count == count, text.utf8.allSatisfy(\.isLowercaseHexadecimal) else {
            throw unexpected("\(count) hexadecimal digits in lower case")
        }
        return text
    }
}
