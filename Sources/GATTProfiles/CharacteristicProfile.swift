import GATTClient
import HealthReadings

/// A characteristic in its service: what its values are for, and how they are read.
public struct CharacteristicProfile: Sendable {
    /// What the values of a characteristic are for.
    public enum Role: Sendable, Hashable {
        /// They are records, which are stored.
        case record
        /// They come beside the records and are stored with them: contexts, and what a device shows until it has
        /// measured.
        case companion
        /// They come while the device measures. They are shown and not stored.
        case live
        /// They say what the device can do. The profiles protect them, so that reading one proves a bond.
        case feature
        /// They can be read: names, versions, a battery level.
        case readable
        /// They show the device's clock.
        case clock
        /// The device is asked for something by writing them.
        case controlPoint
    }

    typealias Decoder = @Sendable (RawSpan) throws(MalformedFrame) -> DecodedFrame
    typealias Describer = @Sendable ([UInt8]) throws(MalformedFrame) -> JSONValue
    typealias ClockReader = @Sendable ([UInt8]) throws(MalformedFrame) -> WallTime?

    /// The characteristic.
    public let uuid: BluetoothUUID
    /// What its values are for.
    public let role: Role
    /// Reads a value as a frame; `nil` if no frame follows from a value alone.
    let decode: Decoder?
    /// Reads a value as a document of its own; `nil` if it has none.
    let describe: Describer?
    /// Reads a value as what the device's clock shows; `nil` if a value alone does not say that.
    let readClock: ClockReader?

    init(
        _ uuid: BluetoothUUID, _ role: Role, decode: Decoder? = nil, describe: Describer? = nil,
        readClock: ClockReader? = nil
    ) {
        self.uuid = uuid
        self.role = role
        self.decode = decode
        self.describe = describe
        self.readClock = readClock
    }

    /// What the device's clock shows.
    ///
    /// - Returns: the time; `nil` if the clock was never set, or a value alone does not say what it shows.
    /// - Throws: `MalformedFrame`.
    public func wallTime(in octets: [UInt8]) throws(MalformedFrame) -> WallTime? { try readClock?(octets) }

    /// Whether a value alone says what the device's clock shows.
    public var showsWallTime: Bool { readClock != nil }
}

/// A value that is a record.
protocol RecordCoding: CharacteristicCoding {
    /// The record this is.
    var record: Record { get }
}

/// A value that has a document of its own.
protocol DocumentCoding: CharacteristicCoding {
    /// The fields by name.
    var document: JSONValue { get }
}

/// A value that is what a clock shows.
protocol ClockCoding: DocumentCoding {
    /// The time; `nil` if it is unknown.
    var wallTime: WallTime? { get }
}

extension CharacteristicProfile {
    /// Values that are records.
    static func record<Value: RecordCoding>(_ type: Value.Type) -> CharacteristicProfile {
        CharacteristicProfile(Value.uuid, .record, decode: decoder(of: type))
    }

    /// Values that come while the device measures.
    static func live<Value: RecordCoding>(_ type: Value.Type) -> CharacteristicProfile {
        CharacteristicProfile(Value.uuid, .live, decode: decoder(of: type))
    }

    /// Values that have a document of their own.
    static func described<Value: DocumentCoding>(_ type: Value.Type, as role: Role) -> CharacteristicProfile {
        CharacteristicProfile(Value.uuid, role, describe: describer(of: type))
    }

    /// Values that show the device's clock.
    static func clock<Value: ClockCoding>(_ type: Value.Type) -> CharacteristicProfile {
        CharacteristicProfile(
            Value.uuid, .clock, describe: describer(of: type),
            readClock: { (octets: [UInt8]) throws(MalformedFrame) -> WallTime? in
                try Value(decoding: octets).wallTime
            })
    }

    /// One of the texts of the Device Information Service.
    static func text(_ kind: DeviceInformationString.Kind) -> CharacteristicProfile {
        CharacteristicProfile(
            BluetoothUUID(kind.rawValue), .readable,
            describe: { (octets: [UInt8]) throws(MalformedFrame) -> JSONValue in
                .object([kind.name: .string(DeviceInformationString(decoding: octets).text)])
            })
    }

    private static func decoder<Value: RecordCoding>(of type: Value.Type) -> Decoder {
        { (octets: RawSpan) throws(MalformedFrame) -> DecodedFrame in .record(try Value(decoding: octets).record) }
    }

    private static func describer<Value: DocumentCoding>(of type: Value.Type) -> Describer {
        { (octets: [UInt8]) throws(MalformedFrame) -> JSONValue in try Value(decoding: octets).document }
    }
}
