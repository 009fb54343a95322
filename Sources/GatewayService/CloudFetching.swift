import CloudSources
import GatewayCommands
import GatewaySettings
import Logging
import ServiceLifecycle

/// Fetches from the clouds of `cloud.every`, for as long as the gateway runs.
struct CloudFetching: Service {
    /// A moment for the gateway to come up.
    private static let pause: Duration = .seconds(2)
    /// How often it looks whether an account is due.
    private static let look: Duration = .seconds(60)

    let gateway: Gateway
    let interval: Duration
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var attempts: [CloudVendor: CloudAttempt] = [:]
            try await Task.sleep(for: Self.pause)
            while true {
                await fetch(&attempts)
                try await Task.sleep(for: Self.look)
            }
        }
    }

    private func fetch(_ attempts: inout [CloudVendor: CloudAttempt]) async {
        await gateway.fetchClouds(&attempts, every: interval) { vendor, result in
            switch result {
            case .success(let result):
                logger.info(
                    "fetched from a cloud",
                    metadata: [
                        "vendor": "\(vendor.rawValue)", "stored": "\(result.stored)", "revised": "\(result.revised)",
                    ])
                guard result.pruned > 0 else { return }
                logger.notice(
                    "readings that were pruned have changed in a cloud; their newer versions are not stored",
                    metadata: ["vendor": "\(vendor.rawValue)", "count": "\(result.pruned)"])
            case .failure(let problem):
                logger.warning(
                    "nothing more came from a cloud",
                    metadata: [
                        "vendor": "\(vendor.rawValue)", "code": "\(problem.code)", "problem": "\(problem.message)",
                    ])
            }
        }
    }
}
