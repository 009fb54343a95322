import HummingbirdCore
import LocalAccess
import Logging
import NIOCore
import NIOSSL

/// A connection within ``ServerLimits``, over TLS where there is a certificate: the one in force when it is made.
struct GuardedChannel: HTTPChannelHandler {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    let certificates: CertificateKeeper?
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
            if let certificates { try pipeline.addHandler(NIOSSLServerHandler(context: certificates.context)) }
            try pipeline.addHandler(OctetMeter(limit: limits.requestOctets))
        }.flatMap { base.setup(channel: channel, logger: logger) }
    }

    func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }

    private struct ConnectionRefused: Error {}
}
