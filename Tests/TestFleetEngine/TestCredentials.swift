import FleetDelivery
import Synchronization

/// Certificates that a test changes, and what a destination says of them.
package final class TestCredentials: FleetCredentials {
    private struct State {
        var identities: [FleetIdentity] = []
        var accepted: [FleetIdentity] = []
        var refused: [FleetIdentity] = []
    }

    private let state: Mutex<State>

    package init(_ identities: FleetIdentity...) { state = Mutex(State(identities: identities)) }

    package func identities() -> [FleetIdentity] { state.withLock(\.identities) }
    package func accepted(_ identity: FleetIdentity) { state.withLock { $0.accepted.append(identity) } }
    package func refused(_ identity: FleetIdentity, because words: String) {
        state.withLock { $0.refused.append(identity) }
    }
    package var problem: String? { nil }

    package func replace(with identities: FleetIdentity...) { state.withLock { $0.identities = identities } }
    package var wasAccepted: [FleetIdentity] { state.withLock(\.accepted) }
    package var wasRefused: [FleetIdentity] { state.withLock(\.refused) }
}
