import GatewayCommands
import GatewaySettings
import Logging
import ServiceLifecycle
import UnixSignals

/// Reads the settings again on SIGHUP. The log level counts at once, the rest is the gateway's.
struct ReloadSignals: Service, CustomStringConvertible {
    let description = "settings"

    /// Settings as they are read again.
    let settings: AsyncStream<Settings>
    private let continuation: AsyncStream<Settings>.Continuation
    private let global: GlobalOptions
    private let flags: [String: String]
    private let logger: Logger

    init(global: GlobalOptions, flags: [String: String], logger: Logger) {
        (settings, continuation) = AsyncStream.makeStream()
        self.global = global
        self.flags = flags
        self.logger = logger
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in await UnixSignalsSequence(trapping: .sighup) {
                do {
                    let fresh = try global.settings(flags)
                    LogLevel.current = fresh.logLevel
                    continuation.yield(fresh)
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
