import GatewayCommands
import GatewaySettings
import Logging
import ReadingStore
import ServiceLifecycle

/// Lets go each day of what is older than `store.keep` says.
struct RetentionService: Service {
    /// How long it waits after a start: whoever has just switched the gateway on wants other things of it.
    private static let delay: Duration = .seconds(300)
    private static let interval: Duration = .seconds(86_400)
    private static let retry: Duration = .seconds(3600)

    let gateway: Gateway
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var pause = Self.delay
            while (try? await Task.sleep(for: pause)) != nil {
                do {
                    let parts = try await gateway.thin { part in
                        logger.notice("let go of what is to be kept no longer", metadata: ["what": "\(part.line)"])
                    }
                    pause = parts == nil ? Self.retry : Self.interval
                } catch is CancellationError {
                    // What is left goes with the next start.
                } catch {
                    let words = Problem(describing: error)?.message ?? "\(error)"
                    logger.error("what is to be kept no longer stays", metadata: ["error": "\(words)"])
                    pause = Self.retry
                }
            }
        }
    }
}
