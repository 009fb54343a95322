import Foundation
import HealthDevices
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import Synchronization
import VitalClient

/// The gateway put together: the store it owns, and the server it delivers to.
public final class Gateway: Sendable {
    /// The effective settings; some of them change while the gateway runs (see ``reload(_:)``).
    public var settings: Settings { current.withLock(\.self) }
    private let current: Mutex<Settings>
    /// What is kept.
    public let store: ReadingStore
    /// The models it knows.
    public let catalogue = Catalogue()
    /// The destinations, in the order of the settings.
    let links: [DestinationLink]
    /// Whether ``links`` are all that there are: else those of the settings that are missing stay as they are.
    let hasAllLinks: Bool
    let radioSource: RadioSource
    /// Whether this is `run`, which reads meters when they show up.
    let isService: Bool
    let logger: Logger
    /// The machine's clock, as far as it can be trusted.
    let clock: GatewayClock
    private let manager = Mutex<DevicesManager?>(nil)
    /// The reader of sensors that the settings name, once it is needed.
    let desk = Mutex<SensorDesk?>(nil)
    /// The door to the network, where this is `run`.
    private let openDoor = Mutex<AccessPoint?>(nil)

    /// The door to the network; nil where no service runs in this process.
    var door: AccessPoint? {
        get { openDoor.withLock(\.self) }
        set { openDoor.withLock { $0 = newValue } }
    }

    static let decoder = GatewayFrameDecoder()

    /// Opens the store and prepares delivery; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - sandbox: a server to deliver to, as the destination `sandbox`, in place of the settings' destinations.
    ///   - named: the only destinations of the settings to deliver to; `nil`: all, or none beside a sandbox.
    ///   - radio: makes the radio when it is first needed.
    ///   - isService: whether it reads meters when they show up, as `run` does.
    ///   - patience: how long to wait for another owner of the store to let go of it: a command takes a moment.
    /// - Throws: ``StoreError``, or ``Problem`` for settings that cannot be used.
    public static func open(
        _ settings: Settings, state: StateDirectory, sandbox: VitalConnection? = nil, named: [String]? = nil,
        radio: @escaping RadioSource.Factory = RadioSource.system, isService: Bool = false,
        patience: Duration = .zero, logger: Logger = Logger(label: "healthrelay")
    ) async throws -> Gateway {
        for name in named ?? [] where settings.destination(name) == nil {
            throw settings.noSuchDestination(name)
        }
        let end = ContinuousClock.now + patience
        while true {
            do {
                let store = try await ReadingStore.open(
                    directory: state.path, decoder: decoder,
                    clientUserID: settings["user.client_user_id"], timeZone: settings["user.time_zone"],
                    encryption: settings.storeEncryption, finishesErasure: !isService, logger: logger)
                let workshop = DestinationWorkshop(
                    settings: settings, state: state.path, store: store, catalogue: Catalogue(), logger: logger)
                let gateway = Gateway(
                    settings, store, workshop.links(sandbox, named: named),
                    hasAllLinks: named == nil && (sandbox == nil || settings.hasImpliedDestination),
                    RadioSource(settings, logger, radio), isService: isService, logger)
                try await gateway.heedDeliveryRules()
                // Made at the first start, whether or not anything asks for it.
                _ = try await store.gatewayID()
                return gateway
            } catch StoreError.locked where ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Makes the store of a state directory of what another one exported.
    ///
    /// - Throws: ``Problem``, ``ExportError``, ``StoreError``.
    public static func importing(
        _ path: String, passphrase: String, _ settings: Settings, state: StateDirectory,
        logger: Logger = Logger(label: "healthrelay")
    ) async throws -> StoreStatistics {
        try await ReadingStore.importing(
            path, passphrase: passphrase, into: state.path, decoder: decoder, encryption: settings.storeEncryption,
            logger: logger)
    }

    private init(
        _ settings: Settings, _ store: ReadingStore, _ links: [DestinationLink], hasAllLinks: Bool,
        _ radioSource: RadioSource, isService: Bool, _ logger: Logger
    ) {
        self.links = links
        self.hasAllLinks = hasAllLinks
        current = Mutex(settings)
        self.store = store
        self.radioSource = radioSource
        self.isService = isService
        self.logger = logger
        clock = GatewayClock(
            requiresSynchronization: settings.requiresSynchronizedClock, file: ClockFile(directory: store.directory),
            memory: .of(store, logger: logger))
    }

    /// The server's provider slug for a model: the catalogue's, unless `sources.map` names another.
    public func provider(of model: DeviceModel) -> String { settings.map("sources.map")[model.id] ?? model.provider }

    /// A reader of meters into the store.
    public func reader(model: String? = nil) -> MeterReader {
        let map = settings.map("sources.map")
        return MeterReader(
            journal: store, memory: store, catalogue: catalogue, provider: { map[$0.id] ?? $0.provider }, model: model,
            logger: logger)
    }

    /// The meters in reach of the radio.
    /// - Throws: ``Problem`` where the settings say that there shall be no radio.
    func requireManager() throws(Problem) -> DevicesManager {
        let radio = try radioSource.requireRadio()
        return manager.withLock { manager in
            if let manager { return manager }
            let map = settings.map("sources.map")
            let made = DevicesManager(
                radio: radio, journal: TrustedJournal(journal: store, clock: clock),
                memory: TrustedMemory(memory: store, clock: clock), pairings: store, catalogue: catalogue,
                provider: { map[$0.id] ?? $0.provider },
                clockToWrite: Self.clockToWrite(settings) { [store] in
                    (try? await store.currentUser()).flatMap { ZoneRules.named($0.timeZone) }
                }, logger: logger)
            manager = made
            return made
        }
    }

    /// Has the schedule look anew which meters are paired, where one runs.
    func refreshMeters() { manager.withLock(\.self)?.refresh() }

    /// Takes other settings in force as far as they can be changed while the gateway runs: what is delivered, and what
    /// stands where nobody has consented.
    ///
    /// - Returns: the keys that differ and count only after a restart.
    /// - Throws: ``Problem`` for settings that cannot be used; those of before then stay in force.
    func reload(_ fresh: Settings) async throws -> [String] {
        let old = settings
        current.withLock { $0 = fresh }
        do {
            try await heedDeliveryRules()
        } catch {
            current.withLock { $0 = old }
            throw error
        }
        wakeWorkers()
        return fresh.destinationsThatDiffer(from: old)
            + SettingDefinition.all.filter { !$0.isLive && !old.isSame(fresh, $0.key) }.map(\.key)
    }

    /// Does what a command asks.
    public func run(_ request: OperationRequest, output: any OperationOutput) async throws {
        try request.operation.requireUsableNumbers()
        switch request.operation {
        case .query(let operation): try await run(operation, output: output)
        case .user(let operation): try await run(operation, json: request.json, output: output)
        case .source(let operation): try await run(operation, json: request.json, output: output)
        case .sync(let operation): try await run(operation, json: request.json, output: output)
        case .destination(let operation): try await run(operation, json: request.json, output: output)
        case .store(let operation): try await run(operation, json: request.json, output: output)
        case .device(let operation): try await run(operation, json: request.json, output: output)
        case .sensor(let operation):
            try await SensorRunner(gateway: self, json: request.json, output: output).run(operation)
        case .consent(let operation): try await run(operation, json: request.json, output: output)
        case .client(let operation): try await run(operation, json: request.json, output: output)
        case .page: try await page(json: request.json, output)
        case .doctor: try await examine(json: request.json, output: output)
        }
    }

    /// Lets go of the radio and closes the store; nothing can be done with the gateway after that.
    public func close() async throws {
        await clock.save()
        await desk.withLock(\.self)?.close()
        await radioSource.close()
        try store.close()
    }
}
