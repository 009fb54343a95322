/// How a device stands to this gateway.
public enum PairingState: String, Sendable, Hashable, CaseIterable {
    /// There is no bond.
    case unpaired
    /// A bond was made. Whether the device has kept it is not known, or no longer.
    case paired
    /// A bonded reconnect and an encrypted operation have succeeded since the bond was made.
    case proven

    /// Whether a bond exists here.
    public var isPaired: Bool { self != .unpaired }
    /// Whether the bond has proven itself.
    public var isProven: Bool { self == .proven }
}

/// What is remembered of a device's bond.
public struct DevicePairing: Sendable, Hashable {
    /// The device.
    public var device: DeviceDescription
    /// All addresses it was met with; the bond is with one of them.
    public var addresses: [DeviceAddress]
    /// How it stands.
    public var state: PairingState
    /// When the bond was made, or the last one where there is none now; nil where there never was one.
    public var pairedAt: Instant?
    /// When the bond first proved itself; nil where it has not, or no longer does.
    public var provenAt: Instant?
    /// Whether its person was erased since: it is not read, whatever bond the system keeps, before it is paired anew.
    public var isBarred: Bool

    /// Makes a memory.
    public init(
        device: DeviceDescription, addresses: [DeviceAddress], state: PairingState, pairedAt: Instant? = nil,
        provenAt: Instant? = nil, isBarred: Bool = false
    ) {
        self.device = device
        self.addresses = addresses
        self.state = state
        self.pairedAt = pairedAt
        self.provenAt = provenAt
        self.isBarred = isBarred
    }
}

extension [DevicePairing] {
    /// Each device by every address that it was met with; of two with one address the one that is paired.
    package var byAddress: [DeviceAddress: DevicePairing] {
        Dictionary(flatMap { device in device.addresses.map { ($0, device) } }) { first, second in
            second.state.isPaired && !first.state.isPaired ? second : first
        }
    }
}

/// What is remembered of bonds: readings, sequence epochs and clocks stay whatever becomes of a bond.
public protocol PairingMemory: Sendable {
    /// The devices known, bonded or not.
    func pairings() async throws -> [DevicePairing]

    /// The devices known by an address of these 48 bits, of whatever kind: an address that people type says none.
    func pairings(like address: DeviceAddress) async throws -> [DevicePairing]

    /// Notes how a device stands; durable when it returns.
    ///
    /// A device that is not known yet is made known. What `device` leaves out stays as it is remembered. A device that is
    /// barred stays unpaired and barred, whatever bond was found.
    func notePairing(of device: DeviceDescription, as state: PairingState) async throws

    /// Notes that a person has paired a device on purpose: how it stands, and that nothing bars it any more. Durable
    /// when it returns.
    func admit(_ device: DeviceDescription, as state: PairingState) async throws
}

extension PairingMemory {
    /// Looks through all devices.
    public func pairings(like address: DeviceAddress) async throws -> [DevicePairing] {
        try await pairings().filter { $0.addresses.contains { $0.bits == address.bits } }
    }

    /// Whether a device known by this address is barred.
    package func isBarred(_ address: DeviceAddress) async throws -> Bool {
        try await pairings(like: address).contains { $0.isBarred && $0.addresses.contains(address) }
    }

    /// The device known by this address.
    package func pairing(of address: DeviceAddress) async throws -> DevicePairing? {
        try await pairings(like: address).first { $0.addresses.contains(address) }
    }

    /// The catalogue's id that the device with this address is remembered by.
    package func model(of address: DeviceAddress?) async throws -> String? {
        guard let address else { return nil }
        return try await pairing(of: address)?.device.model
    }
}
