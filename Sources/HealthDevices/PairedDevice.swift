import GATTClient
import HealthReadings

/// What a pairing came to.
public struct PairedDevice: Sendable, Hashable {
    /// The identity address: from here on the device is known by it.
    public var address: DeviceAddress
    /// Its name, where it is known.
    public var name: String?
    /// The catalogue's entry; nil where none describes it.
    public var model: DeviceModel?
    /// Whether the bond exists.
    public var isPaired: Bool
    /// Whether a bonded reconnect and an encrypted operation have succeeded.
    public var isProven: Bool
    /// Whether the bond had existed before: nothing was asked of the person then.
    public var wasPaired: Bool
    /// What a person does at the device so that the bond can prove itself, as an instruction in words; nil once it has.
    public var whatToPress: String?

    /// Makes a result.
    public init(
        address: DeviceAddress, name: String? = nil, model: DeviceModel? = nil, isPaired: Bool, isProven: Bool,
        wasPaired: Bool = false, whatToPress: String? = nil
    ) {
        self.address = address
        self.name = name
        self.model = model
        self.isPaired = isPaired
        self.isProven = isProven
        self.wasPaired = wasPaired
        self.whatToPress = whatToPress
    }
}

/// What happens while a device is paired.
public enum PairingProgress: Sendable, Hashable {
    /// There is a bond already; it is put to the test.
    case alreadyPaired(DeviceAddress)
    /// The device has not been heard yet. What makes it ready to be paired, in words, where the catalogue knows.
    case waitingForDevice(DeviceAddress)
    /// The bond that was here is removed.
    case bondRemoved(DeviceAddress)
    /// The device was heard and is paired now; the agent may be asked.
    case pairing(FoundDevice)
    /// Both sides have keys. With the identity address.
    case bonded(DeviceAddress)
    /// The device's records were read on the connection on which it was paired, as models want that do not show them later.
    /// Without a store, the next ``DevicesManager/readings(of:within:allRecords:report:)`` returns them.
    case read(ContactSummary)
    /// The device is waited for, to be connected by its bond; what a person does at it, in words.
    case waitingForReconnect(DeviceAddress, whatToPress: String)
    /// The bonded reconnect and the encrypted operation have succeeded.
    case proven(DeviceAddress)
}
