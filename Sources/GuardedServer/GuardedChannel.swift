import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import NIOSSL

/// Takes the host of a request's target, where it has one, for that of its Host field (RFC 9112, section 3.2.2): the
/// next handler drops it, and a host that nobody has looked at must not reach a route.
private final class TargetReader: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data), !head.uri.hasPrefix("/"), head.uri != "*" else {
            return context.fireChannelRead(data)
        }
        if head.headers["Host"].count < 2 {
            head.headers.replaceOrAdd(name: "Host", value: Self.authority(of: head.uri))
        }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    /// What stands between `//` and the path; nothing, which is no host of ours, where that is not plain.
    private static func authority(of target: String) -> String {
        guard let slashes = target.firstRange(of: "//") else { return "" }
        let authority = target[slashes.upperBound...].prefix { !"/?#".contains($0) }
        return authority.contains("@") ? "" : String(authority)
    }
}

/// A connection within ``ServerLimits``, over TLS where there is a certificate: the one in force when it is made.
struct GuardedChannel: HTTPChannelHandler {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    let tls: (@Sendable () -> NIOSSLContext)?
    let census: ConnectionCensus
    let limits: ServerLimits

    var responder: HTTPChannelHandler.Responder { base.responder }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            guard census.enter(channel) else {
                // A channel whose setup fails is not closed by whoever has accepted it: its descriptor would stay.
                channel.close(promise: nil)
                throw ConnectionRefused()
            }
            let pipeline = channel.pipeline.syncOperations
            if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls())) }
            try pipeline.addHandler(OctetMeter(limit: limits.requestOctets))
        }.flatMap {
            base.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
            try pipeline.addHandler(TargetReader(), position: .before(codec))
            return value
        }
    }

    func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }

    private struct ConnectionRefused: Error {}
}
