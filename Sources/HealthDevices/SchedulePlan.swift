import GATTClient
import HealthReadings

/// Decides which meter is read when: a value that is told what happens and says what to do.
///
/// Times are durations since the schedule began. A meter that is away has no timer and costs nothing.
struct SchedulePlan {
    /// What to do.
    enum Step: Sendable, Hashable {
        /// Read the meter, as it was heard last.
        case read(DeviceAddress)
        /// Say whether the meter is in reach now.
        case listen(DeviceAddress)
        /// Say, after this time, that it has passed.
        case wake(DeviceAddress, after: Duration, ticket: Int)
        /// The timer of the meter is needed no more.
        case letSleep(DeviceAddress)
        /// Tell of a failure.
        case tell(DeviceAddress, ContactFailure, nextTryAfter: Duration?)
    }

    /// What came of listening for a meter.
    enum Heard: Sendable, Hashable {
        /// It is not in reach.
        case nobody
        /// It is, and says that it has nothing new.
        case nothingNew
        /// It is.
        case meter
    }

    private enum Phase: Hashable {
        /// Not heard, as far as is known.
        case away
        /// Heard, and others come first.
        case waiting
        /// Being read by the schedule.
        case reading
        /// Something else is done with it.
        case occupied
        /// Read at this time, to the end.
        case resting(since: Duration)
        /// Not to be tried for now.
        case backingOff
        /// Due; whether it is in reach is being found out.
        case listening
    }

    private struct Meter {
        var phase = Phase.away
        /// Failures in a row.
        var failures = 0
        /// Of the timer that runs.
        var ticket: Int?
        var quietTime: Duration?
        /// Heard while something is done with it: it is about to be left, or was by the time that is told.
        var wasHeard = false
        /// Since when it says that it has nothing new, and how often it was looked at since.
        var silence: (since: Duration, looks: Int)?
        /// It came while it was being listened for, and said so.
        var hasComeWithoutNews = false
        /// Since when it has sent nothing though it may be measuring, and how often it was connected again since.
        var emptiness: (since: Duration, looks: Int)?
    }

    private let pace: SchedulePace
    private let quietTime: @Sendable (_ model: String?) -> Duration
    private var meters: [DeviceAddress: Meter] = [:]
    private var queue: [DeviceAddress] = []
    /// The meters that are read, and whether that has gone on for so long that it keeps no others from being read.
    private var running: [DeviceAddress: Bool] = [:]
    private var watchingSince: Duration?
    private var nextTicket = 0

    /// - Parameter quietTime: how long a meter of a model is left alone after it was read.
    init(pace: SchedulePace, quietTime: @escaping @Sendable (_ model: String?) -> Duration) {
        self.pace = pace
        self.quietTime = quietTime
    }

    /// These meters are paired and watched for from now on.
    mutating func watch(_ addresses: Set<DeviceAddress>, at now: Duration) -> [Step] {
        watchingSince = now
        var steps: [Step] = []
        for address in meters.keys where !addresses.contains(address) {
            steps += stopTimer(address)
            meters[address] = nil
            queue.removeAll { $0 == address }
        }
        for address in addresses where meters[address] == nil { meters[address] = Meter() }
        return steps
    }

    /// Nothing can be heard any more: what was waited for is forgotten.
    mutating func radioLost() -> [Step] {
        queue = []
        for address in meters.keys { meters[address]?.wasHeard = false }
        var steps: [Step] = []
        for (address, meter) in meters {
            switch meter.phase {
            case .waiting, .listening, .backingOff:
                steps += stopTimer(address)
                meters[address]?.phase = .away
            case .resting:
                steps += stopTimer(address)
            case .away, .reading, .occupied: break
            }
        }
        return steps
    }

    /// A meter was heard: it has come, or it has disconnected.
    ///
    /// - Returns: what to do, and whether it counts as having come.
    mutating func heard(_ address: DeviceAddress, at now: Duration) -> (steps: [Step], hasCome: Bool) {
        guard let meter = meters[address] else { return ([], false) }
        switch meter.phase {
        case .away:
            meters[address]?.emptiness = nil
            return (enqueue(address), true)
        case .listening: return (enqueue(address), false)
        case .resting(let since):
            // All that are in reach are told of anew when watching begins.
            let isNewWatch = watchingSince.map { now - $0 < pace.settlingTime } ?? false
            guard now - since < pace.settlingTime || isNewWatch else {
                meters[address]?.emptiness = nil
                return (enqueue(address), true)
            }
            guard meter.ticket == nil else { return ([], false) }
            let rest = max((meter.quietTime ?? pace.quietTime) - (now - since), .zero)
            return ([wake(address, after: rest)], false)
        case .reading, .occupied:
            meters[address]?.wasHeard = true
            return ([], false)
        case .waiting, .backingOff: return ([], false)
        }
    }

    /// A meter was heard that says it has nothing new. Nobody tells of it again before it has gone, and it may say
    /// meanwhile what it has measured: it is looked at again and again while it is in reach, for some minutes.
    mutating func heardNothingNew(_ address: DeviceAddress, at now: Duration) -> [Step] {
        guard let meter = meters[address], meter.ticket == nil else { return [] }
        switch meter.phase {
        case .away, .resting:
            meters[address]?.silence = nil
            return lookAgain(address, at: now)
        case .listening:
            meters[address]?.hasComeWithoutNews = true
            return []
        case .waiting, .reading, .occupied, .backingOff: return []
        }
    }

    private mutating func lookAgain(_ address: DeviceAddress, at now: Duration) -> [Step] {
        let silence = meters[address]?.silence ?? (now, 0)
        guard now - silence.since < pace.lookingTime else {
            meters[address]?.silence = nil
            meters[address]?.phase = .away
            return []
        }
        meters[address]?.silence = (silence.since, silence.looks + 1)
        meters[address]?.phase = .resting(since: now)
        return [wake(address, after: pause(afterLooks: silence.looks))]
    }

    private func pause(afterLooks looks: Int) -> Duration {
        min(pace.secondLook * (1 << min(looks, 8)), pace.settlingTime)
    }

    /// The time that was asked for has passed.
    mutating func woke(_ address: DeviceAddress, ticket: Int) -> [Step] {
        guard meters[address]?.ticket == ticket else { return [] }
        meters[address]?.ticket = nil
        switch meters[address]?.phase {
        case .resting, .backingOff: return listen(address)
        case .reading:
            running[address] = true
            return startNext()
        default: return []
        }
    }

    /// A meter was listened for.
    mutating func listened(_ address: DeviceAddress, _ heard: Heard, at now: Duration) -> [Step] {
        guard let meter = meters[address], meter.phase == .listening else { return [] }
        if meter.hasComeWithoutNews { meters[address]?.silence = nil }
        switch heard {
        case .meter: return enqueue(address)
        case .nothingNew: return lookAgain(address, at: now)
        case .nobody where meter.hasComeWithoutNews: return lookAgain(address, at: now)
        case .nobody:
            meters[address]?.silence = nil
            meters[address]?.phase = .away
            return []
        }
    }

    /// The meter could not be read, because something else is done with it.
    mutating func wasOccupied(_ address: DeviceAddress, at now: Duration) -> [Step] {
        running[address] = nil
        switch meters[address]?.phase {
        // Away: others, who were in the way, gave up a moment ago.
        case .reading, .away:
            meters[address]?.phase = .occupied
            return stopTimer(address) + startNext()
        // Read by others meanwhile, and heard since.
        case .resting: return heard(address, at: now).steps + startNext()
        default: break
        }
        return startNext()
    }

    /// Whatever was done with a meter by others is done: look again whether it is there, where that kept it from being
    /// read and was no reading itself, or one that was given up.
    mutating func freed(_ address: DeviceAddress) -> [Step] {
        meters[address]?.phase == .occupied ? listen(address) : []
    }

    /// A reading has ended, ours or another's. Another's that was given up changes nothing that is planned: a meter that
    /// stays in reach is not told of again.
    mutating func ended(_ address: DeviceAddress, _ outcome: ReadingOutcome, at now: Duration) -> [Step] {
        running[address] = nil
        guard let meter = meters[address] else { return startNext() }
        if case .withdrawn = outcome, meter.phase != .reading { return startNext() }
        queue.removeAll { $0 == address }
        var steps = stopTimer(address)
        switch outcome {
        case .complete(let model, _):
            meters[address]?.failures = 0
            meters[address]?.emptiness = nil
            meters[address]?.quietTime = quietTime(model)
            meters[address]?.phase = .resting(since: now)
        case .unfinished(let model, let hasSent):
            let (since, looks) = (hasSent ? nil : meters[address]?.emptiness) ?? (now, 0)
            let quiet = now - since < pace.lookingTime ? pause(afterLooks: looks) : quietTime(model)
            meters[address]?.failures = 0
            meters[address]?.emptiness = (since, looks + 1)
            meters[address]?.quietTime = quiet
            meters[address]?.phase = .resting(since: now)
        case .cut(let failure):
            meters[address]?.failures = 0
            meters[address]?.phase = .away
            steps.append(.tell(address, failure, nextTryAfter: nil))
        case .failed(let failure, let isLasting):
            let failures = isLasting ? max(pace.backOff.count, 1) : (meters[address]?.failures ?? 0) + 1
            meters[address]?.failures = failures
            meters[address]?.phase = .backingOff
            let delay = pace.delay(afterFailures: failures)
            steps.append(.tell(address, failure, nextTryAfter: delay))
            steps.append(wake(address, after: delay))
        case .withdrawn:
            meters[address]?.phase = .away
        }
        if meters[address]?.wasHeard == true {
            meters[address]?.wasHeard = false
            steps += heard(address, at: now).steps
        }
        return steps + startNext()
    }

    // MARK: Turns

    private mutating func enqueue(_ address: DeviceAddress) -> [Step] {
        let steps = stopTimer(address)
        meters[address]?.phase = .waiting
        meters[address]?.silence = nil
        queue.append(address)
        return steps + startNext()
    }

    private mutating func startNext() -> [Step] {
        var steps: [Step] = []
        while turnsTaken < max(pace.transfersAtOnce, 1), !queue.isEmpty {
            let address = queue.removeFirst()
            meters[address]?.phase = .reading
            meters[address]?.wasHeard = false
            running[address] = false
            steps += [.read(address), wake(address, after: pace.turnTime)]
        }
        return steps
    }

    /// How many transfers keep others from being begun.
    private var turnsTaken: Int {
        running.count - min(running.values.count { $0 }, max(pace.longTransfersAtOnce, 0))
    }

    private mutating func listen(_ address: DeviceAddress) -> [Step] {
        meters[address]?.phase = .listening
        meters[address]?.hasComeWithoutNews = false
        return [.listen(address)]
    }

    // MARK: Timers

    private mutating func wake(_ address: DeviceAddress, after delay: Duration) -> Step {
        nextTicket += 1
        meters[address]?.ticket = nextTicket
        return .wake(address, after: delay, ticket: nextTicket)
    }

    private mutating func stopTimer(_ address: DeviceAddress) -> [Step] {
        guard meters[address]?.ticket != nil else { return [] }
        meters[address]?.ticket = nil
        return [.letSleep(address)]
    }
}
