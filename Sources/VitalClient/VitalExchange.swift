import AsyncHTTPClient
import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP

/// One request: what is sent where, and how it is called in messages.
struct VitalRequest: Sendable {
    enum Segment: Sendable {
        case fixed(String)
        /// A value in the path with the name that stands for it in messages.
        case value(String, name: String)
    }

    var method: HTTPMethod
    var path: [Segment]
    /// What stands behind the path's question mark.
    var query: [(name: String, value: String)] = []
    var body: JSONValue?
    var isCompressed = false

    /// `POST /v2/timeseries/{user_id}/glucose`.
    var route: String {
        "\(method.rawValue) "
            + path.map { segment in
                switch segment {
                case .fixed(let text): "/" + text
                case .value(_, let name): "/{\(name)}"
                }
            }.joined()
    }

    /// The path as it is sent, values percent-encoded (RFC 3986, 2.3: only unreserved characters stay).
    var encodedPath: String {
        let path = path.map { segment in
            switch segment {
            case .fixed(let text): "/" + text
            case .value(let text, _): "/" + HTTPAddress.encoded(text)
            }
        }.joined()
        guard !query.isEmpty else { return path }
        return path + "?" + query.map { "\($0.name)=\(HTTPAddress.encoded($0.value))" }.joined(separator: "&")
    }
}

/// An answer whose body is complete.
struct VitalAnswer: Sendable {
    var route: String
    var status: Int
    var contentType: String?
    var retryAfter: String?
    var body: [UInt8]
}

extension VitalAPI {
    /// Sends a request and decodes its answer; any status but 2xx is an error.
    func call<Answer: Decodable & Sendable>(_ request: VitalRequest, answers: Answer.Type) async throws -> Answer {
        let answer = try await send(request)
        guard (200..<300).contains(answer.status) else {
            throw AnswerReader(secret: credentials.secret).error(of: answer)
        }
        return try AnswerReader(secret: credentials.secret).decode(Answer.self, from: answer)
    }

    /// Sends a request whose answer matters only by its status.
    func call(_ request: VitalRequest) async throws {
        let answer = try await send(request)
        guard (200..<300).contains(answer.status) else {
            throw AnswerReader(secret: credentials.secret).error(of: answer)
        }
        // A captive portal answers everything with 200 and a page: only JSON, or nothing, acknowledges.
        guard answer.body.isEmpty || answer.status == 204 else {
            _ = try AnswerReader(secret: credentials.secret).decode(AnyJSON.self, from: answer)
            return
        }
    }

    /// Sends a request; a session that the server no longer accepts is renewed once.
    func send(_ request: VitalRequest) async throws -> VitalAnswer {
        guard case .session(let session) = credentials else {
            return try await send(request, authorization: ("x-vital-api-key", credentials.secret.value))
        }
        let token = try await session.accessToken(of: self)
        let answer = try await send(request, authorization: ("authorization", "Bearer " + token.value))
        guard answer.status == 401 else { return answer }
        let renewed = try await session.renewedToken(of: self, insteadOf: token)
        return try await send(request, authorization: ("authorization", "Bearer " + renewed.value))
    }

    func send(
        _ request: VitalRequest, authorization: (name: String, value: String)
    ) async throws -> VitalAnswer {
        var outgoing = HTTPClientRequest(url: server.baseURL + request.encodedPath)
        outgoing.method = request.method
        outgoing.headers.add(name: "accept", value: "application/json")
        outgoing.headers.add(name: "user-agent", value: "HealthRelay")
        outgoing.headers.add(name: authorization.name, value: authorization.value)
        if let json = request.body {
            var octets: [UInt8] = []
            json.write(into: &octets)
            recorder?.record(octets, of: request.route)
            outgoing.headers.add(name: "content-type", value: "application/json")
            if request.isCompressed, let member = Gzip.compress(octets, saving: .time) {
                outgoing.headers.add(name: "content-encoding", value: "gzip")
                octets = member
            }
            outgoing.body = .bytes(octets)
        }
        let begun = ContinuousClock.now
        do {
            let answer = try await exchange(outgoing, route: request.route)
            log(request.route, "\(answer.status)", since: begun)
            return answer
        } catch let error as VitalError {
            log(request.route, error.code, since: begun)
            throw error
        }
    }

    private func log(_ route: String, _ outcome: String, since begun: ContinuousClock.Instant) {
        let milliseconds = (ContinuousClock.now - begun).nanoseconds / 1_000_000
        logger.debug("call", metadata: ["route": "\(route)", "outcome": "\(outcome)", "ms": "\(milliseconds)"])
    }

    /// Sends a request and waits for the whole answer.
    func exchange(_ request: HTTPClientRequest, route: String) async throws -> VitalAnswer {
        do {
            let answer = try await connections.answer(to: request)
            return VitalAnswer(
                route: route, status: answer.status, contentType: answer.headers.first(name: "content-type"),
                retryAfter: answer.headers.first(name: "retry-after"), body: answer.body)
        } catch let error as HTTPExchangeError {
            throw VitalError(withoutAnswer: error, route: route)
        }
    }
}

extension VitalError {
    /// Names what kept an exchange from its answer.
    init(withoutAnswer error: HTTPExchangeError, route: String) {
        switch error {
        case .timeout, .connectingTimeout: self.init(.timeout, route: route)
        case .noConnection(let words), .connectionLost(let words):
            self.init(.noConnection, route: route, serverSaid: words)
        case .untrustedServer(let words), .refusedIdentity(let words):
            self.init(.untrustedServer, route: route, serverSaid: words)
        case .answerTooLarge: self.init(.answerTooLarge, route: route)
        }
    }
}

/// Accepts any JSON.
private struct AnyJSON: Decodable, Sendable {
    init(from decoder: any Decoder) throws {}
}
