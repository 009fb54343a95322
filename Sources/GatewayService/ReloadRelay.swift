import GatewaySettings
import ServiceLifecycle
import Synchronization

/// Hands settings that are read again to the gateway that runs now: one that starts anew goes on with another stream.
final class ReloadRelay: Sendable {
    private let taker = Mutex<AsyncStream<Settings>.Continuation?>(nil)

    /// The stream for the next gateway; the one before ends.
    func stream() -> AsyncStream<Settings> {
        let (stream, continuation) = AsyncStream<Settings>.makeStream()
        taker.withLock { taker in
            taker?.finish()
            taker = continuation
        }
        return stream
    }

    /// Hands settings on.
    func hand(_ settings: Settings) { _ = taker.withLock(\.self)?.yield(settings) }
}

/// Ends when somebody wants the gateway to start anew.
struct RestartService: Service, CustomStringConvertible {
    let description = "restart"

    let requests: AsyncStream<Void>
    /// Told that somebody wants that.
    let want: @Sendable () -> Void

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in requests {
                want()
                return
            }
        }
    }
}
