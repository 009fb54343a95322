import Foundation
import Logging
import Synchronization

/// Writes the audit log in the background: a request never waits for the disk on its account.
///
/// Whoever floods the door fills no disk: of what strangers do, so many entries a minute are written one by one, the
/// rest as one entry with their number.
public final class AuditLog: Sendable {
    /// How many entries about strangers are written one by one in a minute.
    static let strangersEachMinute = 60
    /// How long entries are gathered.
    private static let pause: Duration = .seconds(1)

    private struct State {
        var waiting: [AuditEntry] = []
        var writer: Task<Void, Never>?
        var minute = 0
        var strangers = 0
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

    /// Notes something; it is written within a second or so.
    public func note(_ entry: AuditEntry) {
        state.withLock { state in
            let minute = Int(entry.at.timeIntervalSince1970 / 60)
            if minute != state.minute {
                Self.closeMinute(&state, at: entry.at)
                state.minute = minute
            }
            if entry.client == nil {
                state.strangers += 1
                guard state.strangers <= Self.strangersEachMinute else {
                    state.uncounted += 1
                    return
                }
            }
            state.waiting.append(entry)
            guard state.writer == nil else { return }
            state.writer = Task {
                try? await Task.sleep(for: Self.pause)
                await write()
            }
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

    private func write() async {
        let entries = state.withLock { state in
            defer {
                state.waiting = []
                state.writer = nil
            }
            return state.waiting
        }
        guard !entries.isEmpty else { return }
        do {
            try await store.record(entries)
        } catch {
            logger.warning("the audit log could not be written", metadata: ["entries": "\(entries.count)"])
        }
    }

    private static func closeMinute(_ state: inout State, at now: Date) {
        if state.uncounted > 0 {
            state.waiting.append(AuditEntry(at: now, event: "more_of_strangers", count: state.uncounted))
        }
        (state.strangers, state.uncounted) = (0, 0)
    }
}
