import Foundation
import GATTClient
import GatewayCommands
import GatewaySettings
import GuardedServer
import HealthDevices
import HealthReadings
import Hummingbird
import LibDBus
import LocalAPI
import LocalAccess
import Logging
import NIOCore
import NIOPosix
import ReadingDelivery
import ReadingStore
import ServiceLifecycle
import Synchronization

/// `run`: the gateway as a service. Owns the store, listens on the control socket, shows the page, delivers, and takes
/// captures as its devices where it is told to.
public struct GatewayRunner: Service, CustomStringConvertible {
    /// The name in the messages of a group of services.
    public let description = "gateway"

    /// What a person in front of the gateway is told.
    public enum Announcement: Sendable {
        /// The page's address, and whether a browser needs a link to sign in there.
        case page(String, needsLink: Bool)
        /// The page's address, with a link that opens it: for a terminal, never for a log.
        case link(PageLink)
        /// The page's address, at which nobody has claimed the gateway yet.
        case unclaimed(String)
        /// A link with which one browser claims a new gateway: for a terminal, never for a log.
        case setup(PageLink)
        /// Nothing is delivered, and why.
        case notDelivering(String)
        /// How the radio stands, each time that changes.
        case bluetooth(AdapterState)
        /// How the NFC reader stands, each time that changes.
        case reader(SensorReaderState)
        /// A line of a reading's way, or a meter's.
        case way(String)
        /// These settings are in force from now on.
        case settings(Settings)
        /// The captures were read.
        case replayed(CaptureReplay.Report)
    }

    private let settings: Settings
    private let state: StateDirectory
    private let connection: @Sendable () async throws -> VitalConnection?
    private let named: [String]?
    private let fallbackUser: String?
    private let captures: [String]
    private let radio: RadioSource.Factory
    private let showsValues: Bool
    private let showsLink: Bool
    private let logger: Logger
    private let reloads: AsyncStream<Settings>
    private let announce: @Sendable (Announcement) -> Void

    /// - Parameters:
    ///   - settings: the settings.
    ///   - state: where the store and the control socket are.
    ///   - connection: a server to deliver to, as the destination `sandbox`, in place of the settings' destinations, once
    ///     it is known.
    ///   - named: the only destinations of the settings to deliver to; `nil`: all, or none beside a sandbox.
    ///   - fallbackUser: whose readings they are if neither the settings nor the store names anybody; `nil`: somebody's
    ///     without a name.
    ///   - captures: capture files to take as devices.
    ///   - radio: makes the radio.
    ///   - reloads: settings that are read again while it runs.
    ///   - showsLink: whether a link to the page with a one-time code is announced in place of its address: never where
    ///     it reaches a log.
    ///   - showsValues: whether announcements may hold readings and names of devices: never where they reach a log.
    ///   - logger: what happens.
    ///   - announce: takes what a person in front of the gateway is told.
    public init(
        settings: Settings, state: StateDirectory, captures: [String] = [],
        radio: @escaping RadioSource.Factory = RadioSource.system, showsValues: Bool, showsLink: Bool = false,
        logger: Logger, reloads: AsyncStream<Settings> = AsyncStream { $0.finish() }, named: [String]? = nil,
        fallbackUser: String? = nil, connection: @escaping @Sendable () async throws -> VitalConnection? = { nil },
        announce: @escaping @Sendable (Announcement) -> Void
    ) {
        self.settings = settings
        self.state = state
        self.connection = connection
        self.named = named
        self.fallbackUser = fallbackUser
        self.captures = captures
        self.radio = radio
        self.showsValues = showsValues
        self.showsLink = showsLink
        self.logger = logger
        self.reloads = reloads
        self.announce = announce
    }

    /// Closes the door to everything but the set-up until somebody has claimed the gateway.
    ///
    /// - Parameter isShown: whether it is a gateway that shows what recorded devices say, or delivers to a sandbox.
    private func askForOwner(_ door: AccessPoint, _ gateway: Gateway, isShown: Bool) async throws {
        guard !isShown, !door.trustsThisMachine, try await !door.clients.isClaimed() else { return }
        door.isClaimed = false
        // A gateway from before there was a set-up, or one that was set up by its commands.
        if try await gateway.hasHistory() { try await door.claim(by: "store") }
    }

    /// Names the current user if nobody else has. Whoever the store names stays: they are current again afterwards.
    private func nameUser(of gateway: Gateway) async throws {
        guard let fallbackUser, gateway.settings["user.client_user_id"] == nil, gateway.store.lockedBecause == nil,
            let user = try? await gateway.store.currentUser(), user.clientUserID.isEmpty
        else { return }
        try await gateway.store.setCurrentUser(fallbackUser, timeZone: user.timeZone)
    }

    /// Runs until a graceful shutdown.
    public func run() async throws {
        let relay = ReloadRelay()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [reloads] in for await settings in reloads { relay.hand(settings) } }
            defer { group.cancelAll() }
            var next: Life? = Life(settings: settings, captures: captures)
            while var life = next {
                if let backup = life.backup { life.outcome = await putBack(backup, life.settings) }
                next = try await run(life, relay.stream())
            }
        }
    }

    /// What a gateway starts with; one that starts anew has the settings of then, and no captures to replay again.
    private struct Life {
        var settings: Settings
        /// Whether the file has others, which cannot be used: they were refused while it ran.
        var isFixed = false
        var captures: [String] = []
        /// The port that the one before has listened on.
        var port: Int?
        /// What the store is made of before it starts.
        var backup: RestoreDesk.Pending?
        /// How that ended.
        var outcome: RestoreDesk.Outcome?
    }

    /// Makes the store of a backup, while no gateway runs.
    private func putBack(_ backup: RestoreDesk.Pending, _ settings: Settings) async -> RestoreDesk.Outcome {
        defer { unlink(backup.path) }
        let manager = ServiceManager()
        return await withTaskGroup(of: Void.self) { group in
            if let manager, let interval = manager.watchdog {
                group.addTask {
                    while (try? await Task.sleep(for: interval / 2)) != nil { manager.notify("WATCHDOG=1") }
                }
            }
            defer { group.cancelAll() }
            do {
                let statistics = try await Gateway.importing(
                    backup.path, passphrase: backup.passphrase, settings, state: state, logger: logger)
                logger.notice("a backup was put back", metadata: ["frames": "\(statistics.frames)"])
                return .done(readings: statistics.readings.values.reduce(0, +))
            } catch {
                let problem =
                    Problem(describing: error) ?? Problem("unexpected", .ourFault, "something unexpected happened")
                logger.error("a backup could not be put back", metadata: ["error": "\(problem.code)"])
                return .failed(problem)
            }
        }
    }

    /// Runs a gateway until its end.
    ///
    /// - Returns: what the next one starts with; `nil`: there is none.
    private func run(_ life: Life, _ reloads: AsyncStream<Settings>) async throws -> Life? {
        let sandbox = try await connection()
        let manager = ServiceManager()
        guard let gateway = try await open(life, sandbox, manager) else { return nil }
        try await nameUser(of: gateway)
        // Another process may have changed the settings while this one waited for the store.
        let door = try AccessPoint(
            gateway.settings, directory: state.path, port: life.port, logger: logger,
            time: { Date(timeIntervalSince1970: TimeInterval(await gateway.clock.judgingTime().seconds)) })
        gateway.door = door
        gateway.removeStraySecrets()
        await gateway.restores.begin(after: life.outcome)
        try await askForOwner(door, gateway, isShown: sandbox != nil || !life.captures.isEmpty)
        gateway.onSettings { [announce] in announce(.settings($0)) }
        for message in gateway.destinations.undelivered { announce(.notDelivering(message)) }

        var services = try services(of: gateway, door, manager, life.captures, reloads)
        let isAnew = Mutex(false)
        let restarts = gateway.restartRequests()
        if let fleet = gateway.fleet {
            // Before anything connects: the centre's first answer already tells whether its settings are good.
            await fleet.attach(gateway)
            services.append(FleetTrialService(desk: fleet))
        }
        let group = ServiceGroup(
            configuration: .init(
                services: services.map { .init(service: LastingService(service: $0)) } + [
                    .init(
                        service: RestartService(requests: restarts) { isAnew.withLock { $0 = true } },
                        successTerminationBehavior: .gracefullyShutdownGroup)
                ], logger: .quiet(logger)))
        do {
            try await withGracefulShutdownHandler {
                try await group.run()
            } onGracefulShutdown: {
                manager?.notify("STOPPING=1")
            }
        } catch {
            await door.close()
            try? await gateway.close()
            throw error
        }
        unlink(state.socket)
        await door.close()
        let next = try? gateway.settings.readAgain()
        let backup = await gateway.restores.pending
        try await gateway.close()
        return isAnew.withLock(\.self)
            ? Life(settings: next ?? gateway.settings, isFixed: next == nil, port: door.port, backup: backup) : nil
    }

    /// Opens the gateway; `nil` if it is stopped before it is open.
    private func open(_ life: Life, _ sandbox: VitalConnection?, _ manager: ServiceManager?) async throws -> Gateway? {
        let narration = StartNarration(manager, logger)
        do {
            // What tells of a store that is made one of this version also asks for more time, of a manager that stops the
            // gateway too: it has to end by itself, and the next start goes on.
            let gateway: Gateway = try await cancelWhenGracefulShutdown { [state, named, radio, logger] in
                try await WorkProgress.following { progress in
                    try await Gateway.open(
                        life.settings, state: state, sandbox: sandbox, named: named, radio: radio, isService: true,
                        isFixed: life.isFixed, patience: .seconds(5), logger: logger, progress: progress)
                } tell: {
                    narration.tell($0)
                }
            }
            return gateway
        } catch is CancellationError {
            return nil
        }
    }

    /// What runs together. The last to come is the first to be stopped.
    private func services(
        of gateway: Gateway, _ door: AccessPoint, _ manager: ServiceManager?, _ captures: [String],
        _ reloads: AsyncStream<Settings>
    ) throws -> [any Service] {
        let settings = gateway.settings
        let narrator = Narrator(showsValues: showsValues) { [announce] in announce(.way($0)) }
        let (hub, counters) = (APIEventHub(), RequestCounters())
        let (isUp, isUpForBackups) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
        let page = page(of: gateway, door, hub, counters, manager) {
            isUp.continuation.finish()
            isUpForBackups.continuation.finish()
        }
        let control = ControlServer.application(
            path: state.socket, mode: state.socketMode, gateway: gateway, logger: .quiet(logger))
        // The control socket listens before the page does: who is told that the gateway is up can use it.
        var services: [any Service] = [
            NamedService(control, state.socket), NamedService(page, "the page on \(door.listen)"),
            EventFeed(
                hub: hub, store: gateway.store, workers: gateway.destinations.workers,
                manager: try? gateway.requireManager()),
            DoorService(door: door, clock: gateway.clock, logger: logger),
            ReloadService(gateway: gateway, reloads: reloads, manager: manager, logger: logger),
            FilesRewriting(store: gateway.store, isUp: isUp.stream, logger: logger),
            RetentionService(gateway: gateway, logger: logger),
            DiskWatch(store: gateway.store, logger: logger),
            MemoryService(store: gateway.store),
        ]
        if settings.destinations.contains(where: { $0.kind == .fleet }) {
            services.append(EnrolmentService(gateway: gateway, logger: logger))
        }
        if settings.backup != nil {
            services.append(BackupService(gateway: gateway, isUp: isUpForBackups.stream, logger: logger))
        }
        if let manager, let interval = manager.watchdog {
            services.append(
                WatchdogService(manager: manager, interval: interval, logger: logger) { [store = gateway.store] in
                    _ = try await store.newestContact()
                })
        }
        if door.certificates != nil {
            services.append(
                ServiceAnnouncement(
                    bus: .system, port: { door.port }, name: "HealthRelay on \(AccessPoint.hostName)", logger: logger))
        }
        for worker in gateway.destinations.workers {
            services.append(EventTeller(events: worker.events(), narrator: narrator))
            services.append(worker)
        }
        if gateway.store.lockedBecause != nil { services.append(KeyWatch(gateway: gateway, logger: logger)) }
        if !captures.isEmpty {
            services.append(
                ReplayService(gateway: gateway, captures: captures, narrator: narrator, announce: announce))
        }
        return services + (try sources(of: gateway, settings, hub, counters, narrator))
    }

    /// What brings readings. A meter is let go before anything else is stopped.
    private func sources(
        of gateway: Gateway, _ settings: Settings, _ hub: APIEventHub, _ counters: RequestCounters, _ narrator: Narrator
    ) throws -> [any Service] {
        var services: [any Service] = []
        if let meters = try? gateway.requireManager() {
            services.append(
                MeterService(manager: meters, clock: gateway.clock, narrator: narrator, announce: announce) { event in
                    hub.post(event)
                    if case .failed(_, let failure, _) = event { counters.count(failure: failure.code) }
                })
            let recorded = settings.recordedDevices
            if !recorded.isEmpty {
                services.append(RecordingService(gateway: gateway, addresses: recorded, narrator: narrator))
            }
        }
        if let interval = settings.cloudInterval {
            services.append(CloudFetching(gateway: gateway, interval: interval, logger: logger))
        }
        if let name = settings["nfc.reader"] {
            services.append(
                SensorService(
                    gateway: gateway, desk: try gateway.sensors.desk(), name: name, narrator: narrator
                ) { [announce] in announce(.reader($0)) })
        }
        return services
    }

    /// The page, which tells the person in front of the gateway and the service manager once it is up.
    private func page(
        of gateway: Gateway, _ door: AccessPoint, _ hub: APIEventHub, _ counters: RequestCounters,
        _ manager: ServiceManager?, isUp: @escaping @Sendable () -> Void
    ) -> some Service {
        let server = LocalServer(
            gateway: gateway, door: door, hub: hub, counters: counters,
            isLocked: { gateway.store.lockedBecause != nil }, logger: .quiet(logger))
        return server.service { [announce, showsLink] address in
            let needsLink = !door.trustsThisMachine
            if !door.isClaimed {
                let link = showsLink ? try? await door.setupLink() : nil
                announce(link.map { .setup($0) } ?? .unclaimed(address))
            } else {
                announce(
                    showsLink && needsLink
                        ? .link(door.pageLink(now: Date())) : .page(address, needsLink: needsLink))
            }
            manager?.notify("READY=1", "STATUS=The page is at \(address)")
            isUp()
        }
    }
}

/// A service that has done what it had to and stays until it is its turn to be stopped: while a group stops its services
/// one by one, it takes another one's end for a failure.
private struct LastingService: Service, CustomStringConvertible {
    let service: any Service
    /// The name in the group's messages. Of a service without one the group prints all that it holds.
    let description = "service"

    func run() async throws {
        try await service.run()
        try? await gracefulShutdown()
    }
}

/// A server whose failure to listen names what it wanted to listen on.
private struct NamedService: Service {
    let service: any Service
    let place: String

    init(_ service: any Service, _ place: String) {
        self.service = service
        self.place = place
    }

    func run() async throws {
        do {
            try await service.run()
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw Problem(
                "port_in_use", .unavailable, "cannot listen for \(place): the address is in use",
                hint: "stop the other program, or choose another `http.listen`")
        } catch let error as IOError {
            throw Problem(
                "cannot_listen", .unavailable,
                "cannot listen for \(place): \(String(cString: strerror(error.errnoCode)))")
        } catch let error as SocketAddressError.UnknownHost {
            throw Problem(
                "cannot_listen", .unavailable, "cannot listen for \(place): there is no host \(error.host)",
                hint: "set `http.listen` to an address of this machine")
        } catch is UnixDomainSocketPathWrongType {
            throw Problem(
                "control_socket_unusable", .cannotCreate,
                "cannot listen on the control socket \(place): something that is no socket is in its place",
                hint: "move it away, or choose another directory with --state-dir")
        } catch let error as SocketAddressError {
            throw Problem("cannot_listen", .unavailable, "cannot listen for \(place): \(error)")
        }
    }
}

/// Looks for a key that is missing until it is there, and then tells the store of the destinations: a locked store takes no
/// word of them.
private struct KeyWatch: Service {
    let gateway: Gateway
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var failure: String?
            while true {
                do {
                    try await gateway.store.requireKeys()
                    try await gateway.destinations.heed()
                    return
                } catch {
                    let words = Problem(describing: error)?.message ?? "\(error)"
                    // The store tells of the key itself.
                    if gateway.store.lockedBecause == nil, words != failure, !Task.isCancelled {
                        logger.error(
                            "the destinations are not as the settings say yet", metadata: ["error": "\(words)"])
                        failure = words
                    }
                    guard (try? await Task.sleep(for: .seconds(10))) != nil else { return }
                }
            }
        }
    }
}

/// Tells the narrator what delivery does.
private struct EventTeller: Service {
    let events: AsyncStream<SyncEvent>
    let narrator: Narrator

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await event in events { await narrator.delivery(event) }
        }
    }
}

/// Reads captures once.
private struct ReplayService: Service {
    let gateway: Gateway
    let captures: [String]
    let narrator: Narrator
    let announce: @Sendable (GatewayRunner.Announcement) -> Void

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown {
                let report = try await CaptureReplay(captures).run(with: gateway.reader()) { event in
                    guard case .stored(let outcomes) = event else { return }
                    for outcome in outcomes { await narrator.stored(outcome) }
                }
                announce(.replayed(report))
            }
        } catch is CancellationError {
            // Stopped in the middle: what was read is stored, the rest is still in the captures.
        }
    }
}
