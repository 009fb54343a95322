import Foundation
import HealthReadings
import NIOHTTP1

/// What the server holds of a person's body on one day.
public struct StoredBodyDay: Sendable, Hashable {
    /// The server's id of the summary.
    public var id: String
    /// The day: `2026-11-22`.
    public var day: String
    /// The weight in kg.
    public var weight: ExactDecimal?
    /// The share of fat in per cent.
    public var fat: ExactDecimal?
    /// The slug of the provider it came from.
    public var provider: String
}

extension VitalAPI {
    /// The days of the body summary (`GET /v2/summary/body/{user_id}`).
    ///
    /// - Parameters:
    ///   - userID: the server's id of the person.
    ///   - first: the first day: `2026-11-01`.
    ///   - last: the last day, included; `nil`: today.
    ///   - provider: one provider's alone; `nil`: everyone's.
    /// - Throws: ``VitalError/Kind/notFound`` where the server does not know the person.
    public func bodyDays(
        of userID: String, from first: String, to last: String? = nil, provider: String? = nil
    ) async throws -> [StoredBodyDay] {
        var query = [(name: "start_date", value: first)]
        if let last { query.append((name: "end_date", value: last)) }
        if let provider { query.append((name: "provider", value: provider)) }
        let request = VitalRequest(
            method: .GET,
            path: [.fixed("v2"), .fixed("summary"), .fixed("body"), .value(userID, name: "user_id")], query: query)
        return try await call(request, answers: BodyAnswer.self).days
    }
}

private struct BodyAnswer: Decodable, Sendable {
    struct Day: Decodable, Sendable {
        struct Source: Decodable, Sendable {
            var provider: String?
            var slug: String?
        }

        var id: String
        var calendar_date: String
        var weight: Decimal?
        var fat: Decimal?
        var source: Source?
    }

    var body: [Day]

    var days: [StoredBodyDay] {
        body.map { day in
            StoredBodyDay(
                id: day.id, day: day.calendar_date, weight: Self.exact(day.weight), fat: Self.exact(day.fat),
                provider: day.source?.provider ?? day.source?.slug ?? "unknown")
        }
    }

    private static func exact(_ value: Decimal?) -> ExactDecimal? { value.flatMap { ExactDecimal("\($0)") } }
}

extension AnswerReader {
    /// Reads an answer about days of the body summary.
    func bodyDays(of answer: VitalAnswer) throws -> [StoredBodyDay] { try decode(BodyAnswer.self, from: answer).days }
}
