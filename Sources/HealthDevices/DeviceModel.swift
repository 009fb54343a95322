import GATTClient
import HealthReadings

/// One entry of the catalogue: what is known of a model.
public struct DeviceModel: Sendable, Hashable, Identifiable {
    /// How a name is recognised; always from its first character.
    public enum NameRule: Sendable, Hashable {
        /// The whole name.
        case exact(String)
        /// The name begins with this.
        case prefix(String)
        /// The name begins with this and a digit follows.
        case prefixAndDigit(String)

        /// Whether the name obeys the rule.
        public func matches(_ name: String) -> Bool {
            switch self {
            case .exact(let exact): name == exact
            case .prefix(let prefix): name.hasPrefix(prefix)
            case .prefixAndDigit(let prefix):
                name.hasPrefix(prefix) && name.dropFirst(prefix.count).first.map { $0.isASCII && $0.isNumber } == true
            }
        }
    }

    /// How a bond is made.
    public enum Pairing: String, Sendable, Hashable {
        /// Six digits on the device's display, entered at the gateway.
        case passkey
        /// Confirmed without digits.
        case justWorks = "just_works"
        /// Whatever the device asks for.
        case any
        /// No bond is made.
        case none
    }

    /// How a device is reached.
    public enum Transport: String, Sendable, Hashable {
        /// Bluetooth Low Energy.
        case ble
        /// ISO 15693, through an NFC reader.
        case nfc
    }

    /// How an entry was tried out. Nothing here has been tried on the device itself unless it says so.
    public enum Evidence: String, Sendable, Hashable {
        /// An emulated device against a real bluetoothd.
        case lab
        /// Octets recorded from such a device or published by its maker.
        case bytes
        /// The device itself.
        case hardware
    }

    /// The stable id: `accuchek_guide`.
    public var id: String
    /// The brand people know it by.
    public var brand: String
    /// The model's name.
    public var name: String
    /// How it is reached.
    public var transport: Transport
    /// What it measures.
    public var kinds: [ReadingKind]
    /// Names it advertises.
    public var names: [NameRule]
    /// The service that makes it this model when no name is known.
    public var services: [BluetoothUUID]
    /// The server's provider slug for it.
    public var provider: String
    /// How it is paired.
    public var pairing: Pairing
    /// Whether reading removes records from the device.
    public var consumesRecords: Bool
    /// What a person does at the device so that it can be paired, as an instruction.
    public var howToPair: String
    /// What a person does at a paired device so that it can be reached, as an instruction.
    public var howToWake: String
    /// The silence after which the device is taken to have sent all it has, where it gives no end mark.
    public var recordGap: Duration
    /// How long the device is left alone after it was read, while it stays in reach.
    public var quietTime: Duration
    /// How it was tried out.
    public var tested: [Evidence]

    /// Makes an entry.
    public init(
        id: String, brand: String, name: String, kinds: [ReadingKind], names: [NameRule] = [],
        services: [BluetoothUUID], transport: Transport = .ble, provider: String, pairing: Pairing,
        consumesRecords: Bool = false,
        howToPair: String = "put the device into its pairing mode", howToWake: String = "switch the device on",
        recordGap: Duration = .seconds(2), quietTime: Duration = .seconds(300), tested: [Evidence] = []
    ) {
        self.id = id
        self.brand = brand
        self.name = name
        self.kinds = kinds
        self.transport = transport
        self.names = names
        self.services = services
        self.provider = provider
        self.pairing = pairing
        self.consumesRecords = consumesRecords
        self.howToPair = howToPair
        self.howToWake = howToWake
        self.recordGap = recordGap
        self.quietTime = quietTime
        self.tested = tested
    }

    /// The entry as `catalog --json` shows it.
    public var document: JSONValue {
        .object([
            "id": .string(id), "brand": .string(brand), "name": .string(name),
            "kinds": .array(kinds.map { .string($0.rawValue) }), "transport": .string(transport.rawValue),
            "provider": .string(provider),
            "services": .array(services.map { .string($0.description) }), "pairing": .string(pairing.rawValue),
            "consumes_records": .bool(consumesRecords), "quirks": .array([]),
            "tested": .array(tested.map { .string($0.rawValue) }),
        ])
    }
}
