import ArgumentParser
import GatewayCommands
import GatewaySettings
import HealthReadings
import Logging
import ReadingStore

/// Runs what a command asks: in the gateway that owns the store where one answers, else in this process.
enum OperationCommand {
    static func run(
        _ operation: GatewayCommands.Operation, _ global: GlobalOptions, answers: AnswerSource = .terminal
    ) async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        // A recording is stored, whether or not its lines can be written.
        let isStream = if case .device(.record) = operation { false } else { operation.isEndless }
        let output = TerminalOutput(asJSON: global.json, answers: answers, isStream: isStream)
        defer { output.clearProgress() }
        try await run(OperationRequest(operation, json: global.json), global, settings, output)
    }

    /// Runs a request whose output may be another's; logging has been started.
    static func run(
        _ request: OperationRequest, _ global: GlobalOptions, _ settings: Settings, _ output: any OperationOutput
    ) async throws {
        let stateDir = global.stateDir
        try await Interruption.endingBySignal(isEndless: request.operation.isEndless) {
            // A gateway that is starting holds the store before it listens, and another command holds it for a moment.
            let end = ContinuousClock.now + .seconds(3)
            while true {
                if let owner = try StateDirectory.owner(flag: stateDir) {
                    return try await owner.run(request, output: output)
                }
                let absence = StateDirectory.absentService(flag: stateDir)
                if absence != nil, ContinuousClock.now < end {
                    // One that starts anew is away for a moment.
                    try await Task.sleep(for: .milliseconds(50))
                    continue
                }
                let state = StateDirectory(flag: stateDir)
                if case .doctor = request.operation {
                    return try await GatewayCommands.Doctor.examine(
                        settings, state: state, absence: absence, json: request.json, output: output)
                }
                if let absence { throw absence }
                do {
                    return try await runHere(request, settings, state, output)
                } catch StoreError.locked where ContinuousClock.now < end {
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
        }
    }

    private static func runHere(
        _ request: OperationRequest, _ settings: Settings, _ state: StateDirectory, _ output: any OperationOutput
    ) async throws {
        let gateway = try await output.following { try await Gateway.open(settings, state: state, progress: $0) }
        do {
            try await gateway.run(request, output: output)
        } catch {
            try? await gateway.close()
            throw error
        }
        try await gateway.close()
    }
}
