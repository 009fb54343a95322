import Synchronization

@testable import GatewayCommands

/// A machine of whose clock a test says whether it is synchronised, and how often somebody asked that.
final class SettableWatch: Sendable {
    private struct State {
        var isSynchronized = false
        var asked = 0
    }

    private let state = Mutex(State())

    var isSynchronized: Bool {
        get { state.withLock(\.isSynchronized) }
        set { state.withLock { $0.isSynchronized = newValue } }
    }

    /// How often somebody asked whether it is synchronised.
    var asked: Int { state.withLock(\.asked) }

    var machine: GatewayClock.Machine {
        var machine = GatewayClock.Machine()
        machine.evidence = {
            self.state.withLock { state -> ClockEvidence? in
                state.asked += 1
                return state.isSynchronized ? .kernel : nil
            }
        }
        return machine
    }
}
