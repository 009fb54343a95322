import GatewaySettings
import HealthDevices
import HealthFigures
import HealthReadings
import ReadingStore
import Synchronization

/// The arguments of `record`.
public struct RecordOperation: Codable, Sendable, Hashable {
    /// The straps and oximeters.
    public var addresses: [String]
    /// How long, in seconds; nil until it is stopped.
    public var seconds: Double?
    /// The client's id of the person whose devices these must be; nil: whoever they are assigned to.
    public var person: String?
    /// Prints the mean of so many seconds in place of what is stored; nil: what is stored.
    public var interval: Int?
    /// The seconds that a kept variability covers; nil: by the settings.
    public var window: Int?

    /// Makes it.
    public init(
        addresses: [String], seconds: Double? = nil, person: String? = nil, interval: Int? = nil, window: Int? = nil
    ) {
        self.addresses = addresses
        self.seconds = seconds
        self.person = person
        self.interval = interval
        self.window = window
    }
}

/// `record`: keeps what straps and oximeters send.
struct RecordRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: RecordOperation) async throws {
        let addresses = try Set(operation.addresses.map { try DeviceAddress.argument($0) })
        guard !addresses.isEmpty else {
            throw Problem.usage("record: expected the address of a strap or an oximeter")
        }
        for address in addresses { try await requireRecordable(address, by: operation.person) }
        let options =
            operation.window.map { RecordingOptions(variabilityWindowSeconds: $0) } ?? gateway.settings.recordingOptions
        let told = RecordingTold(of: addresses, interval: operation.interval, json: json, output: output)
        try await output.note("Recording; nothing is kept before the device is heard. Ctrl-C ends it.")
        let end = operation.seconds.map { ContinuousClock.now + .seconds($0) }
        do {
            try await withDeadline(end) { [gateway] in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await gateway.record(addresses, options) { await told.note($0) } }
                    // Where nothing may be kept of any of them, there is nothing to wait for.
                    group.addTask { for await _ in told.refusals { return } }
                    defer { group.cancelAll() }
                    _ = try await group.next()
                    try Task.checkCancellation()
                }
            }
        } catch {
            await told.finish()
            throw told.failure ?? error
        }
        await told.finish()
        if let failure = told.failure { throw failure }
    }

    /// - Throws: `Problem` with status 77 where the person does not consent, 64 where the device is another's.
    private func requireRecordable(_ address: DeviceAddress, by name: String?) async throws {
        let owner = try await gateway.store.person(ofDevice: address)
        if let name {
            guard try await gateway.store.person(named: name).key == owner else {
                throw Problem(
                    "other_user", .usage, "\(address) is not assigned to \(name.prefix(64))",
                    hint: "assign it to them under `users:` in the settings")
            }
        }
        guard try await !gateway.store.recordableKinds(of: address).isDisjoint(with: [.heartRate, .hrv, .spo2]) else {
            throw Problem(
                "no_consent", .notPermitted, "the person of \(address) does not consent to keeping heart rates",
                hint: "`healthrelay consent grant heart_rate hrv`")
        }
    }
}

/// Tells of a recording as it goes on.
private final class RecordingTold: Sendable {
    private struct Interval {
        var number: Int64
        var values: [ExactDecimal]
    }

    private struct State {
        /// Why it can't be told any more.
        var unwritten: (any Error)?
        /// The devices of which nothing may be kept now.
        var refused: Set<DeviceAddress> = []
        var intervals: [DeviceAddress: Interval] = [:]
    }

    /// Has an element when nothing may be kept of any of the devices.
    let refusals: AsyncStream<Void>
    private let refuse: AsyncStream<Void>.Continuation
    private let devices: Set<UInt64>
    private let interval: Int64?
    private let json: Bool
    private let output: any OperationOutput
    private let state = Mutex(State())

    init(of addresses: Set<DeviceAddress>, interval: Int?, json: Bool, output: any OperationOutput) {
        (refusals, refuse) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        devices = Set(addresses.map(\.bits))
        self.interval = interval.map { Int64($0) }
        self.json = json
        self.output = output
    }

    /// Why it could not be told, or that nothing may be kept of a device.
    var failure: (any Error)? {
        state.withLock { state -> (any Error)? in
            if let error = state.unwritten { return error }
            guard let address = state.refused.min(by: { $0.bits < $1.bits }) else { return nil }
            return Problem(
                "no_consent", .notPermitted,
                "consent to what \(address) measures was withdrawn; what was kept before stays",
                hint: "`healthrelay store forget` erases it")
        }
    }

    private var isWritable: Bool { state.withLock { $0.unwritten == nil } }

    func note(_ event: RecordingEvent) async {
        defer { heed(event) }
        guard isWritable else { return }
        do {
            switch event {
            case .began(let contact): try await output.note("\(contact.device.title): recording")
            case .live(let reading): try await tell(reading)
            case .stored(let outcomes):
                for case .malformed(let error) in outcomes {
                    try await output.note("malformed; its octets are kept: \(error)")
                }
                guard interval == nil else { return }
                for case .new(let reading) in outcomes {
                    try await output.data(json ? reading.document.text : reading.line)
                }
            case .notStored(let failure):
                try await output.note("\(failure.description); it is kept in memory and tried again")
            case .ended(let contact, let summary):
                let words = summary.error.map { ", \($0.replacing("_", with: " "))" } ?? ""
                try await output.note("\(contact.device.title): \(summary.received) stored\(words)")
            case .notConsented(let address):
                try await output.note("\(address): not recorded, its person does not consent")
            case .failed(let address, let failure):
                try await output.note("\(address): \(failure.description); it is tried again when it is heard")
            }
        } catch is CancellationError {
            // The recording is being ended in good order; whoever asked for it may have gone.
        } catch {
            // The recording does its work to its end.
            state.withLock { $0.unwritten = error }
        }
    }

    /// Notes of which devices nothing may be kept.
    private func heed(_ event: RecordingEvent) {
        switch event {
        case .notConsented(let address):
            let areAllRefused = state.withLock { state in
                state.refused.insert(address)
                return Set(state.refused.map(\.bits)) == devices
            }
            if areAllRefused { refuse.yield() }
        case .began(let contact):
            guard let address = contact.device.address else { return }
            state.withLock { _ = $0.refused.remove(address) }
        default: break
        }
    }

    /// Tells what is left.
    func finish() async {
        guard isWritable else { return }
        for (address, interval) in state.withLock({ $0.intervals }) { try? await tell(interval, of: address) }
    }

    private func tell(_ reading: LiveReading) async throws {
        guard let interval, reading.record.exclusion == nil, case .vital(let value) = reading.record.value,
            let rate = value.kind == .heartRate ? value.main : value[.pulse], let number = rate.number.number,
            let address = reading.device.address
        else { return }
        let place = reading.receivedAt.seconds / interval
        let whole = state.withLock { state -> Interval? in
            guard var current = state.intervals[address], current.number == place else {
                return state.intervals.updateValue(Interval(number: place, values: [number]), forKey: address)
            }
            current.values.append(number)
            state.intervals[address] = current
            return nil
        }
        if let whole { try await tell(whole, of: address) }
    }

    private func tell(_ whole: Interval, of address: DeviceAddress) async throws {
        guard let interval, let mean = ExactDecimal.mean(of: whole.values, places: 1) else { return }
        let begin = Instant(seconds: whole.number * interval)
        guard json else {
            return try await output.data("\(begin)  \(mean) bpm  \(address)  (\(whole.values.count) values)")
        }
        try await output.data(
            JSONValue.object([
                "address": .string(address.description), "time": .string(begin.description),
                "interval_seconds": .integer(interval), "bpm": .number(mean),
                "samples": .integer(Int64(whole.values.count)),
            ]).text)
    }
}

extension DeviceDescription {
    fileprivate var title: String { name ?? address?.description ?? model ?? "device" }
}
