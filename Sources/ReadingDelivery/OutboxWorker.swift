import HealthReadings
import Logging
import ReadingStore
import ServiceLifecycle

/// Delivers what waits in the outbox to one destination, for as long as it takes.
///
/// At least once, with stable ids and timestamps, so once in effect: a reading leaves the outbox only when it is durable
/// here that the destination has it. One pass takes all waiting readings, group by group (person, kind, provider), oldest
/// first, so that the readings of a device arrive in order.
///
/// | a failure's scope | what is done |
/// |---|---|
/// | the destination | nothing is sent until a growing wait is over; with a person needed, the longest wait |
/// | the target | the target waits alone; three in a row count as the destination |
/// | too large | the batch is halved from now on |
/// | the items | the batch is halved until the refused reading stands alone; it is set aside with the destination's words |
/// | an unknown kind | the kind is held for that provider and tried again after the longest wait |
/// | held | the target waits for its source or its owner |
///
/// Each destination has a worker of its own, so that one that fails delays no other.
///
/// ```swift
/// let worker = OutboxWorker(store: store, destination: destination)
/// let group = ServiceGroup(services: [worker], gracefulShutdownSignals: [.sigterm], logger: logger)
/// try await group.run()   // a commit of readings begins a pass
/// ```
public actor OutboxWorker: Service {
    /// How delivery goes about it.
    public struct Options: Sendable {
        /// Whether passes are made by themselves; false: only by ``OutboxWorker/syncOnce(kinds:in:)``.
        public var isAutomatic = true
        /// Readings in one post at most, 1 … 10,000; `nil`: as many as the destination's rules say.
        public var batchLimit: Int?
        /// Readings that the store may hold as waiting although the destination has taken them, at most: a process that is
        /// killed sends them again.
        public var unwrittenLimit = 10_000
        /// The longest time between two passes while nothing happens.
        public var interval: Duration = .seconds(300)
        /// How failures are waited out.
        public var backoff = Backoff()
        /// How long a reading that was handed over waits for its receipt before it is sent again.
        public var receiptTimeout: Duration = .seconds(120)
        /// How long that time becomes: it doubles each time readings are sent again, until nothing waits for a receipt. A
        /// receiver that lags would otherwise get ever more to do. `nil`: it stays the same.
        public var longestReceiptTimeout: Duration?
        /// A mark of the settings that the destination is reached with. A wait of an earlier process counts only if it was
        /// noted with the same mark.
        public var settingsMark = ""
        /// A fingerprint of the destination's address. If the store knows another one, what waits is held until somebody
        /// accepts this one (`ReadingStore.acceptAddress(_:of:)`). `nil`: the destination is the same wherever it is.
        public var address: String?

        /// As many readings a post as the destination takes well, a pass every five minutes, waits from 2 s to 15 min, receipts
        /// within 2 min.
        public init() {}
    }

    let store: ReadingStore
    /// Where readings are delivered.
    public nonisolated let destination: any Destination
    let clock: SyncClock
    let options: Options
    let logger: Logger
    let hub = EventHub()
    private let signal = WakeSignal()
    /// Ends the wait before the connection is made again.
    let connectionSignal = WakeSignal()
    /// Whether that is being waited for.
    var isWaitingToConnect = false

    /// Readings in one post at most, unless ``batchLimits`` says fewer.
    var batchLimit: Int { options.batchLimit ?? destination.rules.batchLimit }
    /// Batches that were too large teach what fits, until the process ends.
    var batchLimits: [ReadingKind: Int] = [:]
    /// What failed, and when it is tried again.
    var circuit = Circuit()
    /// Targets whose kind the destination does not know, and when each is tried again.
    var resting: [DeliveryTarget: Duration] = [:]
    /// The store's number of the destination, once it is known there.
    private(set) var known: DestinationKey?
    /// Why the destination refuses the connection that is kept, and when that is tried again; `nil`: it does not.
    var connectionPause: Circuit.Failure?
    /// Whether ``circuit`` goes on where an earlier process ended.
    var isDelayRestored = false
    /// The failure that the store has.
    var noted: Circuit.Failure?
    /// Whether the store has it as a wait that outlives the process.
    var isNotedForLater = false
    var state = SyncStatus()
    /// How many readings were told to be left behind at the destination.
    var toldLeftBehind = 0
    /// What the destination has taken and the store does not know yet.
    var taken = TakenReadings()
    /// Writes it soon.
    var writing: Task<Void, Never>?
    /// Writes some of it now.
    var acknowledging: Task<Void, any Error>?
    /// How long readings wait for their receipts now, where that has grown.
    var grownReceiptTimeout: Duration?
    /// When the oldest reading that was handed over is sent again; `nil`: none waits for a receipt.
    var receiptDue: Duration?
    /// The newest retraction that the store had when what is to be taken back was last looked for.
    var knownRetraction: Int64 = 0
    /// How many wait until nothing is delivered, or work meanwhile.
    private var quietAsked = 0
    /// Whether a pass is to stop after the part that is on its way.
    var isQuietAsked: Bool { quietAsked > 0 }
    /// Waits for what is being done alone now.
    private var present: (@Sendable () async -> Void)?

    /// Makes a worker; nothing is sent before ``run()`` or ``syncOnce(kinds:in:)``.
    public init(
        store: ReadingStore, destination: any Destination, options: Options = Options(), clock: SyncClock = .system,
        logger: Logger = Logger(label: "healthrelay.sync")
    ) {
        self.store = store
        self.destination = destination
        self.clock = clock
        self.options = options
        var logger = logger
        logger[metadataKey: "destination"] = "\(destination.name)"
        self.logger = logger
    }

    /// The events from now on; any number of listeners. A listener that falls behind loses the oldest.
    public nonisolated func events() -> AsyncStream<SyncEvent> { hub.events() }

    /// Says that something new waits: a pass begins at once, or after the wait of a failure.
    public nonisolated func wake() { signal.signal(.soft) }

    /// Notes that the destination's connection is there: a pass begins at once, also while the wait of a failure is not over.
    func connected() {
        if let connectionPause, circuit.server?.failure.code == connectionPause.failure.code { circuit.forget() }
        connectionPause = nil
        signal.signal(.firm)
    }

    /// Begins a pass at once that tries again what the destination did not know.
    public func retryNow() {
        resting = [:]
        signal.signal(.firm)
    }

    /// How delivery stands.
    public var status: SyncStatus { state }

    /// Makes one pass now, whatever is being waited for, and says what it came to.
    ///
    /// Ends early where the task is cancelled; what was posted by then is acknowledged.
    ///
    /// - Parameters:
    ///   - kinds: delivers only these kinds; `nil`: all.
    ///   - range: delivers only what waits with a timestamp in it, both ends included; nil: all.
    public func syncOnce(
        kinds: Set<ReadingKind>? = nil, in range: ClosedRange<Instant>? = nil
    ) async -> SyncReport {
        let report = await pass(kinds, range, isAsked: true)
        if report.failure == nil { signal.signal(.firm) }
        if report.delivered > 0 { connectSooner() }
        return report
    }

    /// Whether ``run()`` is under way: passes are made by themselves, unless that is switched off.
    public private(set) var isRunning = false

    /// Delivers until a graceful shutdown or the task's cancellation.
    public func run() async throws {
        isRunning = true
        await cancelWhenGracefulShutdown { await self.loop() }
        isRunning = false
        hub.finish()
    }

    /// Every commit of readings ends the wait between passes.
    private nonisolated func listen() async {
        for await _ in store.committedReadings() { wake() }
    }

    private func loop() async {
        guard options.isAutomatic else {
            try? await gracefulShutdown()
            return
        }
        await destination.willRun()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.listen() }
            group.addTask { await self.keepConnection() }
            group.addTask { await self.takeReceipts() }
            await passes()
            group.cancelAll()
        }
    }

    private func passes() async {
        await restoreDelay()
        // What an earlier process was to wait for is waited for now.
        var isHeldBack = circuit.server.map { $0.due > clock.uptime() } ?? false
        while !Task.isCancelled {
            let began = clock.uptime()
            if !isHeldBack { _ = await pass() }
            isHeldBack = false
            guard !Task.isCancelled else { return }
            // A server that is down is asked again when its wait is over, however much is stored meanwhile; one target
            // that fails keeps nothing else waiting. A wait that was over before the pass is no reason for another one:
            // the pass had nothing to try, because what waits is held.
            let isServerDown = circuit.server.map { $0.due > began } ?? false
            let due = [circuit.nextDue(after: began), isServerDown ? nil : receiptDue].compactMap(\.self).min()
            let wait = due.map { max(.zero, $0 - clock.uptime()) } ?? options.interval
            await signal.wait(
                atMost: isServerDown ? wait : min(wait, options.interval), endedBy: isServerDown ? .firm : .soft,
                sleep: clock.sleep)
        }
    }

    /// Does work while nothing is delivered. The pass that is being made stops after the part that is on its way, and goes on
    /// afterwards.
    public func withoutDelivery<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        quietAsked += 1
        defer { quietAsked -= 1 }
        return try await alone { () async -> Result<Value, any Error> in
            do { return .success(try await work()) } catch { return .failure(error) }
        }.get()
    }

    /// Waits until nobody works while nothing is delivered.
    private func endOfQuiet() async {
        while isQuietAsked {
            if let present { await present() } else { await Task.yield() }
        }
    }

    /// One pass at a time: a second caller waits for the first and then makes its own.
    private func pass(
        _ kinds: Set<ReadingKind>? = nil, _ range: ClosedRange<Instant>? = nil, isAsked: Bool = false
    ) async -> SyncReport {
        await restoreDelay()
        var (report, isCutShort) = (SyncReport(), true)
        while isCutShort {
            await endOfQuiet()
            (report, isCutShort) = await alone { [report] in
                await self.deliverAll(kinds: kinds, in: range, isAsked: isAsked, after: report)
            }
        }
        conclude(report)
        await noteDelay()
        return report
    }

    private func alone<Value: Sendable>(_ work: @escaping @Sendable () async -> Value) async -> Value {
        while let present { await present() }
        let task = Task {
            let value = await work()
            // Before the task's value can be had: whoever waits for it looks here next.
            self.present = nil
            return value
        }
        present = { _ = await task.value }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// The store's number of the destination. The first call makes the destination known, so that the store queues for it
    /// what it may get.
    func place() async throws -> DestinationKey {
        if let known { return known }
        // A store that was opened without its key has not been told of another address yet.
        let key = try await store.setDestination(
            destination.name, kind: destination.kind, destination.rules, address: options.address)
        known = key
        return key
    }

    /// Shows what failed, and when it is tried again.
    func showNext() {
        let next = circuit.next
        state.failures = next.map { $0.count + $0.ofStore } ?? 0
        state.failure = next?.failure
        state.nextAttempt = next.map { clock.now().advanced(by: max(.zero, $0.due - clock.uptime())) }
    }

    private func conclude(_ report: SyncReport) {
        if report.delivered > 0 { state.lastSuccess = clock.now() }
        let (next, former) = (circuit.next, state.failure)
        showNext()
        guard let failure = report.failure, !failure.isCancellation, let next else { return }
        // What waits for a person is told once.
        let isTold = !failure.isRetryable && former?.isRetryable == false && former?.code == failure.code
        let seconds = max(.zero, next.due - clock.uptime()).wholeSeconds
        logger.log(
            level: isTold ? .debug : .warning, "delivery failed",
            metadata: ["code": "\(failure.code)", "next_attempt_in": "\(seconds) s"])
        if !failure.isRetryable, !isTold { hub.emit(.paused(failure)) }
    }
}
