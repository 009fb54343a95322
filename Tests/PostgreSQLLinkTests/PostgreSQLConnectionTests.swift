import PostgreSQLLink
import TestPostgreSQL
import Testing

@Suite(.enabled(if: TestPostgreSQL.isInstalled)) struct PostgreSQLConnectionTests {
    @Test func textsComeBackAsTheyWereSent() async throws {
        let address = try TestPostgreSQL.shared.get().database()
        let connection = PostgreSQLConnection(address: address, program: "tests")
        let texts: [String?] = ["a", "", nil, "NULL", #"{"a\b": [1,2]}"#, "ä\n\t'$1", #"\"#]
        let rows = try await connection.run("SELECT * FROM unnest($1::text[])", [.array(texts)])
        #expect(rows.map { $0[0] } == texts)
        #expect(try await connection.run("SELECT $1::text IS NULL", [.null]) == [["t"]])
    }

    @Test func aTransactionThatFailsLeavesNothing() async throws {
        let address = try TestPostgreSQL.shared.get().database()
        let connection = PostgreSQLConnection(address: address, program: "tests")
        try await connection.run("CREATE TABLE number (value integer)")
        await #expect(throws: PostgreSQLError.badValue(#"invalid input syntax for type integer: "x""#)) {
            try await connection.transaction { connection throws(PostgreSQLError) in
                try connection.run("INSERT INTO number VALUES (1)")
                try connection.run("INSERT INTO number VALUES ($1::integer)", [.text("x")])
            }
        }
        #expect(try await connection.run("SELECT count(*) FROM number") == [["0"]])
    }

    @Test func aTextWithNULIsNotRepeated() async throws {
        let connection = PostgreSQLConnection(address: try TestPostgreSQL.shared.get().database(), program: "tests")
        for parameter in [PostgreSQLValue.text("Anna\0B"), .array(["x", "Anna\0B"])] {
            await #expect(throws: PostgreSQLError.badValue("a text has a NUL character")) {
                try await connection.run("SELECT $1::text", [parameter])
            }
        }
        #expect(try await connection.run("SELECT 1") == [["1"]])
    }

    @Test func errorsSayWhatCanBeDone() async throws {
        let address = try TestPostgreSQL.shared.get().database()
        let connection = PostgreSQLConnection(address: address, program: "tests")
        await #expect(throws: PostgreSQLError.refused(state: "42P01", #"relation "absent" does not exist"#)) {
            try await connection.run("SELECT * FROM absent")
        }
        let nobody = PostgreSQLConnection(address: "host=/nonexistent dbname=x", program: "tests")
        await #expect { try await nobody.run("SELECT 1") } throws: { error in
            guard case .unavailable(let words)? = error as? PostgreSQLError else { return false }
            return words.contains("/nonexistent")
        }
    }

    @Test func aCommitThatGaveUpOnItsStandbyIsNone() async throws {
        // A server of its own: the setting concerns every connection.
        let server = try TestPostgreSQL()
        let address = try server.database()
        let connection = PostgreSQLConnection(address: address, program: "waits")
        try await connection.run("CREATE TABLE number (value integer)")
        _ = try server.run(at: address, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        _ = try server.run(at: address, "SELECT pg_reload_conf()")
        let commit = Task {
            try await connection.transaction { connection throws(PostgreSQLError) in
                try connection.run("INSERT INTO number VALUES (1)")
            }
        }
        // It waits for a standby that never comes, until an administrator cancels the wait.
        let cancel = """
            SELECT pg_cancel_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'waits' AND wait_event = 'SyncRep'
            """
        while try server.run(at: address, cancel) != "t" { try await Task.sleep(for: .milliseconds(20)) }
        await #expect { try await commit.value } throws: { error in
            guard case .notReplicated? = error as? PostgreSQLError else { return false }
            return true
        }
    }

    @Test func aCommitWaitsForTheDiskWhereThatIsSwitchedOff() async throws {
        // A server of its own, which loses what it has not written when it is killed.
        let server = try TestPostgreSQL()
        let address = try server.database()
        let connection = PostgreSQLConnection(address: address, program: "tests")
        try await connection.run("CREATE TABLE number (value integer)")
        _ = try server.run(at: address, "ALTER SYSTEM SET wal_writer_delay = '10s'")
        _ = try server.run(at: address, "ALTER SYSTEM SET synchronous_commit = off")
        _ = try server.run(at: address, "SELECT pg_reload_conf()")
        // The connection is older than the setting, which reaches it with one of its next statements.
        while try await connection.run("SHOW synchronous_commit") != [["off"]] {
            try await Task.sleep(for: .milliseconds(20))
        }
        let setting = try await connection.transaction { connection throws(PostgreSQLError) in
            try connection.run("INSERT INTO number VALUES (1)")
            return try connection.run("SHOW synchronous_commit")
        }
        #expect(setting == [["on"]])
        server.stop()
        try server.start()
        let kept = try await connection.transaction { connection throws(PostgreSQLError) in
            try connection.run("SELECT value FROM number")
        }
        #expect(kept == [["1"]])
        // What waits for more than the disk stays.
        for chosen in ["remote_apply", "remote_write", "local"] {
            try await connection.run("SET synchronous_commit = \(chosen)")
            let setting = try await connection.transaction { connection throws(PostgreSQLError) in
                try connection.run("SHOW synchronous_commit")
            }
            #expect(setting == [[chosen]])
        }
    }

    @Test func aServerThatCameBackIsUsedAgain() async throws {
        let server = try TestPostgreSQL()
        let address = try server.database()
        let connection = PostgreSQLConnection(address: address, program: "tests")
        try await connection.run("CREATE TABLE number (value integer)")
        server.stop()
        await #expect { try await connection.run("SELECT 1") } throws: { error in
            (error as? PostgreSQLError)?.isTemporary ?? false
        }
        try server.start()
        try await connection.transaction { connection throws(PostgreSQLError) in
            try connection.run("INSERT INTO number VALUES (1)")
        }
        server.stop()
        try server.start()
        // The loss shows at the first statement, and the transaction runs again.
        try await connection.transaction { connection throws(PostgreSQLError) in
            try connection.run("INSERT INTO number VALUES (2)")
        }
        #expect(try await connection.run("SELECT count(*) FROM number") == [["2"]])
    }
}
