import Logging
import ReadingStore
import ServiceLifecycle

/// Ends an erasure that was cut short, once the gateway is up: it takes as long as the disk needs to write the whole store,
/// longer than a service manager waits for a start.
struct FilesRewriting: Service {
    let store: ReadingStore
    /// Ends when the gateway is up.
    let isUp: AsyncStream<Void>
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in isUp {}
            guard !Task.isCancelled else { return }
            do { try await store.finishErasure() } catch is CancellationError {
                // The next start goes on.
            } catch {
                logger.warning("erased octets may still be in the store's files", metadata: ["error": "\(error)"])
            }
        }
        try? await gracefulShutdown()
    }
}
