import GATTClient
import HealthReadings
import LibDBus
import Logging

/// Discovery on the adapter in use: on while somebody listens and nobody connects.
///
/// BlueZ ties discovery to the connection, so that it is counted here: the first listener starts it, the last stops it.
/// A connection attempt holds it meanwhile, for the two disturb each other (`InProgress`, `le-connection-abort-by-local`).
/// Where it does not begin again afterwards, it is tried again until it does: a gateway that no longer listens looks like
/// one with nothing to hear.
actor Discovery {
    /// How often, and at what distance, discovery is tried to begin while something else is in progress: for 16 s, for
    /// the kernel goes on for ten with what a service that was killed had begun.
    private static let attempts = 80
    private static let pause: Duration = .milliseconds(200)
    /// After so many, an adapter that says it discovers is taken at its word.
    private static let doubtfulAttempts = 10

    private let link: ServiceLink
    private let limits: RadioLimits
    private let logger: Logger
    private let turn = Turn()
    private(set) var listeners = 0
    private var holds = 0
    private var running: ServiceLink.UsableAdapter?
    /// How often discovery had ended on the adapter when ours began.
    private var endsBefore = 0

    private var listened: Duration = .zero
    private var listeningSince: ContinuousClock.Instant?
    /// Settles again later. There is none while nobody listens.
    private var timer: Task<Void, Never>?
    /// How often in a row discovery could not begin.
    private var failures = 0

    init(link: ServiceLink, limits: RadioLimits, logger: Logger) {
        self.link = link
        self.limits = limits
        self.logger = logger
    }

    /// Whether discovery runs.
    var isRunning: Bool { running != nil }

    /// For how long discovery has run, all together: the clock that tells a device's silence from our own deafness.
    var listeningTime: Duration {
        listened + (listeningSince.map { $0.duration(to: .now) } ?? .zero)
    }

    /// Listens from here on; ``end()`` must follow where this does not throw.
    ///
    /// - Returns: the adapter that listens, or will when a connection attempt is over.
    func begin() async throws -> ServiceLink.UsableAdapter {
        listeners += 1
        var hasAdapter = false
        do {
            let usable = try await link.usableAdapter()
            hasAdapter = true
            // What is begun is ended in order, whatever becomes of the task that asked for it.
            try await shieldedFromCancellation { try await self.settle() }
            return usable
        } catch RadioError.noService where hasAdapter {
            // There was one.
            await end()
            throw RadioError.lost
        } catch {
            await end()
            throw error
        }
    }

    /// Listens no more.
    func end() async {
        listeners -= 1
        await shieldedFromCancellation { try? await self.settle() }
    }

    /// Is silent while the body runs.
    func hold<Result: Sendable>(_ body: @Sendable () async throws -> Result) async throws -> Result {
        await hold()
        // Nobody waits for discovery: a device that has just been connected may send, or leave, meanwhile.
        defer { release() }
        return try await body()
    }

    /// Is silent until ``release()``.
    func hold() async {
        holds += 1
        await shieldedFromCancellation { try? await self.settle() }
    }

    /// Listens again soon, where somebody wants it and nobody else holds it.
    func release() {
        holds -= 1
        Task { await settleOrTryAgain() }
    }

    /// Begins again where discovery ended without our doing (a controller that was reset).
    func check() async {
        guard let running, await link.fault(of: running) == nil,
            endsBefore != link.discoveryEnds.count(at: running.adapter.path)
        else { return }
        guard self.running != nil, holds == 0 else { return }
        logger.debug("discovery ended by itself")
        deafen()
        await settleOrTryAgain()
    }

    private var isWanted: Bool { listeners > 0 && holds == 0 }

    /// Whether discovery has run for so long that it begins anew: an adapter can fall silent without telling
    /// (bluez issues 367, 572, 1126 and 1554).
    private var isStale: Bool {
        listeningSince.map { $0.duration(to: .now) >= limits.listening } ?? false
    }

    private func settle() async throws {
        try await turn.take {
            defer { settleLater() }
            if let running, await !link.isRunning(running.service) { deafen() }
            if let running, await link.isSuperseded(running) || !isWanted || isStale { await stop(running) }
            guard isWanted, running == nil else { return }
            failures += 1
            try await start()
            failures = 0
        }
    }

    /// Settles; what fails is tried again later. A listener notices by itself that its adapter can be used no longer.
    private func settleOrTryAgain() async {
        do {
            try await shieldedFromCancellation { try await self.settle() }
        } catch {
            logger.debug("discovery could not begin", metadata: ["error": "\(error)"])
            if failures == 2 { logger.notice("discovery does not begin; it is tried until it does") }
        }
    }

    /// Settles again when discovery that could not begin is to be tried again, or what runs is to begin anew.
    private func settleLater() {
        timer?.cancel()
        timer = nil
        guard isWanted else { return }
        let pauses = limits.listenAgain
        let pause =
            listeningSince.map { limits.listening - $0.duration(to: .now) }
            ?? pauses[min(max(failures - 1, 0), pauses.count - 1)]
        timer = Task { [weak self] in
            guard (try? await Task.sleep(for: pause)) != nil else { return }
            await self?.settleOrTryAgain()
        }
    }

    private func start() async throws {
        let usable = try await link.usableAdapter()
        let connection = usable.service.connection
        let path = usable.adapter.path
        // By transport only: not every meter advertises its service. Forgotten when the service restarts, so told anew.
        let filter: [String: DBusValue] = ["Transport": .string("le"), "DuplicateData": .bool(false)]
        do {
            _ = try await connection.call(
                BlueZName.service, path, BlueZName.adapter, "SetDiscoveryFilter", [.properties(filter)])
        } catch {
            // An adapter without LE refuses the transport; one that is switched off refuses everything, and says so below.
            logger.debug("the discovery filter was refused", metadata: ["error": "\(error)"])
        }
        for attempt in 0... {
            do {
                _ = try await connection.call(BlueZName.service, path, BlueZName.adapter, "StartDiscovery")
                break
            } catch {
                guard let remote = RemoteError(error) else { throw error.radioError }
                if remote.isInProgress {
                    // Our own stop may still be under way; where it is not, discovery may run already.
                    if attempt >= Self.doubtfulAttempts, await isDiscovering(usable) { break }
                    if attempt < Self.attempts {
                        try await Task.sleep(for: Self.pause)
                        guard listeners > 0, holds == 0 else { return }
                        continue
                    }
                }
                if let fault = await link.fault(of: usable) { throw fault }
                if remote.isNotReady { throw RadioError.poweredOff(usable.adapter.name) }
                if remote.isVanished { throw RadioError.noAdapter(usable.adapter.name) }
                throw error.radioError
            }
        }
        endsBefore = link.discoveryEnds.count(at: path)
        running = usable
        listeningSince = .now
    }

    private func isDiscovering(_ usable: ServiceLink.UsableAdapter) async -> Bool {
        let answer = try? await usable.service.connection.call(
            BlueZName.service, usable.adapter.path, BlueZName.properties, "Get",
            [.string(BlueZName.adapter), .string("Discovering")])
        return answer?.first?.boolValue ?? false
    }

    private func stop(_ running: ServiceLink.UsableAdapter) async {
        deafen()
        do {
            _ = try await running.service.connection.call(
                BlueZName.service, running.adapter.path, BlueZName.adapter, "StopDiscovery")
        } catch {
            // It has ended by itself, or the adapter or the service has: all of these are what was wanted.
            logger.debug("discovery could not be stopped", metadata: ["error": "\(error)"])
        }
    }

    private func deafen() {
        listened = listeningTime
        listeningSince = nil
        running = nil
    }
}
