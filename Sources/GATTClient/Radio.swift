import HealthReadings

/// A central with a radio: what a live one can do beyond a capture.
///
/// One process uses one radio. Everything here may be called from any task; calls that must not overlap on the radio
/// (discovery and connecting, above all) are put in order by the radio itself.
///
/// An address that is asked for is matched by its 48 bits: who types one does not know its type. What is told has both.
public protocol Radio: Central {
    /// The adapter's state now, and again each time it changes, for as long as it is iterated: a radio that was
    /// unplugged, blocked or whose service was restarted is found again without a person.
    func adapterStates() -> AsyncStream<AdapterState>

    /// What is near: each device when it is first heard and when what it says of itself has changed (its name, its
    /// services, its bond, or its signal by 6 dB or more). Discovery runs while this is iterated and ends with it.
    ///
    /// Finishes by throwing ``RadioError`` where the radio cannot be used, or no longer.
    func advertisements() -> AsyncThrowingStream<Advertisement, any Error>

    /// What these devices say of their services without a connection: each time one of them says something new, and
    /// what it says when it comes into reach. A value that is repeated is told once.
    ///
    /// Listening costs no more where others advertise nearby, and no more than ``peripherals(_:)`` for the same devices.
    /// Discovery runs while this is iterated. Finishes by throwing ``RadioError``.
    func advertisements(of addresses: Set<DeviceAddress>) -> AsyncThrowingStream<Advertisement, any Error>

    /// These devices as they come into reach, again each time they come: when they are heard, or connect by themselves,
    /// after a disconnect, a connection attempt that failed, or some 20 s of silence.
    ///
    /// A device that keeps advertising after it was read has come again: how often to read it is the caller's choice.
    /// Watching costs no more where others advertise nearby. Finishes by throwing ``RadioError``.
    func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error>

    /// Waits for a device to be heard.
    ///
    /// - Throws: ``RadioError/notSeen(_:within:)``, or why the radio cannot be used.
    func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral

    /// Bonds with a device and trusts it. It is left connected, where it stays: ``Peripheral/disconnect()`` ends that.
    ///
    /// A device that is bonded already is trusted and its bond returned, without being heard: whether it still knows the
    /// bond, a connection shows. A device that can neither show nor ask anything may be bonded before the agent is asked
    /// (BlueZ does not ask where it begins the pairing); a refusal then removes that bond. Where it fails, nothing
    /// half-bonded is left, and the service has to hear the device anew.
    ///
    /// - Parameters:
    ///   - address: the device's address; only its 48 bits are compared.
    ///   - timeout: how long the device may take to be heard; pairing itself has its own limits, set by the
    ///     specification (30 s for each of its steps) and by people who read digits (60 s).
    ///   - agent: answers what the device asks for.
    /// - Returns: the bond, with the identity address.
    /// - Throws: ``RadioError``; ``RadioError/pairing(_:)`` names what became of the pairing.
    func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond

    /// Removes the bond here; the device keeps its own. The service then has to hear the device anew.
    ///
    /// - Returns: whether there was one.
    @discardableResult func unpair(_ address: DeviceAddress) async throws -> Bool

    /// The bonds there are.
    func bonds() async throws -> [Bond]

    /// The bond with a device, where there is one.
    ///
    /// - Parameter address: the device's address; only its 48 bits are compared.
    func bond(with address: DeviceAddress) async throws -> Bond?

    /// The devices among these that another adapter may have a bond with, one that is there or one that was used and is
    /// gone: that this radio has none now does not mean that there is none. Empty by default.
    func bondedElsewhere(among addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress>

    /// Devices connecting and disconnecting, whoever caused it: first how each of these stands, then each change.
    func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error>
}

extension Radio {
    /// Looks through all bonds; of two with the same 48 bits the one of the same kind is meant.
    public func bond(with address: DeviceAddress) async throws -> Bond? { try await bonds().bond(with: address) }

    /// None: there is one adapter.
    public func bondedElsewhere(among addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> { [] }
}

/// The state of the adapter a radio uses.
public enum AdapterState: Sendable, Hashable {
    /// It can be used.
    case ready(Adapter)
    /// It cannot, and why.
    case unusable(RadioError)
}

/// A Bluetooth adapter.
public struct Adapter: Sendable, Hashable {
    /// The system's name: `hci0`.
    public var name: String
    /// Its address.
    public var address: DeviceAddress?
    /// Whether it looks for devices now, for whomever.
    public var isDiscovering: Bool

    /// Makes a description.
    public init(name: String, address: DeviceAddress?, isDiscovering: Bool = false) {
        self.name = name
        self.address = address
        self.isDiscovering = isDiscovering
    }
}

/// A bond with a device: keys that both keep.
public struct Bond: Sendable, Hashable {
    /// The identity address.
    public var address: DeviceAddress
    /// The device's name.
    public var name: String?
    /// Whether the device may connect without being asked for.
    public var isTrusted: Bool
    /// Whether it is connected now.
    public var isConnected: Bool

    /// Makes a bond.
    public init(address: DeviceAddress, name: String? = nil, isTrusted: Bool = true, isConnected: Bool = false) {
        self.address = address
        self.name = name
        self.isTrusted = isTrusted
        self.isConnected = isConnected
    }
}

extension [Bond] {
    /// The bond with a device, where there is one.
    ///
    /// - Parameter address: the device's address; of two bonds with its 48 bits the one of the same kind is meant.
    package func bond(with address: DeviceAddress) -> Bond? {
        first { $0.address == address } ?? first { $0.address.bits == address.bits }
    }
}

/// A device connected or disconnected.
public struct ConnectionChange: Sendable, Hashable {
    /// Which one.
    public var address: DeviceAddress
    /// How it stands now.
    public var isConnected: Bool
    /// Since when, or, at first, when it was asked.
    public var at: Instant

    /// Makes a change.
    public init(address: DeviceAddress, isConnected: Bool, at: Instant) {
        self.address = address
        self.isConnected = isConnected
        self.at = at
    }
}

extension Radio {
    /// What ``advertisements()`` tells of these devices: for a radio that hears nothing but what changes a device's name,
    /// services, bond or signal.
    public func advertisements(of addresses: Set<DeviceAddress>) -> AsyncThrowingStream<Advertisement, any Error> {
        let bits = Set(addresses.map(\.bits))
        return .producing { yield in
            for try await advertisement in self.advertisements()
            where advertisement.address.map({ bits.contains($0.bits) }) == true && !advertisement.serviceData.isEmpty {
                yield(advertisement)
            }
        }
    }
}
