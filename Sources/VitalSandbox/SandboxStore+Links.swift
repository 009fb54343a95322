import GRDB

/// What a link token was made for, and whether it can still be used.
struct Link: Sendable {
    /// Whether a token can be used.
    enum State: Sendable, Equatable { case usable, expired, consumed }

    var userID: String
    var provider: String?
    var redirectURL: String?
    var offered: [String]
    var redirectsOnClose: Bool
    var state: State
}

extension SandboxStore {
    /// Makes a link token that connects once, within `seconds`.
    func createLinkToken(_ body: LinkTokenBody, seconds: Int64) async throws -> String {
        var generator = SystemRandomNumberGenerator()
        let token = "lt_" + (0..<4).map { _ in String(generator.next() | 1 << 63, radix: 16) }.joined()
        let expiry = Timestamp.now.microseconds + seconds * 1_000_000
        try await writer.write { database in
            try requireUser(body.userID, database)
            try database.execute(
                sql: """
                    INSERT INTO link (token, user_id, provider, redirect_url, offered, redirects_on_close, expires_at)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    token, body.userID, body.provider, body.redirectURL, body.offered?.joined(separator: ","),
                    body.redirectsOnClose, expiry,
                ])
        }
        return token
    }

    /// What a token is for; nil for one that was never made, or whose user is gone.
    func link(_ token: String) async throws -> Link? {
        try await writer.read { database in try Self.link(token, database) }
    }

    /// Connects what a token is for and consumes it, both or neither.
    ///
    /// - Returns: nil for a token that was never made; else how it stood: only ``Link/State/usable`` has connected.
    func consume(_ token: String, connecting slug: String) async throws -> Link? {
        try await writer.write { database in
            guard let link = try Self.link(token, database) else { return nil }
            guard link.state == .usable else { return link }
            try database.execute(sql: "UPDATE link SET consumed = 1 WHERE token = ?", arguments: [token])
            // Connected again it works again, whatever its status was.
            try database.execute(
                sql: """
                    INSERT INTO source (user_id, slug, created_on, status) VALUES (?, ?, ?, 'connected')
                    ON CONFLICT (user_id, slug) DO UPDATE SET
                        status = 'connected', error_type = NULL, error_message = NULL, errored_at = NULL
                    """, arguments: [link.userID, slug, Timestamp.now.text])
            return link
        }
    }

    private static func link(_ token: String, _ database: Database) throws -> Link? {
        try Row.fetchOne(database, sql: "SELECT * FROM link WHERE token = ?", arguments: [token]).map { row in
            let offered = (row["offered"] as String?)?.split(separator: ",").map(String.init)
            let isExpired = Timestamp.now.microseconds >= row["expires_at"] as Int64
            return Link(
                userID: row["user_id"], provider: row["provider"], redirectURL: row["redirect_url"],
                offered: offered ?? Vocabulary.linkableSlugs, redirectsOnClose: row["redirects_on_close"],
                state: row["consumed"] ? .consumed : isExpired ? .expired : .usable)
        }
    }
}
