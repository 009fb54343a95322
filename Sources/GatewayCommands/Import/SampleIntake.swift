import CloudSources
import HealthReadings
import ReadingStore

/// Data of other programs, as it is stored: with the time since the machine began.
///
/// Whether something lies in the future is judged by this machine's clock. If that was behind, the store judges it again.
extension Gateway {
    /// Stores samples, and returns when they are durable.
    ///
    /// - Throws: `Problem` while the clock is untrusted, `StoreError`: none of them is stored then.
    func add(_ samples: [ImportedSample]) async throws -> [ImportOutcome] {
        if let problem = await clockProblem() { throw problem }
        let outcomes = try await store.add(samples, at: clock.bootTime())
        if outcomes.contains(where: \.isImplausible) { await clock.noteWhetherRight() }
        destinations.wake()
        return outcomes
    }

    /// Stores the frames of a cloud's records as received now, and returns when they are durable.
    ///
    /// - Throws: `Problem` while the clock is untrusted, `StoreError`: none of them is stored then.
    func add(_ frames: [Frame], of account: CloudAccount) async throws -> RecordsAdded {
        if let problem = await clockProblem() { throw problem }
        let moment = clock.bootTime()
        let added = try await store.addRecords(of: account.vendor.rawValue, person: account.person) { now in
            frames.map { frame in
                var frame = frame
                (frame.receivedAt, frame.bootTime) = (now, moment)
                return frame
            }
        }
        if added.outcomes.contains(where: \.isImplausible) { await clock.noteWhetherRight() }
        destinations.wake()
        return added
    }
}

extension ImportOutcome {
    /// Whether a reading came of it that is excluded because of its time: its time is wrong, or this machine's clock is behind.
    fileprivate var isImplausible: Bool {
        switch self {
        case .stored(_, let exclusion): exclusion == .implausibleTime
        case .present, .presentOfAnother, .conflict: false
        }
    }
}
