import GatewayCommands
import GatewaySettings
import Logging
import ServiceLifecycle

/// Takes settings in force that were read again while the gateway runs.
struct ReloadService: Service {
    let gateway: Gateway
    let reloads: AsyncStream<Settings>
    let manager: ServiceManager?
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await settings in reloads {
                manager?.notifyReloading()
                do {
                    let later = try await SettingsDesk(gateway).reload(settings).afterRestart
                    logger.notice(
                        "the settings were reloaded",
                        metadata: later.isEmpty ? [:] : ["after_a_restart": "\(later.joined(separator: ", "))"])
                } catch {
                    logger.error(
                        "cannot reload the settings; the previous ones stay in effect",
                        metadata: ["problem": "\((Problem(describing: error) ?? .unexpected(error)).message)"])
                }
                manager?.notify("READY=1")
            }
        }
    }
}
