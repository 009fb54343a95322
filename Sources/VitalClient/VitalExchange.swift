import AsyncHTTPClient
import Foundation
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL

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
            case .value(let text, _): "/" + Self.encoded(text)
            }
        }.joined()
        guard !query.isEmpty else { return path }
        return path + "?" + query.map { "\($0.name)=\(Self.encoded($0.value))" }.joined(separator: "&")
    }

    static func encoded(_ text: String) -> String {
        var octets: [UInt8] = []
        for octet in text.utf8 {
            switch octet {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"):
                octets.append(octet)
            case UInt8(ascii: ".") where text.utf8.contains(where: { $0 != octet }):
                octets.append(octet)
            default:
                // Dots alone are encoded as well: they would name another folder.
                octets.append(UInt8(ascii: "%"))
                octets.append(contentsOf: octet.hexadecimal(uppercase: true).utf8)
            }
        }
        return String(decoding: octets, as: UTF8.self)
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
            if request.isCompressed, let member = Gzip.compress(octets) {
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

    /// The call's time covers the body as well: a server that sends one octet a second must not hold us for ever.
    func exchange(_ request: HTTPClientRequest, route: String) async throws -> VitalAnswer {
        let (client, limits) = (connections.client, limits)
        do {
            return try await withThrowingTaskGroup(of: VitalAnswer.self) { group in
                group.addTask {
                    let response = try await client.execute(request, timeout: .nanoseconds(limits.call.nanoseconds))
                    let body = try await response.body.collect(upTo: limits.responseBytes)
                    return VitalAnswer(
                        route: route, status: Int(response.status.code),
                        contentType: response.headers.first(name: "content-type"),
                        retryAfter: response.headers.first(name: "retry-after"), body: Array(body.readableBytesView))
                }
                group.addTask {
                    try await Task.sleep(for: limits.call)
                    throw VitalError(.timeout, route: route)
                }
                defer { group.cancelAll() }
                guard let answer = try await group.next() else { throw CancellationError() }
                return answer
            }
        } catch {
            throw Self.translated(error, route: route)
        }
    }

    /// What a failed exchange means; descriptions of the network's errors name addresses and never headers.
    private static func translated(_ error: any Error, route: String) -> any Error {
        if Task.isCancelled { return CancellationError() }
        switch error {
        case let error as VitalError: return error
        case is NIOTooManyBytesError: return VitalError(.answerTooLarge, route: route)
        case let error as HTTPClientError where timeouts.contains(error): return VitalError(.timeout, route: route)
        case let error as HTTPClientError:
            return VitalError(.noConnection, route: route, serverSaid: error.shortDescription)
        case is CancellationError: return error
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError, is NIOTLSUnwrappingError,
            is NIOSSLCloseTimedOutError:
            return VitalError(.untrustedServer, route: route, serverSaid: TLSFailure.words(error))
        default:
            return VitalError(.noConnection, route: route, serverSaid: String("\(error)".prefix(300)))
        }
    }

    private static let timeouts: [HTTPClientError] = [
        .connectTimeout, .deadlineExceeded, .readTimeout, .writeTimeout, .tlsHandshakeTimeout,
        .getConnectionFromPoolTimeout,
    ]
}

/// Accepts any JSON.
private struct AnyJSON: Decodable, Sendable {
    init(from decoder: any Decoder) throws {}
}
