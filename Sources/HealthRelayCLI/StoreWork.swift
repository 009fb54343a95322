import GatewayCommands
import GatewaySettings
import ReadingStore

/// Does what needs a store: in the gateway that owns it where one answers, else in this process.
enum StoreWork {
    /// Does it once, wherever that is.
    ///
    /// - Parameters:
    ///   - stateDir: the directory that the command names.
    ///   - inGateway: asks the gateway.
    ///   - here: opens the store itself, as its owner. It is called again while another process holds the store, for three seconds.
    ///   - absent: what is done where the store is that of a service which does not answer; its problem is thrown by default.
    static func run(
        at stateDir: String?, inGateway: @Sendable (ControlClient) async throws -> Void,
        here: @Sendable (StateDirectory) async throws -> Void,
        absent: @Sendable (Problem) async throws -> Void = { throw $0 }
    ) async throws {
        // A gateway that is starting holds the store before it listens, one that starts anew is away for a moment, and another
        // command holds the store for as long.
        let end = ContinuousClock.now + .seconds(3)
        while true {
            if let owner = try StateDirectory.owner(flag: stateDir) { return try await inGateway(owner) }
            if let absence = StateDirectory.absentService(flag: stateDir) {
                guard ContinuousClock.now < end else { return try await absent(absence) }
            } else {
                let state = StateDirectory(flag: stateDir)
                do {
                    return try await StoreOwner.acting(at: state.path) { try await here(state) }
                } catch StoreError.locked where ContinuousClock.now < end {}
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
