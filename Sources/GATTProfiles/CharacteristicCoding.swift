import GATTClient
import HealthReadings

/// A characteristic's value as it is sent: octets ↔ fields, nothing interpreted and nothing lost that has a meaning.
///
/// Reserved bits and octets behind the last field are accepted (Bluetooth requires this of a client); a value that is
/// shorter than its flags say is refused.
public protocol CharacteristicCoding: Sendable, Hashable {
    /// The 16-bit assigned number of the characteristic.
    static var assignedNumber: UInt16 { get }

    /// Reads a value.
    ///
    /// - Throws: `MalformedFrame` with the first field that is missing or impossible.
    init(decoding octets: RawSpan) throws(MalformedFrame)

    /// The octets, least significant first.
    var encoded: [UInt8] { get }
}

extension CharacteristicCoding {
    /// The characteristic.
    public static var uuid: BluetoothUUID { BluetoothUUID(assignedNumber) }

    /// Reads a value.
    ///
    /// - Throws: `MalformedFrame` with the first field that is missing or impossible.
    @inlinable
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        try self.init(decoding: octets.span.bytes)
    }
}
