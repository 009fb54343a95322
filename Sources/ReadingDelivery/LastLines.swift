import HealthReadings

/// What the last line of each id in a file of JSON lines was: of the newest lines always, of all lines for a while after that
/// was needed.
struct LastLines {
    /// So many of the newest lines are known, once there were as many, and up to twice as many.
    static let fewest = 8192
    /// How long all lines are known after they were needed, in seconds.
    private static let patience: Int64 = 600

    // By the first half of the id: a line's hash is of the whole id too, so that two that share a half are never taken for
    // one.
    private var recent: [UInt64: Int] = [:]
    private var former: [UInt64: Int] = [:]
    private var recentSince: Instant
    private var since: Instant
    private var neededAt: Instant?
    /// The last lines of all ids; nil where they are not known.
    var all: [UInt64: Int]?

    /// None of a file whose lines before this moment are not known.
    init(since: Instant) { (self.since, recentSince) = (since, since) }

    /// A line's hash, in this process.
    static func hash(_ line: String) -> Int {
        var line = line
        return line.withUTF8 { hash(UnsafeRawBufferPointer($0)) }
    }

    private static func hash(_ octets: UnsafeRawBufferPointer) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: octets)
        return hasher.finalize()
    }

    /// Notes a line of a file, which begins `{"id":"` and 32 digits; any other is left out.
    static func note(_ line: UnsafeRawBufferPointer, in lines: inout [UInt64: Int]) {
        guard line.count > 39, let id = ReadingID(String(decoding: line[7..<39], as: UTF8.self)) else { return }
        lines[id.high] = hash(line)
    }

    /// Whether every line of a reading that was received then is known.
    func covers(_ received: Instant) -> Bool { received >= since }

    /// Whether all lines have to be read. If they were not needed for some minutes, they are forgotten.
    mutating func wantsAll(_ isNeeded: Bool, now: Instant = .systemClock) -> Bool {
        if isNeeded {
            neededAt = now
        } else if let neededAt, abs(now.seconds - neededAt.seconds) > Self.patience {
            all = nil
        }
        return isNeeded && all == nil
    }

    /// The hash of an id's last line; nil where the file has none, or it isn't known.
    subscript(_ id: ReadingID) -> Int? { all?[id.high] ?? recent[id.high] ?? former[id.high] }

    /// Notes lines that were appended.
    mutating func note(_ appended: [ReadingID: Int], now: Instant = .systemClock) {
        for (id, hash) in appended {
            recent[id.high] = hash
            if all != nil { all?[id.high] = hash }
        }
        guard recent.count >= Self.fewest else { return }
        (former, since) = (recent, recentSince)
        (recent, recentSince) = ([:], now)
    }
}
