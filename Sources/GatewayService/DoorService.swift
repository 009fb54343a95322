import Foundation
import GatewayCommands
import LocalAccess
import Logging
import ServiceLifecycle

/// Keeps the door in order: forgets what is older than 90 days, and renews the certificate before it ends.
///
/// Both depend on what day it is and cannot be undone, so they wait for a clock that is proven.
struct DoorService: Service {
    /// How often it looks.
    static let interval: Duration = .seconds(3600)

    let door: AccessPoint
    let clock: GatewayClock
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                if await clock.isProven() { await look() }
                try await Task.sleep(for: Self.interval)
            }
        }
        try? await gracefulShutdown()
    }

    private func look() async {
        do {
            try await door.clients.prune(now: Date())
            switch try door.certificates?.update(now: Date()) {
            case .renewed: logger.notice("the certificate was renewed: clients must be paired again")
            case .restored:
                logger.notice("the previous certificate was restored: the newer one was made under a wrong clock")
            case nil: break
            }
        } catch {
            logger.warning("the list of clients or the certificate could not be written")
        }
    }
}
