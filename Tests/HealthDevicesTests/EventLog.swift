import GATTClient
import HealthReadings
import Synchronization

/// What happened, in the order it happened, to a device and to the store at once.
final class EventLog: Sendable {
    enum Event: Sendable, Hashable {
        case connect, disconnect
        case read(BluetoothUUID)
        case write([UInt8])
        case start(BluetoothUUID)
        case stop(BluetoothUUID)
        /// What notifies is left enabled until the link has gone: the device sends nothing unasked.
        case keep
        /// Values left the device; a burst without values of a record's characteristic is not logged.
        case handedOut(Int)
        case began
        case askedForLast
        case append(Int)
        case appended(Int)
        case appendFailed
        case epoch(Int)
        case ended(ContactSummary)
        case paired(PairingState)
    }

    private let state = Mutex<[Event]>([])

    var events: [Event] { state.withLock { $0 } }
    func note(_ event: Event) { state.withLock { $0.append(event) } }
    func clear() { state.withLock { $0 = [] } }

    /// What was written to the control point.
    var requests: [[UInt8]] {
        events.compactMap { if case .write(let octets) = $0 { octets } else { nil } }
    }

    /// Promise 1, over everything that happened: the first thing that broke it; nil where it was kept.
    var breachOfPromise1: String? {
        var owed = 0
        var hasBegun = false
        var notifying: Set<BluetoothUUID> = []
        var keepsNotifying = false
        for event in events {
            switch event {
            case .handedOut(let count):
                if owed > 0 { return "more was taken while \(owed) frames were not durable" }
                owed = count
            // A packet whose second one did not come was durable before, as it came.
            case .append(let count) where owed > 0:
                if count != owed { return "\(owed) frames came together, \(count) were committed" }
            case .append: break
            case .appended: owed = 0
            case .appendFailed: owed = 0
            case .write, .read:
                if owed > 0 { return "the device was asked while \(owed) frames were not durable" }
            case .start(let uuid):
                if owed > 0 { return "\(uuid) was enabled while \(owed) frames were not durable" }
                if !hasBegun { return "\(uuid) was enabled before the contact had begun" }
                notifying.insert(uuid)
            case .stop(let uuid):
                if owed > 0 { return "\(uuid) was stopped while \(owed) frames were not durable" }
                notifying.remove(uuid)
            case .disconnect:
                if owed > 0 { return "disconnected while \(owed) frames were not durable" }
                if !notifying.isEmpty, !keepsNotifying { return "disconnected while \(notifying) notified" }
                (hasBegun, keepsNotifying, notifying) = (false, false, [])
            case .keep: keepsNotifying = true
            case .began: hasBegun = true
            case .connect, .askedForLast, .epoch, .ended, .paired: break
            }
        }
        return owed == 0 ? nil : "\(owed) frames never became durable"
    }
}
