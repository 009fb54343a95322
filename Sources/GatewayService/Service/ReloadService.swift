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
                    let later = try await gateway.reload(settings)
                    logger.notice(
                        "the settings were read again",
                        metadata: later.isEmpty ? [:] : ["after_a_restart": "\(later.joined(separator: ", "))"])
                } catch {
                    logger.error(
                        "the settings could not be read again; those of before stay in force",
                        metadata: ["problem": "\((Problem(describing: error) ?? .unexpected(error)).message)"])
                }
                manager?.notify("READY=1")
            }
        }
    }
}
