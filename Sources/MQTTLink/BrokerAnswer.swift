import CMosquitto
import Glibc

extension MQTTError {
    /// Reads the code of a CONNACK.
    init?(connect code: Int32, _ version: MQTTVersion, said: String?) {
        guard code != 0 else { return nil }
        guard version == .v5 || code >= 128 else {
            switch code {
            case 1: self.init(.version, "the broker does not speak MQTT \(version)", code: 1)
            case 2: self.init(.clientID, "the broker refuses the client id", code: 2)
            case 3: self.init(.unavailable, "the broker is not available", code: 3)
            case 4: self.init(.credentials, "the broker refuses the user or password", code: 4)
            case 5: self.init(.credentials, "the broker lets this user not in", code: 5)
            default:
                self.init(
                    .protocolViolation, "the broker refuses the connection with the unknown code \(code)",
                    code: UInt8(truncatingIfNeeded: code))
            }
            return
        }
        self.init(reason: code, to: "the connection", said: said)
    }

    /// Reads a reason code of MQTT 5, section 2.4.
    ///
    /// - Parameters:
    ///   - reason: 128 or more.
    ///   - what: what is refused: `the connection`, `the message`, …
    ///   - said: the broker's words.
    init(reason: Int32, to what: String, said: String?) {
        let code = UInt8(truncatingIfNeeded: reason)
        let isConnection = what == Self.connection
        let (kind, words): (Kind, String) =
            switch reason {
            case 129, 130, 145, 146, 147, 148: (.protocolViolation, "the broker says that we break the protocol")
            case 132: (.version, "the broker does not speak MQTT 5")
            case 133: (.clientID, "the broker refuses the client id")
            case 134, 140: (.credentials, "the broker refuses the user or password")
            case 135 where isConnection, 138: (.credentials, "the broker does not let this user in")
            case 135: (.notAuthorized, "the broker does not permit \(what) to this user")
            case 136, 137, 139, 150, 152, 159, 160: (.unavailable, "the broker is not available now")
            case 141: (.lost, "the broker did not hear from us in time")
            case 142: (.takenOver, "another client has connected with the same client id")
            case 143, 144: (.topic, "the broker refuses the topic")
            case 149: (.tooLarge, "\(what) is larger than the broker takes")
            case 151: (.quotaExceeded, "the broker has no room for \(what)")
            case 153: (.payload, "the broker refuses the content")
            case 154, 155, 158, 161, 162: (.unsupported, "the broker does not support what \(what) needs")
            case 156, 157: (.movedAway, "the broker sends its clients to another one")
            default: (.refused, "the broker refuses \(what)")
            }
        self.init(kind, "\(words) (reason \(reason))", code: code, brokerSaid: said)
    }

    static let connection = "the connection"

    /// Reads what the library returned.
    ///
    /// - Parameters:
    ///   - status: the library's code.
    ///   - number: `errno` right after the call.
    ///   - doing: what failed, as in `cannot …`.
    ///   - complaints: what the library has logged of TLS.
    init(status: Int32, _ number: Int32, doing: String, broker: MQTTBroker, _ complaints: [String]) {
        if let error = Self.tls(complaints, broker) {
            self = error
            return
        }
        let place = "\(broker.host):\(broker.port)"
        switch mosq_err_t(rawValue: status) {
        case MOSQ_ERR_EAI:
            let words = number == EAI_SYSTEM ? "the system cannot look it up" : String(cString: gai_strerror(number))
            self.init(.hostNotFound, "cannot find the broker \(broker.host): \(words)")
        case MOSQ_ERR_ERRNO where number == EPROTO:
            self = .resetInTLS(place)
        case MOSQ_ERR_ERRNO:
            let kind: Kind = [ETIMEDOUT, EHOSTDOWN].contains(number) ? .timedOut : .unreachable
            self.init(kind, "cannot \(doing) \(place): \(Self.words(number))")
        case MOSQ_ERR_CONN_LOST, MOSQ_ERR_NO_CONN: self = .lost
        case MOSQ_ERR_KEEPALIVE: self.init(.lost, "the broker \(place) answers no longer")
        case MOSQ_ERR_TLS, MOSQ_ERR_TLS_HANDSHAKE, MOSQ_ERR_OCSP: self.init(.tls, "cannot talk TLS with \(place)")
        case MOSQ_ERR_PROTOCOL, MOSQ_ERR_MALFORMED_PACKET, MOSQ_ERR_DUPLICATE_PROPERTY:
            self.init(.protocolViolation, "\(place) does not speak MQTT as expected")
        case MOSQ_ERR_OVERSIZE_PACKET, MOSQ_ERR_PAYLOAD_SIZE:
            self.init(.tooLarge, "the message is larger than the broker takes")
        case MOSQ_ERR_QOS_NOT_SUPPORTED: self.init(.unsupported, "the broker does not acknowledge messages")
        case MOSQ_ERR_RETAIN_NOT_SUPPORTED: self.init(.unsupported, "the broker does not keep messages")
        case MOSQ_ERR_INVAL, MOSQ_ERR_MALFORMED_UTF8:
            self.init(.invalidArgument, "cannot \(doing): the topic, a file or the client id cannot be used")
        default: self.init(.system, "cannot \(doing): \(String(cString: mosquitto_strerror(status)))")
        }
    }

    /// Reads what the library has logged of TLS.
    private static func tls(_ complaints: [String], _ broker: MQTTBroker) -> MQTTError? {
        guard broker.tls != nil, !complaints.isEmpty else { return nil }
        let all = complaints.joined(separator: "\n").lowercased()
        func has(_ words: String...) -> Bool { words.contains { all.contains($0) } }
        let place = "\(broker.host):\(broker.port)"
        // The connection was cut, which says nothing of TLS.
        if has("system library", "unexpected eof"), complaints.count == 1 {
            return resetInTLS(place)
        }
        if has("unable to load", "inconsistent", "bad decrypt", "no start line", "bad end line", "pem lib") {
            return MQTTError(.files, "cannot use the certificate files: \(complaints[0])")
        }
        if has("host name verification failed", "hostname mismatch", "ip address mismatch") {
            return MQTTError(.certificate, "the certificate of \(place) is not one for \(broker.host)")
        }
        if has(
            "alert certificate required", "alert bad certificate", "alert unknown ca", "alert certificate",
            "alert handshake")
            || has("alert access denied", "alert unsupported certificate", "alert decrypt error")
        {
            return MQTTError(
                .clientCertificate,
                broker.tls?.certificate == nil
                    ? "\(place) asks for a certificate of ours" : "\(place) refuses our certificate")
        }
        if has("certificate verify failed") {
            return MQTTError(
                .certificate, "the certificate of \(place) is not signed by a trusted authority, or is out of date")
        }
        if has("wrong version number", "packet length too long", "unexpected message") {
            return MQTTError(.tls, "\(place) does not speak TLS")
        }
        return MQTTError(.tls, "cannot talk TLS with \(place): \(complaints[0])")
    }

    private static func resetInTLS(_ place: String) -> MQTTError {
        var error = MQTTError(
            .tls, "\(place) ends TLS without a reason: it may want a certificate, refuse ours, or not speak TLS")
        error.isResetInTLS = true
        return error
    }

    /// The system's words for an error number.
    static func words(_ number: Int32) -> String { String(cString: strerror(number)) }
}
