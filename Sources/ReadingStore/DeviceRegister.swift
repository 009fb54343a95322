import GRDB
import HealthReadings

/// Finds the device behind an address or a serial number, and remembers what it says of itself.
struct DeviceRegister {
    let db: Database

    /// The device's number, made where it is new, joined where two turn out to be one.
    func note(_ description: DeviceDescription, at seen: Instant, batteryPercent: UInt8?) throws -> Int64 {
        let known = try find(description)
        let key = try known ?? insert(description)
        try db.execute(
            sql: """
                UPDATE device SET serial = coalesce(?, serial), model = coalesce(?, model), name = coalesce(?, name),
                    provider = ?, battery_percent = coalesce(?, battery_percent),
                    last_seen = max(coalesce(last_seen, ?6), ?6)
                WHERE key = ?7
                """,
            arguments: [
                description.serial, description.model, description.name, description.provider,
                batteryPercent.map { Int64($0) }, seen.microseconds, key,
            ])
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
        try db.execute(
            sql: """
                UPDATE device SET serial = coalesce(?1, serial), model = coalesce(?2, model), name = coalesce(?3, name),
                    provider = CASE WHEN ?2 IS NULL THEN provider ELSE ?4 END
                WHERE key = ?5
                """,
            arguments: [description.serial, description.model, description.name, description.provider, key])
        try noteAddress(of: description, device: key, at: nil)
        return key
    }

    private func noteAddress(of description: DeviceDescription, device: Int64, at seen: Instant?) throws {
        guard let address = description.address else { return }
        try db.execute(
            sql: """
                INSERT INTO device_address (address, address_kind, device, last_seen) VALUES (?, ?, ?, ?)
                ON CONFLICT (address, address_kind) DO UPDATE SET last_seen = coalesce(excluded.last_seen, last_seen)
                """,
            arguments: [Int64(bitPattern: address.bits), address.kindCode, device, seen?.microseconds])
    }

    private func find(_ description: DeviceDescription) throws -> Int64? {
        let byAddress = try description.address.flatMap { address in
            try Int64.fetchOne(
                db, sql: "SELECT device FROM device_address WHERE address = ? AND address_kind = ?",
                arguments: [Int64(bitPattern: address.bits), address.kindCode])
        }
        let bySerial = try description.serial.flatMap { serial in
            try Int64.fetchOne(
                db, sql: "SELECT key FROM device WHERE serial = ? AND model IS ? ORDER BY key LIMIT 1",
                arguments: [serial, description.model])
        }
        switch (byAddress, bySerial) {
        case (.some(let one), .some(let other)) where one != other:
            let older = min(one, other)
            try join(max(one, other), into: older)
            return older
        case (.some(let key), _), (nil, .some(let key)): return key
        case (nil, nil):
            guard description.address == nil else { return nil }
            return try Int64.fetchOne(
                db,
                sql: "SELECT key FROM device WHERE address IS NULL AND serial IS ? AND model IS ? AND name IS ?",
                arguments: [description.serial, description.model, description.name])
        }
    }

    private func insert(_ description: DeviceDescription) throws -> Int64 {
        try db.execute(
            sql: """
                INSERT INTO device (address, address_kind, serial, model, name, provider) VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                description.address.map { Int64(bitPattern: $0.bits) }, description.address?.kindCode,
                description.serial, description.model, description.name, description.provider,
            ])
        return db.lastInsertedRowID
    }

    /// Makes two devices one: the older keeps its identity, and what was stored of the younger keeps its ids, under
    /// which a full re-read finds it again.
    private func join(_ younger: Int64, into older: Int64) throws {
        for table in ["contact", "frame", "clock_epoch", "reading", "waiting_context", "sensor_record", "pruned"] {
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
