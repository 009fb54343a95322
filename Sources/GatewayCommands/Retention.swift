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

    /// Lets go of what has become older than `store.keep` says and was delivered. While the clock is not trusted, or the store
    /// is locked, nothing goes.
    ///
    /// - Returns: what went.
    package func thin() async throws -> [Thinning] {
        let retention = retention
        guard !retention.ages.isEmpty, store.lockedBecause == nil, await clockProblem() == nil else { return [] }
        return try await store.thin(retention)
    }
}
