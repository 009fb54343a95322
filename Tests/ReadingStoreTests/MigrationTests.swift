import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Stores of earlier versions")
struct MigrationTests {
    /// A store as it was before contents could be sealed, with something in every column that has gone.
    private static func makeFormer(_ directory: String) throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let queue = try DatabaseQueue(path: directory + "/readings.sqlite")
        try queue.write { db in try db.execute(sql: "PRAGMA application_id = \(Schema.applicationID)") }
        try Schema.migrator.migrate(queue, upTo: "5 pruned readings")
        try queue.write { db in
            try db.execute(
                sql: """
                    INSERT INTO user (key, client_user_id, created_at) VALUES (1, 'white_bear', 0);
                    INSERT INTO user_zone VALUES (1, -9000000000000000000, 'Europe/Berlin');
                    INSERT INTO setting VALUES ('user.current', '1');
                    INSERT INTO device (key, address, address_kind, model, provider, serial, name) VALUES
                        (1, 1, 2, 'accuchek_guide', 'accuchek_ble', '00001808', 'meter+1808'),
                        (2, NULL, NULL, 'libre1', 'freestyle_libre_ble', NULL, NULL);
                    INSERT INTO contact (key, device, user, started_at, zone, sequence_epoch) VALUES
                        (1, 1, 1, 0, 'Europe/Berlin', 0), (2, 2, 1, 0, 'Europe/Berlin', 0);
                    INSERT INTO frame (key, device, contact, format, ordinal, received_at, state, payload) VALUES
                        (1, 1, 1, 1, 0, 5000000, 1, x'0102'), (2, 1, 1, 2, 1, 5000000, 2, x'0304'),
                        (3, 1, 1, 1, 2, 5000000, 4, x'0506'), (4, 2, 2, 3, 0, 5000000, 1, x''),
                        (5, 1, 1, 4, 3, 5000000, 1, x'0708');
                    INSERT INTO reading (key, id, kind, device, user, sequence_epoch, clash, sequence, base_time,
                        time_offset_minutes, time_offset_unknown, a_digits, a_exponent, a_unit, sample_type,
                        sample_location, status, user_slot, record_exclusion, time, time_basis, time_uncertainty_minutes,
                        clock_difference, clock_read_at, received_at) VALUES
                        (1, x'00112233445566778899AABBCCDDEEFF', 1, 1, 1, 0, 0, 7, 1000, -60, 0, 95, -1, 1, 1, 15, 9, 3,
                            NULL, 2000, 1, 60, 120, 3000000, 5000000),
                        (2, x'10112233445566778899AABBCCDDEEFF', 1, 2, 1, 0, 0, NULL, NULL, NULL, 1, NULL, 1, 1, 9, NULL,
                            0, NULL, 3, 2060, 4, NULL, NULL, NULL, 5000000);
                    INSERT INTO reading (key, id, kind, device, user, sequence_epoch, clash, base_time,
                        time_offset_unknown, a_digits, a_exponent, a_unit, b_digits, b_exponent, b_unit, c_digits,
                        c_exponent, c_unit, p_digits, p_exponent, p_unit, status, time, time_basis, received_at) VALUES
                        (3, x'20112233445566778899AABBCCDDEEFF', 2, 1, 1, 0, 0, 1000, 0, 1270, -1, 3, 80, 0, 3, NULL, 2, 3,
                            690, -1, 5, 262144, 2120, 2, 5000000);
                    INSERT INTO reading_frame VALUES (1, 1, 1), (1, 2, 2), (2, 4, 1), (3, 5, 1);
                    INSERT INTO reading_context VALUES
                        (1, 'lunch', 25, 0, 6, 'fasting', 'self', 'under_stress', 40, 600, 'rapid_acting_insulin', 5, -1, 8,
                            65, -1, 11);
                    INSERT INTO sensor_record VALUES (2, 2, 2, 615, 930, 6800, -3, 1, 2, 1, 1);
                    INSERT INTO outbox (reading, user, resource, provider, type, timestamp, state, server_said) VALUES
                        (1, 1, 1, 'accuchek_ble', 1, 2000, 2, 'refused: 9.5'), (3, 1, 2, 'accuchek_ble', 2, 2120, 0, NULL);
                    """)
        }
        try queue.close()
    }

    @Test("a store of a newer version is refused, and its file stays as it is")
    func newer() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in
            try db.execute(sql: "INSERT INTO grdb_migrations (identifier) VALUES ('9999 what a later version does')")
        }
        let file = URL(fileURLWithPath: harness.directory + "/readings.sqlite")
        let before = try Data(contentsOf: file)
        let error = await #expect(throws: StoreError.self) { _ = try await Harness.open(harness.directory) }
        #expect(error?.code == "store_newer")
        #expect(try Data(contentsOf: file) == before)
    }

    private static var expected: [Reading] {
        var context = GlucoseContext()
        context.carbohydrate = .init(
            id: "lunch", amount: Quantity(ExactDecimal(significand: 25, exponent: 0), .grams))
        (context.meal, context.tester, context.health) = ("fasting", "self", "under_stress")
        context.exercise = .init(seconds: 600, intensityPercent: 40)
        context.medication = .init(
            id: "rapid_acting_insulin", amount: Quantity(ExactDecimal(significand: 5, exponent: -1), .milligrams))
        context.hba1c = Quantity(ExactDecimal(significand: 65, exponent: -1), .percent)
        func id(_ first: UInt64) -> ReadingID { ReadingID(high: first, low: 0x8899_AABB_CCDD_EEFF) }
        let meter = DeviceDescription(
            address: DeviceAddress(bits: 1, kind: .random), model: "accuchek_guide", serial: "00001808",
            name: "meter+1808",
            provider: "accuchek_ble")
        let sensor = DeviceDescription(
            address: nil, model: "libre1", serial: nil, name: nil, provider: "freestyle_libre_ble")
        let received = Instant(seconds: 5)
        return [
            Reading(
                id: id(0x2011_2233_4455_6677),
                record: Record(
                    value: .bloodPressure(
                        BloodPressureValue(
                            systolic: Quantity(ExactDecimal(significand: 1270, exponent: -1), .millimetresOfMercury),
                            diastolic: Quantity(ExactDecimal(significand: 80, exponent: 0), .millimetresOfMercury),
                            meanArterial: Quantity(.notAtThisResolution, .millimetresOfMercury),
                            pulse: Quantity(ExactDecimal(significand: 690, exponent: -1), .beatsPerMinute))),
                    baseTime: WallTime(secondsSinceEpoch: 1000), status: .irregularPulse),
                device: meter, time: ResolvedTime(instant: Instant(seconds: 2120), basis: .assumedZone), excluded: nil,
                receivedAt: received),
            Reading(
                id: id(0x1011_2233_4455_6677),
                record: Record(
                    value: .glucose(
                        GlucoseValue(
                            concentration: Quantity(.notANumber, .milligramsPerDecilitre),
                            sampleType: .interstitialFluid)),
                    timeOffsetIsUnknown: true, exclusion: .notANumber,
                    sensor: SensorFacts(
                        source: .history, minute: 615, glucose: 930, temperature: 6800, adjustment: -3, quality: 1,
                        flags: 2, hasError: true, calibration: .factoryEstimate)),
                device: sensor, time: ResolvedTime(instant: Instant(seconds: 2060), basis: .sensorStart),
                excluded: .notANumber, receivedAt: received),
            Reading(
                id: id(0x0011_2233_4455_6677),
                record: Record(
                    value: .glucose(
                        GlucoseValue(
                            concentration: Quantity(
                                ExactDecimal(significand: 95, exponent: -1), .milligramsPerDecilitre),
                            sampleType: .capillaryWholeBlood, sampleLocation: .notAvailable)),
                    sequence: 7, baseTime: WallTime(secondsSinceEpoch: 1000), timeOffsetMinutes: -60,
                    status: [.deviceBatteryLow, .stripInsertionError], userSlot: 3),
                context: context, device: meter,
                time: ResolvedTime(
                    instant: Instant(seconds: 2000), basis: .corrected, uncertaintyMinutes: 60,
                    clock: ClockComparison(differenceSeconds: 120, readAt: Instant(seconds: 3))),
                excluded: nil, receivedAt: received),
        ]
    }

    /// A copy of the store that an earlier version wrote, with its key.
    static func copyFormer(_ version: String) throws -> String {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Fixtures/stores/" + version)
        let directory = Harness.newDirectory()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        for name in ["readings.sqlite", "store.key"]
        where FileManager.default.fileExists(atPath: folder.appendingPathComponent(name).path) {
            try FileManager.default.copyItem(
                atPath: folder.appendingPathComponent(name).path, toPath: directory + "/" + name)
        }
        return directory
    }

    @Test("there is a store of the version before this one, which FormerStoreTests opens")
    func recent() throws {
        let stores = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Fixtures/stores")
        let versions = try FileManager.default.contentsOfDirectory(atPath: stores.path).compactMap { Int($0) }
        let newest = Schema.migrator.migrations.compactMap { $0.split(separator: " ").first.flatMap { Int($0) } }.max()
        #expect(try versions.max() == #require(newest) - 1)
    }

    @Test("every delivery of the version before is what it was, in the table that grows at its end")
    func deliveries() async throws {
        let directory = try Self.copyFormer("23")
        let columns = """
            reading, destination, user, resource, provider, type, timestamp, state, revision, attempts, delivered_at, words, tag,
                handed_over_at, offset_minutes
            """
        @Sendable func rows(_ db: Database) throws -> [[DatabaseValue]] {
            try Row.fetchAll(db, sql: "SELECT \(columns) FROM outbox ORDER BY reading, destination")
                .map { Array($0.databaseValues) }
        }
        var before: [[DatabaseValue]] = []
        try TamperingTests.edit(directory) { db in
            // One that was handed over, and one at a destination whose seconds aren't unique.
            try db.execute(
                sql: """
                    UPDATE outbox SET state = 4, handed_over_at = 77 WHERE destination = 1 AND reading =
                        (SELECT max(reading) FROM outbox WHERE destination = 1 AND state = 1)
                    """)
            before = try rows(db)
        }
        #expect(Set(before.map { Int.fromDatabaseValue($0[7]) }).isSuperset(of: [0, 1, 2, 4]))
        let store = try await Harness.open(directory)
        let after = try await store.read { db in
            (
                rows: try rows(db),
                shared: try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM outbox AS o JOIN destination AS d ON d.key = o.destination
                        WHERE (o.share IS NOT NULL) <> (d.has_unique_seconds & 1)
                        """)
            )
        }
        #expect(after.rows == before)
        #expect(after.shared == 0)
        try store.close()
    }

    /// A store whose table of deliveries is written anew, with some thousand deliveries more.
    private static func copyLargeFormer() throws -> String {
        let directory = try copyFormer("23")
        try TamperingTests.edit(directory) { db in
            func columns(of table: String) throws -> [String] { try db.columns(in: table).map(\.name) }
            func copies(_ table: String, _ replaced: [String: String]) throws -> String {
                let names = try columns(of: table)
                let values = names.map { replaced[$0] ?? "o.\($0)" }
                return """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
                    INSERT INTO \(table) (\(names.joined(separator: ", ")))
                    SELECT \(values.joined(separator: ", ")) FROM n, \(table) AS o
                    """
            }
            try db.execute(
                sql: copies("reading", ["key": "1000 + i", "id": "randomblob(16)"])
                    + " WHERE o.key = (SELECT min(reading) FROM outbox)")
            try db.execute(
                sql: copies("outbox", ["reading": "1000 + i", "share": "1000 + i"])
                    + " WHERE o.reading = (SELECT min(reading) FROM outbox)")
        }
        return directory
    }

    @Test("opening a store of an earlier version tells how far it is, can be stopped, and begins anew the next time")
    func progress() async throws {
        let directory = try Self.copyLargeFormer()
        let told = Mutex<[StoreProgress]>([])
        let opening = Mutex<Task<ReadingStore, any Error>?>(nil)
        let (gate, open) = AsyncStream<Void>.makeStream()
        let task = Task {
            for await _ in gate {}
            return try await ReadingStore.open(
                directory: directory, decoder: TestDecoder(),
                progress: { progress in
                    let count = told.withLock { told in
                        told.append(progress)
                        return told.count
                    }
                    // The first is told before anything is done.
                    if count == 2 { opening.withLock { $0?.cancel() } }
                })
        }
        opening.withLock { $0 = task }
        open.finish()
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        let first = told.withLock(\.self)
        #expect(first.count == 2 && first.allSatisfy { $0.step == .migrating && $0.done < $0.total ?? 0 })
        try TamperingTests.edit(directory) { db in
            let applied = try Schema.migrator.appliedIdentifiers(db)
            #expect(applied.count == 23)
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM outbox") ?? 0 > 5000)
        }
        told.withLock { $0 = [] }
        let tell: StoreProgress.Handler = { progress in told.withLock { $0.append(progress) } }
        let store = try await ReadingStore.open(directory: directory, decoder: TestDecoder(), progress: tell)
        let course = told.withLock(\.self)
        #expect(course.first?.done == 0 && course.last.map { $0.done == $0.total } == true && course.count > 2)
        #expect(zip(course, course.dropFirst()).allSatisfy { $0.done <= $1.done })
        try store.close()
        // What is of this version already has nothing to tell.
        told.withLock { $0 = [] }
        try await ReadingStore.open(directory: directory, decoder: TestDecoder(), progress: tell).close()
        let again = told.withLock(\.count)
        #expect(again == 0)
    }

    @Test("a new store and an export have small pages; an earlier version's file keeps its own")
    func pageSizes() async throws {
        func sizes(_ store: ReadingStore) async throws -> [Int?] {
            try await store.pool.writeWithoutTransaction { db in
                [try Int.fetchOne(db, sql: "PRAGMA page_size"), try Int.fetchOne(db, sql: "PRAGMA wal_autocheckpoint")]
            }
        }
        let new = try await Harness()
        #expect(try await sizes(new.store) == [1024, 16_384])
        let former = try await Harness.open(try Self.copyFormer("23"))
        #expect(try await sizes(former) == [4096, 4096])
        let path = new.directory + "/export"
        var octets: [UInt8] = []
        try await former.export(passphrase: "correct horse battery staple") { octets += $0 }
        try Data(octets).write(to: URL(fileURLWithPath: path))
        let elsewhere = Harness.newDirectory()
        try await ReadingStore.importing(
            path, passphrase: "correct horse battery staple", into: elsewhere, decoder: TestDecoder())
        let imported = try await Harness.open(elsewhere)
        #expect(try await sizes(imported) == [1024, 16_384])
        for store in [new.store, former, imported] { try store.close() }
    }

    @Test("what devices were called in a store that was sealed otherwise is sealed too, and in no file any more")
    func labels() async throws {
        let directory = try Self.copyFormer("8")
        let key = try #require(try KeyFile(source: StoreKeySource(path: SealingTests.keyPath(directory))).read()?.last)
        let former = Sealing()
        former.set(
            Sealing.State(
                inUse: [1], keys: [1: GenerationKeys(generation: 1, key: key, bindsColumns: false)], earlier: .all))
        var secrets: [[UInt8]] = []
        // As it was before labels.
        try TamperingTests.edit(directory) { db in
            let rows = try Row.fetchAll(db, sql: "SELECT key, label FROM device WHERE label IS NOT NULL")
            try db.execute(sql: "ALTER TABLE device ADD COLUMN serial TEXT; ALTER TABLE device ADD COLUMN name TEXT")
            for row in rows {
                let label = try former.label(row[1], of: row[0])
                secrets += [label.serial, label.name].compactMap(\.self).map { Array($0.utf8) }
                try db.execute(
                    sql: "UPDATE device SET serial = ?, name = ? WHERE key = ?",
                    arguments: [label.serial, label.name, row[0] as Int64])
            }
            try db.execute(
                sql: """
                    ALTER TABLE device DROP COLUMN label;
                    CREATE INDEX device_serial ON device (serial, model) WHERE serial IS NOT NULL;
                    DELETE FROM grdb_migrations WHERE identifier LIKE '8 %'
                    """)
        }
        #expect(try !secrets.isEmpty && SealingTests.found(secrets, in: directory) == secrets.count)
        let store = try await Harness.open(directory)
        try await SealingTests.settle(store)
        #expect(try SealingTests.found(secrets, in: directory) == 0)
        let names = try await store.devices().flatMap { [$0.description.serial, $0.description.name] }
        #expect(Set(names.compactMap(\.self).map { Array($0.utf8) }) == Set(secrets))
        #expect(try await store.query(ReadingQuery(limit: 10_000)).readings.count == 150)
        try store.close()
    }

    @Test("a store from before destinations gets one named vital, which has what was delivered, refused and pruned")
    func destinations() async throws {
        let directory = try Self.copyFormer("10")
        let columns = "reading, user, resource, provider, type, timestamp, state, revision, attempts, delivered_at, tag"
        @Sendable func rows(_ sql: String, _ db: Database) throws -> [[DatabaseValue]] {
            try Row.fetchAll(db, sql: sql).map { Array($0.databaseValues) }
        }
        let place = "identity, provider, type, timestamp, delivered_at"
        var (former, places): ([[DatabaseValue]], [[DatabaseValue]]) = ([], [])
        try TamperingTests.edit(directory) { db in
            former = try rows("SELECT \(columns) FROM outbox ORDER BY reading", db)
            places = try rows("SELECT \(place) FROM pruned ORDER BY identity", db)
        }
        #expect(Set(former.map { Int64.fromDatabaseValue($0[6]) }) == [0, 1, 2, 3] && places.count == 10)
        let store = try await Harness.open(directory)
        try await SealingTests.settle(store)
        let queued = try await store.read { db in
            try Row.fetchAll(db, sql: "SELECT \(columns) FROM outbox WHERE destination = 1 ORDER BY reading")
                .map { Array($0.databaseValues) }
        }
        let pruned = try await store.read { db in
            try rows(
                "SELECT \(place) FROM pruned_place AS p WHERE \(PrunedPlaces.holds("1")) ORDER BY identity", db)
        }
        #expect(queued == former && pruned == places)
        #expect(try await store.destinations().map(\.name) == ["vital"])
        // The server's id of the person and their sources are the destination's as well.
        let person = try await store.currentUser()
        #expect(person.serverUserID == "5f0c7f4e-0000-4000-8000-000000000001")
        #expect(try await store.sources(user: person.key).map(\.status) == Array(repeating: .connected, count: 4))
        #expect(try await store.zoneAtServer(of: person.key) == "Europe/Berlin")
        #expect(try await store.refused().map(\.serverSaid) == ["body.data.0.value: too high"])
        #expect(try await store.statistics().delivered == 59)
        var waiting = 0
        for group in try await store.groupsWaiting() {
            waiting += try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 1000
            ).count
        }
        #expect(waiting == 28)
        // The pruned ones keep their seconds.
        try await store.read { db in
            let memory = try #require(try PrunedReadings(db, key: store.pruneKey.withLock(\.self)))
            for row in try Row.fetchAll(
                db,
                sql: """
                    SELECT r.user, r.kind, p.provider, p.type, p.timestamp FROM pruned_place AS p
                    JOIN pruned AS r ON r.identity = p.identity
                    """)
            {
                #expect(
                    try memory.holds(
                        at: 1, user: row[0], kind: row[1], provider: row[2], type: row[3], timestamp: row[4]))
            }
        }
        try store.close()
    }

    @Test("what stood in columns is in the content, to the digit; frames and words too", arguments: [true, false])
    func contents(isSealed: Bool) async throws {
        let directory = Harness.newDirectory()
        try Self.makeFormer(directory)
        let harness = try await Harness(directory, encryption: isSealed ? .on() : .off())
        try await SealingTests.settle(harness.store)
        var readings = try await harness.all()
        #expect(readings.allSatisfy { $0.person == "white_bear" })
        for index in readings.indices { (readings[index].deliveries, readings[index].person) = ([], nil) }
        #expect(readings == Self.expected)
        #expect(try await harness.store.refused().map(\.serverSaid) == ["refused: 9.5"])
        let sealing = harness.store.sealing
        let frames = try await harness.store.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT key, payload, mark, device, contact, format, ordinal, received_at FROM frame ORDER BY key
                    """
            ).map { row -> ([UInt8], Data?) in
                let columns = FrameColumns(
                    device: row[3], contact: row[4], format: row[5], ordinal: row[6], receivedAt: row[7])
                let payload = try sealing.open([UInt8](row[1] as Data), at: .frame(row[0]), with: columns)
                return (payload, row[2] as Data?)
            }
        }
        #expect(frames.map(\.0) == [[1, 2], [3, 4], [5, 6], [], [7, 8]])
        #expect(frames.map { $0.1 != nil } == [false, false, true, false, false])
        let problems = try await harness.store.verify().map(\.problem)
        // These frames are no real ones.
        #expect(Set(problems) == [.differs])
        let minutes = try await harness.store.read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM sensor_record").map { [$0[0], $0[1], $0[2], $0[3]] as [Int] }
        }
        #expect(minutes == [[2, 2, 2, 615]])
        #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
    }
}

enum FormerSchema {
    /// Gives a store the tables that it had before destinations were told apart, and forgets the migration.
    static func forgetDestinations(_ db: Database) throws {
        try db.execute(
            sql: """
                DROP TABLE outbox_batch;
                DROP TABLE retraction;
                DROP INDEX reading_renumbered;
                DROP INDEX pruned_renumbered;
                DROP INDEX outbox_timestamp;
                DROP INDEX outbox_waiting;
                DROP INDEX outbox_refused;
                ALTER TABLE outbox RENAME TO newer;
                CREATE TABLE outbox (
                    reading INTEGER PRIMARY KEY REFERENCES reading, user INTEGER NOT NULL REFERENCES user,
                    resource INTEGER NOT NULL, provider TEXT NOT NULL, type INTEGER NOT NULL, timestamp INTEGER NOT NULL,
                    state INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0,
                    attempts INTEGER NOT NULL DEFAULT 0, delivered_at INTEGER, words BLOB, tag BLOB
                ) STRICT;
                INSERT INTO outbox
                SELECT reading, user, resource, provider, type, timestamp, state, revision, attempts, delivered_at, words,
                    tag FROM newer;
                DROP TABLE newer;
                CREATE UNIQUE INDEX outbox_timestamp ON outbox (user, resource, provider, type, timestamp);
                CREATE INDEX outbox_waiting ON outbox (user, resource, provider, timestamp) WHERE state = 0;
                CREATE INDEX outbox_refused ON outbox (timestamp) WHERE state = 2;
                DROP TABLE pruned_place;
                ALTER TABLE pruned ADD COLUMN provider TEXT;
                ALTER TABLE pruned ADD COLUMN type INTEGER;
                ALTER TABLE pruned ADD COLUMN timestamp INTEGER;
                ALTER TABLE pruned ADD COLUMN delivered_at INTEGER;
                CREATE INDEX pruned_timestamp ON pruned (user, kind, provider, type, timestamp);
                DROP TABLE destination;
                DROP TABLE change;
                DROP TABLE change_second;
                DROP TABLE subscriber;
                DELETE FROM setting WHERE name = 'changes.feed';
                ALTER TABLE device DROP COLUMN judged_by;
                DELETE FROM grdb_migrations WHERE identifier LIKE '11 %' OR identifier LIKE '13 %'
                        OR identifier LIKE '16 %' OR identifier LIKE '19 %' OR identifier LIKE '22 %'
                        OR identifier LIKE '24 %' OR identifier LIKE '25 %' OR identifier LIKE '26 %'
                """)
    }
}

@Suite("Stores that sent weights and temperatures by names for reading")
struct FormerNameTests {
    /// Gives readings of a meter other kinds, as far as the outbox goes, and forgets the migration.
    private static func make(_ store: ReadingStore) async throws {
        try await store.write(.setting) { db in
            let keys = try Int64.fetchAll(db, sql: "SELECT reading FROM outbox ORDER BY timestamp")
            for (key, (resource, state)) in zip(keys, [(6, 2), (7, 1), (7, 0), (7, 3), (1, 2), (1, 1)]) {
                try db.execute(
                    sql: """
                        UPDATE outbox SET resource = ?, type = ?, state = ?, attempts = 3, words = NULL,
                            delivered_at = CASE WHEN ? = 1 THEN 5 END WHERE reading = ?
                        """, arguments: [resource, resource == 1 ? 1 : 6, state, state, key])
            }
            try FormerSchema.forgetDestinations(db)
            try db.execute(sql: "DELETE FROM grdb_migrations WHERE identifier LIKE '9 %'")
        }
    }

    @Test("refused and delivered ones are offered once more; what waits, was withdrawn or is of another kind stays")
    func offeredAgain() async throws {
        let first = try await Harness()
        try await first.contact((0..<6).map { Build.glucose(UInt16($0), "2026-11-20T10:0\($0):00", 90) })
        try await Self.make(first.store)
        try first.store.close()
        for isAgain in [false, true] {
            let store = try await Harness.open(first.directory)
            let rows = try await store.read { db in
                try Row.fetchAll(db, sql: "SELECT resource, state, revision, attempts FROM outbox ORDER BY timestamp")
                    .map { row in [row[0], row[1], row[2], row[3]] as [Int] }
            }
            #expect(
                rows == [
                    [6, 0, 1, 0], [7, 0, 1, 0], [7, 0, 0, 3], [7, 3, 0, 3], [1, 2, 0, 3], [1, 1, 0, 3],
                ], "\(isAgain)")
            try store.close()
        }
    }

    @Test("body compositions that were kept here are queued once, at the first second no other device's weight has")
    func compositions() async throws {
        let first = try await Harness(encryption: .off())
        try await first.contact((0..<6).map { Build.glucose(UInt16($0), "2026-11-20T10:0\($0):00", 90) })
        try await first.contact(
            [Build.glucose(1, "2026-11-20T10:01:00", 80)], device: Build.device(0xC000_0000_1809),
            at: "2026-11-21T11:00:00Z")
        try await first.store.write(.setting) { db in
            // 1 has the same scale's weight in its second, 2 another's, 3 none; 4 is excluded, 5 is queued already.
            try db.execute(
                sql: """
                    UPDATE reading SET kind = 8 WHERE key BETWEEN 1 AND 5;
                    UPDATE reading SET record_exclusion = 4 WHERE key = 4;
                    DELETE FROM outbox WHERE reading BETWEEN 1 AND 4;
                    UPDATE outbox SET resource = 8, type = 6 WHERE reading = 5;
                    UPDATE outbox SET resource = 7, type = 6, provider = (SELECT provider FROM outbox WHERE reading = 5),
                        timestamp = (SELECT time FROM reading WHERE key = iif(reading = 6, 1, 2)) WHERE reading > 5;
                    DELETE FROM grdb_migrations WHERE identifier LIKE '9 %'
                    """)
            try FormerSchema.forgetDestinations(db)
        }
        let times = try await first.store.read { db in
            try Int64.fetchAll(db, sql: "SELECT time FROM reading WHERE key < 6 ORDER BY key")
        }
        try first.store.close()
        for isAgain in [false, true] {
            let store = try await Harness.open(first.directory, encryption: .off())
            let rows = try await store.read { db in
                try Row.fetchAll(
                    db, sql: "SELECT reading, timestamp, state, type FROM outbox WHERE resource = 8 ORDER BY reading"
                ).map { row in [row[0], row[1], row[2], row[3]] as [Int64] }
            }
            #expect(
                rows == [
                    [1, times[0], 0, 6], [2, times[1] + 1, 0, 6], [3, times[2], 0, 6], [5, times[4], 0, 6],
                ], "\(isAgain)")
            try store.close()
        }
    }
}
