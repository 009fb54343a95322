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

    /// By how many seconds a device is ahead of this machine that it was not ahead when its clock was last read; `nil` where it
    /// was never read before.
    ///
    /// A device that was ahead by as much before has no new lead, and neither has one whose person's clocks were changed, or
    /// whose person has moved to another time zone, while its own ran on.
    ///
    /// - Parameters:
    ///   - clock: what the device's clock shows now.
    ///   - device: the device, which need not be known.
    /// - Throws: ``StoreError``.
    package func newLead(_ clock: ClockReading, of device: DeviceDescription) async throws -> Int64? {
        try await read { [sealing, logger] db in
            let keys = try DeviceRegister(db: db, sealing: sealing, logger: logger).known(device)
            guard let key = keys.first, let person = try Self.user(db, forDevice: key),
                let name = try Self.zone(db, of: person, at: clock.readAt), let zone = ZoneRules.named(name)
            else { return nil }
            let readings = try keys.compactMap { try ClockEpochs(db, device: $0, most: 1, zone: zone).last }
            guard let last = readings.max(by: { $0.readAt < $1.readAt }) else { return nil }
            let ahead = ClockComparison(clock, zone: zone).differenceSeconds
            return min(ahead, ahead + zone.offsetSeconds(at: clock.readAt) - last.beyondUTC)
        }
    }
}
