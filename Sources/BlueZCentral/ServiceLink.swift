import GATTClient
import HealthReadings
import LibDBus
import Logging

/// The process' one connection to the bus and the Bluetooth service behind it: lost, looked for again, found.
///
/// Nothing is asked for while nobody needs it: the first use opens the connection, and from then on it is kept.
actor ServiceLink {
    /// A running service. Another process that takes its place is another incarnation.
    struct Service: Sendable {
        let connection: DBusConnection
        let owner: String
        let incarnation: Int
    }

    private enum State {
        case starting
        case unusable(RadioError)
        case running(Service)
        case closed
    }

    private enum Event {
        case owner(String)
        case added(String, [String: DBusValue])
        case removed(String)
        case changed(String, PropertyChange)
    }

    static let firstDelay: Duration = .milliseconds(200)
    static let longestDelay: Duration = .seconds(30)

    let logger: Logger
    /// The adapters of the running service by their paths.
    var adapters: [String: AdapterObject] = [:]
    /// The adapter in use; it stays in use while it can be, and ``home`` can't.
    var chosen: String?
    /// The address of the adapter that is used whenever it can be: one with bonds, or as long as none is known to have any, the
    /// one that was used first because it was the only one.
    var home: DeviceAddress?
    /// Whether ``home`` was seen to have bonds: no other takes its place then.
    var homeHasBonds = false
    /// The adapters that had bonds when it was looked for them.
    var bonding: Set<String> = []
    /// The adapters whose bonds were looked for.
    var noted: Set<String> = []
    /// Adapters that have been on, or that it was tried to switch on: no second time.
    var switchedOn: Set<String> = []
    let wantedAdapter: String?
    let rfkill: RFKill
    let powering = Turn()
    /// How often discovery has ended on each adapter.
    nonisolated let discoveryEnds = DiscoveryEnds()

    private let limits: RadioLimits
    private let address: DBusAddress
    private var state = State.starting
    private var incarnations = 0
    private(set) var runningSince: ContinuousClock.Instant = .now
    private let loading = Turn()
    /// Looks once more at a service that is there and did not answer.
    private var nextLook: Task<Void, Never>?
    private var lookPause: Duration
    private var supervisor: Task<Void, Never>?
    private var connection: DBusConnection?
    private var pause: Task<Void, Never>?
    private var settling: [CheckedContinuation<Void, Never>] = []
    private let observers = Broadcaster<Void>()

    init(address: DBusAddress, wantedAdapter: String?, rfkill: RFKill, limits: RadioLimits, logger: Logger) {
        self.address = address
        self.limits = limits
        lookPause = limits.look
        self.wantedAdapter = wantedAdapter
        self.rfkill = rfkill
        self.logger = logger
    }

    // MARK: What others ask

    /// The running service, waiting for the attempt under way.
    ///
    /// - Parameter trying: whether a service that was not there is looked for once more.
    /// - Throws: why there is none.
    func service(trying: Bool = true) async throws -> Service {
        start()
        switch state {
        case .running(let service): return service
        case .starting: await settled()
        case .unusable where trying:
            if let connection {
                await load(connection)
            } else {
                pause?.cancel()
                await settled()
            }
        case .unusable, .closed: break
        }
        try Task.checkCancellation()
        switch state {
        case .running(let service): return service
        case .unusable(let error): throw error
        case .starting, .closed: throw RadioError.lost
        }
    }

    /// Whether it is this service that runs.
    func isRunning(_ service: Service) -> Bool {
        guard case .running(let current) = state else { return false }
        return current.incarnation == service.incarnation
    }

    /// One element now and one after each change of the service or an adapter; changes that come together are one.
    func changes() -> AsyncStream<Void> {
        observers.listen(buffering: 1, first: ())
    }

    /// Tells everyone who observes to look again.
    func tellChange() { observers.ring() }

    /// Ends everything for good.
    func close() async {
        state = .closed
        adapters = [:]
        supervisor?.cancel()
        pause?.cancel()
        nextLook?.cancel()
        finishSettling()
        observers.close()
        if let connection { await connection.close() }
    }

    // MARK: Keeping the connection

    private func start() {
        guard supervisor == nil, !isClosed else { return }
        supervisor = Task { await supervise() }
    }

    private var isClosed: Bool {
        if case .closed = state { true } else { false }
    }

    private func supervise() async {
        var delay = Self.firstDelay
        while !isClosed {
            do {
                let connection = try await DBusConnection.open(address)
                let subscription = try await subscribe(to: connection)
                defer { subscription.close() }
                self.connection = connection
                if isClosed { return await connection.close() }
                await load(connection)
                finishSettling()
                delay = Self.firstDelay
                await attend(subscription, connection)
                self.connection = nil
                await connection.close()
                if isClosed { return }
                logger.warning("the connection to the system bus was lost")
                become(.unusable(.noBus("the connection was lost")))
            } catch {
                logger.debug("the system bus cannot be reached", metadata: ["error": "\(error)"])
                become(.unusable((error.radioError as? RadioError) ?? .noBus("\(error)")))
                finishSettling()
            }
            guard !isClosed else { return }
            let current = delay
            let pause = Task { _ = try? await Task.sleep(for: current) }
            self.pause = pause
            await pause.value
            delay = min(delay * 2, Self.longestDelay)
        }
    }

    private func subscribe(to connection: DBusConnection) async throws(DBusError) -> DBusSubscription<Event> {
        let subscription = DBusSubscription(connection) { [discoveryEnds] in Self.event($0, discoveryEnds) }
        try await subscription.add(
            DBusMatch(
                sender: BlueZName.bus, interface: BlueZName.bus, member: "NameOwnerChanged", arg0: BlueZName.service),
            DBusMatch(sender: BlueZName.service, interface: BlueZName.objectManager),
            DBusMatch(
                sender: BlueZName.service, interface: BlueZName.properties, member: "PropertiesChanged",
                arg0: BlueZName.adapter))
        return subscription
    }

    /// What a signal says of the service and its adapters.
    private static func event(_ signal: borrowing DBusSignal, _ discoveryEnds: DiscoveryEnds) -> Event? {
        if signal.isMember("org.freedesktop.DBus.Properties", "PropertiesChanged") {
            guard let change = PropertyChange(signal) else { return nil }
            if let isDiscovering = change.changed["Discovering"]?.boolValue {
                discoveryEnds.note(isDiscovering, at: signal.path)
            }
            return .changed(signal.path, change)
        }
        if signal.isMember("org.freedesktop.DBus", "NameOwnerChanged") {
            return signal.argument(2)?.stringValue.map { .owner($0) }
        }
        // Devices come and go by the hundred: of those not even a value is built.
        guard let path = signal.argument(0)?.objectPathValue,
            path.utf8.count(where: { $0 == UInt8(ascii: "/") }) == 3
        else { return nil }
        if signal.isMember("org.freedesktop.DBus.ObjectManager", "InterfacesRemoved") {
            let names = signal.argument(1)?.stringValues ?? []
            return names.contains(BlueZName.adapter) ? .removed(path) : nil
        }
        return signal.argument(1).flatMap(ManagedObjects.interfaces)?[BlueZName.adapter].map { .added(path, $0) }
    }

    /// Follows the service until the bus is gone.
    private func attend(_ subscription: DBusSubscription<Event>, _ connection: DBusConnection) async {
        while case .signals(let events) = await subscription.next() {
            for event in events { await take(event, connection) }
            tellChange()
        }
    }

    private func take(_ event: Event, _ connection: DBusConnection) async {
        switch event {
        case .owner(""):
            logger.warning("the Bluetooth service has left the bus")
            nextLook?.cancel()
            become(.unusable(.noService))
        case .owner: await load(connection)
        case .added(let path, let properties):
            if case .unusable = state { return await load(connection) }
            adapters[path] = AdapterObject(path: path, properties, logger: logger)
            forgetBonds(of: path)
            switchedOn.remove(path)
            noteSwitchedOn()
        case .removed(let path):
            adapters[path] = nil
            forgetBonds(of: path)
            switchedOn.remove(path)
        case .changed(let path, let change):
            adapters[path]?.apply(change, logger: logger)
            noteSwitchedOn()
        }
    }

    /// Asks the service what there is; a service that can be started on demand is started by that.
    ///
    /// Shielded from the cancellation of whoever needs it: the answer is everybody's.
    private func load(_ connection: DBusConnection) async {
        await shieldedFromCancellation { try? await self.loading.take { await self.loadObjects(connection) } }
    }

    private func loadObjects(_ connection: DBusConnection) async {
        do throws(DBusError) {
            let objects = try await ManagedObjects.of(connection, .children(of: BlueZName.root))
            let owner = try await connection.call(
                BlueZName.bus, BlueZName.busPath, BlueZName.bus, "GetNameOwner", [.string(BlueZName.service)]
            ).first?.stringValue
            guard !isClosed else { return }
            adapters = [:]
            for (path, properties) in objects.with(BlueZName.adapter) {
                adapters[path] = AdapterObject(path: path, properties, logger: logger)
            }
            begin(connection, owner: owner ?? "")
        } catch {
            become(.unusable((error.radioError as? RadioError) ?? .lost))
            if Self.mayPass(error) { lookLater(connection) }
        }
    }

    /// Whether a service that could not be looked at may answer later without telling so. One that is not there tells when
    /// it comes, and what is forbidden stays so until somebody changes that.
    private static func mayPass(_ error: DBusError) -> Bool {
        switch error {
        case .timedOut, .unexpectedReply: true
        case .remote: RemoteError(error).map { !$0.isWithoutService && !$0.isDenied } ?? false
        case .cannotConnect, .disconnected, .cancelled, .invalidArgument: false
        }
    }

    /// Looks once more after a pause, which grows: nobody else may ask for a long time.
    private func lookLater(_ connection: DBusConnection) {
        let pause = lookPause
        lookPause = min(pause * 2, limits.longestLook)
        nextLook?.cancel()
        nextLook = Task {
            guard (try? await Task.sleep(for: pause)) != nil else { return }
            guard case .unusable = state, self.connection === connection else { return }
            await load(connection)
        }
    }

    private func begin(_ connection: DBusConnection, owner: String) {
        nextLook?.cancel()
        lookPause = limits.look
        if case .running(let service) = state, service.owner == owner, service.connection === connection {
            noteSwitchedOn()
            return tellChange()
        }
        incarnations += 1
        runningSince = .now
        switchedOn = []
        noteSwitchedOn()
        logger.debug("the Bluetooth service runs", metadata: ["adapters": "\(adapters.count)"])
        become(.running(Service(connection: connection, owner: owner, incarnation: incarnations)))
    }

    /// Another adapter may get the path.
    private func forgetBonds(of path: String) {
        bonding.remove(path)
        noted.remove(path)
    }

    private func noteSwitchedOn() {
        for adapter in adapters.values where adapter.isPowered { switchedOn.insert(adapter.path) }
    }

    private func become(_ new: State) {
        guard !isClosed else { return }
        if case .unusable(let error) = new {
            (adapters, bonding, noted) = ([:], [], [])
            if case .unusable(error) = state { return }
        }
        state = new
        tellChange()
    }

    // MARK: Waiting

    private func settled() async {
        await withCheckedContinuation { settling.append($0) }
    }

    private func finishSettling() {
        let waiting = settling
        settling = []
        for continuation in waiting { continuation.resume() }
    }
}
