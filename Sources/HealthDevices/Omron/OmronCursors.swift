import HealthReadings
import Synchronization

/// Where monitors said that they write next, when their memory was last read to the end: known while the process runs.
///
/// A user whose cursor is the same has measured nothing since, and isn't asked for the newest record again. A ring that went
/// all around meanwhile would look the same. So this is believed for a day, and only of rings that nobody fills in a day.
final class OmronCursors: Sendable {
    private struct Entry {
        var memory: OmronMemory
        var positions: [OmronIndex.Position]
        var readAt: Instant
    }

    /// For how long a cursor is believed, in seconds.
    static let beliefTime: Int64 = 86_400
    /// The slots of the smallest ring of which it is believed.
    static let fewestSlots = 60

    private let entries = Mutex<[DeviceAddress: Entry]>([:])

    /// Takes out what a monitor said when it was last read to the end. It is known again once it has been read to the end.
    ///
    /// - Returns: each user's position; empty if nothing is known, or no longer.
    func take(of contact: Contact, _ memory: OmronMemory) -> [OmronIndex.Position] {
        guard let address = contact.device.address,
            let entry = entries.withLock({ $0.removeValue(forKey: address) }), entry.memory == memory,
            memory.count >= Self.fewestSlots
        else { return [] }
        let age = contact.startedAt.microseconds - entry.readAt.microseconds
        return (0..<Self.beliefTime * 1_000_000).contains(age) ? entry.positions : []
    }

    /// Remembers what a monitor said that has been read to the end.
    func keep(_ positions: [OmronIndex.Position], of contact: Contact, _ memory: OmronMemory) {
        guard let address = contact.device.address else { return }
        let entry = Entry(memory: memory, positions: positions, readAt: contact.startedAt)
        entries.withLock { $0[address] = entry }
    }
}
