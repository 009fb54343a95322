import GatewaySettings
import HTTPTypes
import HealthReadings
import NIOCore
import NIOHTTPTypes

/// Closes a connection whose request does not end, whose answer nobody takes, or that asks faster than it listens.
///
/// Hummingbird reads a body that no route wanted to its end, and waits for a client that has been answered to close its
/// side. A client could hold a connection with either for as long as it liked.
final class RequestGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let limits: ServerLimits
    private var meter: OctetMeter?
    /// Whether a request has begun whose body has not ended.
    private var isReading = false
    private var bodyOctets = 0
    private var unanswered = 0
    /// Of the requests that are not answered yet, whether each is a HEAD.
    private var heads: [Bool] = []
    /// Whether the end of the answer that is being written would be content, of which an answer to HEAD has none.
    private var isBare = false
    /// Whether the answer that is being written is the connection's last one.
    private var isLast = false
    /// Whether the last answer is written: what comes in now is dropped.
    private var isDone = false
    /// Whether the guard has answered in the route's place: what the route writes is dropped.
    private var isTimedOut = false
    private var bodyDeadline: Scheduled<Void>?
    private var stallDeadline: Scheduled<Void>?
    private var lingerDeadline: Scheduled<Void>?

    init(_ limits: ServerLimits) { self.limits = limits }

    func handlerAdded(context: ChannelHandlerContext) {
        meter = try? context.pipeline.syncOperations.handler(type: OctetMeter.self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancelAll() }

    func channelInactive(context: ChannelHandlerContext) {
        cancelAll()
        context.fireChannelInactive()
    }

    // MARK: The request

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            unanswered += 1
            heads.append(head.method == .head)
            guard unanswered <= limits.pipelined else {
                isDone = true
                return context.close(promise: nil)
            }
            (isReading, bodyOctets) = (true, 0)
            if expectsContinue(head) {
                context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
            }
        case .body(let buffer):
            // The first bytes too many are handed on, so that the route says what is wrong.
            guard bodyOctets <= limits.bodyOctets else { return }
            bodyOctets += buffer.readableBytes
        case .end:
            isReading = false
            bodyDeadline?.cancel()
            bodyDeadline = nil
            meter?.reset()
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isReading, bodyDeadline == nil, !isDone {
            bodyDeadline = context.eventLoop.assumeIsolated().scheduleTask(in: limits.body) {
                self.timeOut(context: context)
            }
        }
        context.fireChannelReadComplete()
    }

    /// Answers 408 in the route's place where the body's time is over and nothing is answered yet: on a busy machine a
    /// route may be late to do so. Ends the connection where an answer is on its way.
    private func timeOut(context: ChannelHandlerContext) {
        guard isReading, unanswered == 1, let isHead = heads.first else { return context.close(promise: nil) }
        (isTimedOut, isLast) = (true, true)
        (heads, unanswered) = ([], 0)
        var octets: [UInt8] = []
        APIRefusal.bodyTimedOut.problem.document.write(into: &octets)
        let head = HTTPResponse(
            status: APIRefusal.bodyTimedOut.status,
            headerFields: [
                .contentType: "application/json", .contentLength: String(octets.count), .connection: "close",
                .date: Instant.systemClock.httpDate, .server: "healthrelay",
            ])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !isHead { context.write(wrapOutboundOut(.body(ByteBuffer(bytes: octets))), promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        close(context: context, mode: .output, promise: nil)
    }

    /// Whether the client waits to be told that its body is wanted (RFC 9110, section 10.1.1). One that would be too
    /// large is refused instead.
    private func expectsContinue(_ head: HTTPRequest) -> Bool {
        guard head.headerFields[.expect]?.lowercased() == "100-continue" else { return false }
        return head.headerFields[.contentLength].flatMap(Int.init).map { $0 <= limits.bodyOctets } ?? true
    }

    // MARK: The answer

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isTimedOut else {
            promise?.succeed()
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(var head):
            if head.status.kind != .informational {
                let isHead = heads.isEmpty ? false : heads.removeFirst()
                // Without a length the next handler would send the content in chunks, and the end as an empty one.
                isBare = isHead && head.headerFields[.contentLength] == nil
                if isBare {
                    isLast = true
                    head.headerFields[.connection] = "close"
                    return context.write(wrapOutboundOut(.head(head)), promise: promise)
                }
            }
            // A later request that has begun has its own answer.
            guard isReading, unanswered <= 1, head.status.kind != .informational else {
                return context.write(data, promise: promise)
            }
            isLast = true
            head.headerFields[.connection] = "close"
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            context.write(data, promise: promise)
        case .end:
            unanswered -= 1
            guard isLast, !isDone else { return context.write(data, promise: promise) }
            if isBare {
                context.flush()
                promise?.succeed()
            } else {
                context.writeAndFlush(data, promise: promise)
            }
            close(context: context, mode: .output, promise: nil)
        }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if mode == .output {
            isDone = true
            bodyDeadline?.cancel()
            if lingerDeadline == nil { lingerDeadline = Self.close(context, in: limits.linger) }
        }
        context.close(mode: mode, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stallDeadline?.cancel()
        stallDeadline = context.channel.isWritable ? nil : Self.close(context, in: limits.stall)
        context.fireChannelWritabilityChanged()
    }

    // MARK: Deadlines

    private static func close(_ context: ChannelHandlerContext, in time: TimeAmount) -> Scheduled<Void> {
        let channel = context.channel
        return context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
    }

    private func cancelAll() {
        for deadline in [bodyDeadline, stallDeadline, lingerDeadline] { deadline?.cancel() }
        (bodyDeadline, stallDeadline, lingerDeadline) = (nil, nil, nil)
    }
}

/// Counts the bytes of a request as they come over the network, below its chunks and their extensions.
final class OctetMeter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let limit: Int
    private var count = 0

    /// - Parameter limit: how many bytes a request may have.
    init(limit: Int) { self.limit = limit }

    /// A request has ended.
    func reset() { count = 0 }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let isOver = count > limit
        count += unwrapInboundIn(data).readableBytes
        guard count <= limit else {
            if !isOver { context.close(promise: nil) }
            return
        }
        context.fireChannelRead(data)
    }
}
