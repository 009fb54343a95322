import HummingbirdCore
import LocalAccess
import Logging
import NIOCore
import NIOSSL
import Synchronization

/// A connection of the local API: over TLS where there is a certificate, the one in force when it is made; not more of
/// one address than it may have.
struct GuardedChannel: HTTPChannelHandler {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    let certificates: CertificateKeeper?
    let census: ConnectionCensus

    var responder: HTTPChannelHandler.Responder { base.responder }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            guard census.enter(channel) else {
                // A channel whose setting up fails is not closed by whoever has accepted it: its descriptor would stay.
                channel.close(promise: nil)
                throw ConnectionRefused()
            }
            if let certificates {
                try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: certificates.context))
            }
        }.flatMap { base.setup(channel: channel, logger: logger) }
    }

    func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }

    private struct ConnectionRefused: Error {}
}

/// Counts the connections of each address.
final class ConnectionCensus: Sendable {
    /// How many an address may have at a time; this machine's own may have as many as there are.
    static let limit = 64

    private let counts = Mutex<[String: Int]>([:])

    /// - Returns: whether there is room for one more; it is counted until it closes.
    func enter(_ channel: any Channel) -> Bool {
        guard let address = channel.remoteAddress?.ipAddress, !Self.isLoopback(address) else { return true }
        let isWelcome = counts.withLock { counts in
            guard counts[address, default: 0] < Self.limit else { return false }
            counts[address, default: 0] += 1
            return true
        }
        if isWelcome {
            channel.closeFuture.whenComplete { [weak self] _ in self?.leave(address) }
        }
        return isWelcome
    }

    private func leave(_ address: String) {
        counts.withLock { counts in
            let rest = counts[address, default: 1] - 1
            counts[address] = rest > 0 ? rest : nil
        }
    }

    private static func isLoopback(_ address: String) -> Bool { address.hasPrefix("127.") || address == "::1" }
}
