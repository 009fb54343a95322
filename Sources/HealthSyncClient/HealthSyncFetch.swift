import HealthReadings

/// Fetches every sample of some types and a time, page by page.
///
/// Pages go on by time, not by number: the next page ends in the second in which the last one ended, and what came before is
/// left out by its id. So no sample is lost or counted twice if new ones come in meanwhile, and no page makes the phone count
/// from the newest sample on. A page that claims to be the last is checked with one more request for what is older: the app
/// is known to say so too early (it filters sleep stages after it has counted the page). It looks for a stage among as many
/// samples of sleep as a page may hold, and no further, so that a stage is asked for in stretches of time that have no more.
///
/// The phone rounds times down to whole seconds, so a page ends one second later than its oldest sample.
public struct HealthSyncFetch: Sendable {
    /// What came.
    public struct Summary: Sendable, Hashable {
        /// How many samples.
        public var samples = 0
        /// How many requests it took.
        public var requests = 0
        /// How many requests were repeated.
        public var retries = 0
        /// How many samples came of each type that the app's published client doesn't know.
        public var unknownTypes: [String: Int] = [:]
        /// How often the phone said that there was no more, and there was.
        public var falseEnds = 0
    }

    let phone: HealthSyncPhone
    let token: PhoneToken
    let limits: HealthSyncLimits
    /// Waits; a test's clock has its own.
    var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }

    /// Makes a fetch; nothing is sent yet.
    public init(_ phone: HealthSyncPhone, _ token: PhoneToken) {
        self.phone = phone
        self.token = token
        limits = phone.limits
    }

    /// Fetches.
    ///
    /// - Parameters:
    ///   - types: the types, by the app's names.
    ///   - range: the time in which samples begin, both ends included, in whole seconds.
    ///   - waiting: is told before the fetch waits because the phone allows no more requests.
    ///   - receive: is given the samples of each page, newest first, as they come. Sleep stages come in pages of their own.
    /// - Returns: what came, complete.
    /// - Throws: ``HealthSyncError``, or what `receive` throws. What was given to `receive` before is right and not all.
    public func run(
        _ types: [String], in range: ClosedRange<Instant>,
        waiting: @Sendable (Duration) async throws -> Void = { _ in },
        receive: @Sendable ([HealthSyncSample]) async throws -> Void
    ) async throws -> Summary {
        var summary = Summary()
        let stages = types.filter(HealthSyncType.sleepStages.contains)
        let others = types.filter { !HealthSyncType.sleepStages.contains($0) }
        // Each stage alone: the app takes a page of all of sleep and leaves the other stages out of it.
        for types in ([others] + stages.map { [$0] }) where !types.isEmpty {
            try await run(types, range, &summary, waiting, receive)
        }
        return summary
    }

    private func run(
        _ types: [String], _ range: ClosedRange<Instant>, _ summary: inout Summary,
        _ waiting: @Sendable (Duration) async throws -> Void,
        _ receive: @Sendable ([HealthSyncSample]) async throws -> Void
    ) async throws {
        var place = Place(range)
        var limit = limits.pageSize
        let isStage = types.allSatisfy(HealthSyncType.sleepStages.contains)
        while true {
            let span = Int64(max(limit, 100)) * 86_400 / Self.mostSleepOfDay
            let start = isStage ? max(range.lowerBound, place.end.advanced(bySeconds: -span)) : range.lowerBound
            var query = PageQuery(types: types, start: start, end: place.end, limit: limit, offset: place.offset)
            let page = try await page(&query, &summary, waiting)
            let isSmaller = query.limit < limit
            limit = query.limit
            // The app has looked through fewer samples than the stretch may have.
            if isStage, isSmaller { continue }
            try check(page, types, place.end, start)
            let unseen = page.samples.filter { !place.seen.contains($0.id) }
            let fresh = unseen.filter { $0.start <= range.upperBound }
            if place.claimsEnd, !fresh.isEmpty { summary.falseEnds += 1 }
            if !fresh.isEmpty {
                for sample in fresh where !HealthSyncType.published.contains(sample.type) {
                    summary.unknownTypes[sample.type, default: 0] += 1
                }
                try await receive(fresh)
                summary.samples += fresh.count
            }
            guard place.advance(page, unseen.count) else {
                guard !page.hasMore else { throw error(.pagesDoNotAdvance, "after \(summary.samples) samples") }
                guard start > range.lowerBound else { return }
                place.goBack(to: start)
                continue
            }
        }
    }

    /// More samples of sleep than a day has, whoever writes them: a watch writes 30 to 60 a night.
    private static let mostSleepOfDay: Int64 = 200

    /// Where a fetch stands.
    private struct Place {
        /// The end of the next page, included.
        var end: Instant
        /// How many samples of that time to pass over: more of them than a page holds begin in one second.
        var offset = 0
        /// The ids that may come again.
        var seen: Set<String> = []
        /// Whether the phone has said that there is no more.
        var claimsEnd = false

        init(_ range: ClosedRange<Instant>) {
            // The phone compares with fractions that it doesn't show: the last second is asked for whole.
            end = range.upperBound.flooredToSecond.advanced(bySeconds: 1)
        }

        /// Goes on behind a page.
        ///
        /// - Returns: whether there may be more.
        mutating func advance(_ page: SamplePage, _ unseen: Int) -> Bool {
            guard let oldest = page.samples.last?.start.flooredToSecond else { return false }
            let next = oldest.advanced(bySeconds: 1)
            if next < end {
                end = next
                offset = 0
                seen = Set(page.samples.lazy.filter { $0.start <= next }.map(\.id))
            } else {
                // Everything of this page lies in one second, which only an offset gets past: at first past what is known.
                guard unseen > 0 || page.hasMore && offset + page.samples.count <= seen.count else { return false }
                offset += page.samples.count
                seen.formUnion(page.samples.map(\.id))
            }
            claimsEnd = !page.hasMore
            return true
        }

        /// Goes on before a stretch of time of which everything has come.
        mutating func goBack(to end: Instant) { (self.end, offset, claimsEnd) = (end, 0, false) }
    }

    private func error(_ kind: HealthSyncError.Kind, _ detail: String) -> HealthSyncError {
        HealthSyncError(kind, route: "POST /api/v1/health/data", status: 200, detail: detail)
    }

    /// Refuses a page from whose end nobody could go on, or with what was not asked for.
    private func check(
        _ page: SamplePage, _ types: [String], _ end: Instant, _ start: Instant
    ) throws(HealthSyncError) {
        var last: Instant?
        for sample in page.samples {
            guard sample.start >= start.flooredToSecond, sample.start <= end else {
                throw error(
                    .sampleOutOfRange,
                    "a sample of \(sample.type.prefix(64)) begins at \(sample.start), asked for \(start) to \(end)")
            }
            if let last, sample.start > last {
                throw error(.pagesOutOfOrder, "\(sample.start) comes after \(last)")
            }
            last = sample.start
        }
    }

    /// Gets a page, again if the connection breaks: with fewer samples, which may be what a weak network carries.
    private func page(
        _ query: inout PageQuery, _ summary: inout Summary, _ waiting: @Sendable (Duration) async throws -> Void
    ) async throws -> SamplePage {
        var (retries, waits, pause) = (0, 0, limits.pause)
        while true {
            summary.requests += 1
            do {
                return try await phone.page(query, token)
            } catch let error as HealthSyncError where error.kind == .rateLimitExceeded {
                let delay = error.retryAfter ?? limits.rateWindow
                guard waits < limits.rateWaits, delay <= limits.longestWait else { throw error }
                waits += 1
                try await waiting(delay)
                try await sleep(delay)
            } catch let error as HealthSyncError
                where (error.isPassing || error.kind == .answerTooLarge || error.kind == .noConnection)
                && retries < limits.retries
            {
                // A phone that was there a moment ago may be back in another.
                guard error.kind != .noConnection || summary.samples > 0 || retries > 0 else { throw error }
                retries += 1
                summary.retries += 1
                query.limit = max(min(query.limit, 100), query.limit / 2)
                try await sleep(pause)
                pause *= 2
            }
        }
    }
}
