import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A request as the phone received it.
package struct PhoneRequest: Sendable {
    package var method: String
    package var path: String
    /// By name in lower case.
    package var headers: [String: String]
    package var body: Data
    /// Which request it is, from 0.
    package var number: Int

    /// The body's members.
    package var members: [String: Any] { (try? JSONSerialization.jsonObject(with: body)) as? [String: Any] ?? [:] }
}

/// What the phone answers.
package struct PhoneReply: Sendable {
    package var status = 200
    package var reason = "OK"
    package var type = "application/json"
    package var headers: [String: String] = [:]
    package var body = Data()
    /// After how many octets of the body the connection breaks; nil: not at all.
    package var breaksAfter: Int?
    /// Whether the answer says how long it is.
    package var tellsLength = true
    /// How many seconds the phone takes.
    package var delay: Int64 = 0
    /// Whether nothing is ever answered.
    package var isSilent = false

    package init() {}

    /// The app's refusals are plain text.
    package static func refusal(_ status: Int, _ reason: String, _ words: String) -> PhoneReply {
        var reply = PhoneReply()
        reply.status = status
        reply.reason = reason
        reply.type = "text/plain"
        reply.body = Data(words.utf8)
        return reply
    }

    static func json(_ value: some Encodable, status: Int = 200, reason: String = "OK") -> PhoneReply {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        var reply = PhoneReply()
        reply.status = status
        reply.reason = reason
        reply.body = (try? encoder.encode(value)) ?? Data("{}".utf8)
        return reply
    }
}

/// An iPhone with the Health Sync app, on a loopback socket: the app's published routes over real TLS 1.3.
///
/// It is written from the app's package source, and shares no code with the gateway's own server of the same routes. It has the
/// app's quirks: a connection for each answer, plain text for refusals, times without fractions, no metadata beside quantities,
/// sleep stages that are filtered after a page is counted, and types that are only refused as a whole.
package final class EmulatedPhone: Sendable {
    /// What the phone has and does.
    package struct State: Sendable {
        /// What its HealthKit holds.
        package var samples: [PhoneSample] = []
        /// The types that its owner shares.
        package var enabled: [String] = []
        /// What it calls itself.
        package var name = "Ann's iPhone"
        /// The code that it shows; nil: none.
        package var code: String?
        /// The tokens that it accepts.
        package var tokens: Set<String> = []
        /// Whether it is locked.
        package var isLocked = false
        /// How far the phone's clock is ahead.
        package var clockAhead: TimeInterval = 0
        /// Requests allowed in a minute.
        package var rate = 60
        /// The largest limit that is heeded.
        package var largestPage = 10_000
        /// Changes an answer before it is sent: the test's faults.
        package var fault: (@Sendable (PhoneRequest, inout PhoneReply) -> Void)?
        var requests: [PhoneRequest] = []
        var connections = 0
        var requestTimes: [String: [Date]] = [:]

        /// A phone with nothing.
        package init() {}
    }

    /// What it shows of itself.
    package let certificate: PhoneCertificate
    /// The port on 127.0.0.1.
    package let port: Int
    private let channel: any Channel
    private let state: Mutex<State>

    private init(_ certificate: PhoneCertificate, _ channel: any Channel, _ state: State) {
        self.certificate = certificate
        self.channel = channel
        self.state = Mutex(state)
        port = channel.localAddress?.port ?? 0
    }

    /// Starts a phone.
    ///
    /// - Parameter speaksOldTLS: whether it speaks TLS 1.2 and no other; the app speaks 1.3 alone.
    package static func start(
        certificate: PhoneCertificate? = nil, port: Int = 0, speaksOldTLS: Bool = false, _ state: State = State()
    ) async throws -> EmulatedPhone {
        let certificate = try certificate ?? PhoneCertificate()
        let context = try certificate.context(speaksOldTLS: speaksOldTLS)
        let box = Box()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                    try channel.pipeline.syncOperations.addHandler(ConnectionHandler(box))
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        let phone = EmulatedPhone(certificate, channel, state)
        box.phone.withLock { $0 = phone }
        return phone
    }

    /// Stops it.
    package func stop() async { try? await channel.close() }

    /// Changes what the phone has and does.
    package func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// Every request so far.
    package var requests: [PhoneRequest] { state.withLock(\.requests) }
    /// How many connections have been made, with or without a handshake.
    package var connections: Int { state.withLock(\.connections) }

    /// Shows a new pairing code.
    ///
    /// - Returns: what the QR code holds.
    package func showCode(_ code: String = "Ab3dE7gH") -> String {
        struct Payload: Encodable {
            var version = "1"
            var host = "127.0.0.1"
            var port: Int
            var code: String
            var expiresAt: Date
            var certificateFingerprint: String
        }
        let now = state.withLock { state in
            state.code = code
            return Date().addingTimeInterval(state.clockAhead)
        }
        let payload = Payload(
            port: port, code: code, expiresAt: now.addingTimeInterval(300),
            certificateFingerprint: certificate.fingerprint)
        return String(decoding: PhoneReply.json(payload).body, as: UTF8.self)
    }

    /// A token that the phone accepts.
    package func token() -> String {
        let token = UUID().uuidString.replacingOccurrences(of: "-", with: "")
        state.withLock { _ = $0.tokens.insert(token) }
        return token
    }

    fileprivate func connect() { state.withLock { $0.connections += 1 } }

    fileprivate func answer(_ request: PhoneRequest) -> PhoneReply {
        state.withLock { state in
            var request = request
            request.number = state.requests.count
            state.requests.append(request)
            var reply = state.route(request)
            state.fault?(request, &reply)
            return reply
        }
    }
}

extension EmulatedPhone.State {
    mutating func route(_ request: PhoneRequest) -> PhoneReply {
        if request.path == "/api/v1/pair", request.method == "POST" { return pair(request) }
        let words = (request.headers["authorization"] ?? "").split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer", tokens.contains(String(words[1])) else {
            return .refusal(401, "Unauthorized", "Missing or invalid token")
        }
        let token = String(words[1])
        let recent = requestTimes[token, default: []].filter { Date().timeIntervalSince($0) < 60 }
        guard recent.count < rate else { return .refusal(429, "Too Many Requests", "Rate limit exceeded") }
        requestTimes[token] = recent + [Date()]
        switch (request.method, request.path) {
        case ("GET", "/api/v1/status"):
            struct Status: Encodable {
                var status = "ok"
                var version = "1"
                var deviceName: String
                var enabledTypes: [String]
                var serverTime: Date
            }
            return .json(
                Status(deviceName: name, enabledTypes: enabled, serverTime: Date().addingTimeInterval(clockAhead)))
        case ("GET", "/api/v1/health/types"): return .json(["enabledTypes": enabled])
        case ("POST", "/api/v1/health/data"): return data(request)
        default: return .refusal(404, "Not Found", "Unknown route")
        }
    }

    private mutating func pair(_ request: PhoneRequest) -> PhoneReply {
        guard let given = request.members["code"] as? String, request.members["clientName"] is String else {
            return .refusal(400, "Bad Request", "Invalid request format")
        }
        guard let code else {
            return .refusal(400, "Bad Request", "No pairing session active. Generate a new QR code in the iOS app.")
        }
        guard given == code else {
            return .refusal(400, "Bad Request", "Invalid pairing code. Check that you copied the latest QR code.")
        }
        self.code = nil
        struct Pairing: Encodable {
            var token: String
            var expiresAt: Date
        }
        let token = UUID().uuidString.replacingOccurrences(of: "-", with: "")
        tokens.insert(token)
        return .json(Pairing(token: token, expiresAt: Date().addingTimeInterval(clockAhead + 30 * 86_400)))
    }

    private struct Answer: Encodable {
        struct Sample: Encodable {
            var id: UUID
            var type: String
            var value: Double
            var unit: String
            var startDate, endDate: Date
            var sourceName: String
            var metadata: [String: String]?
        }
        var status: String
        var samples: [Sample]
        var message: String?
        var hasMore: Bool
        var returnedCount: Int
    }

    private struct Question: Decodable {
        var startDate, endDate: Date
        var types: [String]
        var limit, offset: Int?
    }

    private func data(_ request: PhoneRequest) -> PhoneReply {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        guard let question = try? decoder.decode(Question.self, from: request.body) else {
            return .refusal(400, "Bad Request", "Invalid request body")
        }
        guard !question.types.isEmpty else { return .refusal(400, "Bad Request", "No data types requested") }
        guard question.endDate >= question.startDate else {
            return .refusal(400, "Bad Request", "Invalid date range")
        }
        let limit = min(question.limit ?? 1000, largestPage)
        let offset = max(question.offset ?? 0, 0)
        guard limit > 0 else { return .refusal(400, "Bad Request", "Limit must be positive") }
        guard Set(question.types).isSubset(of: enabled) else {
            return .refusal(403, "Forbidden", "Requested data types are not enabled")
        }
        guard !isLocked else {
            return .json(
                Answer(status: "locked", samples: [], message: "Device is locked", hasMore: false, returnedCount: 0),
                status: 423, reason: "Locked")
        }
        var collected: [Answer.Sample] = []
        for type in question.types {
            let stage = PhoneSample.stages[type]
            let queried = samples.filter {
                $0.type == (stage == nil ? type : "sleepAnalysis") && $0.start >= question.startDate
                    && $0.start < question.endDate
            }
            .sorted { $0.start > $1.start }.prefix(limit + offset + 1)
            // The app leaves other stages out only now.
            for sample in queried where stage == nil || sample.value == stage {
                collected.append(
                    Answer.Sample(
                        id: sample.id, type: type, value: sample.value, unit: sample.unit, startDate: sample.start,
                        endDate: sample.end, sourceName: sample.source, metadata: sample.metadata))
            }
        }
        let rest = collected.sorted { $0.startDate > $1.startDate }.dropFirst(offset)
        let page = Array(rest.prefix(limit))
        return .json(
            Answer(status: "ok", samples: page, message: nil, hasMore: rest.count > limit, returnedCount: page.count))
    }
}

private final class Box: Sendable {
    let phone = Mutex<EmulatedPhone?>(nil)
}

/// Reads one request, answers it and closes, as the app does.
private final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let box: Box
    private var received = Data()
    private var isAnswered = false

    init(_ box: Box) { self.box = box }

    func channelActive(context: ChannelHandlerContext) {
        box.phone.withLock(\.self)?.connect()
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received.append(contentsOf: unwrapInboundIn(data).readableBytesView)
        guard !isAnswered, let request = parsed(), let phone = box.phone.withLock(\.self) else { return }
        isAnswered = true
        let reply = phone.answer(request)
        guard !reply.isSilent else { return }
        let channel = context.channel
        let octets = ByteBuffer(bytes: reply.octets)
        context.eventLoop.scheduleTask(in: .seconds(reply.delay)) {
            channel.writeAndFlush(octets).whenComplete { _ in channel.close(promise: nil) }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func parsed() -> PhoneRequest? {
        guard let end = received.range(of: Data("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: received[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count >= 2 else { return nil }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(
                in: .whitespaces)
        }
        let body = received[end.upperBound...]
        guard body.count >= Int(headers["content-length"] ?? "0") ?? 0 else { return nil }
        return PhoneRequest(
            method: String(words[0]), path: String(words[1]), headers: headers, body: Data(body), number: 0)
    }
}

extension PhoneReply {
    fileprivate var octets: [UInt8] {
        var head = "HTTP/1.1 \(status) \(reason)\r\nContent-Type: \(type)\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if tellsLength { head += "Content-Length: \(body.count)\r\n" }
        return Array((head + "\r\n").utf8) + Array(body.prefix(breaksAfter ?? .max))
    }
}
