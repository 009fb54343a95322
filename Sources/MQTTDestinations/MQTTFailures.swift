import MQTTLink
import ReadingDelivery

extension DeliveryFailure {
    /// Maps what went wrong with a broker.
    init(_ error: MQTTError) {
        let (scope, code, needsPerson): (Scope, String, Bool) =
            switch error.kind {
            case .hostNotFound, .unreachable, .lost, .closed, .unavailable, .takenOver:
                (.destination, "no_connection", false)
            case .timedOut: (.destination, "timeout", false)
            case .certificate, .tls: (.destination, "untrusted_server", true)
            case .files: (.destination, "key_unreadable", true)
            case .clientCertificate, .credentials: (.destination, "authentication_failed", true)
            case .clientID: (.destination, "forbidden", true)
            case .version, .protocolViolation: (.destination, "unexpected_answer", false)
            case .movedAway: (.destination, "redirected", true)
            case .unsupported: (.destination, "refused", true)
            case .notAuthorized: (.target, "forbidden", true)
            case .quotaExceeded: (.target, "rate_limit_exceeded", false)
            case .topic, .refused: (.target, "refused", false)
            case .tooLarge: (.tooLarge, "payload_too_large", false)
            case .payload, .invalidArgument: (.items, "refused", false)
            case .cancelled: (.cancelled, "cancelled", false)
            case .system: (.destination, "unexpected", false)
            }
        self.init(scope, code: code, message: error.message, serverSaid: error.brokerSaid, needsPerson: needsPerson)
    }
}

extension Finding {
    /// What the test of a destination finds out from a connection that could not be made.
    static func of(_ error: MQTTError) -> [Finding] {
        let good = { (name: String, found: String) in Finding(name, isGood: true, found: found) }
        let said = error.brokerSaid.map { " (\($0))" } ?? ""
        func bad(_ name: String, _ mend: String?) -> Finding {
            Finding(name, isGood: false, found: error.message + said, mend: mend, cause: DeliveryFailure(error))
        }
        switch error.kind {
        case .hostNotFound: return [bad("address", "check the host in `url`")]
        case .unreachable, .timedOut, .lost, .unavailable, .closed, .cancelled, .takenOver:
            return [bad("address", "check that the broker runs and that `url` has its host and port")]
        case .version, .protocolViolation, .movedAway:
            return [bad("address", "check that `url` names the port of an MQTT broker")]
        case .certificate:
            return [
                good("address", "something answers"),
                bad(
                    "certificate",
                    "name the broker's authority in `ca_file`, and in `url` a host that its certificate names; "
                        + "check this machine's clock"),
            ]
        case .tls:
            return [
                good("address", "something answers"),
                bad(
                    "certificate",
                    "check the port; if the broker wants a certificate, set `certificate_file` and `private_key_file`"),
            ]
        case .clientCertificate:
            return [
                good("address", "something answers"),
                bad(
                    "credentials",
                    "set `certificate_file` and `private_key_file` to a certificate that the broker trusts"),
            ]
        case .files:
            return [
                bad(
                    "certificate",
                    "the gateway's user has to be able to read the files, and the key must have no passphrase")
            ]
        case .credentials:
            return [good("address", "the broker answers"), bad("credentials", "check `username` and `password_file`")]
        case .clientID:
            return [good("address", "the broker answers"), bad("credentials", "let the broker accept the client id")]
        case .notAuthorized, .quotaExceeded, .tooLarge, .topic, .payload, .unsupported, .refused, .invalidArgument,
            .system:
            return [bad("permission", nil)]
        }
    }
}
