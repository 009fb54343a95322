import GATTClient
import HealthReadings

extension DevicesManager {
    /// How long a device that has proven its bond before is looked for when it is paired once more.
    private static let quickLook: Duration = .seconds(10)
    /// The pause before a connection that failed is tried again.
    static let reconnectPause: Duration = .seconds(1)

    /// Bonds with a device, and has the bond prove itself: the device is disconnected, connected again by its bond, and
    /// one encrypted operation succeeds. Records are not read.
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
    ///   - agent: answers what the device asks for.
    ///   - progress: told what happens, in order.
    /// - Throws: `RadioError`: `RadioError.pairing(_:)` names what became of the pairing,
    ///   `RadioError.forgottenByDevice(_:)` says that the device has lost the bond that is kept here. Or the memory's
    ///   error.
    public func pair(
        _ address: DeviceAddress, within timeout: Duration = .seconds(60), repair: Bool = false,
        agent: any PairingAgent, progress: @escaping @Sendable (PairingProgress) async -> Void = { _ in }
    ) async throws -> PairedDevice {
        let known = try await bonded(address) ?? address
        defer { changes.post(.pairings) }
        return try await turns.inTurn(known) {
            // Whoever had the turn before may have made the bond, or removed it.
            let bond = try await bonded(known)
            if let bond, !repair { return try await test(bond, within: timeout, progress) }
            return try await makeBond(
                with: known, removing: bond, within: timeout, agent: agent, progress)
        }
    }

    /// Puts a bond that exists to the test.
    private func test(
        _ bond: DeviceAddress, within timeout: Duration, _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        await progress(.alreadyPaired(bond))
        let known = try await pairings.pairings().first { $0.addresses.contains(bond) }
        let name = try await radio.bonds().first { $0.address == bond }?.name ?? known?.device.name
        var device = describe(
            Advertisement(address: bond, name: name, isPaired: true, seenAt: Instant(microseconds: 0)))
        device.model = known?.device.model ?? device.model
        if known?.state.isPaired != true { try await pairings.admit(device, as: .paired) }
        let wasProven = known?.state.isProven == true
        let limit = wasProven ? min(timeout, Self.quickLook) : timeout
        let isProven = try await prove(bond, of: &device, within: limit, progress)
        return result(device, bond, isProven: isProven || wasProven, wasPaired: true)
    }

    private func makeBond(
        with address: DeviceAddress, removing old: DeviceAddress?, within timeout: Duration, agent: any PairingAgent,
        _ progress: @Sendable (PairingProgress) async -> Void
    ) async throws -> PairedDevice {
        await progress(.waitingForDevice(address))
        var peripheral = try await radio.peripheral(address, within: timeout)
        var device = describe(peripheral.advertisement)
        device.address = address
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
        await peripheral.disconnectSurely()
        device.address = bond.address
        device.name = device.name ?? bond.name
        try await pairings.admit(device, as: .paired)
        await progress(.bonded(bond.address))
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
        let described = describe(advertisement, serial: proof.serial, offering: proof.offered)
        device = described.model == nil ? device : described
        device.serial = proof.serial
        guard proof.hasSucceeded else { return false }
        // By its serial number it may just have turned out to be one that was barred under another address.
        try await pairings.admit(device, as: .proven)
        await progress(.proven(bond))
        return true
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
