import Foundation
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle

/// A Vital-compatible server on loopback with real persistence, to develop, demonstrate and test against.
///
/// It answers users, connected sources, links, sign-in tokens and sessions, summaries, and the time series glucose,
/// blood_pressure, blood_oxygen, temperature, heartrate and heartrate_variability as the Vital API does, validation
/// errors included, keeps what it acknowledged (a 200 follows the durable commit), replaces a sample of the same
/// (user, resource, provider, type, time), and refuses a post whose provider is no connected source of the user.
/// The inspection endpoints under `/sandbox` show what it holds: `users`, `samples` and `posts` with
/// `after` and `limit`, and `POST /sandbox/users/{user_id}/sources/{slug}/status` sets a source paused, error or
/// connected. Every answer is JSON, except the page that a link's `link_web_url` opens.
///
/// ```swift
/// let sandbox = try SandboxServer(configuration: .init(storage: .directory("/tmp/sandbox")), logger: logger)
/// let running = Task { try await sandbox.run() }
/// let client = SomeClient(baseURL: try await sandbox.address().baseURL, apiKey: SandboxConfiguration.fixedKey)
/// ```
public final class SandboxServer: Service {
    /// How long requests under way may finish after a graceful shutdown began; then connections are closed.
    static let shutdownGrace: Duration = .seconds(1)

    private let configuration: SandboxConfiguration
    private let logger: Logger
    private let store: SandboxStore
    private let recorder: BodyRecorder?
    private let listening = ListeningAddress()

    /// Opens the storage; the port is bound by ``run()``.
    /// - Throws: ``SandboxError`` when the data or the folder for recorded bodies cannot be opened.
    public init(configuration: SandboxConfiguration, logger: Logger) throws(SandboxError) {
        self.configuration = configuration
        self.logger = logger
        store = try SandboxStore(configuration.storage, tellsEvents: configuration.webhook != nil)
        if let directory = configuration.recordBodies {
            recorder = try BodyRecorder(directory: directory, logger: logger)
        } else {
            recorder = nil
        }
    }

    /// The address bound, as soon as requests are accepted.
    /// - Throws: the ``SandboxError`` that kept the server from listening, or `CancellationError`.
    public func address() async throws -> SandboxAddress { try await listening.value() }

    /// Serves until a graceful shutdown or cancellation. One object runs once.
    /// - Throws: ``SandboxError/portInUse(port:)`` or ``SandboxError/cannotListen(port:reason:)``.
    public func run() async throws {
        do {
            try await serve()
            await listening.settle(.failure(.stopped))
        } catch let error as IOError {
            let port = configuration.port
            let failure: SandboxError =
                error.errnoCode == EADDRINUSE
                ? .portInUse(port: port) : .cannotListen(port: port, reason: String(cString: strerror(error.errnoCode)))
            await listening.settle(.failure(failure))
            throw failure
        } catch {
            await listening.settle(.failure(.stopped))
            throw error
        }
    }

    private func serve() async throws {
        let application = application()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await application.run()
                return false
            }
            if let webhook = configuration.webhook {
                let sender = WebhookSender(webhook: webhook, store: store, logger: logger)
                group.addTask {
                    try await sender.run()
                    return false
                }
            }
            group.addTask {
                // A client that stops in the middle of a request would hold the shutdown for ever.
                try await gracefulShutdown()
                try await Task.sleep(for: Self.shutdownGrace)
                return true
            }
            let timedOut = try await group.next()
            group.cancelAll()
            guard timedOut == true else { return }
            logger.info("requests under way were cut off at shutdown")
            while let result = await group.nextResult() {
                if case .failure(let error) = result, !(error is CancellationError) { throw error }
            }
        }
    }

    private func application() -> some ApplicationProtocol {
        let bodies = BodyReader(
            maximumOctets: configuration.maximumBodyOctets,
            maximumInflatedOctets: configuration.maximumInflatedOctets, recorder: recorder)
        let router = Router(context: SandboxContext.self)
        router.add(middleware: AnswerMiddleware(logger: logger))
        if let plan = configuration.faults {
            router.add(middleware: FaultMiddleware(plan: plan, dice: FaultDice(plan)))
        }
        router.add(middleware: APIKeyMiddleware(accepted: configuration.apiKeys, store: store))
        UserRoutes(store: store, bodies: bodies).add(to: router)
        TimeseriesRoutes(
            store: store, bodies: bodies, maximumItems: configuration.maximumItems, pageSize: configuration.pageSize
        ).add(to: router)
        SummaryRoutes(store: store, bodies: bodies, maximumItems: configuration.maximumItems).add(to: router)
        SessionRoutes(store: store, bodies: bodies, lifetime: configuration.accessTokenLifetime).add(to: router)
        let listening = listening
        LinkRoutes(
            store: store, bodies: bodies, lifetime: configuration.linkLifetime,
            address: { try await listening.value() }
        ).add(to: router)
        InspectionRoutes(store: store, bodies: bodies).add(to: router)
        return Application(
            router: router,
            server: .http1(configuration: .init(idleTimeout: .seconds(60))),
            configuration: .init(address: .hostname("127.0.0.1", port: configuration.port), serverName: nil),
            onServerRunning: { channel in
                guard let port = channel.localAddress?.port else { return }
                await listening.settle(.success(SandboxAddress(host: "127.0.0.1", port: port)))
            },
            logger: logger)
    }
}
