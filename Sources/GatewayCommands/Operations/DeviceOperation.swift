import HealthReadings

/// What a command asks of the radio and of the devices it knows.
public enum DeviceOperation: Codable, Sendable, Hashable {
    /// What is near.
    case scan(ScanOperation)
    /// Bonds with a device.
    case pair(PairOperation)
    /// Removes a bond.
    case unpair(address: String)
    /// The devices known.
    case list
    /// Sets a device's clock.
    case setClock(SetClockOperation)
    /// Reads of a device what may safely be read, for a report.
    case probe(ProbeOperation)
    /// Reads a device as `read` does, and makes a report of what was said.
    case report(DeviceReportOperation)
    /// Reads devices.
    case read(ReadOperation)
    /// Has a cuff inflate and measure, because a person asked for it.
    case measure(MeasureOperation)
    /// Keeps what straps and oximeters send.
    case record(RecordOperation)
    /// Connections coming and going; no address: of all paired devices.
    case monitor(addresses: [String])
    /// Readings as they come into the store, and live values; no type: all. A heart-rate variability covers so many
    /// seconds.
    /// With `faults`, also faults of the radio and of bonds as they begin and end.
    case watch(types: [String], window: Int? = nil, faults: Bool = false)
}

/// The arguments of `scan`.
public struct ScanOperation: Codable, Sendable, Hashable {
    /// How long, in seconds; nil until it is stopped.
    public var seconds: Double?
    /// Only this brand, in whatever case.
    public var brand: String?
    /// Only this model, by the catalogue's id.
    public var model: String?
    /// Also what is no health device.
    public var all: Bool

    /// Makes a scan.
    public init(seconds: Double? = nil, brand: String? = nil, model: String? = nil, all: Bool = false) {
        self.seconds = seconds
        self.brand = brand
        self.model = model
        self.all = all
    }
}

/// The arguments of `pair`. The passkey is none of them: it answers the question for it, and so never travels with what
/// may be printed.
public struct PairOperation: Codable, Sendable, Hashable {
    /// The device.
    public var address: String
    /// How long it may take to be heard, in seconds.
    public var seconds: Double
    /// Removes the bond that is there first.
    public var repair: Bool
    /// The model that a person says it is, by the catalogue's id, where no name tells.
    public var model: String?

    /// Makes a pairing.
    public init(address: String, seconds: Double = 60, repair: Bool = false, model: String? = nil) {
        self.model = model
        self.address = address
        self.seconds = seconds
        self.repair = repair
    }
}

/// The arguments of `devices set-clock`.
public struct SetClockOperation: Codable, Sendable, Hashable {
    /// The device.
    public var address: String
    /// How long it may take to be heard, in seconds.
    public var seconds: Double

    /// Makes it.
    public init(address: String, seconds: Double = 60) {
        self.address = address
        self.seconds = seconds
    }
}

/// The arguments of `devices probe`.
public struct ProbeOperation: Codable, Sendable, Hashable {
    /// The device.
    public var address: String
    /// How long it may take to be heard, in seconds.
    public var seconds: Double

    /// Makes it.
    public init(address: String, seconds: Double = 60) {
        self.address = address
        self.seconds = seconds
    }
}

/// The arguments of `devices report`.
public struct DeviceReportOperation: Codable, Sendable, Hashable {
    /// The device.
    public var address: String
    /// Everything a device has, not what is new only.
    public var allRecords: Bool
    /// How long it may take to be heard, in seconds.
    public var seconds: Double

    /// Makes it.
    public init(address: String, allRecords: Bool = false, seconds: Double = 60) {
        self.address = address
        self.allRecords = allRecords
        self.seconds = seconds
    }
}

/// The arguments of `read`.
public struct ReadOperation: Codable, Sendable, Hashable {
    /// The devices; none: all that are paired.
    public var addresses: [String]
    /// Everything a device has, not what is new only.
    public var allRecords: Bool
    /// How long a device may take to be heard, in seconds.
    public var seconds: Double

    /// Makes a reading.
    public init(addresses: [String] = [], allRecords: Bool = false, seconds: Double = 60) {
        self.addresses = addresses
        self.allRecords = allRecords
        self.seconds = seconds
    }
}

/// The arguments of `measure`. Who sends it has asked the person who wears the cuff.
public struct MeasureOperation: Codable, Sendable, Hashable {
    /// The cuff.
    public var address: String
    /// How long it may take to be heard, in seconds: 600 at most, so that it inflates while the person is still there.
    public var seconds: Double

    /// Makes it.
    public init(address: String, seconds: Double = 60) {
        self.address = address
        self.seconds = seconds
    }
}

extension Operation {
    /// Whether it goes on until it is stopped, so that stopping it is its ordinary end.
    public var isEndless: Bool {
        switch self {
        case .device(.scan), .device(.monitor), .device(.watch), .device(.record), .sync(.watch): true
        case .subscriber(.watch(let watch)): !watch.once
        default: false
        }
    }

    /// Whether its status tells what it found: it goes on to its end, also if nobody reads its lines any more.
    package var hasVerdict: Bool {
        switch self {
        case .auth, .destination(.test), .device(.probe), .doctor, .store(.verify), .sync(.now): true
        default: false
        }
    }
}
