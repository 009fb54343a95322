import GatewayCommands
import GatewaySettings
import HealthReadings
import Logging
import ServiceLifecycle

/// Renews the certificates of the fleets that the gateway has enrolled in.
struct EnrolmentService: Service {
    /// How often it looks whether one is due, at least. A machine that sleeps, or a clock that is put right, needs no other care.
    private static let look: Duration = .seconds(300)

    let gateway: Gateway
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                // A certificate must not be judged by a clock that nobody has set.
                if await gateway.clockProblem() == nil { await renew() }
                let wait = await gateway.waitForRenewal(atMost: Self.look)
                guard (try? await Task.sleep(for: wait)) != nil else { return }
            }
        }
    }

    private func renew() async {
        for (destination, failure) in await gateway.renewEnrolments() {
            if let failure {
                logger.error(
                    "the fleet's certificate was not renewed",
                    metadata: ["destination": "\(destination)", "error": "\(failure.message)"])
            } else {
                logger.notice("the fleet's certificate was renewed", metadata: ["destination": "\(destination)"])
            }
        }
    }
}
