import GatewayCommands
import GatewaySettings
import HealthReadings
import Logging
import ReadingStore
import ServiceLifecycle

/// Makes a backup whenever one is due.
struct BackupService: Service {
    /// How often it looks whether one is due. A machine that sleeps, or a clock that is put right, needs no other care.
    private static let look: Duration = .seconds(60)
    /// How long it waits after a backup that could not be made, in looks.
    private static let pause = 15

    let gateway: Gateway
    /// Ends when the gateway is up.
    let isUp: AsyncStream<Void>
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in isUp {}
            var (pause, failure): (Int, String?) = (0, nil)
            while !Task.isCancelled {
                if pause > 0 {
                    pause -= 1
                } else {
                    do {
                        if let backup = try await backUpIfDue() {
                            logger.notice(
                                "a backup was made", metadata: ["file": "\(backup.name)", "octets": "\(backup.octets)"])
                        }
                        failure = nil
                    } catch is CancellationError {
                        return
                    } catch {
                        guard !Task.isCancelled else { return }
                        let words = Problem(describing: error)?.message ?? "\(error)"
                        // Told once; `doctor` says how old the newest one is.
                        if words != failure { logger.error("no backup was made", metadata: ["error": "\(words)"]) }
                        (failure, pause) = (words, Self.pause)
                    }
                }
                guard (try? await Task.sleep(for: Self.look)) != nil else { return }
            }
        }
    }

    private func backUpIfDue() async throws -> BackupFolder.Backup? {
        // A store that is locked has nothing to back up with.
        guard gateway.store.lockedBecause == nil, await gateway.clockProblem() == nil else { return nil }
        let folder = try await gateway.backupFolder()
        let now = await gateway.clock.judgingTime()
        guard try await folder.due(after: folder.backups(), now: now) <= now else { return nil }
        return try await gateway.backUp()
    }
}
