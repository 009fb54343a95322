import GATTClient
import HealthReadings
import Logging

extension DevicesManager {
    /// Creates a manager that keeps everything in memory: readings, devices and what is known of bonds.
    ///
    /// ```swift
    /// let manager = DevicesManager(radio: radio, keepingIn: MemoryJournal(timeZone: zone))
    /// _ = try await manager.pair(address, agent: agent)
    /// for reading in try await manager.readings(of: address).usable { print(reading.document.text) }
    /// ```
    ///
    /// The system keeps the bonds themselves: a device that was paired by an earlier process is paired
    /// (``reconcilePairings()``). What it had sent then is new to this one.
    ///
    /// - Parameters:
    ///   - radio: finds and connects devices.
    ///   - journal: where readings are kept for as long as the process runs.
    ///   - secrets: where the keys of devices are kept that want one, as Omron monitors do. Without it, such a device is not
    ///     paired as a model that needs it (`no_place_for_secrets`).
    ///   - catalogue: the models that are known.
    ///   - clock: measures how long is waited.
    ///   - logger: gets what happens; addresses at debug level only.
    public init(
        radio: any Radio, keepingIn journal: MemoryJournal, secrets: (any DeviceSecrets)? = nil,
        catalogue: Catalogue = Catalogue(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "healthrelay.devices")
    ) {
        self.init(
            radio: radio, journal: journal, memory: journal, pairings: journal, secrets: secrets,
            catalogue: catalogue, clock: clock, logger: logger)
    }

    /// Waits for a paired device, takes what is new on it, and returns it.
    ///
    /// What came is returned, however the contact ended: ``DeviceReadings/failure`` says why not everything came, also where
    /// the task was cancelled, the radio went away, or the device lost its bond in the middle. A second call brings what
    /// is new since, the rest of a transfer that was cut included. This throws only where nothing came.
    ///
    /// Some models show their records only while they are paired, and are read then (``PairingProgress/read(_:)``). If the manager
    /// keeps readings in memory, the first call after the pairing returns these too, also where the device can't be reached again.
    ///
    /// Devices are read at the same time, each by a call of its own. Two calls for the same device share one transfer, and
    /// both return what it brings.
    ///
    /// - Parameters:
    ///   - address: the device's address; it has to be paired.
    ///   - timeout: how long the device may take to be heard and connected.
    ///   - allRecords: asks a glucose meter for all its records. Those that were known before are returned too where the
    ///     manager keeps readings in memory; a store has them already.
    ///   - report: told what happens, in order; the transfer goes on when it returns.
    /// - Throws: as ``read(_:within:allRecords:report:)``, where nothing came.
    public func readings(
        of address: DeviceAddress, within timeout: Duration = .seconds(60), allRecords: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void = { _ in }
    ) async throws -> DeviceReadings {
        let memory = reader.journal as? MemoryJournal
        var earlier = atPairing.take(address)
        if let readings = earlier?.readings {
            // Somebody else may have read the device since.
            earlier?.readings = readings.map { memory?.reading($0.id) ?? $0 }
        }
        let collector = ReadingCollector(earlier) { allRecords ? memory?.reading($0) : nil }
        do {
            try await read(address, within: timeout, allRecords: allRecords) { event in
                collector.note(event)
                await report(event)
            }
        } catch {
            // What is in memory only would be lost to a caller who hears of nothing but the error.
            guard var found = collector.found, !found.readings.isEmpty || !found.revised.isEmpty else { throw error }
            found.failure = ContactFailure(error)
            return found
        }
        return collector.found ?? DeviceReadings(device: DeviceDescription(address: address))
    }

    /// What reads a device that a search has found; `nil` where it says no address of its own.
    public func reader(for found: FoundDevice) -> DeviceReader? {
        found.advertisement.address.map { DeviceReader(manager: self, address: $0, model: found.model) }
    }

    /// What reads the device with this address.
    public func reader(for address: DeviceAddress) -> DeviceReader { DeviceReader(manager: self, address: address) }
}

/// One device near this machine: pairs it, reads it and follows its connection.
///
/// A device that changes its address is known by another one once it is paired: go on with the reader that
/// ``pair(within:repair:model:agent:progress:)`` returns.
public struct DeviceReader: Sendable {
    private let manager: DevicesManager
    /// The device's address.
    public let address: DeviceAddress
    /// The catalogue's entry; `nil` where it is not known.
    public let model: DeviceModel?

    init(manager: DevicesManager, address: DeviceAddress, model: DeviceModel? = nil) {
        self.manager = manager
        self.address = address
        self.model = model
    }

    /// Bonds with the device; see ``DevicesManager/pair(_:within:repair:model:agent:progress:)`` for what happens and what is
    /// thrown.
    ///
    /// - Parameters:
    ///   - timeout: how long the device may take to be heard, and again after bonding.
    ///   - repair: removes the bond that is here and pairs again.
    ///   - model: the id of the model that a person says it is, one of ``FoundDevice/choices``; `nil` where its name tells it, or it
    ///     was said before.
    ///   - agent: answers what the device asks for.
    ///   - progress: told what happens, in order.
    /// - Returns: what the pairing came to, and what reads the device from here on.
    public func pair(
        within timeout: Duration = .seconds(60), repair: Bool = false, model: String? = nil, agent: any PairingAgent,
        progress: @escaping @Sendable (PairingProgress) async -> Void = { _ in }
    ) async throws -> (device: PairedDevice, reader: DeviceReader) {
        // A model that no name tells is a person's to say.
        let said = model ?? self.model.flatMap { $0.standsFor.isEmpty ? nil : $0.id }
        let device = try await manager.pair(
            address, within: timeout, repair: repair, model: said, agent: agent, progress: progress)
        return (device, DeviceReader(manager: manager, address: device.address, model: device.model ?? self.model))
    }

    /// Takes what is new on the device; see ``DevicesManager/readings(of:within:allRecords:report:)``.
    ///
    /// - Parameters:
    ///   - timeout: how long the device may take to be heard and connected.
    ///   - allRecords: asks a glucose meter for all its records.
    ///   - report: told what happens, in order.
    public func read(
        within timeout: Duration = .seconds(60), allRecords: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void = { _ in }
    ) async throws -> DeviceReadings {
        try await manager.readings(of: address, within: timeout, allRecords: allRecords, report: report)
    }

    /// The device connecting and disconnecting: first how it stands, then each change.
    public func monitorConnection() -> AsyncThrowingStream<ConnectionChange, any Error> {
        manager.monitorConnection([address])
    }

    /// Removes the bond here.
    ///
    /// - Returns: whether there was one.
    /// - Throws: `RadioError`, or the memory's error.
    @discardableResult public func unpair() async throws -> Bool { try await manager.unpair(address) }
}
