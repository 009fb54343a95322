import Crypto
import Foundation
import GRDB

extension SandboxStore {
    /// The days of a user's body summary, oldest first: of each provider and local day the latest weight and share of fat.
    ///
    /// - Parameters:
    ///   - user: the user.
    ///   - first: the first day, `YYYY-MM-DD`.
    ///   - last: the last day, included; `nil`: no end.
    ///   - provider: one provider's; `nil`: everyone's.
    func bodyDays(of user: String, from first: String, to last: String?, provider: String?) async throws -> [JSONValue]
    {
        try await writer.read { database in
            try requireUser(user, database)
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT provider, resource, value, type, at,
                        strftime('%Y-%m-%d', at / 1000000 + offset, 'unixepoch') AS day
                    FROM sample WHERE user_id = :user AND resource IN ('body_mass', 'body_fat_percentage')
                        AND (:provider IS NULL OR provider = :provider) ORDER BY at, id
                    """, arguments: ["user": user, "provider": provider])
            var days: [(key: String, values: [String: String], row: Row)] = []
            var places: [String: Int] = [:]
            for row in rows {
                let (day, slug, resource): (String, String, String) = (row["day"], row["provider"], row["resource"])
                guard day >= first, last.map({ day <= $0 }) ?? true else { continue }
                let key = "\(day) \(slug)"
                let place = places[key] ?? days.count
                if place == days.count {
                    days.append((key, [:], row))
                    places[key] = place
                }
                days[place].values[resource] = row["value"]
                days[place].row = row
            }
            return days.sorted { $0.key < $1.key }.map { day in
                func number(_ resource: String) -> JSONValue { day.values[resource].map(JSONValue.number) ?? .null }
                return [
                    "user_id": .string(user), "id": .string(Self.id(of: "\(user) body \(day.key)")),
                    "calendar_date": .string(day.row["day"]), "weight": number("body_mass"),
                    "fat": number("body_fat_percentage"),
                    "source": ["provider": .string(day.row["provider"]), "type": .string(day.row["type"])],
                ]
            }
        }
    }

    /// The same UUID whenever the same thing is asked for.
    private static func id(of name: String) -> String {
        var octets = Array(SHA256.hash(data: Data(name.utf8)).prefix(16))
        // RFC 9562, version 8: made by a scheme of one's own.
        octets[6] = octets[6] & 0x0F | 0x80
        octets[8] = octets[8] & 0x3F | 0x80
        let digits = octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        var text = ""
        for (place, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(place) { text += "-" }
            text.append(digit)
        }
        return text
    }
}
