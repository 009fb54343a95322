import GATTClient
import HealthReadings
import Logging

extension DevicesManager {
    /// How long a device that has proven its bond before is looked for when it is paired once more.
    private static let quickLook: Duration = .seconds(10)
    /// The pause before a connection that failed is tried again.
    static let reconnectPause: Duration = .seconds(1)

    /// Bonds with a device, and has the bond prove itself: the device is disconnected, connected again by its bond, and
    /// one encrypted operation succeeds. Records are not read, but for those of models that show them while they are
    /// being paired and often not later: these are read and stored before the device is disconnected.
    ///
    /// A device that is bonded already is not paired anew; its bond is put to the test. A transfer of it that is going
    /// on is waited for, and none is begun meanwhile. A device that was barred is barred no longer once there is a bond.
    ///
    /// - Parameters:
    ///   - address: the device's address, as it was found.
    ///   - timeout: how long the device may take to be heard, and again after bonding: many stop advertising until
    ///     their button is pressed. The bond is then kept, unproven, and proves itself at the next contact.
    ///   - repair: removes the bond that is here and pairs again. Readings, sequence epochs and clock stay. The bond
    ///     stays where the device is not heard; where pairing fails after that, the device is left known and unpaired.
    ///   - model: the catalogue's id of the model that a person says it is; what its name makes it where nil, or what was
    ///     said before.
    ///   - agent: answers what the device asks for.
    ///   - progress: told what happens, in order.
    ///
    /// A device whose model makes no bond (``DeviceModel/Pairing/none``) is connected once and then known by its address;
    /// one that is never connected (``DeviceModel/isOnlyHeard``) is known by its address at once.
    /// - Throws: `RadioError`: `RadioError.pairing(_:)` names what became of the pairing,
    ///   `RadioError.forgottenByDevice(_:)` says that the device has lost the bond that is kept here.
    ///   ``ContactFailure`` where the device is not the model that is said, or takes no key; `no_place_for_secrets` where it is
    ///   given a key and the manager has no place for it: nothing has changed then. Or the memory's error.
    public func pair(
        _ address: DeviceAddress, within timeout: Duration = .seconds(60), repair: Bool = false,
        model: String? = nil, agent: any PairingAgent,
        progress: @escaping @Sendable (PairingProgress) async -> Void = { _ in }
    ) async throws -> PairedDevice {
        do {
            let device = try await pairInTurn(
                address, within: timeout, repair: repair, model: model, agent: agent, progress: progress)
            // A bond that was there and could not be tried now says nothing.
            if device.isProven || !device.wasPaired {
                for address in [address, device.address] { faultBoard.noteBondSettled(of: address) }
            }
            return device
        } catch {
            faultBoard.note(error, of: address)
            throw error
        }
    }

    private func pairInTurn(
        _ address: DeviceAddress, within timeout: Duration, repair: Bool, model: String?, agent: any PairingAgent,
        progress: @escaping @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        let known = try await bonded(address) ?? address
        // Who types an address doesn't know its type.
        let alike = try await pairings.pairings(like: known)
        let remembered = (alike.first { $0.addresses.contains(known) } ?? alike.first)?.device.model
        let model = try model.map { try self.model(said: $0) }?.id ?? remembered
        defer { changes.post(.pairings) }
        return try await turns.inTurn(known) {
            // Whoever had the turn before may have made the bond, or removed it.
            let bonds = try await radio.bonds().map(\.address)
            let bond = try await bonded(known).flatMap { bonds.contains($0) ? $0 : nil }
            if let bond, !repair { return try await test(bond, as: model, within: timeout, progress) }
            return try await makeBond(
                with: known, as: model, removing: bond, within: timeout, agent: agent, progress)
        }
    }

    /// Puts a bond that exists to the test.
    private func test(
        _ bond: DeviceAddress, as said: String?, within timeout: Duration,
        _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        await progress(.alreadyPaired(bond))
        let known = try await pairings.pairing(of: bond)
        let name = try await radio.bond(with: bond)?.name ?? known?.device.name
        var device = describe(
            Advertisement(address: bond, name: name, isPaired: true, seenAt: Instant(microseconds: 0)),
            knownAs: said)
        try requireCredible(device, as: said)
        if device.model != said { device.model = known?.device.model ?? device.model }
        try requirePlaceForKey(of: device)
        if known?.state.isPaired != true { try await pairings.admit(device, as: .paired) }
        if device.model != known?.device.model {
            try await pairings.notePairing(of: device, as: known?.state ?? .paired)
        }
        if try await wantsKey(device) {
            // The bond is here, and the device is in its pairing mode: it takes a key now.
            await progress(.waitingForDevice(bond))
            let peripheral = try await radio.peripheral(bond, within: timeout)
            try await giveKey(to: peripheral, device)
        }
        let wasProven = known?.state.isProven == true
        let limit = wasProven ? min(timeout, Self.quickLook) : timeout
        let isProven = try await prove(bond, of: &device, within: limit, progress)
        return result(device, bond, isProven: isProven || wasProven, wasPaired: true)
    }

    private func makeBond(
        with address: DeviceAddress, as said: String?, removing old: DeviceAddress?, within timeout: Duration,
        agent: any PairingAgent,
        _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        await progress(.waitingForDevice(address))
        let peripheral = try await radio.peripheral(address, within: timeout)
        // As it was heard: who types an address doesn't know its type.
        let heard = peripheral.advertisement.address ?? address
        guard heard != address else {
            return try await makeBond(
                with: peripheral, at: heard, as: said, removing: old, within: timeout, agent: agent, progress)
        }
        return try await turns.inTurn(heard) {
            try await makeBond(
                with: peripheral, at: heard, as: said, removing: old, within: timeout, agent: agent, progress)
        }
    }

    private func makeBond(
        with found: any Peripheral, at address: DeviceAddress, as said: String?, removing old: DeviceAddress?,
        within timeout: Duration, agent: any PairingAgent,
        _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        var peripheral = found
        if let failure = XiaomiScale.encryption(of: peripheral.advertisement) { throw failure }
        var device = describe(peripheral.advertisement, knownAs: said)
        device.address = address
        try requireCredible(device, as: said)
        try requirePlaceForKey(of: device)
        if device.model.flatMap({ catalogue[$0] })?.pairing == DeviceModel.Pairing.none {
            return try await admitWithoutBond(peripheral, &device, progress)
        }
        if let old {
            try await radio.unpair(old)
            try await pairings.notePairing(of: device, as: .unpaired)
            await progress(.bondRemoved(old))
            // Removing a bond makes the service forget the device: it has to be heard anew.
            peripheral = try await radio.peripheral(address, within: timeout)
        } else if !address.isResolvablePrivate {
            // Known before there is a bond, so that one whose note is lost in a crash is found again. A private address
            // is nobody's by then.
            try await pairings.notePairing(of: device, as: .unpaired)
        }
        let advertisement = peripheral.advertisement
        await progress(.pairing(FoundDevice(advertisement: advertisement, model: catalogue.model(for: advertisement))))
        let bond = try await radio.pair(address, within: timeout, agent: agent)
        CrashPoint.reach("pairing.before-note")
        device.address = bond.address
        device.name = device.name ?? bond.name
        if isGivenKey(device) {
            try await pairings.admit(device, as: .paired)
            // On this connection: the device ends its pairing mode with it.
            try await undoing(bond.address, device, advertisement) { try await giveKey(to: peripheral, device) }
            await progress(.bonded(bond.address))
        } else if showsRecordsAtPairing(device), bond.address == address {
            try await pairings.admit(device, as: .paired)
            await progress(.bonded(bond.address))
            try await undoing(bond.address, device, advertisement) {
                try await readAtPairing(peripheral, bond.address, progress)
            }
            do {
                let isProven = try await prove(bond.address, of: &device, within: timeout, progress)
                return result(device, bond.address, isProven: isProven, wasPaired: false)
            } catch RadioError.forgottenByDevice {
                // It ends this connection as it will end each that follows. The bond was good for its records.
                return result(device, bond.address, isProven: false, wasPaired: false)
            }
        } else {
            await peripheral.disconnectSurely()
            try await pairings.admit(device, as: .paired)
            await progress(.bonded(bond.address))
        }
        let isProven: Bool
        if bond.address == address {
            isProven = try await prove(bond.address, of: &device, within: timeout, progress)
        } else {
            // From here on the device is known by its identity address.
            let before = device
            (isProven, device) = try await turns.inTurn(bond.address) {
                var device = before
                let isProven = try await prove(bond.address, of: &device, within: timeout, progress)
                return (isProven, device)
            }
        }
        return result(device, bond.address, isProven: isProven, wasPaired: false)
    }

    /// Remembers a device that makes no bond as one that a person has chosen, once it has shown that it is what its name
    /// says.
    private func admitWithoutBond(
        _ peripheral: any Peripheral, _ device: inout DeviceDescription,
        _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        guard let address = device.address, !address.isResolvablePrivate else {
            throw ContactFailure(
                code: "private_address",
                description: "the device makes no bond and changes its address, so that it could not be known again")
        }
        let advertisement = peripheral.advertisement
        await progress(.pairing(FoundDevice(advertisement: advertisement, model: catalogue.model(for: advertisement))))
        let wasPaired = try await isPaired(advertisement)
        if device.model.flatMap({ catalogue[$0] })?.isOnlyHeard == true {
            // What it advertises is all that there is of it.
            try await pairings.admit(device, as: .proven)
            await progress(.proven(address))
            return result(device, address, isProven: true, wasPaired: wasPaired)
        }
        let proof = try await BondProof(of: peripheral)
        let described = describe(
            advertisement, serial: proof.serial, offering: proof.offered, knownAs: device.model)
        guard described.model == device.model else {
            throw ContactFailure(
                code: "model_not_credible",
                description: "the device calls itself what it is not: it does not offer what that model has",
                hint: "look whether this is its address")
        }
        device.serial = proof.serial
        try await pairings.admit(device, as: .proven)
        await progress(.proven(address))
        return result(device, address, isProven: true, wasPaired: wasPaired)
    }

    /// Whether a device's records are read on the connection on which it is paired.
    ///
    /// Owners report of monitors without a key that they end each later connection at once (hass-omron issues 20, 91 and
    /// 92). One that is given a key has a session of its own for that, and is read later.
    private func showsRecordsAtPairing(_ device: DeviceDescription) -> Bool {
        guard let memory = device.model.flatMap({ catalogue[$0] })?.omronMemory else { return false }
        return memory.stack != .key
    }

    /// Removes the bond that was just made, and forgets which model was said, where the device turns out to be another.
    private func undoing(
        _ bond: DeviceAddress, _ device: DeviceDescription, _ advertisement: Advertisement,
        _ attempt: () async throws -> Void
    ) async throws {
        do {
            try await attempt()
        } catch let failure as ContactFailure where failure.code == "omron_wrong_model" {
            _ = atPairing.take(bond)
            try await shieldedFromCancellation {
                try await radio.unpair(bond)
                try await secrets?.keep(nil, of: bond)
                var device = device
                let found = describe(advertisement)
                (device.model, device.provider) = (found.model, found.provider)
                try await pairings.notePairing(of: device, as: .unpaired)
            }
            throw failure
        }
    }

    /// Reads a device on the connection on which it was paired, and disconnects. The bond stands whatever comes of it: the
    /// next contact reads what this one does not.
    private func readAtPairing(
        _ peripheral: any Peripheral, _ bond: DeviceAddress, _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws {
        let collector = ReadingCollector(atPairing.take(bond)) { _ in nil }
        defer {
            if reader.journal is MemoryJournal, let found = collector.found { atPairing.keep(found, of: bond) }
        }
        do {
            let summary = try await reader.read(peripheral, allRecords: false, provesBond: false, until: { false }) {
                collector.note($0)
            }
            await progress(.read(summary))
            if summary.error == "omron_wrong_model", let failure = ContactFailure(summary) { throw failure }
        } catch let failure as ContactFailure where failure.code == "omron_wrong_model" {
            throw failure
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            logger.notice("a device could not be read as it was paired: \(error)")
        }
    }

    /// Waits for the device and tries its bond, again and again where the connection fails.
    ///
    /// - Returns: whether the bond has proven itself in that time.
    private func prove(
        _ bond: DeviceAddress, of device: inout DeviceDescription, within timeout: Duration,
        _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> Bool {
        await progress(.waitingForReconnect(bond, whatToPress: whatToPress(device)))
        let found: (proof: BondProof, advertisement: Advertisement)?
        do {
            found = try await clock.limit(timeout) { [radio, clock] in
                while true {
                    let peripheral = try await radio.peripheral(bond, within: timeout)
                    do {
                        return (try await BondProof(of: peripheral), peripheral.advertisement)
                    } catch GATTError.disconnected, GATTError.timedOut, RadioError.notConnected {
                        try await clock.sleep(for: Self.reconnectPause)
                    }
                }
            }
        } catch RadioError.notSeen {
            return false
        } catch RadioError.forgottenByDevice(let address) {
            try await pairings.notePairing(of: device, as: .paired)
            throw RadioError.forgottenByDevice(address)
        }
        guard let found else { return false }
        let proof = found.proof
        var advertisement = found.advertisement
        advertisement.name = advertisement.name ?? device.name
        advertisement.address = bond
        let described = describe(
            advertisement, serial: proof.serial, offering: proof.offered, knownAs: device.model)
        device = described.model == nil ? device : described
        device.serial = proof.serial
        guard proof.hasSucceeded else { return false }
        // By its serial number it may just have turned out to be one that was barred under another address.
        try await pairings.admit(device, as: .proven)
        await progress(.proven(bond))
        return true
    }

    // MARK: Models that no name tells

    /// The model that a person says a device to be.
    private func model(said id: String) throws -> DeviceModel {
        let isGeneric = catalogue.models.contains { $0.standsFor.contains(id) }
        guard let model = catalogue[id], isGeneric || !model.standsFor.isEmpty else {
            throw ContactFailure(
                code: "model_not_chosen", description: "'\(id)' is no model that has to be chosen",
                hint: "see `healthrelay catalog`: those whose certainty it lists")
        }
        return model
    }

    /// - Throws: ``ContactFailure`` where a person says a device to be a model that its name or its services deny.
    private func requireCredible(_ device: DeviceDescription, as said: String?) throws {
        guard let said = said.flatMap({ catalogue[$0] }), !said.standsFor.isEmpty, device.model != said.id else {
            return
        }
        throw ContactFailure(
            code: "model_not_credible",
            description: "the device calls itself what no \(said.brand) \(said.name) does",
            hint: "pair it without a model, or look whether this is its address")
    }

    /// Whether devices of this one's model are given a key.
    private func isGivenKey(_ device: DeviceDescription) -> Bool {
        device.model.flatMap { catalogue[$0] }?.omronMemory?.stack == .key
    }

    private static let noPlaceForKey = ContactFailure(
        code: "no_place_for_secrets", description: "the key of this device could not be kept here",
        hint: "give `DevicesManager` a place for keys: its parameter `secrets`")

    /// - Throws: ``ContactFailure`` where the device is to be given a key that could not be kept. It would be bonded then, its
    ///   pairing mode would be over, and nothing could be read.
    private func requirePlaceForKey(of device: DeviceDescription) throws {
        if isGivenKey(device), secrets == nil { throw Self.noPlaceForKey }
    }

    /// Whether a device wants a key that is not kept here.
    private func wantsKey(_ device: DeviceDescription) async throws -> Bool {
        guard isGivenKey(device), let address = device.address else { return false }
        return try await secrets?.secret(of: address) == nil
    }

    /// Has a device in its pairing mode store its key, and disconnects.
    ///
    /// The key is durable before the device has it. One that was made before is given once more: a device whose answer was
    /// lost may know it already.
    private func giveKey(to peripheral: any Peripheral, _ device: DeviceDescription) async throws {
        do {
            guard let memory = device.model.flatMap({ catalogue[$0] })?.omronMemory, let address = device.address,
                let secrets
            else { throw Self.noPlaceForKey }
            let kept = try await secrets.secret(of: address).flatMap { OmronKey($0) }
            let key = kept ?? .random()
            if kept == nil { try await secrets.keep(key.octets, of: address) }
            _ = try await peripheral.connect()
            let characteristics = try await peripheral.characteristics()
            try await requireStatedModel(peripheral, characteristics, device)
            guard let link = OmronLink(peripheral, characteristics, stack: memory.stack) else {
                throw ContactFailure(
                    code: "omron_wrong_model",
                    description: "the monitor does not offer what the model that was chosen has",
                    hint: "choose the model by the HEM number on the monitor's label")
            }
            try await link.store(key)
        } catch {
            await peripheral.disconnectSurely()
            throw (error as? TransferError).map { ContactFailure($0) } ?? error
        }
        await peripheral.disconnectSurely()
    }

    /// - Throws: `TransferError` where the device says that it is another model than the one that was chosen.
    private func requireStatedModel(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], _ device: DeviceDescription
    ) async throws {
        guard let model = device.model.flatMap({ catalogue[$0] }),
            let stated = try await OmronModelNumber.read(from: peripheral, characteristics),
            let refusal = stated.refusal(of: model, in: catalogue)
        else { return }
        throw refusal
    }

    private func result(
        _ device: DeviceDescription, _ bond: DeviceAddress, isProven: Bool, wasPaired: Bool
    ) -> PairedDevice {
        PairedDevice(
            address: bond, name: device.name, model: device.model.flatMap { catalogue[$0] }, isPaired: true,
            isProven: isProven, wasPaired: wasPaired, whatToPress: isProven ? nil : whatToPress(device))
    }

    private func whatToPress(_ device: DeviceDescription) -> String {
        device.model.flatMap { catalogue[$0] }?.howToWake ?? "switch the device on, or press its Bluetooth button"
    }
}
