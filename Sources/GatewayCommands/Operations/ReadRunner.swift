import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import ReadingStore
import Synchronization

/// `read`: waits for meters, fetches what is new, and prints each reading that is new or has changed.
///
/// Several meters are waited for at once; what goes wrong with one is told, and the others go on.
struct ReadRunner {
    private let gateway: Gateway
    private let operation: ReadOperation
    private let json: Bool
    private let output: any OperationOutput

    init(_ gateway: Gateway, _ operation: ReadOperation, json: Bool, _ output: any OperationOutput) {
        self.gateway = gateway
        self.operation = operation
        self.json = json
        self.output = output
    }

    func run() async throws {
        let manager = try gateway.requireManager()
        if let problem = await gateway.clockProblem() { throw problem }
        var addresses = try operation.addresses.map { try DeviceAddress.argument($0) }
        if addresses.isEmpty {
            for address in try await gateway.requirePairedDevices(manager).sorted(by: { $0.bits < $1.bits }) {
                // A cuff that measures when it is told to has nothing to read.
                if try await !manager.measuresOnCommand(address) { addresses.append(address) }
            }
            guard !addresses.isEmpty else {
                throw Problem(
                    "nothing_to_read", .unavailable, "the paired devices keep no readings",
                    hint: "to measure with a QardioArm: `healthrelay measure ADDRESS`")
            }
        }
        let isOne = addresses.count == 1
        let (wanted, names) = (Set(addresses), try await names())
        let problems = try await manager.listening(for: wanted, within: .seconds(operation.seconds)) { manager in
            try await read(wanted, names, tellsEach: !isOne, manager)
        }
        guard let worst = problems.max(by: { $0.status.rawValue < $1.status.rawValue }) else { return }
        guard isOne else {
            throw Problem(
                worst.code, worst.status,
                "\(problems.count) of \(addresses.count) devices could not be read: "
                    + worst.message, hint: worst.hint)
        }
        throw worst
    }

    /// Reads devices, each when it is heard.
    ///
    /// - Parameter tellsEach: whether to tell what goes wrong with a device as soon as it does.
    /// - Returns: what went wrong.
    private func read(
        _ addresses: Set<DeviceAddress>, _ names: [UInt64: String], tellsEach: Bool, _ manager: DevicesManager
    ) async throws -> [Problem] {
        try await withThrowingTaskGroup(of: Problem?.self) { group in
            for address in addresses {
                group.addTask {
                    do {
                        return try await read(address, names[address.bits] ?? address.description, manager)
                    } catch {
                        // Stopped, or nobody is there to see what comes from the others.
                        guard !(error is CancellationError), let problem = Problem(describing: error) else {
                            throw error
                        }
                        return problem.about(names[address.bits] ?? address.description, address)
                    }
                }
            }
            var problems: [Problem] = []
            for try await problem in group {
                guard let problem else { continue }
                problems.append(problem)
                if tellsEach { try await output.warn(problem) }
            }
            return problems
        }
    }

    /// Reads one device.
    /// - Returns: why it did not bring all it should have.
    private func read(_ address: DeviceAddress, _ name: String, _ manager: DevicesManager) async throws -> Problem? {
        let course = ReadCourse(name: name, json: json, output: output)
        let summary: ContactSummary
        do {
            summary = try await manager.read(
                address, within: .seconds(operation.seconds), allRecords: operation.allRecords
            ) { await course.note($0) }
        } catch {
            try await course.finish()
            throw course.failure ?? error
        }
        try await course.finish()
        if let failure = course.failure { throw failure }
        if let failure = ContactFailure(summary) {
            return Problem(
                deviceCode: failure.code, "\(course.name): \(failure.description)",
                hint: failure.hint ?? "read it again; readings that arrived are kept")
        }
        let new = course.new
        try await output.note(
            "\(course.name): \(new == 0 ? "nothing new" : new == 1 ? "1 new reading" : "\(new) new readings")")
        return nil
    }

    /// What devices are called, by the bits of their addresses.
    private func names() async throws -> [UInt64: String] {
        let devices = try await gateway.store.devices()
        return Dictionary(
            devices.flatMap { device in
                device.addresses.map { ($0.bits, device.description.name ?? $0.description) }
            }
        ) { first, _ in first }
    }
}

extension Problem {
    /// The problem with the device's name before it, where it does not name it itself.
    fileprivate func about(_ name: String, _ address: DeviceAddress) -> Problem {
        guard !message.contains(address.description), !message.contains(name) else { return self }
        return Problem(code, status, "\(name): \(message)", hint: hint)
    }
}

/// What comes of reading one device, told as it comes.
private final class ReadCourse: Sendable {
    private struct State {
        var name: String
        var new = 0
        var join = ContextJoin()
        var failure: (any Error)?
    }

    private let json: Bool
    private let output: any OperationOutput
    private let state: Mutex<State>

    init(name: String, json: Bool, output: any OperationOutput) {
        state = Mutex(State(name: name))
        self.json = json
        self.output = output
    }

    /// What the device is called: by its name as soon as that is known.
    var name: String { state.withLock(\.name) }
    /// How many readings were new.
    var new: Int { state.withLock(\.new) }
    /// Why what came could not be told.
    var failure: (any Error)? { state.withLock(\.failure) }

    func note(_ event: TransferEvent) async {
        guard failure == nil else { return }
        do {
            switch event {
            case .began(let contact):
                if let name = contact.device.name { state.withLock { $0.name = name } }
            case .ended: break
            case .progress(let received, let announced):
                try await output.progress(TransferProgress(device: name, received: received, announced: announced))
            case .stored(let outcomes): try await tell(outcomes)
            }
        } catch {
            // Nobody sees it any more: the transfer ends in good order, and what came is kept.
            state.withLock { $0.failure = error }
            withUnsafeCurrentTask { $0?.cancel() }
        }
    }

    /// Tells what was held back: the transfer is over, however it ended.
    func finish() async throws {
        guard failure == nil else { return }
        for reading in state.withLock({ $0.join.rest() }) { try await tell(reading) }
    }

    private func tell(_ outcomes: [FrameOutcome]) async throws {
        for case .malformed(let error) in outcomes {
            try await output.note("\(name): malformed; its octets are kept: \(error)")
        }
        let readings = state.withLock { state in
            for case .new in outcomes { state.new += 1 }
            return state.join.take(outcomes)
        }
        for reading in readings { try await tell(reading) }
    }

    private func tell(_ reading: Reading) async throws {
        try await output.data(json ? reading.document.text : reading.line)
    }
}
