import Foundation
import GRDB
import HealthReadings

/// How long parts of what is stored are kept after they were delivered. What no part names is kept for ever.
public struct Retention: Sendable, Hashable {
    /// What can be kept for a time of its own.
    public enum Part: Sendable, Hashable {
        /// The readings of a kind.
        case kind(ReadingKind)
        /// Glucose that a sensor measured by itself, every few minutes.
        case trend
        /// The octets that devices sent, of readings that stay.
        case frames

        /// Every part, in the order of their names.
        public static let all = (ReadingKind.allCases.filter(\.isDelivered).map(Part.kind) + [.trend, .frames])
            .sorted { $0.name < $1.name }

        /// `trend`, `frames`, or the kind's name.
        public var name: String {
            switch self {
            case .kind(let kind): kind.rawValue
            case .trend: "trend"
            case .frames: "frames"
            }
        }

        /// The part with a name.
        public init?(name: String) {
            guard let part = Self.all.first(where: { $0.name == name }) else { return nil }
            self = part
        }
    }

    /// How old each part becomes.
    public var ages: [Part: Duration]

    /// Says how old each part becomes.
    public init(_ ages: [Part: Duration]) { self.ages = ages }
}

/// What was let go of a part.
public struct Thinning: Sendable, Hashable {
    /// The part.
    public var part: Retention.Part
    /// What was measured, or of frames received, before this instant was looked at.
    public var olderThan: Instant
    /// Readings removed.
    public var readings = 0
    /// Frames removed: with their readings, or alone.
    public var frames = 0

    private static let prefix = "thinned."

    /// What was let go of each part since the store was made; nothing of parts of which nothing was.
    static func all(_ db: Database) throws -> [Thinning] {
        try Retention.Part.all.compactMap { try Thinning(db, of: $0) }
    }

    private init?(_ db: Database, of part: Retention.Part) throws {
        let numbers = try ReadingStore.lines(db, Self.prefix + part.name).compactMap { Int64($0) }
        guard numbers.count == 3 else { return nil }
        self.init(part: part, olderThan: Instant(microseconds: numbers[0]))
        (readings, frames) = (Int(numbers[1]), Int(numbers[2]))
    }

    /// Makes a count that begins.
    init(part: Retention.Part, olderThan: Instant) {
        self.part = part
        self.olderThan = olderThan
    }

    /// Adds what goes in this transaction to what is known of its part.
    static func note(_ db: Database, _ part: Retention.Part, before cutoff: Instant, readings: Int, frames: Int) throws
    {
        let former = try Thinning(db, of: part)
        let numbers = [
            max(former?.olderThan ?? cutoff, cutoff).microseconds, Int64((former?.readings ?? 0) + readings),
            Int64((former?.frames ?? 0) + frames),
        ]
        try ReadingStore.set(db, prefix + part.name, lines: numbers.map(String.init))
    }
}

extension ReadingStore {
    /// Lets go of what has become older than it is to be kept, and was delivered.
    ///
    /// Readings go as ``prune(olderThan:progress:)`` has them go. Of frames only the octets of a device's record go, and
    /// its reading stays: if the device sends it once more, that is noticed by what it says.
    ///
    /// The files are not written anew, since this is done every day: rows are overwritten where they stood, and the room is
    /// used again.
    ///
    /// A part that fails, as at a reading that is damaged, keeps none of the others from being thinned.
    ///
    /// - Parameters:
    ///   - retention: how long each part is kept.
    ///   - gone: is told of what went, part by part, also of a part that failed on its way; not of parts of which nothing went.
    /// - Returns: the same.
    /// - Throws: what the first part failed with: ``lockedBecause`` if the key is missing;
    ///   ``StoreError/pruneKeyMissing(path:)``, ``StoreError/diskFull``.
    @discardableResult
    public func thin(_ retention: Retention, gone: (Thinning) -> Void = { _ in }) async throws -> [Thinning] {
        try await requireKeys()
        var failure: (any Error)?
        var found: [Thinning] = []
        for (part, age) in retention.ages.sorted(by: { $0.key.name < $1.key.name }) {
            var thinning = Thinning(part: part, olderThan: now().advanced(by: .zero - age))
            do {
                switch part {
                case .kind(let kind): try await thin(.kind(kind), &thinning)
                case .trend: try await thin(.trend, &thinning)
                case .frames: try await dropFrames(&thinning)
                }
            } catch {
                failure = failure ?? error
            }
            if thinning.readings + thinning.frames > 0 {
                found.append(thinning)
                gone(thinning)
            }
            if Task.isCancelled { break }
        }
        if found.contains(where: { $0.readings > 0 }) { try await endPruning() }
        if let failure { throw failure }
        return found
    }

    private func thin(_ part: PruneBatch.Part, _ thinning: inout Thinning) async throws {
        let key = try await requirePruneKey()
        try await prune(part, before: thinning.olderThan, key, notedAs: thinning.part) { batch in
            thinning.readings += batch.readings
            thinning.frames += batch.frames
        }
    }

    private func dropFrames(_ thinning: inout Thinning) async throws {
        var after = Int64.min
        while true {
            let batch = try await dropBatch(before: thinning.olderThan, after: after)
            thinning.frames += batch.count
            guard let last = batch.last else { return }
            after = last
            try Task.checkCancellation()
        }
    }

    /// Drops frames of the next rows, in one transaction if there are any.
    private func dropBatch(before cutoff: Instant, after: Int64) async throws -> FrameBatch {
        let found = try await read { db in try FrameBatch(db, before: cutoff, after: after) }
        guard found.count > 0 else { return found }
        return try await write(.prune) { db in
            // What was queued again meanwhile keeps its octets.
            let batch = try FrameBatch(db, before: cutoff, after: after)
            try batch.drop(db)
            let former = try FrameBatch.horizon(db)
            guard batch.count > 0 else { return batch }
            if former < cutoff.microseconds {
                try Self.set(db, FrameBatch.setting, lines: [String(cutoff.microseconds)])
            }
            try Thinning.note(db, .frames, before: cutoff, readings: 0, frames: batch.count)
            return batch
        }
    }
}

/// Frames of some rows whose octets may go.
struct FrameBatch: Sendable {
    /// Until when frames that had been received may be gone, in microseconds since 1970.
    static let setting = "frames.dropped_before"
    private static let size: Int64 = 2000

    /// What the octets say besides the record: other minutes of a sensor, a person's own words, another program's
    /// version, how long a recording was when it was read. Without its length, either the rest of a recording that has
    /// gone on is never asked for, or every contact transfers the whole of it to find out.
    private static let lasting: [FrameFormat] = [
        .libre1Scan, .manualEntry, .importedSample, .cloudRecord, .figureDecision, .o2ringSaturations,
    ]

    /// Whether frames of a format are kept as long as their readings.
    static func keeps(_ format: FrameFormat) -> Bool { lasting.contains(format) }

    private var frames: [Int64] = []
    /// The last row that was looked at; `nil`: no older one is left.
    private(set) var last: Int64?

    var count: Int { frames.count }

    init(_ db: Database, before cutoff: Instant, after: Int64) throws {
        // By the rows, which were written in the order of time: it ends where they are younger.
        let select = try PreparedStatement(
            db,
            """
            SELECT f.key, f.received_at < ?1,
                f.received_at < ?1 AND f.state = \(frame: .record) AND f.format NOT IN (\(Self.lastingFormats))
                AND EXISTS (SELECT 1 FROM reading_frame WHERE frame = f.key)
                AND NOT EXISTS (
                    SELECT 1 FROM reading_frame AS b JOIN reading AS r ON r.key = b.reading
                    WHERE b.frame = f.key AND (b.role <> \(role: .record) OR NOT \(PruneBatch.isDelivered(db))))
            FROM frame AS f WHERE f.key > ?2 ORDER BY f.key LIMIT \(Self.size)
            """)
        select.bind(1, cutoff.microseconds)
        select.bind(2, after)
        defer { select.reset() }
        var (end, isAnyOlder): (Int64?, Bool) = (nil, false)
        while try select.next() {
            end = select.int(0)
            if select.int(1) != 0 { isAnyOlder = true }
            if select.int(2) != 0 { frames.append(select.int(0)) }
        }
        last = isAnyOlder ? end : nil
    }

    func drop(_ db: Database) throws {
        try db.execute(sql: "PRAGMA secure_delete = ON")
        for table in ["reading_frame WHERE frame", "frame WHERE key"] {
            let delete = try PreparedStatement(db, "DELETE FROM \(table) = ?")
            for frame in frames {
                delete.bind(1, frame)
                try delete.run()
            }
        }
    }

    /// Until when frames that had been received may be gone, in microseconds since 1970.
    static func horizon(_ db: Database) throws -> Int64 {
        try ReadingStore.lines(db, setting).first.flatMap { Int64($0) } ?? .min
    }

    private static let lastingFormats = lasting.map { String($0.rawValue) }.joined(separator: ", ")
}

extension Record {
    /// Whether a sensor measured it by itself, every few minutes: not what it keeps of every quarter of an hour.
    var isTrend: Bool {
        guard case .glucose(let glucose) = value else { return false }
        return sensor?.source == .trend || glucose.continuous != nil
    }
}
