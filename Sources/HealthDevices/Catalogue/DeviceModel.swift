import GATTClient
import HealthReadings

/// One entry of the catalogue: what is known of a model.
public struct DeviceModel: Sendable, Hashable, Identifiable {
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

    /// What reading does to the records in the device's memory.
    public enum Memory: Sendable, Hashable {
        /// They stay, and can be read again.
        case kept
        /// Each is sent once, and is gone from the device or not sent again: what was confirmed must be durable here.
        case sentOnce
        /// It has none: what is not heard is lost.
        case none
        /// Not known; handled as ``sentOnce``.
        case unknown
    }

    /// A maker's own protocol by which a device is read.
    public enum OwnProtocol: Sendable, Hashable {
        /// That of Microlife's monitors.
        case microlife
        /// That of Viatom's BP2 and its relatives.
        case viatom
        /// A stream of live values.
        case oximeter(OximeterStream)
        /// What Xiaomi's scales advertise; they are never connected.
        case xiaomiScale
        /// The standard service of a QardioArm, which measures when it is told to.
        case qardio
    }

    /// How an entry was tried out. Nothing here has been tried on the device itself unless it says so.
    public enum Evidence: String, Sendable, Hashable, CaseIterable {
        /// An emulated device, with its oddities, behind the system's real software: bluetoothd, libnfc, pcscd.
        case lab
        /// An emulated device, with its oddities, where the radio would be.
        case emulated
        /// Octets laid out as those of such a device, recorded or as published.
        case bytes
        /// A report that an owner made of the device itself, replayed.
        case owner
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
    /// The services it offers, the one that is read first. They make a device without a known name this model, where the
    /// entry has no names; a device that claims the name and offers none of them is another.
    public var services: [BluetoothUUID]
    /// Characteristics that tell it, once it is connected, from others of the same name: all of them.
    public var marks: [OfferedServices.Place]
    /// The server's provider slug for it.
    public var provider: String
    /// How it is paired.
    public var pairing: Pairing
    /// What reading does to its memory.
    public var memory: Memory
    /// What a person does at the device so that it can be paired, as an instruction.
    public var howToPair: String
    /// What a person does at a paired device so that it can be reached, as an instruction.
    public var howToWake: String
    /// The silence after which the device is taken to have sent all it has, where it gives no end mark.
    public var recordGap: Duration
    /// How long the device is left alone after it was read, while it stays in reach.
    public var quietTime: Duration
    /// In what it differs from the standard.
    public var quirks: [Quirk]
    /// What it can measure, in each unit it sends; empty where that is not known.
    public var ranges: [MeasuringRange]
    /// How it was tried out.
    public var tested: [Evidence]
    /// The entries that a device is known by until a person says that it is this one, which no name tells; empty for an
    /// entry that is found by name or service.
    public var standsFor: [String]
    /// How its memory is read by Omron's own protocol; `nil` for other devices, and for monitors whose memory is not known.
    public var omronMemory: OmronMemory?
    /// The maker's own protocol by which it is read, where that is a matter of the model; `nil` for others.
    public var ownProtocol: OwnProtocol?
    /// How sure it is that it is read rightly by that protocol; `nil` for others.
    private var ownCertainty: OmronMemory.Certainty?

    /// Makes an entry.
    public init(
        id: String, brand: String, name: String, kinds: [ReadingKind], names: [NameRule] = [],
        services: [BluetoothUUID], marks: [OfferedServices.Place] = [], transport: Transport = .ble, provider: String,
        pairing: Pairing, memory: Memory = .kept,
        howToPair: String = "put the device into its pairing mode", howToWake: String = "switch the device on",
        recordGap: Duration = .seconds(2), quietTime: Duration = .seconds(300), quirks: [Quirk] = [],
        ranges: [MeasuringRange] = [], tested: [Evidence] = [], standsFor: [String] = [],
        omronMemory: OmronMemory? = nil, ownProtocol: (OwnProtocol, OmronMemory.Certainty)? = nil
    ) {
        self.id = id
        self.brand = brand
        self.name = name
        self.kinds = kinds
        self.transport = transport
        self.names = names
        self.services = services
        self.marks = marks
        self.provider = provider
        self.pairing = pairing
        self.memory = memory
        self.howToPair = howToPair
        self.howToWake = howToWake
        self.recordGap = recordGap
        self.quietTime = quietTime
        self.quirks = quirks
        self.ranges = ranges
        self.tested = tested
        self.standsFor = standsFor
        self.omronMemory = omronMemory
        self.ownProtocol = ownProtocol?.0
        ownCertainty = ownProtocol?.1
    }

    /// How sure it is that it is read rightly by its maker's own protocol; `nil` for an entry that is read by a standard
    /// service.
    public var certainty: OmronMemory.Certainty? { omronMemory?.certainty ?? ownCertainty }

    /// Whether it is never connected: what it advertises is what it measures.
    public var isOnlyHeard: Bool { ownProtocol == .xiaomiScale }
    /// Whether it measures only when it is told to, by ``DevicesManager/measure(_:within:report:)``, and keeps nothing.
    public var measuresOnCommand: Bool { ownProtocol == .qardio }

    /// Whether reading takes records from the device, or may.
    public var consumesRecords: Bool { memory == .sentOnce || memory == .unknown }

    /// Whether it may be connected before it has measured, so that its record comes only then: an oximeter is heard as soon as
    /// a finger is in it, and what is not known to keep its records may send them once, to whoever is connected.
    var mayBeMeasuring: Bool {
        switch memory {
        case .none, .unknown: !isLiveOnly && !isOnlyHeard && !measuresOnCommand
        case .kept, .sentOnce: kinds == [.spo2] && ownProtocol == nil
        }
    }

    /// Whether it sends by a standard service all that it keeps, whenever it is connected.
    var sendsWhatItKeeps: Bool { memory == .kept && !has(.sendsUnsentOnly) && certainty == nil }

    /// Whether it differs from the standard in this.
    public func has(_ quirk: Quirk) -> Bool { quirks.contains(quirk) }

    /// The entry as `catalog --json` shows it.
    public var document: JSONValue {
        .object([
            "id": .string(id), "brand": .string(brand), "name": .string(name),
            "kinds": .array(kinds.map { .string($0.rawValue) }), "transport": .string(transport.rawValue),
            "provider": .string(provider),
            "services": .array(services.map { .string($0.description) }), "pairing": .string(pairing.rawValue),
            "consumes_records": .bool(consumesRecords), "quirks": .array(quirks.map { .string($0.rawValue) }),
            "measuring_ranges": .array(ranges.map(\.document)),
            "tested": .array(tested.map { .string($0.rawValue) }),
            "stands_for": .array(standsFor.map(JSONValue.string)),
            "certainty": .optional(certainty?.rawValue),
        ])
    }
}
