import GRDB
import HealthReadings
import Synchronization

extension ReadingStore: PairingMemory {
    /// The devices known, bonded or not, in the order they were first seen; also those that were never paired to the
    /// end.
    public func pairings() async throws -> [DevicePairing] {
        try await pairings("TRUE")
    }

    /// The devices known by an address of these 48 bits.
    public func pairings(like address: DeviceAddress) async throws -> [DevicePairing] {
        try await pairings(
            "key IN (SELECT device FROM device_address WHERE address = ?)", [Int64(bitPattern: address.bits)])
    }

    private func pairings(
        _ condition: String, _ arguments: StatementArguments = []
    ) async throws -> [DevicePairing] {
        try await read { [sealing] db in
            let cache = DeviceCache(db, sealing)
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT key, is_paired, is_proven, paired_at, proven_at, is_barred FROM device WHERE \(condition)
                    ORDER BY key
                    """, arguments: arguments
            ).map { row in
                let (isPaired, isProven): (Bool, Bool) = (try row.value(1), try row.value(2))
                let state: PairingState = isPaired ? (isProven ? .proven : .paired) : .unpaired
                return DevicePairing(
                    device: try cache.description(try row.value(0)),
                    addresses: try Self.addresses(db, device: try row.value(0)),
                    state: state, pairedAt: (try row.value(3) as Int64?).map(Instant.init(microseconds:)),
                    provenAt: (try row.value(4) as Int64?).map(Instant.init(microseconds:)), isBarred: try row.value(5))
            }
        }
    }

    /// Notes how a device stands. Durable when it returns.
    ///
    /// A device the store has not met is made known, so that pairing may come before the first contact. It counts as
    /// seen by its contacts alone. One that is barred stays unpaired.
    public func notePairing(of device: DeviceDescription, as state: PairingState) async throws {
        try await note(device, as: state, isAdmitted: false)
    }

    /// Notes that a person has paired a device on purpose: nothing bars it any more. Durable when it returns.
    public func admit(_ device: DeviceDescription, as state: PairingState) async throws {
        try await note(device, as: state, isAdmitted: true)
    }

    private func note(_ device: DeviceDescription, as state: PairingState, isAdmitted: Bool) async throws {
        let now = now().microseconds
        let (_, judged) = try await write(.device) { [self] db in
            let devicesBefore = try Int.fetchOne(db, sql: "SELECT count(*) FROM device") ?? 0
            let key = try DeviceRegister(db: db, sealing: sealing, logger: logger).noteBond(device)
            if isAdmitted {
                try db.execute(sql: "UPDATE device SET is_barred = 0 WHERE key = ?", arguments: [key])
            }
            try db.execute(
                sql: """
                    UPDATE device SET
                        paired_at = CASE WHEN ?1 AND NOT is_paired THEN ?3 ELSE paired_at END,
                        proven_at = CASE WHEN NOT ?2 THEN NULL WHEN NOT is_proven THEN ?3 ELSE proven_at END,
                        is_paired = ?1, is_proven = ?2
                    WHERE key = ?4 AND (is_paired <> ?1 OR is_proven <> ?2) AND NOT (is_barred AND ?1)
                    """, arguments: [state.isPaired, state.isProven, now, key])
            // The model may be known only now; a store that is locked judges once it has its key.
            let judged = sealing.refusal == nil ? try judgement(db).run(only: key) : []
            return (try Int.fetchOne(db, sql: "SELECT count(*) FROM device") ?? 0 < devicesBefore, judged)
        } committed: { [self] joined, _ in
            // Two devices have become one.
            if joined { outdateContacts() }
        }
        if !judged.isEmpty { publish(judged) }
    }
}
