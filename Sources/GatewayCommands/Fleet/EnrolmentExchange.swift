import AsyncHTTPClient
import GatewaySettings
import HealthReadings
import NIOHTTP1
import OutgoingHTTP

/// Sends a request to a fleet's authority.
struct EnrolmentExchange: Sendable {
    /// What is sent, and whom it is sent to.
    struct Request: Sendable {
        var url: String
        var path: String
        var document: JSONValue
        /// The file of the authorities that may vouch for the server.
        var authorities: String
        /// The files that prove who asks.
        var identity: (certificate: String, key: String)?
    }

    var ask: @Sendable (Request) async throws -> [UInt8]

    /// Over HTTPS.
    static let https = EnrolmentExchange { request in
        let address = try Self.address(request.url)
        let limits = HTTPLimits(responseBytes: 131_072)
        let identity = request.identity.flatMap { HTTPIdentity(certificate: $0.certificate, key: $0.key) }
        guard request.identity == nil || identity != nil else {
            throw Problem(
                "key_unreadable", .configuration, "the certificate of the enrolment can't be used",
                hint: "enrol again with a new token")
        }
        let connections = HTTPConnections(limits, authorities: request.authorities, identity: identity)
        var sent = HTTPClientRequest(url: address.joined(request.path))
        sent.method = .POST
        sent.headers.add(name: "Content-Type", value: "application/json")
        sent.body = .bytes(Array(request.document.text.utf8))
        let answer: HTTPAnswer
        do {
            answer = try await connections.answer(to: sent)
        } catch let error as HTTPExchangeError {
            throw Self.problem(error, address.base)
        }
        guard answer.status == 200 else { throw Self.problem(answer, address.base) }
        return answer.body
    }

    /// An authority's address: https, and only a path may follow the host.
    static func address(_ text: String) throws(Problem) -> HTTPAddress {
        let words: String
        do throws(InvalidHTTPAddress) {
            let address = try HTTPAddress(text)
            if address.isSecure { return address }
            words = "it does not begin with https://"
        } catch {
            words = error.reason
        }
        throw Problem.usage("the authority's URL can't be used: \(words)")
    }

    private static func problem(_ error: HTTPExchangeError, _ base: String) -> Problem {
        switch error {
        case .timeout, .connectingTimeout:
            Problem(
                "timeout", .tryAgain, "\(base) did not answer in time",
                hint: "run the command again: it goes on where it ended")
        case .noConnection(let words), .connectionLost(let words):
            Problem(
                "no_connection", .unavailable, "\(base) can't be reached: \(words)",
                hint: "run the command again when it can: it goes on where it ended")
        case .untrustedServer(let words):
            Problem(
                "untrusted_server", .unavailable, "\(base) is not the authority of the token's file: \(words)",
                hint: "check the URL and this machine's clock; the token was not sent")
        case .refusedIdentity(let words):
            Problem(
                "certificate_refused", .notPermitted, "\(base) does not take this gateway's certificate: \(words)",
                hint: "check this machine's clock; if it is right, enrol again with a new token")
        case .answerTooLarge:
            Problem("unexpected_answer", .protocolBroken, "\(base) answered with more than an authority does")
        }
    }

    /// Codes that the authority's refusals have, with what they end the program with.
    private static let known: [String: (Problem.ExitStatus, String)] = [
        "token_unknown": (.notPermitted, "ask the fleet's operator for another token"),
        "token_expired": (.notPermitted, "ask the fleet's operator for another token"),
        "token_used": (.notPermitted, "ask the fleet's operator for another token"),
        "other_gateway": (.notPermitted, "ask the fleet's operator for another token"),
        "gateway_revoked": (.notPermitted, "only the fleet's operator can let this gateway come back"),
        "certificate_unknown": (.notPermitted, "ask the fleet's operator for a token, and enrol again"),
        "key_used": (.notPermitted, "run the command again: it makes another key"),
        "key_unsupported": (.protocolBroken, "update the authority"),
    ]

    private static func problem(_ answer: HTTPAnswer, _ base: String) -> Problem {
        let error = (try? JSONReader.read(answer.body))?["error"]
        let words = PrintableText.escaped(String((error?["message"]?.text ?? "no reason").prefix(300)))
        let code = error?["code"]?.text ?? ""
        if let (status, hint) = known[code] {
            return Problem(code, status, "the authority refused: \(words)", hint: hint)
        }
        let message = "\(base) answered \(answer.status): \(words)"
        switch answer.status {
        case 429: return Problem("rate_limit_exceeded", .tryAgain, message)
        case 500...: return Problem("authority_unavailable", .unavailable, message)
        case 401, 403: return Problem("forbidden", .notPermitted, message)
        default: return Problem("unexpected_answer", .protocolBroken, message)
        }
    }
}
