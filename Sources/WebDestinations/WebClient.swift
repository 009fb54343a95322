import AsyncHTTPClient
import Foundation
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery

/// A text that is sent and never shown: its description, its mirror and its dump do not have it.
struct Masked: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    let value: String

    init(_ value: String) { self.value = value }

    var description: String { "****" }
    var debugDescription: String { "****" }
    var customMirror: Mirror { Mirror(self, children: []) }
}

/// A request of a destination.
struct WebRequest: Sendable {
    var method: HTTPMethod = .POST
    /// What is sent: it may hold an id, never a secret.
    var url: String
    /// What messages call it: `POST /api/v1/entries`.
    var route: String
    var headers: [(name: String, value: Masked)] = []
    var body: [UInt8] = []
    /// Whether the server understands gzip.
    var mayCompress = false
}

/// Sends a destination's requests, and names what goes wrong.
struct WebClient: Sendable, CustomReflectable {
    let server: WebServer
    /// What a server may echo of what it was sent.
    let secrets: [Masked]
    let connections: HTTPConnections
    let logger: Logger

    init(_ server: WebServer, secrets: [Masked], limits: HTTPLimits = HTTPLimits(), logger: Logger) {
        self.init(
            server, secrets: secrets, connections: HTTPConnections(limits, authorities: server.authorities),
            logger: logger)
    }

    init(_ server: WebServer, secrets: [Masked], connections: HTTPConnections, logger: Logger) {
        self.server = server
        self.secrets = secrets
        self.connections = connections
        self.logger = logger
    }

    /// A client of the same server, with connections of its own, that waits no longer than a person does.
    var impatient: WebClient {
        WebClient(
            server, secrets: secrets, limits: HTTPLimits(connecting: .seconds(5), call: .seconds(15)), logger: logger)
    }

    /// The host alone: connections know the requests that they carry.
    var customMirror: Mirror { Mirror(self, children: ["host": server.host]) }

    /// Bodies of fewer octets grow when they are compressed, or gain nothing.
    private static let worthCompressing = 1024

    /// Sends a request; an answer of any status is returned.
    func send(_ request: WebRequest) async throws(DeliveryFailure) -> HTTPAnswer {
        var outgoing = HTTPClientRequest(url: request.url)
        outgoing.method = request.method
        outgoing.headers.add(name: "user-agent", value: "HealthRelay")
        for header in request.headers { outgoing.headers.add(name: header.name, value: header.value.value) }
        if request.method != .GET {
            var body = request.body
            if request.mayCompress, body.count >= Self.worthCompressing, let member = Gzip.compress(body, saving: .time)
            {
                outgoing.headers.add(name: "content-encoding", value: "gzip")
                body = member
            }
            outgoing.body = .bytes(body)
        }
        do {
            let answer = try await connections.answer(to: outgoing)
            logger.debug("call", metadata: ["route": "\(request.route)", "outcome": "\(answer.status)"])
            return answer
        } catch let error as HTTPExchangeError {
            let failure = failure(error, request.route)
            logger.debug("call", metadata: ["route": "\(request.route)", "outcome": "\(failure.code)"])
            throw failure
        } catch {
            throw DeliveryFailure(error)
        }
    }

    private func failure(_ error: HTTPExchangeError, _ route: String) -> DeliveryFailure {
        var failure =
            switch error {
            case .timeout, .connectingTimeout:
                DeliveryFailure(.destination, code: "timeout", message: "\(route): no answer in time")
            case .noConnection(let words), .connectionLost(let words):
                DeliveryFailure(
                    .destination, code: "no_connection", message: "\(route): \(server.host) cannot be reached",
                    serverSaid: oneLine(words))
            case .untrustedServer(let words):
                DeliveryFailure(
                    .destination, code: "untrusted_server",
                    message:
                        "\(route): the certificate of \(server.host) is not trusted, or it does not support TLS 1.2",
                    serverSaid: oneLine(words))
            case .refusedIdentity(let words):
                DeliveryFailure(
                    .destination, code: "authentication_failed",
                    message: "\(route): \(server.host) does not take the certificate", serverSaid: oneLine(words),
                    needsPerson: true)
            case .answerTooLarge:
                DeliveryFailure(.target, code: "answer_too_large", message: "\(route): the answer is too large")
            }
        switch error {
        case .timeout, .connectionLost, .answerTooLarge: failure.mayHaveArrived = true
        case .connectingTimeout, .noConnection, .untrustedServer, .refusedIdentity: break
        }
        return failure
    }

    /// The failure that an answer is, whatever its status.
    func failure(of answer: HTTPAnswer, _ route: String) -> DeliveryFailure {
        let status = answer.status
        let retryAfter = answer.headers.first(name: "retry-after").flatMap(RetryAfter.delay)
        func failure(_ scope: DeliveryFailure.Scope, _ code: String, _ words: String, isPersonal: Bool = false)
            -> DeliveryFailure
        {
            var failure = DeliveryFailure(
                scope, code: code, message: "\(route): \(words) (status \(status))", serverSaid: said(answer),
                needsPerson: isPersonal, retryAfter: retryAfter)
            // A proxy, or a server that failed after it had stored.
            failure.mayHaveArrived = status == 408 || status >= 500
            return failure
        }
        // A page is a proxy's, a captive portal's, or that of another program: it says nothing of the readings.
        let isPage = answer.isPage
        switch status {
        case 300..<400:
            let place = answer.headers.first(name: "location").map(redirectTarget)
            return failure(
                .destination, "redirected",
                "redirects to \(place ?? "another address"), which is not followed: set `url` to where the server is")
        case 401:
            return failure(.destination, "authentication_failed", "the credentials are not accepted", isPersonal: true)
        case 403:
            return failure(
                .destination, "forbidden", "the credentials do not permit this", isPersonal: true)
        case 404, 405:
            return failure(
                .destination, isPage ? "not_json" : "not_found",
                isPage ? "answers with a page: `url` names another place" : "there is no such place at the server")
        case 413: return failure(.tooLarge, "payload_too_large", "the body is too large for the server")
        case 429: return failure(.destination, "rate_limit_exceeded", "too many requests")
        case 408: return failure(.target, "timeout", "the server gave up waiting")
        case 400, 422:
            return isPage
                ? failure(.destination, "not_json", "answers with a page")
                : failure(.items, "validation_failed", "the server rejects what was sent")
        case 400..<500:
            return failure(.target, isPage ? "not_json" : "refused", "the server refuses the request")
        case 500...:
            // A single 5xx may be about one body alone.
            let isWhole =
                answer.headers.first(name: "retry-after") != nil || status == 502 || status == 503 || status == 504
            return failure(isWhole ? .destination : .target, "server_error", "the server failed")
        default:
            return failure(
                .destination, isPage ? "not_json" : "unexpected_answer",
                isPage ? "answers with a page" : "the answer does not fit the request")
        }
    }

    /// The server's own words: what stands at `message`, `error`, `detail` or `description` of JSON, else how it begins.
    func said(_ answer: HTTPAnswer) -> String? {
        guard !answer.body.isEmpty else { return nil }
        if let words = answer.json?.words { return oneLine(words) }
        return ServerText.summary(
            of: answer.body, type: answer.headers.first(name: "content-type"), masking: secrets.map(\.value))
    }

    func oneLine(_ text: String) -> String? { ServerText.oneLine(text, masking: secrets.map(\.value)) }

    /// Where a redirect points, without what may be a secret: its query, and a name and password.
    private func redirectTarget(_ location: String) -> String {
        var place = location.prefix { $0 != "?" && $0 != "#" }
        if let slashes = place.range(of: "//") {
            let authority = place[slashes.upperBound...].prefix { $0 != "/" }
            if let at = authority.lastIndex(of: "@") {
                place = place[..<slashes.upperBound] + place[place.index(after: at)...]
            }
        }
        return oneLine(String(place)) ?? "another address"
    }
}

extension DeliveryFailure {
    /// The failure as one of taking readings back where that goes to other paths than writing them, which a proxy may leave out or
    /// send elsewhere: what answers there says nothing of writing.
    var elsewhere: DeliveryFailure {
        guard scope == .items || ["not_found", "not_json", "redirected"].contains(code) else { return self }
        var failure = self
        failure.scope = .target
        return failure
    }
}
