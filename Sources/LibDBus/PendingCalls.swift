/// The calls that wait for an answer, by serial number, and in the order in which they run out of time.
struct PendingCalls {
    typealias Answer = Result<[DBusValue], DBusError>

    struct Call {
        var deadline: SuspendingClock.Instant
        /// What to say when it runs out of time.
        var description: String
        /// The objects that are read of an answer which tells of many; nil for all.
        var selection: DBusObjects?
        var continuation: CheckedContinuation<Answer, Never>
    }

    private var calls: [UInt32: Call] = [:]
    /// A binary heap, the earliest first; answered calls stay in it until they come to the top.
    private var deadlines: [(at: SuspendingClock.Instant, serial: UInt32)] = []

    /// When the next one runs out of time.
    var nextDeadline: SuspendingClock.Instant? {
        mutating get {
            while let first = deadlines.first, calls[first.serial]?.deadline != first.at { removeFirst() }
            return deadlines.first?.at
        }
    }

    mutating func add(_ call: Call, serial: UInt32) {
        calls[serial] = call
        deadlines.append((call.deadline, serial))
        siftUp(from: deadlines.count - 1)
    }

    /// Takes out the call that has this serial number.
    mutating func take(_ serial: UInt32) -> Call? {
        guard let call = calls.removeValue(forKey: serial) else { return nil }
        // One long call at the top would hold all that were answered behind it.
        if deadlines.count > 2 * calls.count + 64 {
            deadlines = calls.map { ($0.value.deadline, $0.key) }.sorted { $0.0 < $1.0 }
        }
        return call
    }

    /// Takes out the next call that has run out of time.
    mutating func takeExpired(at now: SuspendingClock.Instant) -> Call? {
        guard let next = nextDeadline, next <= now, let serial = deadlines.first?.serial else { return nil }
        return take(serial)
    }

    /// Takes out all.
    mutating func takeAll() -> [Call] {
        defer { (calls, deadlines) = ([:], []) }
        return Array(calls.values)
    }

    private mutating func siftUp(from index: Int) {
        var index = index
        while index > 0, deadlines[index].at < deadlines[(index - 1) / 2].at {
            deadlines.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    private mutating func removeFirst() {
        deadlines.swapAt(0, deadlines.count - 1)
        deadlines.removeLast()
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < deadlines.count && deadlines[child].at < deadlines[least].at { least = child }
            if least == index { return }
            deadlines.swapAt(index, least)
            index = least
        }
    }
}
