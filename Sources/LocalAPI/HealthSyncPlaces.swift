import HealthReadings
import ReadingStore
import Synchronization

/// Where pages of the Health Sync routes ended, so that the next page goes on there.
///
/// The app counts samples from the newest one on. Without these places each page would read everything before it again.
final class HealthSyncPlaces: Sendable {
    /// What was asked for.
    struct Window: Sendable, Hashable {
        /// The number of the client that asks: where another's page ended says nothing of where this one's did.
        var client: Int64?
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
        /// How many samples behind the cursor go before the place: where no page ended at the offset that was asked for.
        var skip = 0
        /// The reading before the cursor that the page had room for a part of; `nil` if it ended between two.
        var cut: CutReading?
    }

    /// A reading of whose samples some were sent.
    struct CutReading: Sendable, Hashable {
        var id: ReadingID
        var time: Instant
        var sent: Set<HealthSyncType>

        /// The samples that are still to be sent.
        ///
        /// None if it is of an earlier time by now: it comes again as a whole, behind the cursor.
        func rest(of reading: Reading, _ window: Window) -> [HealthSyncSample] {
            guard window.kinds.contains(reading.kind) else { return [] }
            return HealthSyncSample.samples(of: reading, window.types).filter {
                $0.time >= time && $0.time <= window.end && !sent.contains($0.type)
            }
        }
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
