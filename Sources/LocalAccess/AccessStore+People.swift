import Foundation
import GRDB
import HealthReadings

extension AccessStore {
    /// Revokes the clients of persons.
    ///
    /// - Parameters:
    ///   - people: their `client_user_id`s.
    ///   - now: the time that is noted.
    /// - Returns: the clients that were not revoked before.
    /// - Throws: ``AccessError`` if that cannot be written; the clients are out until this process ends all the same.
    public func revoke(people: [String], now: Date) async throws -> [Int64] {
        defer { departed.ring() }
        let numbers = try await clients().filter { client in
            client.revokedAt == nil && client.grant.person.map(people.contains) ?? false
        }.map(\.number)
        visits.revoke(numbers)
        let marks = numbers.map { _ in "?" }.joined(separator: ", ")
        try await queue.write { db in
            try db.execute(
                sql: "UPDATE client SET revoked_at = ? WHERE revoked_at IS NULL AND number IN (\(marks))",
                arguments: [now.timeIntervalSince1970] + StatementArguments(numbers))
        }
        return numbers
    }

    /// Takes the names of persons, and of their clients, out of the list. These clients have to be revoked before.
    ///
    /// A row keeps an empty person: without any it would look like a client for everybody.
    func scrub(_ people: [String], _ db: Database) throws {
        for person in people {
            try db.execute(
                sql: """
                    UPDATE client SET name = 'removed', person = '', revoked_at = ifnull(revoked_at, 0)
                    WHERE person = ?
                    """, arguments: [person])
        }
    }
}
