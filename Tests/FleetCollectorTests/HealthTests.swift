import FleetCollector
import FleetDocuments
import FleetStore
import GRDB
import HealthReadings
import Logging
import TestPostgreSQL
import TestSupport
import Testing

/// What `/health` and `/metrics` say of a store that can be read and takes nothing.
@Suite struct HealthTests {
    private static var quiet: Logger { Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() } }

    private func metrics(_ desk: DocumentDesk) -> CollectorMetrics {
        CollectorMetrics(store: desk.store, counters: desk.counters, silentAfterMinutes: 45)
    }

    @Test func aFileThatTakesNothingIsNotWell() async throws {
        let folder = SampleBatch.folder()
        let store = try SQLiteCentralStore(directory: folder)
        try await store.prepare()
        let desk = DocumentDesk(store: store, logger: Self.quiet)
        #expect(await metrics(desk).health().isWell)
        let file = try DatabaseQueue(path: folder + "/" + SQLiteCentralStore.fileName)
        try await file.write { try $0.execute(sql: "ALTER TABLE reading RENAME TO other") }
        let health = await metrics(desk).health()
        #expect(!health.isWell && health.document.text.contains(#""status":"failing","store":"unwritable""#))
        try await file.write { try $0.execute(sql: "ALTER TABLE other RENAME TO reading") }
        try file.close()
        #expect(await metrics(desk).health().isWell)
        await store.close()
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled)) func aDatabaseThatTakesNothingIsNotWell() async throws {
        // A server of its own: the setting concerns every connection.
        let server = try TestPostgreSQL()
        let address = try server.database()
        let store = PostgreSQLCentralStore(address: address)
        try await store.prepare()
        let desk = DocumentDesk(store: store, logger: Self.quiet)
        #expect(await metrics(desk).health().isWell)
        _ = try server.run(at: address, "ALTER SYSTEM SET default_transaction_read_only = on")
        _ = try server.run(at: address, "SELECT pg_reload_conf()")
        try await until { await !metrics(desk).health().isWell }
        #expect(await metrics(desk).health().isStoreReachable)
        _ = try server.run(at: address, "ALTER SYSTEM RESET default_transaction_read_only")
        _ = try server.run(at: address, "SELECT pg_reload_conf()")
        try await until { await metrics(desk).health().isWell }

        // A disk with room for a small write alone.
        _ = try server.run(
            at: address,
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON reading FOR EACH ROW EXECUTE FUNCTION refuse()
            """)
        let (gateway, batch) = (try GatewayID("gw1"), SampleBatch.octets("gw1", 1, ids: 0..<2))
        await #expect(throws: DocumentFailure.self) { try await desk.keep(batch, from: gateway) }
        #expect(await !metrics(desk).health().isWell)
        #expect(try await metrics(desk).text().contains("healthrelay_fleet_store_failures_total 1\n"))
        _ = try server.run(at: address, "DROP TRIGGER refuse ON reading")
        _ = try await desk.keep(batch, from: gateway)
        #expect(await metrics(desk).health().isWell)
        await store.close()
    }

    @Test func aCommitWithoutAnEndIsNotWell() async throws {
        let folder = SampleBatch.folder()
        let store = try SQLiteCentralStore(directory: folder)
        try await store.prepare()
        let noon = Instant(seconds: 1_800_000_000)
        let desk = DocumentDesk(store: store, logger: Self.quiet, now: { noon })
        // Another program holds the file, as a commit is held by a standby that is gone.
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let file = try DatabaseQueue(
            path: folder + "/" + SQLiteCentralStore.fileName, configuration: configuration)
        try await file.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let gateway = try GatewayID("gw1")
        let keeping = Task { try await desk.keep(SampleBatch.octets("gw1", 1, ids: 0..<2), from: gateway) }
        try await until { desk.counters.isFailing(at: noon.advanced(bySeconds: 120)) }
        #expect(!desk.counters.isFailing(at: noon.advanced(bySeconds: 119)))
        try await file.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        #expect(try await keeping.value.stored.count == 2)
        #expect(!desk.counters.isFailing(at: noon.advanced(bySeconds: 120)))
        try file.close()
        await store.close()
    }

    @Test func aGatewayThatWasHeardInTheFutureIsSilent() async throws {
        let now = Instant(seconds: 1_800_000_000)
        let store = try SQLiteCentralStore(directory: SampleBatch.folder())
        let metrics = CollectorMetrics(
            store: store, counters: CollectorCounters(), silentAfterMinutes: 45, now: { now })
        for (seconds, isSilent) in [(0, false), (-2600, false), (200, false), (-2800, true), (86_400, true)] {
            let heard = now.advanced(bySeconds: Int64(seconds))
            #expect(metrics.isSilent(GatewayRecord(gateway: "gw1", heard: heard)) == isSilent, "\(seconds)")
        }
        await store.close()
    }

    @Test func oneGatewayDoesNotTakeTheRoomOfOthers() {
        let room = IngestRoom(most: 10, mostOfGateway: 4)
        #expect(room.enter(3, of: "gw1") && !room.enter(2, of: "gw1") && room.enter(1, of: "gw1"))
        #expect(room.enter(4, of: "gw2") && !room.enter(3, of: "gw3") && room.enter(2, of: "gw3"))
        room.leave(3, of: "gw1")
        #expect(room.enter(3, of: "gw1") && !room.enter(1, of: "gw4"))
        for (gateway, bytes) in [("gw1", 1), ("gw1", 3), ("gw2", 4), ("gw3", 2)] { room.leave(bytes, of: gateway) }
        #expect(["gw1", "gw2"].allSatisfy { room.enter(4, of: $0) } && room.enter(2, of: "gw3"))
    }

    @Test func aReasonHasASampleBeforeItComesUp() async throws {
        let store = try SQLiteCentralStore(directory: SampleBatch.folder())
        try await store.prepare()
        let desk = DocumentDesk(store: store, logger: Self.quiet)
        let gateway = try GatewayID("gw2")
        await #expect(throws: DocumentFailure.self) {
            try await desk.keep(SampleBatch.octets("gw1", 1, ids: 0..<1), from: gateway)
        }
        let text = try await metrics(desk).text()
        for line in [
            #"documents_aside_total{reason="newer_schema"} 0"#, #"documents_refused_total{reason="bad_document"} 0"#,
            #"documents_dropped_total{reason="newer_schema"} 0"#,
            #"documents_refused_total{reason="other_gateway"} 1"#, #"statuses_doubted_total{reason="clock_ahead"} 0"#,
            #"statuses_doubted_total{reason="same_id_twice"} 0"#, "revoked_certificates_total 0",
            "store_failures_total 0",
        ] { #expect(text.contains("healthrelay_fleet_\(line)\n"), "\(line)") }
        await store.close()
    }
}
