import GATTClient
import HealthReadings
import Synchronization

/// The faults of a manager's radio and devices: told of when they begin and when they end, and of nothing between.
final class FaultBoard: Sendable {
    private struct State {
        /// By their subjects' keys.
        var standing: [UInt64?: DeviceFault] = [:]
        /// How many schedules run: they know how the radio stands, and no call has to find out.
        var schedules = 0
    }

    /// The most changes that wait for a listener: one that never listens keeps the newest.
    private static let waiting = 256

    private let state = Mutex(State())
    private let listeners = Broadcaster<DeviceFault>()
    private let now: @Sendable () -> Instant

    /// - Parameter now: the time of the system's clock.
    init(now: @escaping @Sendable () -> Instant = { .systemClock }) { self.now = now }

    /// The faults that stand, then each as it begins and ends.
    func changes() -> AsyncStream<DeviceFault> {
        // Under the lock, or a change between the two would be told twice or not at all.
        let (standing, later) = state.withLock { state in
            (Self.sorted(state.standing.values), listeners.listen(buffering: Self.waiting))
        }
        let (stream, continuation) = AsyncStream.makeStream(of: DeviceFault.self)
        for fault in standing { continuation.yield(fault) }
        let task = Task {
            for await fault in later { continuation.yield(fault) }
            continuation.finish()
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    /// The faults that stand, oldest first.
    var standing: [DeviceFault] { Self.sorted(state.withLock { $0.standing.values }) }

    private static func sorted(_ faults: some Collection<DeviceFault>) -> [DeviceFault] {
        faults.sorted { ($0.began.microseconds, $0.failure.code) < ($1.began.microseconds, $1.failure.code) }
    }

    // MARK: The radio

    /// A schedule says how the radio stands.
    func note(_ adapter: AdapterState) {
        switch adapter {
        case .ready: end(.radio)
        case .unusable(let error): begin(.radio, ContactFailure(error))
        }
    }

    /// A schedule runs from here on until ``endSchedule()``.
    func beginSchedule() { state.withLock { $0.schedules += 1 } }
    func endSchedule() { state.withLock { $0.schedules -= 1 } }

    /// A call could not use the radio: news only where no schedule watches it.
    private func noteRadio(_ error: RadioError) {
        guard state.withLock({ $0.schedules == 0 && $0.standing[nil] == nil }) else { return }
        begin(.radio, ContactFailure(error))
    }

    /// A call could use the radio.
    func noteRadioWorks() {
        guard state.withLock({ $0.schedules == 0 }) else { return }
        end(.radio)
    }

    // MARK: Devices

    /// Notes how a reading of a device ended.
    func note(_ result: Result<ContactSummary, any Error>, of address: DeviceAddress) {
        switch result {
        case .success(let summary):
            noteRadioWorks()
            if let failure = ContactFailure(summary) {
                if failure.isOfTheBond { begin(.device(address), failure) }
            } else {
                end(.device(address))
            }
        case .failure(let error): note(error, of: address)
        }
    }

    /// Notes that a device was paired and its bond has proven itself, or that nobody wants its bond any more.
    func noteBondSettled(of address: DeviceAddress) {
        noteRadioWorks()
        end(.device(address))
    }

    /// Notes what kept a device from being paired or read.
    func note(_ error: any Error, of address: DeviceAddress) {
        if let error = error as? RadioError, error.concernsTheRadio { return noteRadio(error) }
        let failure = ContactFailure(error)
        if failure.isOfTheBond { begin(.device(address), failure) }
    }

    // MARK: Changes

    private func begin(_ subject: DeviceFault.Subject, _ failure: ContactFailure) {
        state.withLock { state in
            let old = state.standing[subject.key]
            guard old?.failure.code != failure.code else { return }
            if let old { tell(old, endedIn: &state) }
            let fault = DeviceFault(subject, failure, began: now())
            state.standing[subject.key] = fault
            listeners.send(fault)
        }
    }

    private func end(_ subject: DeviceFault.Subject) {
        state.withLock { state in
            if let old = state.standing[subject.key] { tell(old, endedIn: &state) }
        }
    }

    private func tell(_ fault: DeviceFault, endedIn state: inout State) {
        var fault = fault
        // A clock that was set back says nothing of how long a fault stood.
        fault.ended = max(now(), fault.began)
        state.standing[fault.subject.key] = nil
        listeners.send(fault)
    }
}

extension DeviceFault.Subject {
    /// The 48 bits of a device's address, `nil` of the radio: who types an address does not know its type.
    fileprivate var key: UInt64? {
        switch self {
        case .radio: nil
        case .device(let address): address.bits
        }
    }
}
