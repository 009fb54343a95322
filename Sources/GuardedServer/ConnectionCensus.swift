import NIOCore
import Synchronization

/// Decides who may open another connection.
///
/// Some slots are for this machine alone. The fewer slots are free, the fewer a single network may take, so that a few
/// addresses cannot hold all of them.
final class ConnectionCensus: Sendable {
    /// What one network may hold however few slots are free.
    static let leastOfOne = 4

    private struct State {
        var held: [String: Int] = [:]
        var total = 0
    }

    /// How many connections other machines may hold together.
    let capacity: Int
    /// The most that one network may hold.
    private let mostOfOne: Int
    private let state = Mutex(State())

    /// Counts the connections of a server with these limits.
    convenience init(_ limits: ServerLimits) {
        self.init(capacity: limits.connections - limits.reserved, mostOfOne: limits.connectionsOfOne)
    }

    /// - Parameters:
    ///   - capacity: how many connections other machines may hold together.
    ///   - mostOfOne: the most that one network may hold.
    init(capacity: Int, mostOfOne: Int = ServerLimits().connectionsOfOne) {
        self.capacity = capacity
        self.mostOfOne = mostOfOne
    }

    /// Counts a channel until it closes.
    ///
    /// - Returns: whether there is room for it.
    func enter(_ channel: any Channel) -> Bool {
        let peer = PeerAddress(channel.remoteAddress?.ipAddress)
        guard enter(peer) else { return false }
        channel.closeFuture.whenComplete { [weak self] _ in self?.leave(peer) }
        return true
    }

    /// - Returns: whether there is room for one more connection of a peer.
    func enter(_ peer: PeerAddress) -> Bool {
        guard !peer.isLoopback else { return true }
        return state.withLock { state in
            let free = capacity - state.total
            let allowance = min(mostOfOne, max(Self.leastOfOne, free / 4))
            guard free > 0, state.held[peer.network, default: 0] < allowance else { return false }
            state.held[peer.network, default: 0] += 1
            state.total += 1
            return true
        }
    }

    /// A connection of a peer has closed.
    func leave(_ peer: PeerAddress) {
        guard !peer.isLoopback else { return }
        state.withLock { state in
            let rest = state.held[peer.network, default: 1] - 1
            state.held[peer.network] = rest > 0 ? rest : nil
            state.total -= 1
        }
    }
}
