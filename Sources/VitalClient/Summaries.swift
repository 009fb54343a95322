import HealthReadings
import NIOHTTP1

/// What a summary is of, in the server's names.
public enum SummaryKind: String, Sendable, Hashable, CaseIterable {
    case profile, body, activity, sleep, workouts
    case menstrualCycle = "menstrual_cycle"
    case meal, electrocardiogram
}

/// One post of a summary.
public struct SummaryPost: Sendable, Hashable {
    /// What it is of.
    public var kind: SummaryKind { data.kind }
    /// The slug of the connected source the data is from.
    public var provider: String
    /// The IANA id of the time zone that the user was in when the data was measured.
    public var timeZone: String
    /// Why it is posted.
    public var stage: PostStage
    /// What a backfill covers, both ends included; sent with ``PostStage/historical`` only.
    public var period: ClosedRange<Instant>?
    /// Whether nothing of the same stage follows.
    public var isFinalChunk: Bool
    /// The summary itself.
    public var data: SummaryData

    /// Makes a post.
    public init(
        _ data: SummaryData, provider: String, timeZone: String, stage: PostStage = .daily,
        period: ClosedRange<Instant>? = nil, isFinalChunk: Bool = true
    ) {
        self.provider = provider
        self.timeZone = timeZone
        self.stage = stage
        self.period = period
        self.isFinalChunk = isFinalChunk
        self.data = data
    }

    /// Makes a post of the body summary.
    public init(
        _ body: BodySummary, provider: String, timeZone: String, stage: PostStage = .daily,
        period: ClosedRange<Instant>? = nil, isFinalChunk: Bool = true
    ) {
        self.init(
            .body(body), provider: provider, timeZone: timeZone, stage: stage, period: period,
            isFinalChunk: isFinalChunk)
    }

    var json: JSONValue {
        PostEnvelope(
            provider: provider, timeZone: timeZone, stage: stage, period: period, isFinalChunk: isFinalChunk
        ).json(data.json)
    }
}

extension VitalAPI {
    /// Posts a summary (`POST /v2/summary/{kind}/{user_id}`, gzip).
    ///
    /// Returns when the server has answered 2xx with JSON or with nothing.
    public func post(_ post: SummaryPost, for userID: String) async throws {
        try await call(
            VitalRequest(
                method: .POST,
                path: [
                    .fixed("v2"), .fixed("summary"), .fixed(post.kind.rawValue), .value(userID, name: "user_id"),
                ],
                body: post.json, isCompressed: true))
    }
}
