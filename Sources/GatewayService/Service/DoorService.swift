import Foundation
import Logging
import ServiceLifecycle

/// Keeps the door in order: forgets what is older than 90 days, and renews the certificate before it ends.
struct DoorService: Service {
    /// How often it looks.
    static let interval: Duration = .seconds(43_200)

    let door: AccessPoint
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    try await door.clients.prune(now: Date())
                    if try door.certificates?.renewIfDue(now: Date()) ?? false {
                        logger.notice("the certificate was renewed: clients are to be paired again")
                    }
                } catch {
                    logger.warning("the list of clients or the certificate could not be written")
                }
                try await Task.sleep(for: Self.interval)
            }
        }
        try? await gracefulShutdown()
    }
}
