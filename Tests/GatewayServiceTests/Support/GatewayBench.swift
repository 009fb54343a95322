import EmulatedRadio
import Foundation
import GATTClient
import HealthReadings
import Hummingbird
import LogLines
import Logging
import ReadingStore
import ServiceLifecycle
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// A gateway over an emulated radio, asked in this process or through its real control socket.
final class GatewayBench: Sendable {
    /// How an operation reaches the gateway.
    enum Way: String, CaseIterable, Sendable { case inProcess, controlSocket }

    static let zone = ["user.time_zone": "Europe/Berlin"]

    let directory: URL
    let radio: EmulatedRadio
    let gateway: Gateway
    let log = LogLines()
    private let server: Task<Void, any Error>?
    private let group: ServiceGroup?
    private let way: Way

    init(
        _ way: Way = .inProcess, _ meters: [EmulatedMeter] = [], adapter: AdapterState = .emulated,
        settings: [String: String] = [:], machine: GatewayClock.Machine = GatewayClock.Machine(),
        isService: Bool = false, in directory: URL? = nil
    ) async throws {
        self.way = way
        self.directory = try directory ?? Self.scratch()
        let directory = self.directory
        radio = EmulatedRadio(meters, adapter: adapter)
        let (radio, log) = (radio, log)
        let logger = log.logger()
        let state = StateDirectory(flag: directory.appendingPathComponent("state").path, environment: [:])
        gateway = try await Gateway.open(
            Settings(
                environment: [:], flags: Self.zone.merging(settings) { $1 },
                managed: ManagedSettings(stateDirectory: state.path)), state: state,
            radio: { settings, _ in settings["bluetooth.adapter"] == "none" ? nil : radio }, machine: machine,
            isService: isService, logger: logger)
        guard way == .controlSocket else {
            (server, group) = (nil, nil)
            return
        }
        let application = ControlServer.application(
            path: state.socket, mode: state.socketMode, gateway: gateway, logger: logger)
        let group = ServiceGroup(services: [application], logger: logger)
        self.group = group
        server = Task { try await group.run() }
        while try ControlClient(socket: state.socket) == nil { try await Task.sleep(for: .milliseconds(5)) }
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    static func scratch() throws -> URL {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(
            "hr-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }

    /// Runs an operation as a command would.
    func run(_ operation: GatewayCommands.Operation, json: Bool = true, output: Collected = Collected()) async throws {
        let request = OperationRequest(operation, json: json)
        switch way {
        case .inProcess: try await gateway.run(request, output: output)
        case .controlSocket:
            let socket = StateDirectory(flag: gateway.store.directory, environment: [:]).socket
            try await #require(ControlClient(socket: socket)).run(request, output: output)
        }
    }

    /// Runs an operation and gives what it printed on standard output.
    func lines(_ operation: GatewayCommands.Operation, json: Bool = true, output: Collected = Collected()) async throws
        -> [String]
    {
        try await run(operation, json: json, output: output)
        return output.data
    }

    /// The problem an operation ends with.
    func problem(_ operation: GatewayCommands.Operation, output: Collected = Collected()) async throws -> Problem {
        do {
            try await run(operation, output: output)
        } catch {
            return try #require(Problem(describing: error), "\(error)")
        }
        throw NoProblem(output: output.data)
    }

    struct NoProblem: Error { var output: [String] }

    /// Ends the server in good order and closes the store.
    func stop() async throws {
        await group?.triggerGracefulShutdown()
        try await server?.value
        try await gateway.close()
    }
}

extension GatewayClock.Machine {
    /// This machine, of whose clock nobody says that it is synchronised, whatever its time service does.
    static var unsynchronized: Self {
        var machine = Self()
        machine.evidence = { nil }
        return machine
    }
}
