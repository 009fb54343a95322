import Foundation
import GatewaySettings
import HealthDevices
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import Synchronization

/// An opened gateway: the store it owns, the devices it reaches, and the destinations it delivers to.
///
/// Commands do their work on it, whether they come from this process or through the control socket.
public final class Gateway: Sendable {
    private let live: LiveSettings
    /// The settings of its start: what cannot be changed while it runs is by these.
    private let begunWith: Settings
    /// The settings in effect; some of them change while the gateway runs (see `reload(_:)`).
    public var settings: Settings { live.current }
    /// What is kept.
    public let store: ReadingStore
    /// The models it knows.
    public let catalogue: Catalogue
    /// Where readings go.
    package let destinations: Destinations
    /// The readers of sensors.
    package let sensors: Sensors
    /// The accounts with vendors' clouds.
    package let clouds: CloudDesk
    /// Takes settings from the centre of a fleet; `nil`: no destination is one.
    package let fleet: FleetSettingsDesk?
    let radioSource: RadioSource
    /// Whether this is `run`, which reads meters when they show up.
    let isService: Bool
    package let logger: Logger
    /// The machine's clock, as far as it can be trusted.
    package let clock: GatewayClock
    private let manager = Mutex<DevicesManager?>(nil)
    /// What recorded devices send now: nobody else can ask a device for it meanwhile.
    let recorded = Broadcaster<LiveReading>()
    /// Changes of the settings, one after the other.
    let settingsChanges = OneAtATime()
    /// Takes another gateway's backup while the store is empty.
    package let restores: RestoreDesk
    /// Has the gateway start anew, where it is run by what can do that.
    private let restart = Mutex<AsyncStream<Void>.Continuation?>(nil)
    /// Told of settings that have come in force.
    private let settingsListener = Mutex<(@Sendable (Settings) -> Void)?>(nil)
    /// Whether a backup is being made: another one would take its unfinished file for one that was left.
    let isBackingUp = Mutex(false)
    /// The door to the network, where this is `run`.
    private let openDoor = Mutex<AccessPoint?>(nil)

    /// The door to the network; nil where no service runs in this process.
    package var door: AccessPoint? {
        get { openDoor.withLock(\.self) }
        set { openDoor.withLock { $0 = newValue } }
    }

    static let decoder = GatewayFrameDecoder()

    /// Opens the store and prepares delivery; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - settings: the settings; read again if another process has changed the gateway's own file by the time the store
    ///     is open.
    ///   - state: where the store and the control socket are.
    ///   - sandbox: a server to deliver to, as the destination `sandbox`, in place of the settings' destinations.
    ///   - named: the only destinations of the settings to deliver to; `nil`: all, or none beside a sandbox. It may name
    ///     the sandbox too, which is delivered to in any case.
    ///   - radio: makes the radio when it is first needed.
    ///   - isService: whether it reads meters when they show up, as `run` does.
    ///   - isFixed: whether the settings stay as they are, whatever the file says: it cannot be used.
    ///   - patience: how long to wait for another owner of the store to let go of it: a command takes a moment.
    ///   - logger: what happens.
    ///   - progress: told how far the tables of an earlier version have been made those of this one.
    /// - Throws: `StoreError`, or `Problem` for settings that cannot be used.
    public static func open(
        _ settings: Settings, state: StateDirectory, sandbox: VitalConnection? = nil, named: [String]? = nil,
        radio: @escaping RadioSource.Factory = RadioSource.system, isService: Bool = false, isFixed: Bool = false,
        patience: Duration = .zero, logger: Logger = Logger(label: "healthrelay"),
        progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> Gateway {
        try await open(
            settings, state: state, sandbox: sandbox, named: named, radio: radio, machine: GatewayClock.Machine(),
            isService: isService, isFixed: isFixed, patience: patience, logger: logger, progress: progress)
    }

    /// Opens a gateway on a machine whose clock is this one.
    static func open(
        _ settings: Settings, state: StateDirectory, sandbox: VitalConnection? = nil, named: [String]? = nil,
        radio: @escaping RadioSource.Factory, machine: GatewayClock.Machine, isService: Bool = false,
        isFixed: Bool = false, patience: Duration = .zero, logger: Logger,
        progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> Gateway {
        let end = ContinuousClock.now + patience
        var settings = settings
        while true {
            // Whoever held the store may have changed them while this process waited for it.
            if !isFixed, let changed = try settings.readAgainIfChanged() { settings = changed }
            let names = (sandbox == nil ? [] : [DestinationSetting.sandboxName]) + settings.destinations.map(\.name)
            for name in named ?? [] where !names.contains(name) { throw Problem.noSuchDestination(name, among: names) }
            do {
                let store = try await ReadingStore.open(
                    directory: state.path, decoder: decoder,
                    clientUserID: settings["user.client_user_id"], timeZone: settings["user.time_zone"],
                    encryption: settings.storeEncryption, finishesErasure: !isService, logger: logger,
                    progress: progress)
                // From here on nobody else changes them. What cannot be used is told at the next turn.
                if !isFixed, (try? settings.readAgainIfChanged() != nil) ?? true {
                    try store.close()
                    continue
                }
                let (catalogue, live) = (Catalogue(), LiveSettings(settings))
                let fleet = settings.destinations.first { $0.kind == .fleet }.map {
                    FleetSettingsDesk($0.name, directory: state.path, logger: logger)
                }
                let workshop = DestinationWorkshop(
                    settings: settings, state: state.path, store: store, catalogue: catalogue, fleet: fleet,
                    logger: logger)
                let destinations = Destinations(
                    links: workshop.links(sandbox, named: named),
                    hasAllLinks: named == nil && (sandbox == nil || settings.hasImpliedDestination),
                    isService: isService, store: store, catalogue: catalogue, settings: live, logger: logger)
                let gateway = Gateway(
                    live, store, destinations, RadioSource(settings, logger, radio), fleet, machine: machine,
                    isService: isService, logger)
                try await gateway.heedDeliveryRules()
                gateway.warnOfSettings()
                // A machine without a screen, whose backup a script has put back, tells it here, too.
                if isService, let unconfirmed = try? await UnconfirmedConsents(of: store) {
                    logger.warning("\(unconfirmed.words)")
                }
                ManagedFiles.removeStrays([settings])
                // Made at the first start, whether or not anything asks for it.
                _ = try await store.gatewayID()
                return gateway
            } catch StoreError.locked where ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Makes the store of a state directory of what another one exported. Its people are asked again what may be delivered, and
    /// nothing is until they have said it.
    ///
    /// - Throws: `Problem`, `ExportError`, `StoreError`.
    public static func importing(
        _ path: String, passphrase: String, _ settings: Settings, state: StateDirectory,
        logger: Logger = Logger(label: "healthrelay"), progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> StoreStatistics {
        try await ReadingStore.importing(
            path, passphrase: passphrase, into: state.path, decoder: decoder, encryption: settings.storeEncryption,
            asksConsent: true, logger: logger, progress: progress)
    }

    /// The same of a file that is open: whoever opened it may read more files than whoever owns the state directory.
    ///
    /// - Parameter descriptor: an ordinary file, open for reading. It stays open.
    package static func importing(
        from descriptor: Int32, passphrase: String, _ settings: Settings, state: StateDirectory,
        logger: Logger = Logger(label: "healthrelay"), progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> StoreStatistics {
        try await ReadingStore.importing(
            from: descriptor, passphrase: passphrase, into: state.path, decoder: decoder,
            encryption: settings.storeEncryption, asksConsent: true, logger: logger, progress: progress)
    }

    private init(
        _ live: LiveSettings, _ store: ReadingStore, _ destinations: Destinations, _ radioSource: RadioSource,
        _ fleet: FleetSettingsDesk?, machine: GatewayClock.Machine, isService: Bool, _ logger: Logger
    ) {
        self.live = live
        self.store = store
        self.destinations = destinations
        catalogue = destinations.catalogue
        self.radioSource = radioSource
        self.fleet = fleet
        self.isService = isService
        self.logger = logger
        let settings = live.current
        begunWith = settings
        clock = GatewayClock(
            requiresSynchronization: settings.requiresSynchronizedClock, machine: machine,
            file: ClockFile(directory: store.directory), memory: .of(store, logger: logger))
        sensors = Sensors(live, store: store, catalogue: catalogue, clock: clock)
        restores = RestoreDesk(store: store)
        clouds = CloudDesk(live, directory: store.directory)
    }

    /// A reader of meters into the store.
    public func reader(model: String? = nil) -> MeterReader {
        let settings = settings
        return MeterReader(
            journal: store, memory: store, catalogue: catalogue, provider: settings.provider(of:), model: model,
            logger: logger)
    }

    /// An address as it was typed, which doesn't say of which kind it is, with the kind that the device of it has in the store.
    ///
    /// - Parameter address: the address; only its 48 bits are compared.
    /// - Returns: a known device's address, a paired one's first; the same address if none is known.
    /// - Throws: where the store cannot be read.
    package func known(_ address: DeviceAddress) async throws -> DeviceAddress {
        let devices = try await store.devices()
        let addresses = (devices.filter(\.isPaired) + devices).flatMap(\.addresses)
        return addresses.first { $0.bits == address.bits } ?? address
    }

    /// The meters in reach of the radio.
    ///
    /// - Throws: `Problem` where the settings say that there shall be no radio.
    package func requireManager() throws(Problem) -> DevicesManager {
        let radio = try radioSource.requireRadio()
        return manager.withLock { manager in
            if let manager { return manager }
            let settings = settings
            let made = DevicesManager(
                radio: radio, journal: TrustedJournal(journal: store, clock: clock),
                memory: TrustedMemory(memory: store, clock: clock) { [store] in try await store.newLead($0, of: $1) },
                pairings: store,
                secrets: DeviceSecretFile(directory: store.directory), catalogue: catalogue,
                provider: settings.provider(of:),
                clockToWrite: ClockRunner.clockToWrite(settings) { [store] in
                    try? await ClockRunner.zone(of: $0.address, in: store)
                }, logger: logger)
            manager = made
            return made
        }
    }

    /// The paired meters.
    /// - Throws: `Problem` with status 66 where there is none.
    func requirePairedDevices(_ manager: DevicesManager) async throws -> Set<DeviceAddress> {
        let paired = try await manager.reconcilePairings()
        guard !paired.isEmpty else {
            let barred = try await store.devices().filter(\.isBarred).compactMap(\.description.address?.description)
            throw Problem(
                "nothing_paired", .noInput,
                "no meter is paired"
                    + (barred.isEmpty
                        ? "" : "; barred since their user was removed: " + barred.joined(separator: ", ")),
                hint: "find one with `healthrelay scan`, then `healthrelay pair ADDRESS`")
        }
        return paired
    }

    /// Has the schedule look anew which meters are paired, where one runs.
    func refreshMeters() { manager.withLock(\.self)?.refresh() }

    /// The problem that the gateway's clock is untrusted; nil where it is not.
    package func clockProblem() async -> Problem? { await clock.problem() }

    /// The person that a command names, or the current user; or the problem that they have no name: the server knows
    /// people by their names only, and so do the ids of readings that came from another program.
    ///
    /// - Throws: `Problem` with status 66 if the store knows nobody of this name, 78 for somebody without one.
    func requireNamedUser(_ name: String? = nil) async throws -> StoreUser {
        let user = try await store.personOrCurrent(named: name)
        guard !user.clientUserID.isEmpty else {
            throw Problem(
                "no_user", .configuration, "no user is set, so it is unknown whose readings these are",
                hint: "`healthrelay user create ID`, or the setting `user.client_user_id`")
        }
        return user
    }

    /// Takes other settings in force as far as they can be changed while the gateway runs: what is delivered, and what
    /// stands where nobody has consented.
    ///
    /// - Returns: the keys that differ from those it began with, and count only after a restart.
    /// - Throws: `Problem` for settings that cannot be used; those of before then stay in force.
    package func reload(_ fresh: Settings) async throws -> [String] {
        let old = settings
        live.replace(with: fresh)
        do {
            try await heedDeliveryRules()
        } catch {
            live.replace(with: old)
            // A full disk may have ended it halfway.
            try? await heedDeliveryRules()
            throw error
        }
        warnOfSettings()
        destinations.wake()
        settingsListener.withLock(\.self)?(fresh)
        return keysThatNeedRestart(fresh)
    }

    /// The keys that differ from those it began with, and count only after a restart.
    package var keysThatNeedRestart: [String] { keysThatNeedRestart(settings) }

    /// Ends this gateway and starts another one with the settings in force, in the same process.
    ///
    /// - Returns: whether it is run by what can do that.
    package func requestRestart() -> Bool { restart.withLock(\.self)?.yield() != nil }

    /// Takes requests to start anew from now on.
    package func restartRequests() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        restart.withLock { $0 = continuation }
        return stream
    }

    /// The keys that differ from those it began with, and count only after a restart.
    func keysThatNeedRestart(_ settings: Settings) -> [String] { settings.keysThatNeedRestart(since: begunWith) }

    /// Removes the files of secrets that the settings don't name: those in force are on the disk, so nothing needs them.
    package func removeStraySecrets() { ManagedFiles.removeStrays([settings, begunWith]) }

    /// Has somebody told of settings that come in force while it runs.
    package func onSettings(_ listener: @escaping @Sendable (Settings) -> Void) {
        settingsListener.withLock { $0 = listener }
    }

    private func heedDeliveryRules() async throws {
        // Before the store is told anything: settings count as a whole, or not at all.
        _ = try destinations.rules()
        try await DeliveryRules(settings: settings, catalogue: catalogue).heed(in: store)
        try await destinations.heed()
    }

    /// The settings in force that do nothing, or let a fleet refuse readings, a line for each.
    var settingsInDoubt: [String] { settings.entriesWithoutEffect(catalogue) + settings.peopleRefusedByFleets }

    /// A command says so only where the settings are shown or changed.
    private func warnOfSettings() {
        guard isService else { return }
        for line in settingsInDoubt { logger.warning("\(line)") }
    }

    /// Does what a command asks.
    public func run(_ request: OperationRequest, output: any OperationOutput) async throws {
        try request.operation.requireUsableNumbers()
        let json = request.json
        switch request.operation {
        case .query(let operation): try await QueryRunner(gateway: self, output: output).run(operation)
        case .metrics(let operation): try await MetricsRunner(gateway: self, output: output).run(operation)
        case .summary(let operation): try await SummaryRunner(gateway: self, output: output).run(operation)
        case .report(let operation): try await ReportRunner(gateway: self, output: output).run(operation)
        case .heartRate(let operation):
            try await HeartRateRunner(gateway: self, json: json, output: output).run(operation)
        case .entry(let operation): try await EntryRunner(gateway: self, json: json, output: output).run(operation)
        case .backup(let operation):
            try await BackupRunner(gateway: self, json: json, output: output).run(operation)
        case .identity(let operation):
            try await IdentityRunner(gateway: self, json: json, output: output).run(operation)
        case .connect(let operation):
            try await ConnectRunner(gateway: self, json: json, output: output).run(operation)
        case .auth(let name): try await AuthRunner(gateway: self, json: json, output: output).check(name)
        case .move(let operation): try await MoveRunner(gateway: self, json: json, output: output).run(operation)
        case .figures(let operation):
            try await FigureRunner(gateway: self, json: json, output: output).run(operation)
        case .subscriber(let operation):
            try await SubscriberRunner(gateway: self, json: json, output: output).run(operation)
        case .importing(let operation): try await ImportRunner(gateway: self, output: output).run(operation)
        case .user(let operation): try await UserRunner(gateway: self, json: json, output: output).run(operation)
        case .source(let operation): try await SourceRunner(gateway: self, json: json, output: output).run(operation)
        case .sync(let operation): try await SyncRunner(gateway: self, json: json, output: output).run(operation)
        case .destination(let operation):
            try await DestinationRunner(gateway: self, json: json, output: output).run(operation)
        case .fleet(let operation): try await FleetRunner(gateway: self, json: json, output: output).run(operation)
        case .settings(let operation):
            try await SettingsRunner(gateway: self, json: json, output: output).run(operation)
        case .store(let operation): try await StoreRunner(gateway: self, json: json, output: output).run(operation)
        case .device(let operation): try await DeviceRunner(gateway: self, json: json, output: output).run(operation)
        case .sensor(let operation): try await SensorRunner(gateway: self, json: json, output: output).run(operation)
        case .healthSync(let operation):
            try await HealthSyncRunner(gateway: self, json: json, output: output).run(operation)
        case .cloud(let operation): try await CloudRunner(gateway: self, json: json, output: output).run(operation)
        case .consent(let operation): try await ConsentRunner(gateway: self, json: json, output: output).run(operation)
        case .client(let operation): try await ClientRunner(gateway: self, json: json, output: output).run(operation)
        case .figureLink(let operation):
            try await FigureLinkRunner(gateway: self, json: json, output: output).run(operation)
        case .page: try await PageRunner(gateway: self, json: json, output: output).run()
        case .setupToken: try await SetupTokenRunner(gateway: self, json: json, output: output).run()
        case .doctor: try await Doctor.report(await Doctor(self).examine(), json: json, to: output)
        }
    }

    /// Whether the store holds anything of anybody: readings, meters, or what cannot be looked at without its key.
    package func hasHistory() async throws -> Bool {
        guard store.lockedBecause == nil else { return true }
        if try await store.hasReadings() { return true }
        return try await !store.devices().isEmpty
    }

    /// Lets go of the radio and closes the store; nothing can be done with the gateway after that.
    public func close() async throws {
        await clock.save()
        await sensors.close()
        await radioSource.close()
        try store.close()
    }
}
