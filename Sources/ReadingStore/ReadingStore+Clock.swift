import GRDB
import HealthReadings
import Synchronization

extension ReadingStore {
    /// Notes what a device's clock shows in a contact that goes on: it could be asked only then, or was set. Durable
    /// when it returns.
    ///
    /// - Throws: ``StoreError``.
    public func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact {
        try await write(.contact) { db in
            guard
                let row = try Row.fetchOne(
                    db.cachedStatement(sql: "SELECT device, zone FROM contact WHERE key = ?"), arguments: [contact.id]),
                let zone = ZoneRules.named(try row.value(1))
            else { throw StoreError.unknown("contact \(contact.id)") }
            try ClockEpochs.note(db, device: try row.value(0), clock, zone: zone)
            try db.executeCached(
                sql: "UPDATE contact SET clock_device_time = ?, clock_read_at = ? WHERE key = ?",
                arguments: [clock.deviceTime.secondsSinceEpoch, clock.readAt.microseconds, contact.id])
        } committed: { [self] in
            // Made again with the comparison when it is next needed.
            contacts.withLock { $0[contact.id]?.isOutdated = true }
        }
        var contact = contact
        contact.clock = clock
        return contact
    }
}
