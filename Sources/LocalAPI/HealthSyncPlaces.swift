import HealthReadings
import ReadingStore
import Synchronization

/// Where pages of the Health Sync routes ended, so that the next page goes on there.
///
/// The app counts samples from the newest one on. Without these places each page would read everything before it again.
final class HealthSyncPlaces: Sendable {
    /// What was asked for.
    struct Window: Sendable, Hashable {
        /// Whose samples; `nil` for everybody's.
        var person: UserKey?
        var types: Set<HealthSyncType>
        /// The kinds of readings that may be looked into for them.
        var kinds: Set<ReadingKind>
        var start: Instant
        var end: Instant
    }

    /// A place in the order of samples.
    struct Place: Sendable, Hashable {
        /// The store's cursor; `nil` for the newest reading.
        var cursor: String?
        /// How many samples behind the cursor go before the place.
        var skip: Int
    }

    private struct Key: Hashable {
        var window: Window
        var offset: Int
    }

    /// How many places are remembered.
    static let capacity = 64

    private let places = Mutex<[(key: Key, place: Place)]>([])

    /// Whether a page of this window ended at an offset.
    func knows(_ window: Window, _ offset: Int) -> Bool { place(window, offset) != nil }

    /// Where the samples behind an offset begin; `nil` where no page ended there lately.
    func place(_ window: Window, _ offset: Int) -> Place? {
        let key = Key(window: window, offset: offset)
        return places.withLock { places in places.last { $0.key == key }?.place }
    }

    /// Remembers where a page ended; the place that was noted longest ago goes.
    func remember(_ place: Place, _ window: Window, _ offset: Int) {
        let key = Key(window: window, offset: offset)
        places.withLock { places in
            places.removeAll { $0.key == key }
            places.append((key, place))
            if places.count > Self.capacity { places.removeFirst() }
        }
    }
}
