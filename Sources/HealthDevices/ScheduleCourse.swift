import GATTClient
import HealthReadings
import Logging

/// A schedule that runs: asks ``SchedulePlan`` what to do, does it, and tells it what came of it.
struct ScheduleCourse {
    /// The pauses before watching is begun again where it ended and the adapter knows of nothing.
    private static let watchPauses: [Duration] = [.seconds(1), .seconds(2), .seconds(5), .seconds(15), .seconds(30)]
    /// How long watching goes on, after it had ended, until it is taken to hold.
    private static let watchTrial: Duration = .seconds(10)

    private let manager: DevicesManager
    private let inbox: AsyncStream<ScheduleSignal>.Continuation
    private let report: @Sendable (ScheduleEvent) async -> Void
    private let pace: SchedulePace
    private let elapsed: @Sendable () -> Duration
    private var plan: SchedulePlan
    private var adapter: AdapterState?
    /// What was told of the adapter last.
    private var told: AdapterState?
    private var watch = 0
    private var watching: Task<Void, Never>?
    private var failedWatches = 0
    private var peripherals: [DeviceAddress: any Peripheral] = [:]
    private var timers: [DeviceAddress: Task<Void, Never>] = [:]
    private var watchTimer: Task<Void, Never>?
    /// What each monitor said of its measurements when it was read to the end, and since when that is believed.
    private var settled: [DeviceAddress: (news: [UInt8], at: Duration)] = [:]
    /// What those said that are being read.
    private var said: [DeviceAddress: [UInt8]] = [:]
    /// Those heard without a bond since it was last known which are paired: asked about once.
    private var unbonded: Set<DeviceAddress> = []

    init(
        _ manager: DevicesManager, pace: SchedulePace, inbox: AsyncStream<ScheduleSignal>.Continuation,
        report: @escaping @Sendable (ScheduleEvent) async -> Void
    ) {
        self.manager = manager
        self.pace = pace
        self.inbox = inbox
        self.report = report
        elapsed = manager.clock.stopwatch()
        plan = SchedulePlan(pace: pace) { [catalogue = manager.catalogue] model in
            model.flatMap { catalogue[$0]?.quietTime } ?? pace.quietTime
        }
    }

    /// Takes a signal to its end.
    mutating func take(_ signal: ScheduleSignal, _ group: inout DiscardingTaskGroup) async {
        switch signal {
        case .adapter(let state): await take(state, &group)
        case .changed(.pairings):
            unbonded = []
            settled = [:]
            if isReady { beginWatching() }
        case .changed(.ended(let address, let outcome)):
            noteNews(of: address, outcome)
            // Without a radio, what went wrong says nothing of the meter.
            await perform(plan.ended(address, isReady ? outcome : outcome.withoutRadio, at: elapsed()), &group)
        case .watching(watch, let addresses):
            if failedWatches > 0 {
                signalLater(.watchHolds(watch: watch), after: Self.watchTrial)
            }
            peripherals = peripherals.filter { addresses.contains($0.key) }
            await perform(plan.watch(addresses, at: elapsed()), &group)
        case .heard(watch, let peripheral): await heard(peripheral, &group)
        // Whatever became of the watch meanwhile: it may be a measurement.
        case .said(let advertisement): take(advertisement, &group)
        case .watchEnded(watch, let error): await watchEnded(error, &group)
        case .watchAgain(watch): if isReady, watching == nil { beginWatching() }
        case .watchHolds(watch):
            failedWatches = 0
            // It may have been told that meters cannot be watched for.
            if let adapter { await tell(adapter) }
        case .woke(let address, let ticket): await perform(plan.woke(address, ticket: ticket), &group)
        case .listened(let address, let peripheral):
            if let peripheral { peripherals[address] = peripheral }
            let heard = peripheral.map { hasNothingNew($0.advertisement) ? SchedulePlan.Heard.nothingNew : .meter }
            await perform(plan.listened(address, heard ?? .nobody, at: elapsed()), &group)
        case .wasOccupied(let address): await perform(plan.wasOccupied(address, at: elapsed()), &group)
        case .freed(let address): await perform(plan.freed(address), &group)
        // Of a watch that was ended meanwhile.
        case .watching, .heard, .watchEnded, .watchAgain, .watchHolds: break
        }
    }

    /// Ends what runs beside the transfers.
    mutating func stop() async {
        for timer in timers.values { timer.cancel() }
        watchTimer?.cancel()
        watching?.cancel()
        await watching?.value
    }

    // MARK: The adapter

    private var isReady: Bool { if case .ready? = adapter { true } else { false } }

    private mutating func take(_ state: AdapterState, _ group: inout DiscardingTaskGroup) async {
        let before = adapter
        adapter = state
        await tell(state)
        switch (before, state) {
        // Where watching has ended, its pause goes on: the adapter tells of each attempt to look for devices.
        case (.ready(let old)?, .ready(let new)) where old.isSame(as: new): break
        case (_, .ready):
            unbonded = []
            failedWatches = 0
            beginWatching()
        case (_, .unusable):
            endWatching()
            await perform(plan.radioLost(), &group)
        }
    }

    /// Tells of the adapter where something has changed that matters to a person.
    private mutating func tell(_ state: AdapterState) async {
        switch (told, state) {
        case (.ready(let old)?, .ready(let new)) where old.isSame(as: new): return
        case (.unusable(let old)?, .unusable(let new)) where old == new: return
        default: break
        }
        told = state
        manager.faultBoard.note(state)
        await report(.adapter(state))
    }

    // MARK: Watching

    private mutating func beginWatching() {
        endWatching()
        watching = Task { [manager, inbox, watch] in
            do {
                let paired = try await manager.reconcilePairings()
                let (meters, heard) = (
                    try await manager.devicesWithRecords(paired), try await manager.devicesOnlyHeard(paired)
                )
                inbox.yield(.watching(watch: watch, meters))
                // Without a meter there is nothing to watch for, until one is paired.
                guard !meters.isEmpty || !heard.isEmpty else { return }
                try await withThrowingDiscardingTaskGroup { group in
                    if !meters.isEmpty {
                        group.addTask {
                            for try await peripheral in manager.radio.peripherals(meters) {
                                inbox.yield(.heard(watch: watch, peripheral))
                            }
                            try Task.checkCancellation()
                            throw RadioError.lost
                        }
                    }
                    guard !heard.isEmpty else { return }
                    group.addTask {
                        for try await advertisement in manager.radio.advertisements(of: heard) {
                            inbox.yield(.said(advertisement))
                        }
                        try Task.checkCancellation()
                        throw RadioError.lost
                    }
                }
            } catch is CancellationError {
                return
            } catch {
                inbox.yield(.watchEnded(watch: watch, error))
            }
        }
    }

    private mutating func endWatching() {
        watch += 1
        watchTimer?.cancel()
        watchTimer = nil
        watching?.cancel()
        watching = nil
    }

    private mutating func watchEnded(_ error: any Error, _ group: inout DiscardingTaskGroup) async {
        endWatching()
        await perform(plan.radioLost(), &group)
        guard isReady else { return }
        // The adapter tells soon where it was the cause, and watching then begins when it is back.
        let pause = Self.watchPauses[min(failedWatches, Self.watchPauses.count - 1)]
        failedWatches += 1
        manager.logger.notice("meters cannot be watched for; tried again in \(pause): \(error)")
        if let error = error as? RadioError, failedWatches > 1 { await tell(.unusable(error)) }
        signalLater(.watchAgain(watch: watch), after: pause)
    }

    private mutating func signalLater(_ signal: ScheduleSignal, after delay: Duration) {
        watchTimer?.cancel()
        watchTimer = Task { [clock = manager.clock, inbox] in
            guard (try? await clock.sleep(for: delay)) != nil else { return }
            inbox.yield(signal)
        }
    }

    // MARK: Meters

    private mutating func heard(_ peripheral: any Peripheral, _ group: inout DiscardingTaskGroup) async {
        let advertisement = peripheral.advertisement
        guard let address = advertisement.address else { return }
        guard (try? await manager.isPaired(advertisement)) == true else {
            // Its bond was removed by other means: what it sends would go unencrypted, and it is not ours any more.
            if unbonded.insert(address).inserted { beginWatching() }
            return
        }
        peripherals[address] = peripheral
        guard !hasNothingNew(advertisement) else {
            return await perform(plan.heardNothingNew(address, at: elapsed()), &group)
        }
        let (steps, hasCome) = plan.heard(address, at: elapsed())
        if hasCome { await report(.appeared(address, manager.catalogue.model(for: advertisement))) }
        await perform(steps, &group)
    }

    /// Stores the measurement that a device advertises, and tries again where it cannot be stored: the device says it for
    /// some seconds only.
    private func take(_ advertisement: Advertisement, _ group: inout DiscardingTaskGroup) {
        guard let address = advertisement.address, XiaomiScale.measurement(in: advertisement) != nil else { return }
        group.addTask { [manager, report, pace] in
            let (wall, begin) = (Instant.systemClock, ContinuousClock.now)
            var (heard, failures) = (advertisement, 0)
            while true {
                do {
                    try await manager.takeMeasurement(in: heard, of: address) {
                        await report(.transfer(address, $0))
                    }
                    return
                } catch is CancellationError {
                    return
                } catch {
                    failures += 1
                    let delay = pace.delay(afterFailures: failures)
                    await report(.failed(address, ContactFailure(error), nextTryAfter: delay))
                    guard (try? await manager.clock.sleep(for: delay)) != nil else { return }
                    // Where this machine's clock was put right meanwhile, the measurement was heard at another time.
                    let step = Instant.systemClock.seconds - wall.advanced(by: ContinuousClock.now - begin).seconds
                    heard.seenAt = advertisement.seenAt.advanced(bySeconds: abs(step) > 60 ? step : 0)
                }
            }
        }
    }

    private mutating func perform(_ steps: [SchedulePlan.Step], _ group: inout DiscardingTaskGroup) async {
        for step in steps {
            switch step {
            case .read(let address): read(address, &group)
            case .listen(let address): listen(address, &group)
            case .wake(let address, let delay, let ticket):
                timers[address]?.cancel()
                timers[address] = Task { [clock = manager.clock, inbox] in
                    guard (try? await clock.sleep(for: delay)) != nil else { return }
                    inbox.yield(.woke(address, ticket: ticket))
                }
            case .letSleep(let address): timers.removeValue(forKey: address)?.cancel()
            case .tell(let address, let failure, let delay):
                await report(.failed(address, failure, nextTryAfter: delay))
            }
        }
    }

    /// Whether a monitor says what it said when everything on it had been read.
    private func hasNothingNew(_ advertisement: Advertisement) -> Bool {
        guard let address = advertisement.address, let settled = settled[address],
            elapsed() - settled.at < pace.beliefTime
        else { return false }
        return OmronAdvertisement(advertisement)?.news == settled.news
    }

    private mutating func noteNews(of address: DeviceAddress, _ outcome: ReadingOutcome) {
        let news = said.removeValue(forKey: address)
        switch outcome {
        case .complete(let model, let records):
            // A monitor whose memory was looked at has nothing more. By the standard service, one that sent nothing may have
            // been about to.
            let isRead = records > 0 || model.flatMap { manager.catalogue[$0] }?.omronMemory != nil
            settled[address] = isRead ? news.map { ($0, elapsed()) } : nil
        case .unfinished, .cut, .failed, .withdrawn: settled[address] = nil
        }
    }

    private mutating func read(_ address: DeviceAddress, _ group: inout DiscardingTaskGroup) {
        guard let peripheral = peripherals[address] else {
            inbox.yield(.changed(.ended(address, .withdrawn)))
            return
        }
        said[address] = OmronAdvertisement(peripheral.advertisement)?.news
        group.addTask { [manager, inbox, report] in
            let wasRead = await manager.readUnlessOccupied(peripheral, at: address) { event in
                await report(.transfer(address, event))
            }
            guard !wasRead else { return }
            inbox.yield(.wasOccupied(address))
            guard (try? await manager.turns.waitForTurn(address, to: .whenFree)) != nil else { return }
            inbox.yield(.freed(address))
        }
    }

    private func listen(_ address: DeviceAddress, _ group: inout DiscardingTaskGroup) {
        group.addTask { [manager, inbox, pace] in
            let peripheral = try? await manager.radio.peripheral(address, within: pace.listeningTime)
            let isPaired = if let peripheral { try? await manager.isPaired(peripheral.advertisement) } else { false }
            inbox.yield(.listened(address, isPaired == true ? peripheral : nil))
        }
    }
}

extension Adapter {
    /// Whether it is the same adapter; whether it looks for devices does not matter.
    fileprivate func isSame(as other: Adapter) -> Bool { name == other.name && address == other.address }
}
