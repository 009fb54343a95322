import CPQ
import OwnThread
import Synchronization

/// A connection to PostgreSQL through libpq, made at the first statement and made again after it was lost.
///
/// libpq's calls wait for the server. They run on a thread of the actor's own, never on the threads that tasks share.
package actor PostgreSQLConnection {
    /// A row's values in text form; `nil` is NULL.
    package typealias Row = [String?]

    private let address: String
    private let password: String?
    private let program: String
    private let executor: ThreadExecutor
    private var connection: OpaquePointer?
    /// The warnings of the statement that runs.
    private let warnings = Warnings()

    /// - Parameters:
    ///   - address: a URI `postgresql://user@host,host/database`, or libpq's `key=value` pairs.
    ///   - password: the password, where the address has none; `nil`: libpq looks into `~/.pgpass`.
    ///   - program: names the connection in the server's own lists.
    package init(address: String, password: String? = nil, program: String) {
        self.address = address
        self.password = password
        self.program = program
        executor = ThreadExecutor(label: "postgresql")
    }

    isolated deinit {
        if let connection { PQfinish(connection) }
        executor.stop()
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Ends the connection; the next statement makes another.
    package func close() {
        if let connection { PQfinish(connection) }
        connection = nil
    }

    /// Runs one statement.
    ///
    /// - Returns: its rows.
    /// - Throws: ``PostgreSQLError``.
    @discardableResult
    package func run(_ statement: String, _ parameters: [PostgreSQLValue] = []) throws(PostgreSQLError) -> [Row] {
        try execute(statement, parameters)
    }

    /// Runs statements in one transaction, which is durable when this returns. If a standby has to confirm it and
    /// hasn't, this throws.
    ///
    /// A transaction that another one was in the way of runs again, and so does one whose connection had been lost
    /// before its first statement. It may therefore run several times, and must be one that may.
    @discardableResult
    package func transaction<Result: Sendable>(
        _ body: @Sendable (isolated PostgreSQLConnection) throws(PostgreSQLError) -> Result
    ) throws(PostgreSQLError) -> Result {
        var tries = 0
        while true {
            let wasConnected = connection != nil
            tries += 1
            do {
                try execute(Self.begin, [])
                let result = try body(self)
                try commit()
                return result
            } catch {
                rollBack()
                let mayRepeat =
                    switch error {
                    case .conflict: true
                    // The server was restarted since the last statement: this shows only now.
                    case .unavailable: wasConnected && connection == nil
                    default: false
                    }
                guard mayRepeat, tries < 3 else { throw error }
            }
        }
    }

    /// Begins a transaction whose commit waits for the disk, also where the server, the database or the user has that switched
    /// off. What the administrator has chosen otherwise stays: with `remote_apply` and the like it waits for more.
    private static let begin = """
        BEGIN;
        SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'
        """

    private func commit() throws(PostgreSQLError) {
        try execute("COMMIT", [])
        // A commit that stops waiting for its standby succeeds with a warning.
        if let warning = warnings.first { throw .notReplicated(warning) }
    }

    private func rollBack() {
        guard let connection else { return }
        if PQtransactionStatus(connection) != PQTRANS_IDLE { _ = try? execute("ROLLBACK", []) }
        if let connection = self.connection, PQtransactionStatus(connection) != PQTRANS_IDLE { close() }
    }

    @discardableResult
    private func execute(_ statement: String, _ parameters: [PostgreSQLValue]) throws(PostgreSQLError) -> [Row] {
        let connection = try connected()
        warnings.clear()
        // libpq would end the text there, and the server's words would repeat what comes before.
        let values = parameters.map(\.text)
        guard values.allSatisfy({ $0?.utf8.contains(0) != true }) else {
            throw .badValue("a text has a NUL character")
        }
        let texts = values.map { $0.map { Array($0.utf8CString) } }
        let pointers = texts.map { text in
            text.map { text in
                let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.count)
                copy.initialize(from: text, count: text.count)
                return copy
            }
        }
        defer { for pointer in pointers { pointer?.deallocate() } }
        // Only without parameters may there be several statements.
        let result =
            parameters.isEmpty
            ? PQexec(connection, statement)
            : PQexecParams(
                connection, statement, Int32(parameters.count), nil, pointers.map { $0.map { UnsafePointer($0) } },
                nil, nil, 0)
        defer { PQclear(result) }
        switch PQresultStatus(result) {
        case PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: return []
        case PGRES_TUPLES_OK: return Self.rows(of: result)
        default:
            let state = PQresultErrorField(result, Self.sqlState).map { String(cString: $0) }
            let words = PQresultErrorField(result, Self.primaryMessage).map { String(cString: $0) }
            let error = PostgreSQLError(state: state, words: words ?? String(cString: PQerrorMessage(connection)))
            // libpq may still call a connection good of which it couldn't even send the statement.
            let isLost = state == nil || state?.hasPrefix("57P") == true
            if isLost || PQstatus(connection) != CONNECTION_OK { close() }
            throw error
        }
    }

    private func connected() throws(PostgreSQLError) -> OpaquePointer {
        if let connection { return connection }
        // The later of two like keys counts, so the address may not undo what the collector relies on.
        var pairs = [("dbname", address)]
        if let password { pairs.append(("password", password)) }
        pairs += [
            ("fallback_application_name", program), ("connect_timeout", "10"), ("client_encoding", "UTF8"),
            // A host that vanished is noticed within half a minute.
            ("keepalives_idle", "15"), ("keepalives_interval", "5"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "30000"),
        ]
        let keys = pairs.map { CString($0.0) }
        let values = pairs.map { CString($0.1) }
        let made = PQconnectdbParams(keys.map(\.pointer) + [nil], values.map(\.pointer) + [nil], 1)
        withExtendedLifetime((keys, values)) {}
        guard let made else { throw .unavailable("out of memory") }
        guard PQstatus(made) == CONNECTION_OK else {
            let words = String(cString: PQerrorMessage(made))
            PQfinish(made)
            throw PostgreSQLError(state: nil, words: words)
        }
        PQsetNoticeReceiver(made, receiveNotice, Unmanaged.passUnretained(warnings).toOpaque())
        connection = made
        return made
    }

    private static func rows(of result: OpaquePointer?) -> [Row] {
        let columns = PQnfields(result)
        return (0..<PQntuples(result)).map { row in
            (0..<columns).map { column in
                PQgetisnull(result, row, column) == 1 ? nil : String(cString: PQgetvalue(result, row, column))
            }
        }
    }

    /// libpq's `PG_DIAG_SQLSTATE` and `PG_DIAG_MESSAGE_PRIMARY`, which are characters in C.
    private static let sqlState = Int32(UInt8(ascii: "C"))
    private static let primaryMessage = Int32(UInt8(ascii: "M"))
}

/// The warnings that came with a statement.
private final class Warnings: Sendable {
    private let lines = Mutex<[String]>([])

    var first: String? { lines.withLock(\.first) }
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    func clear() { lines.withLock { $0 = [] } }
}

/// libpq calls it on the thread that runs the statement; a closure formed in the actor would trap there.
private nonisolated func receiveNotice(_ context: UnsafeMutableRawPointer?, _ notice: OpaquePointer?) {
    guard let context, let severity = PQresultErrorField(notice, Int32(UInt8(ascii: "V"))),
        String(cString: severity) == "WARNING", let words = PQresultErrorField(notice, Int32(UInt8(ascii: "M")))
    else { return }
    Unmanaged<Warnings>.fromOpaque(context).takeUnretainedValue().add(String(cString: words))
}

/// A C string that lives as long as the value.
private final class CString {
    let pointer: UnsafePointer<CChar>?
    private let buffer: UnsafeMutableBufferPointer<CChar>

    init(_ text: String) {
        buffer = .allocate(capacity: text.utf8.count + 1)
        _ = buffer.initialize(from: text.utf8CString)
        pointer = UnsafePointer(buffer.baseAddress)
    }

    deinit { buffer.deallocate() }
}
