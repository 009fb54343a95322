import ArgumentParser
import GatewayService
import HealthReadings

/// Runs what a command asks: in the gateway that owns the store where one answers, else in this process.
enum OperationCommand {
    static func run(_ operation: GatewayService.Operation, _ global: GlobalOptions) async throws {
        let request = OperationRequest(operation, json: global.json)
        let settings = try global.settings()
        global.startLogging(settings)
        if let owner = try StateDirectory.owner(flag: global.stateDir) {
            return try await owner.run(request, output: StandardOutput())
        }
        let gateway = try await Gateway.open(settings, state: StateDirectory(flag: global.stateDir))
        try await gateway.run(request, output: StandardOutput())
    }
}

/// Prints an operation's lines.
struct StandardOutput: OperationOutput {
    func data(_ line: String) { Terminal.data(line) }
    func note(_ line: String) { Terminal.error(line) }
}
