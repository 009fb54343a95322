import HealthReadings

/// Why the fleet's authority can't or won't do something.
package enum AuthorityError: Error, Sendable, Hashable {
    /// There is no authority in the state directory.
    case absent(directory: String)
    /// There is one already.
    case present(directory: String)
    /// A file of the authority can't be used.
    case unusableFile(path: String, reason: String)
    /// Nobody knows the token: it is wrong, or was made for another authority.
    case unknownToken
    /// The token's 24 hours are over.
    case tokenExpired(Instant)
    /// The token has been used with another key.
    case tokenUsed(Instant)
    /// The token or the certificate is another gateway's.
    case otherGateway(expected: String, found: String)
    /// The gateway was revoked.
    case revoked(gateway: String, since: Instant)
    /// A certificate of the gateway was revoked and hasn't ended, and the broker would let it in with the gateway's user.
    case revokedCertificateGood(gateway: String, until: Instant)
    /// The certificate that asks isn't one that this authority has given out.
    case unknownCertificate
    /// What should be a certification request isn't one.
    case badRequest(expected: String, found: String)
    /// The request's key is of a kind that isn't signed.
    case keyUnsupported(found: String)
    /// Who sent the request doesn't hold its key.
    case notProven
    /// The key was certified for another gateway, or its certificate was revoked.
    case keyUsed
    /// The gateway has as many certificates that haven't ended as one may have.
    case tooManyCertificates(gateway: String)
    /// A gateway can't have this id.
    case nameTaken(String, reason: String)
    /// The broker can't say whether it has a user of a gateway's name.
    case broker(String)
    /// The authority's own certificate has ended, or hasn't begun.
    case authorityNotValid(from: Instant, until: Instant)
    /// There is no such gateway.
    case noSuchGateway(String)
    /// The database can't be used.
    case store(String)

    /// The published code.
    package var code: String {
        switch self {
        case .absent: "authority_absent"
        case .present: "authority_present"
        case .unusableFile: "file_unusable"
        case .unknownToken: "token_unknown"
        case .tokenExpired: "token_expired"
        case .tokenUsed: "token_used"
        case .otherGateway: "other_gateway"
        case .revoked: "gateway_revoked"
        case .revokedCertificateGood: "revoked_certificate_good"
        case .unknownCertificate: "certificate_unknown"
        case .badRequest: "bad_request"
        case .keyUnsupported: "key_unsupported"
        case .notProven: "key_not_proven"
        case .keyUsed: "key_used"
        case .tooManyCertificates: "too_many_certificates"
        case .nameTaken: "name_taken"
        case .broker: "broker_unavailable"
        case .authorityNotValid: "authority_not_valid"
        case .noSuchGateway: "no_such_gateway"
        case .store: "store_unavailable"
        }
    }
}

extension AuthorityError: CustomStringConvertible {
    /// One line for people; never a token.
    package var description: String {
        switch self {
        case .absent(let directory): "there is no authority in \(directory)"
        case .present(let directory): "there is an authority in \(directory) already"
        case .unusableFile(let path, let reason): "cannot use \(path): \(reason)"
        case .unknownToken: "expected a token that this authority has made, found another"
        case .tokenExpired(let time): "the token ended at \(time); ask the fleet's operator for another"
        case .tokenUsed(let time):
            "the token was used at \(time), with another key; ask the fleet's operator for another"
        case .otherGateway(let expected, let found): "expected the gateway \(expected), found \(found)"
        case .revoked(let gateway, let since): "\(gateway) was revoked at \(since)"
        case .revokedCertificateGood(let gateway, let until):
            "a revoked certificate of \(gateway) is good until \(until), and the broker would let its bearer in again: "
                + "the broker asks for the name alone"
        case .unknownCertificate: "expected a gateway's certificate of this authority, found another or none"
        case .badRequest(let expected, let found): "expected \(expected), found \(found)"
        case .keyUnsupported(let found): "expected a key on P-256 or Ed25519, found \(found)"
        case .notProven: "the request's signature is not by its key"
        case .keyUsed: "the key was certified for another gateway or was revoked; make another"
        case .tooManyCertificates(let gateway):
            "\(gateway) has \(AuthorityStore.mostCertificates) certificates that have not ended, and gets no more"
        case .nameTaken(let name, let reason): "a gateway can't be named \(name): \(reason)"
        case .broker(let words): "the broker can't be asked about the gateway's user: \(words)"
        case .authorityNotValid(let from, let until):
            "the authority's certificate is good from \(from) to \(until), and this machine's clock says otherwise"
        case .noSuchGateway(let name): "there is no gateway \(name)"
        case .store(let words): "the authority's database can't be used: \(words)"
        }
    }
}
