import AMQPLink
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import GuardedServer
import HealthReadings
import Logging
import ServiceLifecycle
import UnixSignals

/// A collector that runs until it is stopped: the ingest, and the queue where there is a broker.
package struct CollectorRunner: Sendable {
    private let settings: CollectorSettings
    private let directory: String
    private let logger: Logger

    package init(_ settings: CollectorSettings, directory: String, logger: Logger) {
        self.settings = settings
        self.directory = directory
        self.logger = logger
    }

    /// Runs until SIGTERM or SIGINT, or until the task is cancelled.
    ///
    /// - Parameters:
    ///   - isStoppedBySignals: whether the process' signals end it.
    ///   - started: told the ingest's port once it listens.
    package func run(
        isStoppedBySignals: Bool = true, started: @escaping @Sendable (Int) async -> Void = { _ in }
    ) async throws {
        // Only the store in SQLite makes the folder, and the certificate lives there with every store.
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let store = try settings.store(directory: directory)
        try await prepare(store)
        let identity = try IngestIdentity(settings, directory: directory)
        let logger = logger
        let desk = DocumentDesk(store: store, keys: try settings.openingKeys(), logger: logger)
        let queue = try settings.queuePlan().map { QueueReader($0, desk: desk, logger: logger) }
        let revocations = Revocations(settings, logger: logger)
        revocations?.refresh()
        let metrics = CollectorMetrics(
            store: store, counters: desk.counters, silentAfterMinutes: settings.silentAfterMinutes,
            isQueueConnected: { queue?.isConnected }, isQueueBlocked: { queue?.isBlocked ?? false },
            revocations: { revocations?.standing() })
        let server = IngestServer(
            desk: desk, metrics: metrics, identity: identity, listen: settings.listen, logger: logger,
            pageToken: try settings.pageTokenFile.map(CollectorSettings.secret), revocations: revocations)
        let listen = settings.listen
        let ingest = server.service { port in
            var address = listen
            address.port = port
            logger.info(
                "listening", metadata: ["address": "https://\(address)", "certificate": "\(identity.certificateFile)"])
            await started(port)
        }
        var services: [any Service] = [ingest, IdentityRefresh(identity: identity, logger: logger)]
        if let queue { services.append(queue) }
        let group = ServiceGroup(
            configuration: .init(
                services: services.map { .init(service: $0) },
                gracefulShutdownSignals: isStoppedBySignals ? [.sigterm, .sigint] : [], logger: .quiet(logger)))
        do { try await group.run() } catch {
            await store.close()
            throw error
        }
        await store.close()
    }

    /// Waits for a database that is away: the machines of a fleet may start in any order.
    private func prepare(_ store: any CentralStore) async throws {
        while true {
            do { return try await store.prepare() } catch {
                guard error.isTemporary else { throw error }
                logger.warning("the store is away; trying again", metadata: ["error": "\(error)"])
                try await Task.sleep(for: .seconds(3))
            }
        }
    }
}

/// Renews the ingest's certificate in time, and takes files that the owner renewed.
private struct IdentityRefresh: Service {
    let identity: IngestIdentity
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(3600))
                do { try identity.refresh() } catch {
                    logger.error("the certificate wasn't refreshed", metadata: ["error": "\(error)"])
                }
            }
        }
    }
}

extension CollectorSettings {
    /// The state directory for a flag's value; without one systemd's, else the person's own.
    package static func stateDirectory(
        flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        if let flag { return flag }
        // An empty variable counts as not set.
        let environment = environment.filter { !$0.value.isEmpty }
        if let systemd = environment["STATE_DIRECTORY"] { return String(systemd.prefix { $0 != ":" }) }
        let home = environment["HOME"] ?? "/root"
        return (environment["XDG_STATE_HOME"] ?? home + "/.local/state") + "/healthrelay-collector"
    }

    /// The store that the settings name.
    package func store(directory: String) throws -> any CentralStore {
        if let postgreSQL {
            return PostgreSQLCentralStore(
                address: postgreSQL, password: try postgreSQLPasswordFile.map(Self.secret))
        }
        return try SQLiteCentralStore(directory: directory)
    }

    /// What opens sealed batches.
    func openingKeys() throws -> [OpeningKey] {
        guard let sealKeyFile else { return [] }
        do { return [try OpeningKey(pem: try Self.secret(sealKeyFile))] } catch let error as FleetDocumentError {
            throw Problem("settings_invalid", .configuration, "\(sealKeyFile): \(error)")
        }
    }

    /// How the queues are read; `nil`: there is no broker.
    func queuePlan() throws(Problem) -> QueueReader.Plan? {
        guard !brokers.isEmpty else { return nil }
        var credentials = AMQPBroker.Credentials.certificate
        if let brokerUser {
            guard let brokerPasswordFile else {
                throw Problem("settings_invalid", .configuration, "queue: username needs password_file")
            }
            credentials = .password(user: brokerUser, password: try Self.secret(brokerPasswordFile))
        }
        var plan = QueueReader.Plan(
            brokers: brokers.compactMap { BrokerAddress($0) }.map { address in
                AMQPBroker(
                    host: address.host, port: address.port, virtualHost: virtualHost, credentials: credentials,
                    tls: address.isSecure
                        ? brokerAuthorityFile.map {
                            .init(
                                authorityFile: $0, certificateFile: brokerCertificateFile,
                                privateKeyFile: brokerPrivateKeyFile)
                        } : nil)
            })
        (plan.readings, plan.status) = (readingsQueue, statusQueue)
        (plan.groupSize, plan.prefetch) = (groupSize, prefetch)
        return plan
    }
}
