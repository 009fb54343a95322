import Synchronization

/// Counts how often discovery has ended on an adapter, for whatever reason; written by the event loop, so that it is
/// never behind an answer that came later.
final class DiscoveryEnds: Sendable {
    private struct Adapter {
        var isDiscovering = false
        var ends = 0
    }

    private let adapters = Mutex<[String: Adapter]>([:])

    func note(_ isDiscovering: Bool, at path: String) {
        adapters.withLock { adapters in
            var adapter = adapters[path] ?? Adapter()
            if adapter.isDiscovering, !isDiscovering { adapter.ends += 1 }
            adapter.isDiscovering = isDiscovering
            adapters[path] = adapter
        }
    }

    func count(at path: String) -> Int { adapters.withLock { $0[path]?.ends ?? 0 } }
}
