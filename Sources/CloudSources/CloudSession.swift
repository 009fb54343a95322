import Crypto
import HealthReadings

/// How patient a fetch is.
public struct CloudLimits: Sendable, Hashable {
    /// How often a request is repeated after a passing fault.
    public var retries = 3
    /// The pause before the first repetition; each next one is twice as long.
    public var pause = Duration.milliseconds(500)
    /// How long to wait if a service allows no more requests, and doesn't say until when: WHOOP counts by the minute.
    public var rateWindow = Duration.seconds(60)
    /// The longest wait within a fetch: beyond it the fetch ends, and the next one begins no earlier than allowed.
    public var longestWait = Duration.seconds(60)
    /// How often a fetch waits so for one page.
    public var rateWaits = 3
    /// How far back the first fetch of an account goes, in seconds: 30 days.
    public var firstSpan: Int64 = 30 * 86_400
    /// The most pages of a collection.
    public var mostPages = 10_000
    /// How many pages in a row may hold nothing that this fetch does not have yet, and still name a next one.
    public var mostPagesWithoutNews = 20

    /// The usual patience.
    public init() {}
}

/// A page's records, to be stored before the next page is asked for.
public struct CloudBatch: Sendable {
    /// The collection.
    public var collection: String
    /// The records that this fetch has not brought yet.
    public var records: [CloudRecord]
}

/// One vendor's account: connects it, keeps its tokens fresh, and fetches what is new.
///
/// All of it is done one after the other, so that two fetches at once renew the tokens once. Have one session for each
/// account in a process, and let one process at a time use the directory.
public actor CloudSession {
    /// What a fetch brought.
    public struct Summary: Sendable, Hashable {
        /// Records by collection.
        public var records: [String: Int] = [:]
        /// Where it began, at the earliest.
        public var from: Instant
        /// Where it ended.
        public var to: Instant
        /// How many requests were repeated.
        public var retries = 0
        /// How often tokens were renewed.
        public var renewals = 0
        /// The collections that the service doesn't have.
        public var unsupported: [String] = []

        /// Nothing came of a time.
        public init(from: Instant, to: Instant) { (self.from, self.to) = (from, to) }
    }

    /// Why nothing can be fetched: no account is connected.
    public struct NotConnected: Error, Sendable, Hashable {
        /// Whose cloud.
        public var vendor: CloudVendor

        /// Makes it.
        public init(vendor: CloudVendor) { self.vendor = vendor }
    }

    /// Whose cloud.
    public nonisolated let vendor: CloudVendor
    private let accounts: CloudAccounts
    private let limits: CloudLimits
    private let now: @Sendable () -> Instant
    private let sleep: @Sendable (Duration) async throws -> Void
    private let turns = OneAtATime()

    /// Makes a session.
    ///
    /// - Parameters:
    ///   - vendor: whose cloud.
    ///   - accounts: where its account is kept.
    ///   - limits: how patient it is.
    ///   - now: the time.
    ///   - sleep: waits.
    public init(
        _ vendor: CloudVendor, accounts: CloudAccounts, limits: CloudLimits = CloudLimits(),
        now: @escaping @Sendable () -> Instant = { .systemClock },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.vendor = vendor
        self.accounts = accounts
        self.limits = limits
        self.now = now
        self.sleep = sleep
    }

    /// What is kept of the vendor.
    ///
    /// - Throws: ``CloudAccounts/Failure``.
    public func state() throws -> CloudState { try accounts.state(of: vendor) }

    private func exclusively<Value>(_ body: () async throws -> Value) async throws -> Value {
        try await turns.inTurn {
            try Task.checkCancellation()
            return try await body()
        }
    }

    // MARK: Connecting

    /// Exchanges what the browser brought, and keeps the account. It takes the place of one that was connected before;
    /// if it is the same account, the next fetch goes on where the last one ended.
    ///
    /// - Parameters:
    ///   - end: how the attempt ended.
    ///   - attempt: the attempt.
    ///   - client: who was asked.
    ///   - person: the client's id of the person whose account it is.
    /// - Returns: the account, durable.
    /// - Throws: ``CloudError``; ``CloudAccounts/Failure``.
    public func connect(
        _ end: CloudAuthorization.End, of attempt: CloudAuthorization, through client: CloudClient, person: String
    ) async throws -> CloudAccount {
        try await exclusively {
            var account = try await client.account(end, of: attempt, person: person, now: now())
            CrashPoint.reach("cloud.connect.before-keeping")
            var state = try accounts.state(of: vendor)
            // It is connected again: to tell the service of the former disconnect would undo that.
            state.pending.removeAll { $0.user == account.user && $0.service == account.service }
            if let former = state.account, former.person == person, former.contract == account.contract {
                account.owner = former.owner
                if account.continues(former) { account.fetchedThrough = former.fetchedThrough }
            }
            state.account = account
            try accounts.save(state, of: vendor)
            return account
        }
    }

    /// Forgets the account here, at once, whatever else goes on; a fetch that goes on ends. The service is told by
    /// ``tellOfDisconnects(_:)``.
    ///
    /// - Returns: the account; `nil` if none was connected.
    /// - Throws: ``CloudAccounts/Failure``: nothing was forgotten then.
    @discardableResult
    public func forget() throws -> CloudAccount? {
        // A file that nobody can read is no reason to keep tokens.
        var state = (try? accounts.state(of: vendor)) ?? CloudState()
        let account = state.account
        state.account = nil
        if let account, let user = account.user {
            state.pending.append(
                PendingDisconnect(
                    service: account.service, app: account.app, user: user, since: now().flooredToSecond))
        }
        try accounts.save(state, of: vendor)
        return account
    }

    /// Forgets the account here, then tells the service, if it can be reached.
    ///
    /// - Parameters:
    ///   - client: makes who is asked, of where the account was connected; `nil`: nobody can be.
    /// - Returns: the account; `nil` if none was connected; and why the service was not told, if it was not.
    /// - Throws: ``CloudAccounts/Failure``: nothing was forgotten then.
    public func disconnect(
        _ client: @Sendable (_ service: String, _ app: String, CloudService.Contract) -> CloudClient?
    ) async throws -> (account: CloudAccount?, untold: CloudError?) {
        let account = try forget()
        CrashPoint.reach("cloud.disconnect.before-telling")
        return try await exclusively {
            var untold = try await tell(client)
            if let account, account.user == nil, let token = account.tokens?.access {
                // A vendor takes the token alone for who asks: it can be told now or never.
                do {
                    let notThere = CloudError(.noConnection, route: "DELETE \(vendor.rawValue)/oauth/disconnect")
                    guard let client = client(account.service, account.app, account.contract) else { throw notThere }
                    try await client.disconnect(user: nil, token: token)
                } catch let error as CloudError {
                    untold = error
                }
            }
            return (account, untold)
        }
    }

    /// Tells wear services of accounts that were disconnected while they couldn't be reached.
    ///
    /// - Parameter client: makes who is asked.
    /// - Throws: ``CloudAccounts/Failure``.
    public func tellOfDisconnects(
        _ client: @Sendable (_ service: String, _ app: String, CloudService.Contract) -> CloudClient?
    ) async throws {
        try await exclusively { _ = try await tell(client) }
    }

    private func tell(
        _ client: @Sendable (_ service: String, _ app: String, CloudService.Contract) -> CloudClient?
    ) async throws -> CloudError? {
        var untold: CloudError?
        for pending in try accounts.state(of: vendor).pending {
            do {
                let notThere = CloudError(.noConnection, route: "DELETE \(vendor.rawValue)/oauth/disconnect")
                guard let client = client(pending.service, pending.app, .wearService) else { throw notThere }
                try await client.disconnect(user: pending.user, token: nil)
                var state = try accounts.state(of: vendor)
                state.pending.removeAll { $0 == pending }
                try accounts.save(state, of: vendor)
            } catch let error as CloudError {
                untold = error
            }
        }
        return untold
    }

    // MARK: Fetching

    /// Fetches every collection, from ``CloudVendor/overlap`` before the last fetch on.
    ///
    /// - Parameters:
    ///   - client: who is asked.
    ///   - from: where to begin in place of that.
    ///   - waiting: is told before the fetch waits because the service allows no more requests.
    ///   - receive: stores a page's records, which are durable when it returns.
    /// - Returns: what came, complete.
    /// - Throws: ``NotConnected``; ``CloudError``; ``CloudAccounts/Failure``; what `receive` throws. What was given to
    ///   `receive` before is right and not all; the same fetch again goes on.
    public func fetch(
        through client: CloudClient, from: Instant? = nil,
        waiting: @Sendable (Duration) async throws -> Void = { _ in },
        receive: @Sendable (CloudBatch) async throws -> Void
    ) async throws -> Summary {
        try await exclusively {
            var summary = Summary(from: now(), to: now().flooredToSecond)
            for collection in vendor.collections {
                do {
                    try await fetch(collection, client, from, &summary, waiting, receive)
                } catch let error as CloudError where error.kind == .notSupported && vendor == .garmin {
                    summary.unsupported.append(collection)
                    guard summary.unsupported.count < vendor.collections.count else { throw error }
                }
            }
            try change { account in
                account.lastFetchAt = summary.to
                account.notBefore = nil
            }
            return summary
        }
    }

    private func account() throws -> CloudAccount {
        guard let account = try accounts.state(of: vendor).account else { throw NotConnected(vendor: vendor) }
        return account
    }

    private func change(_ body: (inout CloudAccount) -> Void) throws {
        var state = try accounts.state(of: vendor)
        guard var account = state.account else { throw NotConnected(vendor: vendor) }
        body(&account)
        guard account != state.account else { return }
        state.account = account
        try accounts.save(state, of: vendor)
    }

    private func fetch(
        _ collection: String, _ client: CloudClient, _ from: Instant?, _ summary: inout Summary,
        _ waiting: @Sendable (Duration) async throws -> Void, _ receive: @Sendable (CloudBatch) async throws -> Void
    ) async throws {
        let account = try account()
        let through = account.fetchedThrough[collection]
        // A clock that was ahead has left a mark in the future. What came to the service meanwhile may be earlier than the
        // times that were asked for.
        let wasAhead = through.map { $0 > summary.to.advanced(bySeconds: 3600) } ?? false
        let mark = wasAhead ? nil : through.map { min($0, summary.to) }
        let first = summary.to.advanced(bySeconds: -limits.firstSpan)
        let start = from ?? mark.map { $0.advanced(bySeconds: -CloudVendor.overlap) } ?? first
        let range = min(start, summary.to)...summary.to
        summary.from = min(summary.from, range.lowerBound)
        summary.records[collection] = 0
        // A day of a watch is long, and there may be years of them: their hashes tell them apart.
        var seen: Set<SHA256.Digest> = []
        var cursors: Set<String> = []
        var cursor: String?
        // A service may look through one stretch of time a page, and find nothing there.
        var pagesWithoutNews = 0
        for _ in 0..<limits.mostPages {
            let page = try await page(collection, client, range, cursor, &summary, waiting)
            let fresh = page.records.filter { seen.insert(SHA256.hash(data: $0)).inserted }
            pagesWithoutNews = fresh.isEmpty ? pagesWithoutNews + 1 : 0
            if !fresh.isEmpty {
                let records = fresh.map { CloudRecord(vendor, collection, $0, person: account.person) }
                if account.contract == .vendor { try check(records) }
                try await receive(CloudBatch(collection: collection, records: records))
                summary.records[collection, default: 0] += fresh.count
                CrashPoint.reach("cloud.fetch.after-page")
            }
            guard let next = page.next else {
                // What lies between the last fetch, or the first one's beginning, and a later beginning has not come.
                guard range.lowerBound <= through ?? first else { return }
                return try change { $0.fetchedThrough[collection] = range.upperBound }
            }
            guard cursors.insert(next).inserted, pagesWithoutNews < limits.mostPagesWithoutNews else {
                throw CloudError(
                    .pagesDoNotAdvance, route: "GET \(vendor.rawValue)/\(collection)", status: 200,
                    detail: "after \(summary.records[collection] ?? 0) records")
            }
            cursor = next
        }
        throw CloudError(
            .pagesDoNotAdvance, route: "GET \(vendor.rawValue)/\(collection)", status: 200,
            detail: "more than \(limits.mostPages) pages")
    }

    /// Compares whose the records are with whose the first one was: a browser may have been signed in to somebody else's account when
    /// this one was connected again.
    private func check(_ records: [CloudRecord]) throws {
        for record in records {
            guard let owner = record.owner else { continue }
            guard let known = try account().owner else {
                try change { $0.owner = owner }
                continue
            }
            guard owner == known else {
                throw CloudError(
                    .otherAccount, route: "GET \(vendor.rawValue)/\(record.collection)", status: 200,
                    detail: "expected \(vendor.title)'s user \(known), found \(owner)")
            }
        }
    }

    /// Gets a page: again after a passing fault, with renewed tokens if the old ones have expired, and later if the service
    /// says so.
    private func page(
        _ collection: String, _ client: CloudClient, _ range: ClosedRange<Instant>, _ cursor: String?,
        _ summary: inout Summary, _ waiting: @Sendable (Duration) async throws -> Void
    ) async throws -> CloudPage {
        let route = "GET \(vendor.rawValue)/\(collection)"
        var (retries, waits, pause, isRenewed) = (0, 0, limits.pause, false)
        while true {
            try await waitUntilAllowed(route, &waits, waiting)
            if try account().tokenExpiresAt.map({ $0 <= now().advanced(bySeconds: 60) }) ?? false, !isRenewed,
                try account().isRenewable
            {
                try await renew(client, &summary)
                isRenewed = true
            }
            do {
                return try await client.page(collection, of: try account(), in: range, cursor: cursor)
            } catch let error as CloudError {
                let isRenewable = try account().isRenewable
                switch error.kind {
                case .tokenExpired where !isRenewed && isRenewable:
                    try await renew(client, &summary)
                    isRenewed = true
                case .rateLimitExceeded:
                    let delay = min(error.retryAfter ?? limits.rateWindow, .seconds(86_400))
                    try change { $0.notBefore = now().advanced(by: delay) }
                    guard waits < limits.rateWaits else { throw error }
                case _ where error.isPassing && retries < limits.retries:
                    retries += 1
                    summary.retries += 1
                    try await sleep(pause)
                    pause *= 2
                default: throw error
                }
            }
        }
    }

    /// Waits until the service allows requests again, if that is soon.
    private func waitUntilAllowed(
        _ route: String, _ waits: inout Int, _ waiting: @Sendable (Duration) async throws -> Void
    ) async throws {
        guard let time = try account().notBefore else { return }
        let delay = Duration.microseconds(time.microseconds - now().microseconds)
        // Nobody is asked to wait longer than a day: the clock was ahead then.
        guard delay > .zero, delay <= .seconds(86_400) else { return }
        guard delay <= limits.longestWait, waits < limits.rateWaits else {
            throw CloudError(
                .rateLimitExceeded, route: route, detail: "the service asked to wait until \(time.flooredToSecond)",
                retryAfter: delay)
        }
        waits += 1
        try await waiting(delay)
        try await sleep(delay)
    }

    /// Renews the tokens. The new ones are durable before they are used: the old ones are worth nothing any more.
    private func renew(_ client: CloudClient, _ summary: inout Summary) async throws {
        guard let refresh = try account().tokens?.refresh else { return }
        // A fetch that is ended meanwhile waits for them, or the account would be lost.
        try await shieldedFromCancellation {
            let tokens = try await client.renewed(refresh, now: self.now())
            CrashPoint.reach("cloud.renew.before-keeping")
            try await self.keep(tokens, inPlaceOf: refresh)
        }
        summary.renewals += 1
        try Task.checkCancellation()
    }

    private func keep(_ tokens: CloudTokens, inPlaceOf refresh: CloudSecret) throws {
        try change { account in
            // Somebody may have connected another account meanwhile.
            if account.tokens?.refresh == refresh { account.tokens = tokens }
        }
    }
}
