import Foundation
import Logging
import Synchronization

/// Writes the audit log in the background: a request never waits for the disk on its account.
///
/// The log cannot be used to fill the disk. Requests are counted, one row for each client, route and status in an
/// hour; they are written once a minute. Pairings, sign-ins and revocations have a row each and are written within a
/// second; refused codes have a row each up to a number a minute, and are counted beyond it. Each sort of row has its
/// own limit in ``AccessStore``, so that a flood of one pushes out none of another.
///
/// The log is best effort: entries that a full disk refuses are kept in memory, up to a number, and tried again.
public final class AuditLog: Sendable {
    /// The routes that serve a person's readings: who was served what is erased with the person.
    public static let readingRoutes = [
        "/api/v1/readings", "/api/v1/readings/{id}", "/api/v1/readings/figures", "/api/v1/readings/move",
        "/api/v1/summaries/body", "/api/v1/reports/{kind}", "/api/v1/view", "/api/v1/health/data", "/api/v1/events",
    ]
    /// How many refused codes get a row of their own in a minute.
    static let refusalsEachMinute = 60
    /// How long counted requests are gathered before they are written.
    static let pause: Duration = .seconds(60)
    /// How long other entries are gathered.
    static let shortPause: Duration = .seconds(1)
    /// How many rows wait in memory for a disk that refuses them.
    static let mostWaiting = 4096

    private struct State {
        var counted: [AuditEntry.Bucket: AuditEntry] = [:]
        var single: [AuditEntry] = []
        /// When the next write is due.
        var due: ContinuousClock.Instant?
        var minute = 0
        var refusals = 0
        var uncounted = 0
    }

    private let store: AccessStore
    private let logger: Logger
    private let state = Mutex(State())

    /// Makes a log over a store.
    public init(_ store: AccessStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    /// Notes something; it is written within a second, or within a minute where it is only counted.
    public func note(_ entry: AuditEntry) {
        state.withLock { state in
            let minute = Int(entry.at.timeIntervalSince1970 / 60)
            if minute != state.minute {
                Self.closeMinute(&state, at: entry.at)
                state.minute = minute
            }
            switch entry.retention {
            case .traffic: Self.count(entry, &state)
            case .grant: state.single.append(entry)
            case .refusal:
                state.refusals += 1
                guard state.refusals <= Self.refusalsEachMinute else {
                    state.uncounted += 1
                    return
                }
                state.single.append(entry)
            }
            schedule(&state, after: entry.retention == .traffic ? Self.pause : Self.shortPause)
        }
    }

    /// The newest entries, those that are still to be written included.
    public func newest(_ limit: Int) async throws -> [AuditEntry] {
        await write()
        return try await store.audit(limit: limit)
    }

    /// Writes what waits.
    public func flush() async {
        state.withLock { Self.closeMinute(&$0, at: Date()) }
        await write()
    }

    /// Drops what is still to be written and names one of these routes, or everything.
    public func forget(routes: [String], everybody: Bool) {
        state.withLock { state in
            func isForgotten(_ entry: AuditEntry) -> Bool { everybody || entry.route.map(routes.contains) ?? false }
            state.counted = state.counted.filter { !isForgotten($0.value) }
            state.single.removeAll(where: isForgotten)
        }
    }

    /// Has the entries written after a pause, or earlier where that is due already.
    private func schedule(_ state: inout State, after pause: Duration) {
        let due = ContinuousClock.now + pause
        if let earlier = state.due, earlier <= due { return }
        state.due = due
        Task {
            try? await Task.sleep(until: due, clock: .continuous)
            await write()
        }
    }

    private func write() async {
        let entries = state.withLock { state in
            defer {
                state.counted = [:]
                state.single = []
                state.due = nil
            }
            return state.single + state.counted.values.sorted { $0.at < $1.at }
        }
        guard !entries.isEmpty || store.hasVisits else { return }
        do {
            try await store.record(entries)
        } catch {
            logger.warning(
                "the audit log cannot be written and waits in memory", metadata: ["entries": "\(entries.count)"])
            state.withLock { Self.putBack(entries, &$0) }
        }
    }

    private static func count(_ entry: AuditEntry, _ state: inout State) {
        guard var known = state.counted[entry.bucket] else {
            // A client makes as many buckets as there are routes and statuses. The limit is for a disk that stays full.
            if state.counted.count < mostWaiting { state.counted[entry.bucket] = entry }
            return
        }
        known.at = min(known.at, entry.at)
        known.lastAt = max(known.lastAt, entry.lastAt)
        known.count += entry.count
        state.counted[entry.bucket] = known
    }

    /// Takes back what could not be written, in front of what has come meanwhile.
    private static func putBack(_ entries: [AuditEntry], _ state: inout State) {
        for entry in entries where entry.retention == .traffic { count(entry, &state) }
        state.single = (entries.filter { $0.retention != .traffic } + state.single).suffix(mostWaiting)
    }

    private static func closeMinute(_ state: inout State, at now: Date) {
        if state.uncounted > 0 { count(AuditEntry(at: now, event: "more_refused", count: state.uncounted), &state) }
        (state.refusals, state.uncounted) = (0, 0)
    }
}
