import HealthFigures
import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingStore

extension InfluxDBDestination {
    /// Writes what the database keeps of a part, after it has refused points for their age.
    ///
    /// That it refuses them is no evidence alone: with a wrong clock it would refuse all. It is asked how long it keeps points
    /// for, and what is older by the gateway's own clock is refused, if that is as much as the database has dropped.
    ///
    /// - Throws: the refusal, if the database does not say so, or drops other points than those that are too old.
    func writeKept(
        _ part: DeliveryPart, after refusal: DeliveryFailure
    ) async throws(DeliveryFailure) -> [Outcome] {
        guard let seconds = try await retention() else { throw refusal }
        let oldest = Instant.systemClock.advanced(bySeconds: -seconds)
        let old = part.items.filter { $0.timestamp < oldest }
        // A recording is a point for each of its samples.
        let points = old.map { max(1, $0.reading.samples().count) }.reduce(0, +)
        let dropped = Self.droppedCount(refusal.serverSaid ?? "") ?? (part.items.count == 1 ? points : 0)
        guard !old.isEmpty, points == dropped else { throw refusal }
        var rest = part
        rest.items = part.items.filter { $0.timestamp >= oldest }
        // What it has not dropped may be stored already: the same point again is the same point.
        let written = rest.items.isEmpty ? [] : try await send(rest)
        let words = "older than the \(Self.words(seconds)) that the \(placeName) keeps: \(refusal.serverSaid ?? "")"
        return written + old.map { Outcome($0.id, .refused(words)) }
    }

    /// How many points a server says that it has dropped: `dropped=3`, `dropped 3 points`.
    static func droppedCount(_ words: String) -> Int? {
        words.lowercased().firstMatch(of: /dropped[ =:]+([0-9]{1,9})/).flatMap { Int($0.1) }
    }

    private static func words(_ seconds: Int64) -> String {
        seconds % 86_400 == 0 ? "\(seconds / 86_400) days" : "\(seconds) s"
    }

    /// For how many seconds the database or bucket keeps points; `nil` if for ever, or if it does not say so: the user may
    /// not be permitted to ask.
    private func retention() async throws(DeliveryFailure) -> Int64? {
        do throws(DeliveryFailure) {
            switch place {
            case .database(let database, _): return try await retentionOfDatabase(database)
            case .bucket(let bucket, let organisation): return try await retentionOfBucket(bucket, organisation)
            }
        } catch {
            guard !error.isCancellation else { throw error }
            return nil
        }
    }

    private func retentionOfDatabase(_ database: String) async throws(DeliveryFailure) -> Int64? {
        var request = WebRequest(
            url: client.server.address.joined("query", ["db": database]), route: "POST /query")
        request.headers = headers + [("content-type", Masked("application/x-www-form-urlencoded"))]
        request.body = Array("q=\(HTTPAddress.encoded("SHOW RETENTION POLICIES ON \(Self.identifier(database))"))".utf8)
        let answer = try await client.send(request)
        guard answer.isGood, let results = answer.json?["results"]?.elements else { return nil }
        for series in results.flatMap({ $0["series"]?.elements ?? [] }) {
            let columns = series["columns"]?.elements.compactMap(\.text) ?? []
            guard let length = columns.firstIndex(of: "duration"), let standard = columns.firstIndex(of: "default")
            else { continue }
            // Points are written without naming a policy.
            for row in series["values"]?.elements ?? []
            where row.elements.count == columns.count && row.elements[standard] == .bool(true) {
                return row.elements[length].text.flatMap(Self.seconds)
            }
        }
        return nil
    }

    private func retentionOfBucket(_ bucket: String, _ organisation: String) async throws(DeliveryFailure) -> Int64? {
        var request = WebRequest(
            url: client.server.address.joined("api/v2/buckets", ["name": bucket, "org": organisation]),
            route: "GET /api/v2/buckets")
        request.method = .GET
        request.headers = headers + [("accept", Masked("application/json"))]
        let answer = try await client.send(request)
        guard answer.isGood, let buckets = answer.json?["buckets"]?.elements,
            let found = buckets.first(where: { $0["name"]?.text == bucket })
        else { return nil }
        let lengths = found["retentionRules"]?.elements.compactMap { rule -> Int64? in
            guard case .number(let seconds)? = rule["everySeconds"] else { return nil }
            return Int64(exactly: seconds)
        }
        return lengths?.filter { (1..<1 << 40).contains($0) }.min()
    }

    /// Seconds of a duration as InfluxQL shows it (`8736h0m0s`); `nil` for none (`0s`) and anything else.
    static func seconds(_ text: String) -> Int64? {
        let units: [Character: Int64] = ["w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1]
        var (sum, rest) = (Int64(0), Substring(text))
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest.dropFirst(digits.count)
            guard let number = Int64(digits), number < 1 << 32, let unit = rest.popFirst().flatMap({ units[$0] }) else {
                return nil
            }
            sum += number * unit
            // No database keeps points for so long, and more of them would not fit.
            guard sum < 1 << 40 else { return nil }
        }
        return sum > 0 ? sum : nil
    }
}
