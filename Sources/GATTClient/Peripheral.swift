import HealthReadings

/// What a peripheral says of itself before a connection.
public struct Advertisement: Sendable, Hashable {
    /// The address it advertises with: the identity address once it is bonded. Nil where a capture does not show it.
    public var address: DeviceAddress?
    /// The local name.
    public var name: String?
    /// The services it advertises (or, in a capture, is seen to have).
    public var services: [BluetoothUUID]
    /// What the maker adds in a format of its own, by its company identifier; empty in a capture.
    public var manufacturerData: [UInt16: [UInt8]]
    /// What it says of its services without a connection, by service; empty in a capture.
    public var serviceData: [BluetoothUUID: [UInt8]]
    /// Received signal strength in dBm (-127 … 20); nil where unknown.
    public var rssi: Int8?
    /// Whether it is bonded with this gateway.
    public var isPaired: Bool
    /// When it was last seen.
    public var seenAt: Instant

    /// Makes an advertisement.
    public init(
        address: DeviceAddress?, name: String? = nil, services: [BluetoothUUID] = [],
        manufacturerData: [UInt16: [UInt8]] = [:], serviceData: [BluetoothUUID: [UInt8]] = [:], rssi: Int8? = nil,
        isPaired: Bool = false, seenAt: Instant
    ) {
        self.address = address
        self.name = name
        self.services = services
        self.manufacturerData = manufacturerData
        self.serviceData = serviceData
        self.rssi = rssi
        self.isPaired = isPaired
        self.seenAt = seenAt
    }
}

/// A characteristic of a connected peripheral.
public struct Characteristic: Sendable, Hashable {
    /// What it is.
    public var uuid: BluetoothUUID
    /// The service it belongs to; nil where only a handle map names the characteristic.
    public var service: BluetoothUUID?
    /// The handle of its value: tells two characteristics with the same UUID apart.
    public var valueHandle: UInt16
    /// What may be done with it; nil where nobody says, as in a capture.
    public var properties: CharacteristicProperties?

    /// Makes a characteristic.
    public init(
        uuid: BluetoothUUID, service: BluetoothUUID?, valueHandle: UInt16, properties: CharacteristicProperties? = nil
    ) {
        self.uuid = uuid
        self.service = service
        self.valueHandle = valueHandle
        self.properties = properties
    }
}

/// What a device says may be done with a characteristic: Core Specification, Vol 3, Part G, 3.3.1.1.
public struct CharacteristicProperties: OptionSet, Sendable, Hashable {
    /// The octet of the declaration.
    public let rawValue: UInt8

    /// Makes properties of the declaration's octet.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Its value may be advertised.
    public static let broadcast = CharacteristicProperties(rawValue: 0x01)
    /// It may be read.
    public static let read = CharacteristicProperties(rawValue: 0x02)
    /// It may be written without a response.
    public static let writeWithoutResponse = CharacteristicProperties(rawValue: 0x04)
    /// It may be written.
    public static let write = CharacteristicProperties(rawValue: 0x08)
    /// It may be notified.
    public static let notify = CharacteristicProperties(rawValue: 0x10)
    /// It may be indicated.
    public static let indicate = CharacteristicProperties(rawValue: 0x20)
    /// It may be written with a signature.
    public static let authenticatedSignedWrites = CharacteristicProperties(rawValue: 0x40)
    /// It has more properties, in a descriptor.
    public static let extended = CharacteristicProperties(rawValue: 0x80)

    /// The names that BlueZ has for them, in the order of their bits: `read`, `write-without-response`, ….
    public static let names: [(name: String, property: CharacteristicProperties)] = [
        ("broadcast", .broadcast), ("read", .read), ("write-without-response", .writeWithoutResponse),
        ("write", .write), ("notify", .notify), ("indicate", .indicate),
        ("authenticated-signed-writes", .authenticatedSignedWrites), ("extended-properties", .extended),
    ]
}

/// A characteristic's value with the moment it was received.
public struct CharacteristicValue: Sendable, Hashable {
    /// Which characteristic it is of.
    public var uuid: BluetoothUUID
    /// The octets.
    public var octets: [UInt8]
    /// When it was received; in a replay, the packet's time.
    public var receivedAt: Instant

    /// Makes a value.
    public init(uuid: BluetoothUUID, octets: [UInt8], receivedAt: Instant) {
        self.uuid = uuid
        self.octets = octets
        self.receivedAt = receivedAt
    }
}

/// What comes of waiting for notifications and indications.
public enum ValueBurst: Sendable, Hashable {
    /// Values that arrived together, in the order they came across all characteristics; never empty.
    case values([CharacteristicValue])
    /// Nothing came for the time that was waited, by the central's clock.
    case silence
    /// The peripheral has gone; nothing more will come.
    case disconnected
}

/// Where a peripheral's answers come from.
public enum AnswerSource: Sendable, Hashable {
    /// The device itself.
    case device
    /// A recording, in which the recorded host asked for what was asked for here, or for all records.
    case recording
    /// A recording, in which the recorded host asked for less: the device may have had more records.
    case narrowerRecording
}

/// A device in reach of a central: what a reader of meters talks to, live or replayed.
///
/// A peripheral is used by one reader at a time. Values are pulled in bursts, so that time-outs follow the central's
/// clock (a replay's is the capture's packet time) and so that what arrives together can be committed together.
///
/// A ``Radio``'s peripherals also throw ``RadioError``, from each of these: ``RadioError/lost`` where the service or the
/// bus went away, ``RadioError/forgottenByDevice(_:)`` where the device refuses what the bond allows.
public protocol Peripheral: Sendable {
    /// What it advertised; its address becomes the identity address when that is known.
    var advertisement: Advertisement { get }

    /// Where the answers came from that it has given since it was connected; the device itself, by default.
    var answerSource: AnswerSource { get }

    /// Connects and resolves the services.
    /// - Returns: the moment of the connection.
    /// - Throws: ``GATTError``; of a radio ``RadioError/notConnected(_:_:)`` with the service's words, after what passes
    ///   by itself was tried again.
    func connect() async throws -> Instant

    /// The characteristics of the connected peripheral.
    func characteristics() async throws -> [Characteristic]

    /// Reads a value.
    /// - Throws: ``GATTError/attribute(_:)`` with the device's own code where it refuses.
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue

    /// Writes a value, waiting for the device's response where `expectingResponse`.
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws

    /// Enables the characteristic's notifications or indications. Some devices begin to send, and to delete, at once.
    func startNotifying(_ characteristic: Characteristic) async throws

    /// Disables them again. What came until then can still be taken, with ``nextValues(within:)``, until the disconnect.
    func stopNotifying(_ characteristic: Characteristic) async throws

    /// Leaves enabled what notifies until the link has gone: ``disconnect()`` then drops it here, and the device is not
    /// told.
    ///
    /// For a device that sends nothing unasked, and may take the end of its notifications for the end of the bond. Does
    /// nothing by default: ``disconnect()`` stops what notifies.
    func keepNotifying() async

    /// The next values of all characteristics that notify, at most after `timeout` of silence; with a `timeout` of zero,
    /// what has come by now.
    ///
    /// The end of the link is told after every value that came before it.
    func nextValues(within timeout: Duration) async throws -> ValueBurst

    /// Stops what still notifies and disconnects, or the other way round after ``keepNotifying()``; does nothing where the
    /// peripheral has gone already. Returns when the link is gone, also where the task is cancelled. Values that nobody
    /// took are lost.
    func disconnect() async
}

extension Peripheral {
    /// The device itself.
    public var answerSource: AnswerSource { .device }

    /// Does nothing.
    public func keepNotifying() async {}
}

/// The client's side of a Bluetooth radio, or a capture that stands for one.
public protocol Central: Sendable {
    /// Peripherals as they come into reach, again each time they come; finishes where nothing more can come.
    func peripherals() -> AsyncThrowingStream<any Peripheral, any Error>
}
