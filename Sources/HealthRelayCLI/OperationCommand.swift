import ArgumentParser
import GatewayService
import HealthReadings
import ReadingStore
import UnixSignals

/// Runs what a command asks: in the gateway that owns the store where one answers, else in this process.
enum OperationCommand {
    static func run(_ operation: GatewayService.Operation, _ global: GlobalOptions) async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        try await run(OperationRequest(operation, json: global.json), global, settings, StandardOutput())
    }

    /// Runs a request whose output may be another's; logging has been started.
    static func run(
        _ request: OperationRequest, _ global: GlobalOptions, _ settings: Settings, _ output: any OperationOutput
    ) async throws {
        // A gateway that is starting holds the store before it listens, and another command holds it for a moment.
        let end = ContinuousClock.now + .seconds(3)
        while true {
            if let owner = try StateDirectory.owner(flag: global.stateDir) {
                return try await owner.run(request, output: output)
            }
            do {
                let gateway = try await Gateway.open(settings, state: StateDirectory(flag: global.stateDir))
                return try await gateway.run(request, output: output)
            } catch StoreError.locked where ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }
}

extension OperationCommand {
    /// Runs what goes on until somebody ends it: SIGINT and SIGTERM are how it is meant to end, with status 0.
    static func stream(_ operation: GatewayService.Operation, _ global: GlobalOptions) async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await run(operation, global) }
            group.addTask { for await _ in signals { return } }
            try await group.next()
            group.cancelAll()
        }
    }
}

/// Prints an operation's lines.
struct StandardOutput: OperationOutput {
    func data(_ line: String) { Terminal.data(line) }
    func note(_ line: String) { Terminal.error(line) }
}
