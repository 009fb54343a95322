import Foundation
import GRDB
import HealthReadings
import Logging

/// Finds the device behind an address or a serial number, and remembers what it says of itself.
struct DeviceRegister {
    let db: Database
    let sealing: Sealing
    let logger: Logger

    /// The device's number, made where it is new, joined where two turn out to be one.
    func note(_ description: DeviceDescription, at seen: Instant, batteryPercent: UInt8?) throws -> Int64 {
        let known = try find(description)
        let key = try known ?? insert(description)
        try doubtContacts(of: key, before: description.model)
        try db.executeCached(
            sql: """
                UPDATE device SET model = coalesce(?1, model), provider = ?2, battery_percent = coalesce(?3, battery_percent),
                    last_seen = max(coalesce(last_seen, ?4), ?4)
                WHERE key = ?5
                """,
            arguments: [
                description.model, description.provider, batteryPercent.map { Int64($0) }, seen.microseconds, key,
            ])
        try noteLabel(of: description, device: key)
        try noteAddress(of: description, device: key, at: seen)
        return key
    }

    /// The number of a device of which a bond is to be noted, made where it is new, joined where two turn out to be
    /// one. What the description leaves out stays as it is.
    func noteBond(_ description: DeviceDescription) throws -> Int64 {
        guard let key = try find(description) else {
            let key = try insert(description)
            try noteAddress(of: description, device: key, at: nil)
            return key
        }
        try doubtContacts(of: key, before: description.model)
        try db.executeCached(
            sql: """
                UPDATE device SET model = coalesce(?1, model), provider = CASE WHEN ?1 IS NULL THEN provider ELSE ?2 END
                WHERE key = ?3
                """, arguments: [description.model, description.provider, key])
        try noteLabel(of: description, device: key)
        try noteAddress(of: description, device: key, at: nil)
        return key
    }

    /// Lets no contact vouch for what it has brought if the device was read as another model: its memory may have places that
    /// the other model does not have.
    private func doubtContacts(of device: Int64, before model: String?) throws {
        try db.executeCached(
            sql: """
                UPDATE contact SET announced = NULL
                WHERE key = (SELECT max(key) FROM contact WHERE device = ?1)
                    AND EXISTS (SELECT 1 FROM device WHERE key = ?1 AND model IS NOT NULL AND model <> ?2)
                """, arguments: [device, model])
    }

    /// Notes what the device says of itself; a store that is locked keeps what it has.
    private func noteLabel(of description: DeviceDescription, device: Int64) throws {
        guard sealing.refusal == nil else { return }
        let blob = try Data.fetchOne(
            db.cachedStatement(sql: "SELECT label FROM device WHERE key = ?"), arguments: [device])
        let known = blob.flatMap { try? sealing.label($0, of: device) }
        let label = DeviceLabel(serial: description.serial ?? known?.serial, name: description.name ?? known?.name)
        guard label != known ?? DeviceLabel() else { return }
        try db.executeCached(
            sql: "UPDATE device SET label = ? WHERE key = ?", arguments: [sealing.seal(label, of: device), device])
    }

    private func noteAddress(of description: DeviceDescription, device: Int64, at seen: Instant?) throws {
        guard let address = description.address else { return }
        try db.executeCached(
            sql: """
                INSERT INTO device_address (address, address_kind, device, last_seen) VALUES (?, ?, ?, ?)
                ON CONFLICT (address, address_kind) DO UPDATE SET last_seen = coalesce(excluded.last_seen, last_seen)
                """,
            arguments: [Int64(bitPattern: address.bits), address.kindCode, device, seen?.microseconds])
    }

    /// The number of the oldest device that gave this serial number.
    func sensor(serial: String, model: String?) throws -> Int64? {
        try device(of: model) { $0.serial == serial }
    }

    /// The number of a device with an address, the oldest first where two are about to turn out to be one; none where it is
    /// not known.
    func known(_ description: DeviceDescription) throws -> [Int64] {
        let (byAddress, bySerial) = try matches(description)
        return Set([byAddress, bySerial].compactMap(\.self)).sorted()
    }

    /// The numbers of the device with the description's address, and of the one with its serial number.
    private func matches(_ description: DeviceDescription) throws -> (byAddress: Int64?, bySerial: Int64?) {
        let byAddress = try description.address.flatMap { address in
            try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT device FROM device_address WHERE address = ? AND address_kind = ?"),
                arguments: [Int64(bitPattern: address.bits), address.kindCode])
        }
        var bySerial = try description.serial.flatMap { serial in
            try device(of: description.model) { $0.serial == serial }
        }
        if let namesake = bySerial, try isAnother(namesake, than: byAddress, description) {
            bySerial = nil
        }
        return (byAddress, bySerial)
    }

    private func find(_ description: DeviceDescription) throws -> Int64? {
        switch try matches(description) {
        case (.some(let one), .some(let other)) where one != other:
            let older = min(one, other)
            try join(max(one, other), into: older)
            return older
        case (.some(let key), _), (nil, .some(let key)): return key
        case (nil, nil):
            guard description.address == nil else { return nil }
            let wanted = DeviceLabel(serial: description.serial, name: description.name)
            return try device(of: description.model, "AND address IS NULL") { $0 == wanted }
        }
    }

    /// Whether the oldest device that gave the same serial number is another one: the number is known of two devices, or
    /// the settings give the two to different people.
    private func isAnother(_ namesake: Int64, than known: Int64?, _ description: DeviceDescription) throws -> Bool {
        guard namesake != known, let address = description.address else { return false }
        let second = try device(of: description.model, after: namesake) { $0.serial == description.serial }
        return try second != nil || SlotOwners.areDifferent(db, of: address, and: namesake)
    }

    /// The oldest device of a model that has such a label, of those after another; none of a store that is locked.
    private func device(
        of model: String?, _ condition: String = "", after key: Int64 = 0, where isWanted: (DeviceLabel) -> Bool
    ) throws -> Int64? {
        guard sealing.refusal == nil else { return nil }
        let select = try PreparedStatement(
            db, "SELECT key, label FROM device WHERE model IS ? AND key > ? \(condition) ORDER BY key")
        select.bind(1, model)
        select.bind(2, key)
        defer { select.reset() }
        while try select.next() {
            let key = select.int(0)
            let label = select.isNull(1) ? nil : select.withOctets(1) { try? sealing.label($0, of: key) }
            if isWanted(label ?? DeviceLabel()) { return key }
        }
        return nil
    }

    private func insert(_ description: DeviceDescription) throws -> Int64 {
        try db.executeCached(
            sql: """
                INSERT INTO device (address, address_kind, model, provider) VALUES (?, ?, ?, ?)
                """,
            arguments: [
                description.address.map { Int64(bitPattern: $0.bits) }, description.address?.kindCode,
                description.model, description.provider,
            ])
        let key = db.lastInsertedRowID
        try noteLabel(of: description, device: key)
        return key
    }

    /// Makes two devices one: the older keeps its identity, and what was stored of the younger keeps its ids, under
    /// which a full re-read finds it again.
    private func join(_ younger: Int64, into older: Int64) throws {
        for device in [younger, older] { try Judgement.forget(db, device: device) }
        let unreadable = try ReadingStore.moveRows(db, from: younger, to: older, sealing)
        if !unreadable.isEmpty {
            logger.warning(
                "damaged rows of a device joined with another stay as they are: `healthrelay store verify` names them",
                metadata: [
                    "device": "\(older)", "count": "\(unreadable.count)", "rows": "\(KeyChange.listed(unreadable))",
                ])
        }
        for table in ["contact", "clock_epoch", "waiting_context", "sensor_record", "pruned"] {
            try db.execute(sql: "UPDATE \(table) SET device = ? WHERE device = ?", arguments: [older, younger])
        }
        try db.execute(
            sql: """
                UPDATE device_address SET device = ?1,
                    own_epoch = (SELECT sequence_epoch FROM device WHERE key = ?2),
                    device_epoch = (SELECT sequence_epoch FROM device WHERE key = ?1)
                WHERE device = ?2
                """, arguments: [older, younger])
        try db.execute(
            sql: """
                UPDATE device SET is_barred = max(device.is_barred, y.is_barred),
                    is_paired = max(device.is_paired, y.is_paired) AND NOT max(device.is_barred, y.is_barred),
                    is_proven = max(device.is_proven, y.is_proven) AND NOT max(device.is_barred, y.is_barred),
                    paired_at = max(coalesce(device.paired_at, y.paired_at), coalesce(y.paired_at, device.paired_at)),
                    proven_at = max(coalesce(device.proven_at, y.proven_at), coalesce(y.proven_at, device.proven_at)),
                    user = coalesce(device.user, y.user)
                FROM (SELECT * FROM device WHERE key = ?2) AS y WHERE device.key = ?1
                """, arguments: [older, younger])
        try db.execute(
            sql: "UPDATE OR IGNORE sensor_start SET device = ? WHERE device = ?", arguments: [older, younger])
        try db.execute(sql: "DELETE FROM sensor_start WHERE device = ?", arguments: [younger])
        try db.execute(sql: "DELETE FROM device WHERE key = ?", arguments: [younger])
    }
}
