import Foundation
import HealthReadings
import NIOHTTP1

/// One sample as the server gives it back.
public struct StoredSample: Sendable, Hashable {
    /// When it was taken; if ``isFloating``, what the person's clock showed then, as if that were UTC.
    public var timestamp: Instant
    /// Its value, where the resource has one.
    public var value: ExactDecimal?
    /// Systolic pressure, of a blood pressure.
    public var systolic: ExactDecimal?
    /// Diastolic pressure, of a blood pressure.
    public var diastolic: ExactDecimal?
    /// The unit, as the server writes it.
    public var unit: String
    /// How it was taken, as the server writes it.
    public var type: String?
    /// Seconds east of UTC where it was taken; nil: unknown.
    public var zoneOffsetSeconds: Int?
    /// Whether nobody knows the instant: the provider tells the time of the person's clock alone. To get the instant, read
    /// ``timestamp`` as a time of the zone in which the person was.
    public var isFloating: Bool
}

/// Samples of one source.
public struct SampleGroup: Sendable, Hashable {
    /// The provider's slug.
    public var provider: String
    /// How they were taken, as the server writes it.
    public var type: String
    /// The application they came by, where the server knows it.
    public var appID: String?
    /// The device they came from, where the server knows it.
    public var deviceID: String?
    /// The samples, in order of time.
    public var samples: [StoredSample]
}

/// A page of samples read back.
public struct SamplePage: Sendable, Hashable {
    /// The groups, by provider and type.
    public var groups: [SampleGroup]
    /// Where the next page begins; nil: this is the last.
    public var nextCursor: String?
}

extension VitalAPI {
    /// One page of what the server holds of a resource
    /// (`GET /v2/timeseries/{user_id}/{resource}/grouped`).
    ///
    /// - Parameters:
    ///   - resource: the server's name of the resource: `glucose`.
    ///   - userID: the server's id of the person.
    ///   - range: both ends included, whole seconds.
    ///   - provider: one provider's alone; nil: everyone's.
    ///   - cursor: the ``SamplePage/nextCursor`` of the page before; nil: the first.
    public func samplePage(
        of resource: String, for userID: String, in range: ClosedRange<Instant>, provider: String? = nil,
        after cursor: String? = nil
    ) async throws -> SamplePage {
        var query = [
            (name: "start_date", value: range.lowerBound.flooredToSecond.description),
            (name: "end_date", value: range.upperBound.flooredToSecond.description),
        ]
        if let provider { query.append((name: "provider", value: provider)) }
        if let cursor { query.append((name: "next_cursor", value: cursor)) }
        let request = VitalRequest(
            method: .GET,
            path: [
                .fixed("v2"), .fixed("timeseries"), .value(userID, name: "user_id"),
                .value(resource, name: "resource"), .fixed("grouped"),
            ], query: query)
        return try await call(request, answers: GroupedAnswer.self).page(request.route)
    }

    /// All pages of a range; one longer than 31 days is asked for by weeks, so that no answer grows without bound.
    ///
    /// The stream ends with the first error.
    public func samplePages(
        of resource: String, for userID: String, in range: ClosedRange<Instant>, provider: String? = nil
    ) -> AsyncThrowingStream<SamplePage, any Error> {
        let pages = PageWalk(periods: PostPeriod.cut(range))
        return AsyncThrowingStream {
            guard let (period, cursor) = await pages.next else { return nil }
            let page = try await samplePage(
                of: resource, for: userID, in: period, provider: provider, after: cursor)
            guard await pages.advance(to: page.nextCursor) else {
                throw VitalError(
                    .unexpectedAnswer, route: "GET /v2/timeseries/{user_id}/{resource}/grouped",
                    serverSaid: "the cursor of a page leads back to it")
            }
            return page
        }
    }

    /// The newest sample of a resource in a range. Floating times count as if they were UTC.
    ///
    /// - Throws: ``VitalError/Kind/noWearableData`` where there is none.
    public func newestSample(
        of resource: String, for userID: String, in range: ClosedRange<Instant>, provider: String? = nil
    ) async throws -> StoredSample {
        var newest: StoredSample?
        for try await page in samplePages(of: resource, for: userID, in: range, provider: provider) {
            for sample in page.groups.flatMap(\.samples) where newest.map({ $0.timestamp < sample.timestamp }) ?? true {
                newest = sample
            }
        }
        guard let newest else {
            throw VitalError(.noWearableData, route: "GET /v2/timeseries/{user_id}/{resource}/grouped")
        }
        return newest
    }
}

/// Where a walk over pages stands.
private actor PageWalk {
    private var periods: ArraySlice<ClosedRange<Instant>>
    private var cursor: String?
    private var seen: Set<String> = []

    init(periods: [ClosedRange<Instant>]) { self.periods = periods[...] }

    var next: (ClosedRange<Instant>, String?)? { periods.first.map { ($0, cursor) } }

    /// Goes on; false where the cursor was had before: the walk would never end.
    func advance(to cursor: String?) -> Bool {
        self.cursor = cursor
        guard let cursor else {
            periods = periods.dropFirst()
            seen = []
            return true
        }
        return seen.insert(cursor).inserted
    }
}

private struct GroupedAnswer: Decodable, Sendable {
    struct Group: Decodable, Sendable {
        struct Source: Decodable, Sendable {
            var provider: String
            var type: String?
            var app_id: String?
            var device_id: String?
        }

        struct Datum: Decodable, Sendable {
            var timestamp: String
            var value: Decimal?
            var systolic: Decimal?
            var diastolic: Decimal?
            var unit: String
            var type: String?
            var timezone_offset: Int?
        }

        var source: Source
        var data: [Datum]
    }

    var groups: [String: [Group]]
    var next_cursor: String?

    /// Providers whose times are floating: `+00:00` says nothing behind them, and older teams get none.
    ///
    /// Source: docs.junction.com, "Timestamps and Time Zones".
    private static let floating: Set<String> = ["freestyle_libre", "abbott_libreview"]

    func page(_ route: String) throws(VitalError) -> SamplePage {
        var page = SamplePage(groups: [], nextCursor: next_cursor)
        for (_, groups) in groups.sorted(by: { $0.key < $1.key }) {
            for group in groups {
                let isFloating = Self.floating.contains(group.source.provider)
                var samples: [StoredSample] = []
                for datum in group.data {
                    guard
                        let time = Instant(rfc3339: datum.timestamp)
                            ?? (isFloating ? Instant(rfc3339: datum.timestamp + "Z") : nil)
                    else {
                        throw VitalError(.unexpectedAnswer, route: route, serverSaid: "timestamp is no instant")
                    }
                    samples.append(
                        StoredSample(
                            timestamp: time, value: Self.exact(datum.value), systolic: Self.exact(datum.systolic),
                            diastolic: Self.exact(datum.diastolic), unit: datum.unit, type: datum.type,
                            zoneOffsetSeconds: datum.timezone_offset, isFloating: isFloating))
                }
                page.groups.append(
                    SampleGroup(
                        provider: group.source.provider, type: group.source.type ?? "unknown",
                        appID: group.source.app_id, deviceID: group.source.device_id, samples: samples))
            }
        }
        return page
    }

    private static func exact(_ value: Decimal?) -> ExactDecimal? { value.flatMap { ExactDecimal("\($0)") } }
}
