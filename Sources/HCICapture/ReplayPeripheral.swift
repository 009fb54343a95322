import GATTClient
import HealthReadings
import Synchronization

/// A peripheral of a capture, for one visit: it says what it said then.
final class ReplayPeripheral: Peripheral {
    let advertisement: Advertisement
    private let known: [Characteristic]
    private let visit: Mutex<ReplayVisit>
    private let gate: VisitGate

    init(_ visit: ReplayVisit, gate: VisitGate) {
        advertisement = visit.plan.advertisement
        known = visit.plan.characteristics
        self.visit = Mutex(visit)
        self.gate = gate
    }

    // A reader that is cancelled may drop a peripheral without a word.
    deinit { gate.leave(visit.withLock { $0 }) }

    var answerSource: AnswerSource { visit.withLock { $0.answersLess } ? .narrowerRecording : .recording }

    func connect() async throws -> Instant {
        let start = try visit.withLock { try $0.connect() }
        gate.enter()
        return start
    }

    func characteristics() async throws -> [Characteristic] {
        guard visit.withLock({ $0.isConnected }) else { throw GATTError.disconnected }
        return known
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        try visit.withLock { try $0.read(characteristic) }
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        try visit.withLock { try $0.write(octets, to: characteristic) }
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        try visit.withLock { try $0.setNotifying(true, characteristic) }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        try visit.withLock { try $0.setNotifying(false, characteristic) }
    }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        try visit.withLock { try $0.nextValues(within: timeout) }
    }

    func disconnect() async {
        let finished = visit.withLock { visit in
            visit.disconnect()
            return visit
        }
        gate.leave(finished)
    }
}

/// Tells a central when a visit of one of its peripherals is over.
final class VisitGate: Sendable {
    private struct State {
        var isInside = false
        var remainder: ReplayVisit?
        var waiting: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    func enter() { state.withLock { $0.isInside = true } }

    /// Ends the visit; what it left is for the next.
    func leave(_ visit: ReplayVisit) {
        let waiting = state.withLock { state in
            defer { state.waiting = nil }
            if state.isInside { state.remainder = visit }
            state.isInside = false
            return state.waiting
        }
        waiting?.resume()
    }

    /// Waits while the peripheral is connected; gives what the visit left, once.
    func remainder() async -> ReplayVisit? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    guard state.isInside, !Task.isCancelled else { return true }
                    state.waiting = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let waiting = state.withLock { state in
                defer { state.waiting = nil }
                return state.waiting
            }
            waiting?.resume()
        }
        return state.withLock { state in
            defer { state.remainder = nil }
            return state.remainder
        }
    }
}
