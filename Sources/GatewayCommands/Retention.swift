import GatewaySettings
import ReadingStore

extension Gateway {
    /// How long parts of what is stored are kept: the settings `store.keep`.
    package var retention: Retention {
        Retention(
            Dictionary(
                uniqueKeysWithValues: settings.keptSeconds.compactMap { name, seconds in
                    Retention.Part(name: name).map { ($0, .seconds(seconds)) }
                }))
    }

    /// Lets go of what has become older than `store.keep` says and was delivered. Nothing goes while the store is locked, or
    /// nothing speaks for the clock: what went under one that is ahead doesn't come back.
    ///
    /// - Parameter gone: is told of what went, part by part, also if another part fails.
    /// - Returns: what went; nil where nothing could be let go of now.
    package func thin(gone: (Thinning) -> Void = { _ in }) async throws -> [Thinning]? {
        try await thin(by: clock, gone: gone)
    }

    func thin(by clock: GatewayClock, gone: (Thinning) -> Void = { _ in }) async throws -> [Thinning]? {
        let retention = retention
        guard !retention.ages.isEmpty else { return [] }
        guard store.lockedBecause == nil, await clock.isProven() else { return nil }
        // The key may have come back just now: what a renamed destination is still to get must be queued for it.
        try await destinations.heed()
        return try await store.thin(retention, gone: gone)
    }
}
