import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization

extension DevicesManager {
    /// Records what straps and oximeters send, until the task is cancelled: their heart rates, the variability of the beats, and
    /// saturations, as readings of a minute each.
    ///
    /// Each device is connected when it is heard, and again when it comes back. What has come is durable every quarter of a
    /// minute, and at once when the recording ends or the device leaves. One that answers and is not worn is left alone for two
    /// minutes, and one that cannot be recorded for up to a minute. To pair, unpair or read a device by the same
    /// ``DevicesManager``, or set its clock, goes first: it is let go of, and recorded again when it is heard.
    ///
    /// ```swift
    /// try await manager.record([strap]) { event in
    ///     if case .stored(let outcomes) = event { print(outcomes.count) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - addresses: the devices, paired or not.
    ///   - options: how it is recorded.
    ///   - report: told what happens, in order for each device.
    ///   - permitted: the kinds of readings that may be kept of a device now; asked before it is connected, and each time
    ///     before something is made durable. All, where it is not given.
    /// - Throws: `RadioError` where the radio cannot be used, or no longer; `CancellationError`.
    public func record(
        _ addresses: Set<DeviceAddress>, options: RecordingOptions = RecordingOptions(),
        report: @escaping @Sendable (RecordingEvent) async -> Void = { _ in },
        permitted: @escaping @Sendable (DeviceAddress) async throws -> Set<ReadingKind> = { _ in
            Set(ReadingKind.allCases)
        }
    ) async throws {
        let busy = BusyDevices()
        let session = RecordingSession(
            manager: self, options: options, busy: busy, permitted: permitted, report: report)
        try await withThrowingDiscardingTaskGroup { group in
            for try await peripheral in radio.peripherals(addresses) {
                guard let address = peripheral.advertisement.address, busy.take(peripheral, at: address) else {
                    continue
                }
                group.addTask {
                    var heard: (any Peripheral)? = peripheral
                    while let peripheral = heard {
                        await session.follow(peripheral, at: address)
                        heard = busy.leave(address)
                    }
                }
            }
        }
        try Task.checkCancellation()
        throw RadioError.lost
    }
}

/// Devices that are followed already, however often they are heard.
///
/// One that comes back while its former contact is still being ended is not told again while it stays: it is followed next.
final class BusyDevices: Sendable {
    /// What was heard of each meanwhile.
    private let heard = Mutex<[DeviceAddress: (any Peripheral)?]>([:])

    /// - Returns: whether nobody follows it yet.
    func take(_ peripheral: any Peripheral, at address: DeviceAddress) -> Bool {
        heard.withLock { heard in
            let isBusy = heard[address] != nil
            heard[address] = .some(isBusy ? peripheral : nil)
            return !isBusy
        }
    }

    /// It is connected: what was heard before is the same coming, and while it is connected it is not heard.
    func noteConnection(of address: DeviceAddress) {
        heard.withLock { heard in
            if heard[address] != nil { heard[address] = .some(nil) }
        }
    }

    /// It is followed no longer, unless it has come back.
    ///
    /// - Returns: what is to be followed next.
    func leave(_ address: DeviceAddress) -> (any Peripheral)? {
        heard.withLock { heard in
            guard let next = heard[address] ?? nil else {
                heard[address] = nil
                return nil
            }
            heard[address] = .some(nil)
            return next
        }
    }
}

/// A recording of several devices.
private struct RecordingSession: Sendable {
    /// How long a device is left alone of which nothing may be kept.
    private static let restWithoutConsent: Duration = .seconds(60)

    let manager: DevicesManager
    let options: RecordingOptions
    let busy: BusyDevices
    let permitted: @Sendable (DeviceAddress) async throws -> Set<ReadingKind>
    let report: @Sendable (RecordingEvent) async -> Void
    private let past = Past()

    /// What is kept of each device from one contact to the next.
    private final class Past: Sendable {
        /// The windows that go on.
        let windows = Mutex<[DeviceAddress: HeartBeatWindow]>([:])
        /// How often in a row it could not be recorded.
        let failures = Mutex<[DeviceAddress: Int]>([:])
    }

    init(
        manager: DevicesManager, options: RecordingOptions, busy: BusyDevices,
        permitted: @escaping @Sendable (DeviceAddress) async throws -> Set<ReadingKind>,
        report: @escaping @Sendable (RecordingEvent) async -> Void
    ) {
        self.manager = manager
        self.options = options
        self.busy = busy
        self.permitted = permitted
        self.report = report
    }

    /// Records a device that was heard, until it leaves or may not be recorded.
    func follow(_ peripheral: any Peripheral, at address: DeviceAddress) async {
        var isRefused = false
        while !Task.isCancelled {
            do {
                guard try await !permitted(address).isDisjoint(with: [.heartRate, .hrv, .spo2]) else {
                    throw Recorder.ConsentWithdrawn()
                }
                isRefused = false
                let end = try await record(peripheral, at: address)
                past.failures.withLock { $0[address] = nil }
                guard end == .unworn else { return }
                try await manager.clock.sleep(for: LiveCourse.restUnworn)
            } catch is CancellationError {
                return
            } catch is Recorder.ConsentWithdrawn {
                // Told once, until it is consented to again.
                if !isRefused { await report(.notConsented(address)) }
                isRefused = true
                guard (try? await manager.clock.sleep(for: Self.restWithoutConsent)) != nil else { return }
            } catch {
                await report(.failed(address, ContactFailure(error)))
                let failures = past.failures.withLock { failures in
                    failures[address, default: 0] += 1
                    return failures[address, default: 0]
                }
                try? await manager.clock.sleep(for: LiveCourse.rest(afterFailures: failures))
                return
            }
        }
    }

    private func record(_ peripheral: any Peripheral, at address: DeviceAddress) async throws -> LiveCourse.End {
        try await manager.inTurn(address, to: .watch) {
            do {
                let connectedAt = try await peripheral.connect()
                busy.noteConnection(of: address)
                let end = try await recordConnected(peripheral, connectedAt, address)
                await peripheral.disconnectSurely()
                return end
            } catch {
                await peripheral.disconnectSurely()
                throw error
            }
        }
    }

    private func recordConnected(
        _ peripheral: any Peripheral, _ connectedAt: Instant, _ address: DeviceAddress
    ) async throws -> LiveCourse.End {
        let reader = manager.reader
        let characteristics = try await peripheral.characteristics()
        let facts = try await DeviceFacts(of: peripheral, characteristics)
        let device = try await reader.describe(peripheral.advertisement, characteristics, facts)
        let contact = try await reader.memory.beginContact(
            with: device, at: connectedAt, clock: facts.clock, batteryPercent: facts.batteryPercent)
        try await reader.leaveIfBarred(contact, peripheral.advertisement)
        await report(.began(contact))
        let recorder = Recorder(
            contact: contact, journal: reader.journal,
            window: past.windows.withLock { $0.removeValue(forKey: address) }
                ?? HeartBeatWindow(seconds: options.variabilityWindowSeconds),
            permitted: { [permitted] in try await permitted(address) }, report: report)
        let recorded = await reader.record(
            peripheral, characteristics, with: recorder, of: contact, report,
            isWanted: { [turns = manager.turns] in await turns.isWanted(address, orWatched: false) })
        past.windows.withLock { $0[address] = recorded.window }
        let (memory, summary) = (reader.memory, recorded.summary)
        try await shieldedFromCancellation { try await memory.endContact(contact, summary) }
        await report(.ended(contact, summary))
        return try recorded.end.get()
    }
}

/// What became of recording one contact.
struct RecordedContact {
    /// How it ended.
    var end: Result<LiveCourse.End, any Error>
    var summary: ContactSummary
    /// The window that is not whole yet.
    var window: HeartBeatWindow
}

extension MeterReader {
    /// A reader that also records what a strap or an oximeter sends while it is connected, after its records were read: as
    /// ``DevicesManager/record(_:options:report:permitted:)`` does. For captures above all.
    public func recording(_ options: RecordingOptions = RecordingOptions()) -> MeterReader {
        var reader = self
        reader.recordingOptions = options
        return reader
    }

    /// Records a connected device until it leaves, falls silent, is wanted, or the task is cancelled. What has come is durable
    /// then.
    func record(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], with recorder: Recorder, of contact: Contact,
        _ report: @escaping @Sendable (RecordingEvent) async -> Void,
        isWanted: @escaping @Sendable () async -> Bool = { false }
    ) async -> RecordedContact {
        var recorder = recorder
        let live = LiveHandOver()
        var course = LiveCourse(
            peripheral, contact.device, LivePace(),
            stream: contact.device.model.flatMap { catalogue[$0] }?.oximeterStream)
        course.isWanted = isWanted
        let end: Result<LiveCourse.End, any Error>
        do {
            end = .success(
                try await course.run(characteristics, { live.values.append($0) }) { characteristic, octets, instant in
                    try await recorder.take(characteristic, octets, at: instant)
                    for reading in live.values { await report(.live(reading)) }
                    live.values.removeAll(keepingCapacity: true)
                })
        } catch {
            end = .failure(error)
        }
        var summary = ContactSummary(isComplete: true, received: 0)
        if case .failure(let error) = end, !(error is CancellationError) {
            (summary.isComplete, summary.error) = (
                false, error is Recorder.ConsentWithdrawn ? "no_consent" : ContactFailure(error).code
            )
        }
        let open = recorder
        let (ended, failure) = await shieldedFromCancellation { () -> (Recorder, (any Error)?) in
            var recorder = open
            do { try await recorder.finish() } catch { return (recorder, error) }
            return (recorder, nil)
        }
        if let failure, !(failure is Recorder.ConsentWithdrawn) {
            (summary.isComplete, summary.error) = (false, summary.error ?? ContactFailure(failure).code)
        } else if ended.hasUnstored {
            (summary.isComplete, summary.error) = (false, summary.error ?? "not_stored")
        }
        summary.received = ended.received
        return RecordedContact(end: end, summary: summary, window: ended.window)
    }
}

/// Values on their way from a course to whoever is told of them: both run in one task.
private final class LiveHandOver {
    var values: [LiveReading] = []
}
