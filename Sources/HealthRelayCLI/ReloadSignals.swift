import GatewayCommands
import GatewaySettings
import Logging
import ServiceLifecycle
import UnixSignals

/// Reads the settings again on SIGHUP. Whether they can be used is the gateway's to say.
struct ReloadSignals: Service, CustomStringConvertible {
    let description = "settings"

    /// Settings as they are read again.
    let settings: AsyncStream<Settings>
    private let continuation: AsyncStream<Settings>.Continuation
    private let first: Settings
    private let logger: Logger

    init(_ first: Settings, logger: Logger) {
        (settings, continuation) = AsyncStream.makeStream()
        self.first = first
        self.logger = logger
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in await UnixSignalsSequence(trapping: .sighup) {
                do {
                    continuation.yield(try first.readAgain())
                } catch {
                    let problem = Problem(describing: error) ?? .unexpected(error)
                    logger.error(
                        "cannot reload the settings; the previous ones stay in effect",
                        metadata: ["problem": "\(problem.message)"])
                }
            }
        }
        continuation.finish()
    }
}
