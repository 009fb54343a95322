import GatewayCommands
import ServiceLifecycle

/// Takes the settings of a fleet's centre back if the gateway cannot deliver with them.
struct FleetTrialService: Service {
    let desk: FleetSettingsDesk

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(15))
                await desk.check()
            }
        }
    }
}
