import GATTClient
import HealthReadings
import Logging

/// The meters near this gateway: found, paired, read, and watched as they come and go.
///
/// ```swift
/// let manager = DevicesManager(radio: radio, journal: store, memory: store, pairings: store)
/// for try await found in manager.search(for: manager.devices(for: brand)) {
///     print(found.advertisement.name ?? "-", found.model?.name ?? "-")
/// }
/// let device = try await manager.pair(address, agent: agent)
/// let summary = try await manager.read(device.address) { event in print(event) }
/// ```
///
/// One manager uses one radio, and all of it may be called from any task at any time: what concerns the same device is
/// put in order here, what concerns the radio alone by the radio. ``MeterSchedule`` reads paired meters by itself
/// whenever they show up, and takes the devices in turn with what is called here.
public struct DevicesManager: Sendable {
    private(set) var radio: any Radio
    /// How devices are waited for that are read together; `nil` if each is waited for by itself.
    var sharedListening: SharedListening?
    let catalogue: Catalogue
    let pairings: any PairingMemory
    let secrets: (any DeviceSecrets)?
    let reader: MeterReader
    let clock: any Clock<Duration>
    let logger: Logger
    let turns = DeviceTurns()
    let changes = ManagerChanges()
    let heardMeasurements = HeardMeasurements()
    let faultBoard = FaultBoard()
    let atPairing = PairingReadings()
    private let heldElsewhere = ToldDevices()
    private let provider: @Sendable (DeviceModel) -> String

    /// Makes a manager. Nothing is asked of the radio yet.
    ///
    /// - Parameters:
    ///   - radio: finds and connects devices.
    ///   - journal: where frames become durable.
    ///   - memory: what is remembered of devices between contacts.
    ///   - pairings: what is remembered of bonds.
    ///   - secrets: where the secrets of devices are kept that want one, as Omron monitors do. Without it, such a device is not
    ///     paired as a model that needs it (`no_place_for_secrets`).
    ///   - catalogue: the models that are known.
    ///   - provider: the server's provider slug for a model; the catalogue's where not given.
    ///   - clockToWrite: what to write into the clock of a device that wants that at each connection
    ///     (``Quirk/wantsDateTime``); nil, as where not given, leaves it alone.
    ///   - clock: measures how long is waited.
    ///   - logger: gets what happens; addresses at debug level only.
    public init(
        radio: any Radio, journal: any FrameJournal, memory: any DeviceMemory, pairings: any PairingMemory,
        secrets: (any DeviceSecrets)? = nil, catalogue: Catalogue = Catalogue(),
        provider: @escaping @Sendable (DeviceModel) -> String = { $0.provider },
        clockToWrite: @escaping MeterReader.ClockToWrite = { _ in nil }, clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "healthrelay.devices")
    ) {
        self.radio = radio
        self.catalogue = catalogue
        self.pairings = pairings
        self.secrets = secrets
        self.provider = provider
        self.clock = clock
        self.logger = logger
        reader = MeterReader(
            journal: journal, memory: memory, catalogue: catalogue, provider: provider, pairings: pairings,
            secrets: secrets, clockToWrite: clockToWrite, logger: logger)
    }

    /// The same manager over another radio: one that notes what passes between this gateway and the devices of its own.
    ///
    /// Whoever reads a device by either takes turns with the other.
    package func over(_ radio: any Radio) -> DevicesManager {
        var other = self
        other.radio = radio
        return other
    }

    /// The brands of the catalogue, in alphabetical order, the generic one last.
    public var brands: [Brand] { catalogue.brands }

    /// The models of a brand.
    public func devices(for brand: Brand) -> [DeviceModel] { catalogue.devices(for: brand) }

    /// Removes the bond with a device here. The device keeps its own until it is told otherwise; its readings, sequence
    /// epochs and clock stay remembered.
    ///
    /// A transfer that is going on is waited for; a recording lets go of the device.
    ///
    /// - Returns: whether there was a bond.
    /// - Throws: `RadioError`, or the memory's error.
    @discardableResult public func unpair(_ address: DeviceAddress) async throws -> Bool {
        let address = try await bonded(address) ?? address
        return try await turns.inTurn(address) {
            var existed = try await radio.unpair(address)
            if let known = try await pairings.pairing(of: address), known.state.isPaired {
                try await pairings.notePairing(of: DeviceDescription(address: address), as: .unpaired)
                existed = existed || isReadWithoutBond(known)
            }
            try await secrets?.keep(nil, of: address)
            faultBoard.noteBondSettled(of: address)
            changes.post(.pairings)
            return existed
        }
    }

    /// Brings what is remembered of bonds in line with the bonds there are: a device that was bonded when the program
    /// died is paired though unproven; one whose bond was removed by other means is not. A bond that another adapter has,
    /// or may have, counts as one that is there.
    ///
    /// Bonds with devices that are neither known here nor in the catalogue are not ours. A device that is barred is not
    /// paired by its bond: only ``pair(_:within:repair:model:agent:progress:)`` lifts the bar.
    ///
    /// - Returns: the addresses of the paired meters' bonds, and of the meters that are paired without one.
    /// - Throws: `RadioError`, or the memory's error.
    @discardableResult public func reconcilePairings() async throws -> Set<DeviceAddress> {
        let bonds = try await radio.bonds()
        let known = try await pairings.pairings()
        let byAddress = known.byAddress
        var paired: Set<DeviceAddress> = []
        for bond in bonds {
            let advertisement = Advertisement(
                address: bond.address, name: bond.name, isPaired: true, seenAt: Instant(microseconds: 0))
            let remembered = byAddress[bond.address]
            guard remembered != nil || catalogue.model(for: advertisement) != nil else { continue }
            guard remembered?.isBarred != true else { continue }
            paired.insert(bond.address)
            if remembered?.state.isPaired != true {
                try await pairings.notePairing(
                    of: describe(advertisement, knownAs: remembered?.device.model), as: .paired)
            }
        }
        for device in known where isReadWithoutBond(device) {
            if let address = device.device.address ?? device.addresses.first { paired.insert(address) }
        }
        let missing = known.filter { $0.state.isPaired && paired.isDisjoint(with: $0.addresses) }
        heldElsewhere.keep(only: Set(missing.flatMap(\.addresses)))
        guard !missing.isEmpty else { return paired }
        // A bond that another adapter has is not gone. One that was pulled out may come back with its own.
        let elsewhere = try await radio.bondedElsewhere(among: Set(missing.flatMap(\.addresses)))
        for device in missing {
            if elsewhere.isDisjoint(with: device.addresses) {
                try await pairings.notePairing(of: device.device, as: .unpaired)
            } else if heldElsewhere.insert(device.addresses) {
                logger.warning(
                    """
                    a paired device is bonded with another Bluetooth adapter than the one in use, and isn't read. Use \
                    that adapter, or pair the device again
                    """, metadata: ["model": "\(device.device.model ?? "unknown")"])
            }
        }
        return paired
    }

    /// Has ``MeterSchedule`` look anew which meters are paired, where a bond came or went by other means.
    public func refresh() { changes.post(.pairings) }

    /// The faults of the radio and of bonds: those that stand, then each once when it begins and once when it ends, however
    /// many attempts meet it.
    ///
    /// What ends a fault is a ``MeterSchedule`` that finds the radio usable again, a device that is read to the end or paired,
    /// and a bond that is removed. Without a schedule, faults of the radio are found by calls that cannot use it. Faults
    /// are not remembered from one process to the next: one that still stands begins anew when it is met.
    public func faults() -> AsyncStream<DeviceFault> { faultBoard.changes() }

    /// The faults that stand now, oldest first.
    public var standingFaults: [DeviceFault] { faultBoard.standing }

    /// Does something with a device when it is its turn, and notes a fault that it meets.
    func inTurn<Result: Sendable>(
        _ address: DeviceAddress, to wish: DeviceTurns.Wish = .use, _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            let result = try await turns.inTurn(address, to: wish, body)
            faultBoard.noteRadioWorks()
            return result
        } catch {
            faultBoard.note(error, of: address)
            throw error
        }
    }

    /// The address a device is bonded under, or, where its model makes no bond, paired under: a device may be known by
    /// several, and people do not say whether one is public or random.
    func bonded(_ address: DeviceAddress) async throws -> DeviceAddress? {
        if let sharedListening { return try await bonded(address, among: sharedListening.bonds.get()) }
        if let bond = try await radio.bond(with: address) { return bond.address }
        return try await bonded(address, among: radio.bonds())
    }

    /// The address a device is bonded or paired under, if these are the bonds.
    func bonded(_ address: DeviceAddress, among bonds: [Bond]) async throws -> DeviceAddress? {
        if let bond = bonds.bond(with: address) { return bond.address }
        guard let device = try await pairings.pairings(like: address).first else { return nil }
        let bonded = Set(bonds.map(\.address))
        if let bond = device.addresses.first(where: bonded.contains) { return bond }
        return isReadWithoutBond(device) ? device.device.address ?? device.addresses.first : nil
    }

    /// Whether a device that a person has paired makes no bond.
    func isReadWithoutBond(_ device: DevicePairing) -> Bool {
        device.state.isPaired && !device.isBarred
            && device.device.model.flatMap { catalogue[$0] }?.pairing == DeviceModel.Pairing.none
    }

    /// Whether what was heard is a device that is paired: by its bond, or, where its model makes none, by its address.
    func isPaired(_ advertisement: Advertisement) async throws -> Bool {
        if advertisement.isPaired { return true }
        guard let address = advertisement.address else { return false }
        return try await pairings.pairings(like: address).contains {
            $0.addresses.contains(address) && isReadWithoutBond($0)
        }
    }

    /// Whether a device's person was erased, and nobody has paired it since.
    func isBarred(_ address: DeviceAddress) async throws -> Bool {
        try await pairings.isBarred(address)
    }

    /// What is known of a device by what it advertises, and by what it was found to offer.
    func describe(
        _ advertisement: Advertisement, serial: String? = nil, offering offered: OfferedServices? = nil,
        knownAs known: String? = nil
    ) -> DeviceDescription {
        let found =
            offered.map { catalogue.model(for: advertisement, offering: $0) } ?? catalogue.model(for: advertisement)
        let model = catalogue.model(found, knownAs: known)
        return DeviceDescription(
            address: advertisement.address, model: model?.id, serial: serial, name: advertisement.name,
            provider: model.map(provider) ?? "manual")
    }
}
