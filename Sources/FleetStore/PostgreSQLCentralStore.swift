import HealthReadings
import PostgreSQLLink

/// The centre's store in a PostgreSQL database, which any number of collectors share.
///
/// A commit returns after PostgreSQL has it on disk. With `synchronous_standby_names` it returns after a standby has it,
/// too; a commit that gave up on its standby counts as none.
package struct PostgreSQLCentralStore: CentralStore {
    private let writer: PostgreSQLConnection
    /// Looks up tokens and answers for the metrics, while the writer waits for its commit.
    private let reader: PostgreSQLConnection

    /// Makes a store; it connects at its first use, and again after a connection was lost.
    ///
    /// - Parameters:
    ///   - address: a URI `postgresql://user@host,host/database`, or libpq's `key=value` pairs.
    ///   - password: the password, where the address has none.
    package init(address: String, password: String? = nil) {
        writer = PostgreSQLConnection(address: address, password: password, program: "healthrelay-collector")
        reader = PostgreSQLConnection(address: address, password: password, program: "healthrelay-collector reads")
    }

    package func prepare() async throws(CentralStoreError) {
        let known = CentralSchema.postgreSQL.count
        // Others can't hold every text of a reading, or refuse it where JSON escapes it.
        if let encoding = try await rows("SHOW server_encoding").first?[0], encoding != "UTF8" {
            throw .refused(
                "the database has the encoding \(encoding); it needs UTF8. "
                    + "Make one with: CREATE DATABASE fleet ENCODING 'UTF8' TEMPLATE template0")
        }
        let found = try await Self.mapped { () async throws(PostgreSQLError) in
            try await writer.transaction { connection throws(PostgreSQLError) -> Int in
                // Collectors that start at once wait for each other here.
                try connection.run("SELECT pg_advisory_xact_lock(\(Self.lock))")
                try connection.run("CREATE TABLE IF NOT EXISTS fleet_schema (version integer NOT NULL)")
                let version = try connection.run("SELECT version FROM fleet_schema").first?.first.flatMap { $0 }
                let steps = version.flatMap(Int.init) ?? 0
                guard steps < known else { return steps }
                for step in CentralSchema.postgreSQL[steps...] {
                    for statement in step { try connection.run(statement) }
                }
                try connection.run("DELETE FROM fleet_schema")
                try connection.run("INSERT INTO fleet_schema (version) VALUES ($1::integer)", [.integer(known)])
                return known
            }
        }
        guard found <= known else { throw .newerSchema(found: found, known: known) }
    }

    /// `HRFC`, as a number: an advisory lock that nobody else takes.
    private static let lock = 0x4852_4643

    package func keep(_ batches: [ArrivedBatch]) async throws(CentralStoreError) -> [BatchOutcome] {
        let plan = KeepPlan(batches)
        let changes = try await Self.mapped { () async throws(PostgreSQLError) in
            try await writer.transaction { connection throws(PostgreSQLError) -> KeepPlan.Changes in
                let rows = plan.isEmpty ? [] : try connection.run(KeepPlan.upsert, plan.readingParameters)
                var changes = KeepPlan.Changes(rows)
                var compared: [PostgreSQLConnection.Row] = []
                if let parameters = plan.comparisonParameters(changes) {
                    compared = try connection.run(KeepPlan.compare, parameters)
                }
                // Written every time: after a restart, the wait for a standby then covers what an earlier try left.
                let heard = try connection.run(KeepPlan.hear, plan.gatewayParameters(changes))
                plan.note(compared, heard, in: &changes)
                return changes
            }
        }
        return plan.outcomes(changes)
    }

    @discardableResult
    package func note(_ sighting: GatewaySighting) async throws(CentralStoreError) -> String? {
        // The former status is read from before the statement.
        try await run(
            """
            INSERT INTO gateway AS known (gateway, heard, version, backlog, oldest, status, configuration)
            VALUES ($1, $2::timestamptz, $3, $4::bigint, $5::timestamptz, $6::jsonb, $7::jsonb)
            ON CONFLICT (gateway) DO UPDATE SET
                \(GatewaySighting.setHeard), version = coalesce(excluded.version, known.version),
                backlog = coalesce(excluded.backlog, known.backlog),
                oldest = CASE WHEN excluded.backlog IS NULL THEN known.oldest ELSE excluded.oldest END,
                status = coalesce(excluded.status, known.status),
                configuration = coalesce(excluded.configuration, known.configuration)
            RETURNING (SELECT former.status FROM gateway AS former WHERE former.gateway = $1)
            """,
            [
                .text(sighting.gateway), .text(sighting.heard.description), .optional(sighting.version),
                .optional(sighting.backlog.map(String.init)), .optional(sighting.oldest?.description),
                .optional(sighting.status), .optional(sighting.configuration),
            ]
        ).first?[0]
    }

    @discardableResult
    package func putAside(_ document: AsideDocument) async throws(CentralStoreError) -> Bool {
        try await Self.mapped { () async throws(PostgreSQLError) in
            try await writer.transaction { connection throws(PostgreSQLError) -> Bool in
                let known = try connection.run(
                    "SELECT 1 FROM set_aside WHERE gateway = $1 AND digest = $2",
                    [.text(document.gateway), .text(document.digest)])
                guard known.isEmpty else { return true }
                let kept = try connection.run(
                    """
                    SELECT count(*), coalesce(sum(octet_length(document)), 0) FROM set_aside
                    WHERE gateway = $1 AND digest IS DISTINCT FROM $2
                    """, [.text(document.gateway), .text(AsideDocument.fullMark)])
                guard let count = kept.first?[0].flatMap(Int.init), let bytes = kept.first?[1].flatMap(Int.init),
                    document.fits(beside: count, bytes: bytes)
                else {
                    try connection.run(Self.countAside, Self.countParameters(document))
                    return false
                }
                try connection.run(
                    """
                    INSERT INTO set_aside (received, gateway, reason, words, document, bytes, digest)
                    VALUES ($1::timestamptz, $2, $3, $4, decode($5, 'hex'), $6::bigint, $7)
                    ON CONFLICT (gateway, digest) DO NOTHING
                    """,
                    [
                        .text(document.received.description), .text(document.gateway), .text(document.reason),
                        .text(document.words), .text(document.octets.hexadecimal()), .integer(document.bytes),
                        .text(document.digest),
                    ])
                return true
            }
        }
    }

    /// Counts a document that isn't kept.
    private static let countAside = """
        INSERT INTO set_aside AS known (received, gateway, reason, words, document, bytes, digest)
        VALUES ($1::timestamptz, $2, $3, '1 more document of the gateway was not kept', '', $4::bigint, $5)
        ON CONFLICT (gateway, digest) DO UPDATE SET
            received = excluded.received, bytes = known.bytes + excluded.bytes,
            words = (split_part(known.words, ' ', 1)::bigint + 1)::text
                || ' more documents of the gateway were not kept'
        """

    private static func countParameters(_ document: AsideDocument) -> [PostgreSQLValue] {
        [
            .text(document.received.description), .text(document.gateway), .text(AsideDocument.full),
            .integer(document.bytes), .text(AsideDocument.fullMark),
        ]
    }

    package func aside(limit: Int) async throws(CentralStoreError) -> [AsideDocument] {
        try await rows(
            """
            SELECT \(Self.microseconds("received")), gateway, reason, words, encode(document, 'hex'), bytes, digest
            FROM set_aside ORDER BY number DESC LIMIT $1::bigint
            """, [.integer(limit)]
        ).compactMap { row in
            guard let received = Self.instant(row[0]), let gateway = row[1], let reason = row[2], let words = row[3],
                let octets = row[4].flatMap([UInt8].init(hexadecimal:))
            else { return nil }
            return AsideDocument(
                received: received, gateway: gateway, reason: reason, words: words, octets: octets,
                bytes: row[5].flatMap(Int.init), digest: row[6])
        }
    }

    package func gateways(hasStatuses: Bool) async throws(CentralStoreError) -> [GatewayRecord] {
        try await rows(
            """
            WITH known AS (
                SELECT gateway, \(Self.microseconds("heard")), version, backlog, \(Self.microseconds("oldest")), stored,
                    highest_batch, \(hasStatuses ? "status" : "NULL::jsonb"), configuration FROM gateway
                UNION ALL
                SELECT DISTINCT gateway, NULL::bigint, NULL, NULL::bigint, NULL::bigint, 0, NULL::bigint, NULL::jsonb,
                    NULL::jsonb
                    FROM gateway_token WHERE gateway NOT IN (SELECT gateway FROM gateway)
            )
            SELECT known.*,
                (SELECT max(version) FROM desired_configuration AS d WHERE d.gateway IN (known.gateway, '*'))
                FROM known ORDER BY 1
            """
        ).compactMap { row in
            guard let gateway = row[0] else { return nil }
            return GatewayRecord(
                gateway: gateway, heard: Self.instant(row[1]), version: row[2], backlog: row[3].flatMap(Int64.init),
                oldest: Self.instant(row[4]), stored: row[5].flatMap(Int64.init) ?? 0,
                highestBatch: row[6].flatMap(Int64.init), status: row[7], configuration: row[8],
                wantedVersion: row[9].flatMap(Int64.init))
        }
    }

    package func newest(of gateway: String?, limit: Int) async throws(CentralStoreError) -> [CentralReading] {
        try await rows(
            """
            SELECT gateway, id, revision, batch, \(Self.microseconds("taken")), kind, person, body FROM reading
            WHERE $1::text IS NULL OR gateway = $1 ORDER BY received DESC, gateway, id LIMIT $2::bigint
            """, [.optional(gateway), .integer(limit)]
        ).compactMap { row in
            guard let gateway = row[0], let id = row[1], let revision = row[2].flatMap(Int64.init),
                let batch = row[3].flatMap(Int64.init)
            else { return nil }
            return CentralReading(
                gateway: gateway, id: id, revision: revision, batch: batch, taken: Self.instant(row[4]), kind: row[5],
                person: row[6], body: row[7])
        }
    }

    package func highestBatch(of gateway: String) async throws(CentralStoreError) -> Int64? {
        try await rows("SELECT highest_batch FROM gateway WHERE gateway = $1", [.text(gateway)]).first?[0]
            .flatMap(Int64.init)
    }

    package func storedIDs(
        of gateway: String, batches: [Int64]
    ) async throws(CentralStoreError) -> [Int64: [String]] {
        let rows = try await rows(
            "SELECT batch, id FROM reading WHERE gateway = $1 AND batch = ANY ($2::bigint[]) ORDER BY batch, id",
            [.text(gateway), .array(batches.map(String.init))])
        return rows.reduce(into: [:]) { found, row in
            guard let batch = row[0].flatMap(Int64.init), let id = row[1] else { return }
            found[batch, default: []].append(id)
        }
    }

    package func setConfiguration(
        _ settings: String, of gateway: String?, at instant: Instant
    ) async throws(CentralStoreError) -> Int64 {
        let rows = try await Self.mapped { () async throws(PostgreSQLError) in
            try await writer.transaction { connection throws(PostgreSQLError) -> [PostgreSQLConnection.Row] in
                // Two operators who change settings at once get two versions.
                try connection.run("LOCK TABLE desired_configuration IN EXCLUSIVE MODE")
                return try connection.run(
                    """
                    INSERT INTO desired_configuration (gateway, version, settings, created)
                    SELECT $1, greatest(coalesce(max(version), 0) + 1, $2::bigint), $3, $4::timestamptz
                    FROM desired_configuration
                    ON CONFLICT (gateway) DO UPDATE SET
                        version = excluded.version, settings = excluded.settings, created = excluded.created
                    RETURNING version
                    """,
                    [
                        .text(gateway ?? DesiredConfiguration.everyGateway),
                        .text(String(instant.microseconds / 1000)), .text(settings), .text(instant.description),
                    ])
            }
        }
        guard let version = rows.first?[0].flatMap(Int64.init) else { throw .refused("no version was given") }
        return version
    }

    package func configuration(of gateway: String) async throws(CentralStoreError) -> DesiredConfiguration? {
        let rows = try await rows(
            """
            SELECT version, settings FROM desired_configuration WHERE gateway IN ($1, $2)
            ORDER BY version DESC LIMIT 1
            """, [.text(gateway), .text(DesiredConfiguration.everyGateway)])
        guard let row = rows.first, let version = row[0].flatMap(Int64.init), let settings = row[1] else { return nil }
        return DesiredConfiguration(version: version, settings: settings)
    }

    package func add(
        tokenDigest digest: String, for gateway: String, at instant: Instant
    ) async throws(CentralStoreError) {
        try await run(
            "INSERT INTO gateway_token (digest, gateway, created) VALUES ($1, $2, $3::timestamptz)",
            [.text(digest), .text(gateway), .text(instant.description)])
    }

    package func gateway(ofTokenDigest digest: String) async throws(CentralStoreError) -> String? {
        try await rows("SELECT gateway FROM gateway_token WHERE digest = $1", [.text(digest)]).first?[0]
    }

    package func removeTokens(of gateway: String) async throws(CentralStoreError) -> Int {
        try await Self.mapped { () async throws(PostgreSQLError) in
            try await writer.transaction { connection throws(PostgreSQLError) -> Int in
                try connection.run("DELETE FROM gateway_token WHERE gateway = $1 RETURNING 1", [.text(gateway)]).count
            }
        }
    }

    package func checkIsWritable() async throws(CentralStoreError) {
        try await Self.mapped { () async throws(PostgreSQLError) in
            // Not behind a commit that waits for its standby, and without a wait of its own.
            try await reader.transaction { connection throws(PostgreSQLError) in
                try connection.run("SET LOCAL synchronous_commit = off")
                try connection.run("SELECT revision FROM reading LIMIT 1")
                try connection.run("UPDATE fleet_schema SET version = version")
            }
        }
    }

    package func close() async {
        await writer.close()
        await reader.close()
    }

    // MARK: Statements

    /// Runs a statement that changes something, in a transaction of its own.
    @discardableResult
    private func run(
        _ statement: String, _ parameters: [PostgreSQLValue]
    ) async throws(CentralStoreError) -> [PostgreSQLConnection.Row] {
        try await Self.mapped { () async throws(PostgreSQLError) in
            try await writer.transaction { connection throws(PostgreSQLError) -> [PostgreSQLConnection.Row] in
                try connection.run(statement, parameters)
            }
        }
    }

    private func rows(
        _ statement: String, _ parameters: [PostgreSQLValue] = []
    ) async throws(CentralStoreError) -> [PostgreSQLConnection.Row] {
        try await Self.mapped { () async throws(PostgreSQLError) in
            try await reader.transaction { connection throws(PostgreSQLError) -> [PostgreSQLConnection.Row] in
                try connection.run(statement, parameters)
            }
        }
    }

    private static func mapped<Result>(
        _ body: () async throws(PostgreSQLError) -> Result
    ) async throws(CentralStoreError) -> Result {
        do {
            return try await body()
        } catch {
            switch error {
            case .unavailable, .conflict, .notReplicated: throw .unavailable(error.description)
            case .badValue: throw .badValue(error.description)
            case .refused: throw .refused(error.description)
            }
        }
    }

    /// An instant as microseconds, whatever the server's settings for dates are.
    private static func microseconds(_ column: String) -> String {
        "(extract(epoch from \(column)) * 1000000)::bigint"
    }

    private static func instant(_ text: String?) -> Instant? {
        text.flatMap(Int64.init).map(Instant.init(microseconds:))
    }
}
