import GATTClient
import GATTProfiles
import HealthReadings

/// The proof that a bond holds: the device is connected by it, and does something that it does on an encrypted link
/// only.
///
/// BlueZ encrypts the link of a bonded device as it connects, so an operation that the device answers has been
/// encrypted. Nothing here makes a device send its records: a cuff would begin, and delete what it has sent.
struct BondProof: Sendable {
    /// Whether an encrypted operation has succeeded.
    var hasSucceeded = false
    /// What the device was found to have.
    var offered = OfferedServices([])
    /// The serial number string (2A25), which joins two addresses of one device.
    var serial: String?

    /// Connects, tries and disconnects.
    ///
    /// - Throws: ``RadioError/forgottenByDevice(_:)`` where the device does not accept the bond; ``GATTError``.
    init(of peripheral: any Peripheral) async throws {
        do {
            _ = try await peripheral.connect()
            try await run(peripheral, peripheral.characteristics())
            await peripheral.disconnectSurely()
        } catch {
            await peripheral.disconnectSurely()
            if let error = error as? GATTError, error.saysBondIsMissing, let address = peripheral.advertisement.address
            {
                throw RadioError.forgottenByDevice(address)
            }
            throw error
        }
    }

    private mutating func run(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) async throws {
        offered = OfferedServices(characteristics)
        func find(_ uuid: BluetoothUUID) -> Characteristic? { characteristics.first { $0.uuid == uuid } }
        if let controlPoint = find(GlucoseTransfer.controlPoint) {
            // No record comes before it is asked for: enabling the answers is harmless.
            if try await succeeds({
                try await peripheral.whileNotifying([controlPoint]) {}
            }) {
                hasSucceeded = true
            }
        }
        if let characteristic = find(DeviceFacts.serialNumber) {
            serial = try await read(peripheral, characteristic).flatMap(DeviceFacts.serial)
        }
        for uuid in ServiceProfile.proofs where !hasSucceeded {
            if let characteristic = find(uuid) { _ = try await read(peripheral, characteristic) }
        }
    }

    private mutating func read(_ peripheral: any Peripheral, _ characteristic: Characteristic) async throws -> [UInt8]?
    {
        do {
            let value = try await peripheral.read(characteristic)
            hasSucceeded = true
            return value.octets
        } catch let error as GATTError where error.isRefusal {
            return nil
        }
    }

    private func succeeds(_ operation: () async throws -> Void) async throws -> Bool {
        do {
            try await operation()
            return true
        } catch let error as GATTError where error.isRefusal {
            return false
        }
    }
}

extension GATTError {
    /// Whether the device has answered, and does not want to, for a reason that is not the link's.
    fileprivate var isRefusal: Bool {
        switch self {
        case .attribute: !saysBondIsMissing
        case .noSuchCharacteristic: true
        case .disconnected, .timedOut: false
        }
    }
}
