import ArgumentParser
import GatewayCommands
import GatewaySettings
import HealthReadings
import Logging

/// Runs what a command asks: in the gateway that owns the store where one answers, else in this process.
enum OperationCommand {
    static func run(
        _ operation: GatewayCommands.Operation, _ global: GlobalOptions, answers: AnswerSource = .terminal
    ) async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        // A recording is stored, whether or not its lines can be written.
        let isStream = if case .device(.record) = operation { false } else { operation.isEndless }
        let output = TerminalOutput(
            asJSON: global.json, answers: answers, isStream: isStream, hasVerdict: operation.hasVerdict)
        defer { output.clearProgress() }
        try await run(OperationRequest(operation, json: global.json), global, settings, output)
    }

    /// Runs a request whose output may be another's; logging has been started.
    static func run(
        _ request: OperationRequest, _ global: GlobalOptions, _ settings: Settings, _ output: any OperationOutput
    ) async throws {
        let stateDir = global.stateDir
        try await Interruption.endingBySignal(isEndless: request.operation.isEndless) {
            try await StoreWork.run(at: stateDir) { owner in
                try await owner.run(request, output: output)
            } here: { state in
                try await runHere(request, settings, state, output)
            } absent: { absence in
                guard case .doctor = request.operation else { throw absence }
                try await GatewayCommands.Doctor.examine(
                    settings, state: StateDirectory(flag: stateDir), absence: absence, json: request.json,
                    output: output)
            }
        }
    }

    private static func runHere(
        _ request: OperationRequest, _ settings: Settings, _ state: StateDirectory, _ output: any OperationOutput
    ) async throws {
        if case .doctor = request.operation {
            return try await GatewayCommands.Doctor.examine(settings, state: state, json: request.json, output: output)
        }
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
