import FleetDocuments
import Foundation
import GatewaySettings
import GuardedServer
import HealthReadings
import Logging
import ServiceLifecycle
import UnixSignals

/// An authority that serves until it is stopped.
package struct AuthorityRunner: Sendable {
    private let desk: AuthorityDesk
    private let listen: ListenAddress
    private let names: [String]
    private let users: BrokerUsers?
    private let logger: Logger

    package init(
        _ desk: AuthorityDesk, listen: ListenAddress, names: [String], users: BrokerUsers?, logger: Logger
    ) {
        self.desk = desk
        self.listen = listen
        self.names = names
        self.users = users
        self.logger = logger
    }

    /// Runs until SIGTERM or SIGINT, or until the task is cancelled.
    package func run(
        isStoppedBySignals: Bool = true, started: @escaping @Sendable (Int) async -> Void = { _ in }
    ) async throws {
        try await desk.refreshList()
        // A file that gateways can't be given is told at the start.
        _ = try desk.authorities()
        let identity = try AuthorityIdentity(desk.authority, names: names, at: desk.now())
        let (logger, listen) = (logger, listen)
        let server = AuthorityServer(desk: desk, identity: identity, listen: listen, logger: .quiet(logger))
        let service = server.service { port in
            var address = listen
            address.port = port
            logger.info("the authority is listening", metadata: ["address": "https://\(address)"])
            await started(port)
        }
        let upkeep = Upkeep(desk: desk, identity: identity, users: users, logger: logger)
        let group = ServiceGroup(
            configuration: .init(
                services: [.init(service: service), .init(service: upkeep)],
                gracefulShutdownSignals: isStoppedBySignals ? [.sigterm, .sigint] : [], logger: .quiet(logger)))
        try await group.run()
    }

    /// Keeps the revocation list young, renews the server's certificate, and tells the broker what it did not take.
    private struct Upkeep: Service {
        let desk: AuthorityDesk
        let identity: AuthorityIdentity
        let users: BrokerUsers?
        let logger: Logger

        /// How often the broker's users are looked at.
        private static let comparison = Duration.seconds(300)

        func run() async throws {
            try? await cancelWhenGracefulShutdown {
                var compared: ContinuousClock.Instant?
                while true {
                    // What fails keeps nothing else from being done.
                    await attempt { try await desk.refreshList() }
                    await attempt { try identity.refresh(at: desk.now()) }
                    if let users {
                        if compared.map({ $0.duration(to: .now) >= Self.comparison }) ?? true {
                            await attempt { try await desk.compare(users) }
                            compared = .now
                        }
                        await attempt { try await desk.settle(users) }
                    }
                    try await Task.sleep(for: .seconds(10))
                }
            }
        }

        private func attempt(_ body: () async throws -> Void) async {
            do { try await body() } catch {
                logger.error("the authority's upkeep failed", metadata: ["error": "\(error)"])
            }
        }
    }
}
