import GATTClient

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Which handle is which characteristic, told by the user for captures that lack the discovery (a bonded phone keeps the
/// table and does not ask again).
///
/// As JSON: `{"0x000e": "2a18", "0x0012": "2a52"}`; handles in hexadecimal with `0x` or in decimal.
public struct HandleMap: Sendable, Hashable {
    /// The UUID of each handle: a characteristic's value, or a descriptor (29xx).
    public var uuids: [UInt16: BluetoothUUID]

    /// Makes a map.
    public init(_ uuids: [UInt16: BluetoothUUID]) { self.uuids = uuids }

    /// Reads a map from JSON.
    /// - Throws: ``HandleMapError``.
    public init(json octets: [UInt8]) throws(HandleMapError) {
        let entries: [String: String]
        do {
            entries = try JSONDecoder().decode([String: String].self, from: Data(octets))
        } catch {
            throw .notAnObjectOfStrings
        }
        uuids = [:]
        for (key, value) in entries.sorted(by: { $0.key < $1.key }) {
            let isHexadecimal = key.hasPrefix("0x") || key.hasPrefix("0X")
            let digits = isHexadecimal ? key.dropFirst(2) : key[...]
            guard digits.first != "+", let handle = UInt16(digits, radix: isHexadecimal ? 16 : 10), handle > 0 else {
                throw .notAHandle(key)
            }
            guard let uuid = BluetoothUUID(value) else { throw .notAUUID(value, handle: handle) }
            guard uuids[handle] == nil || uuids[handle] == uuid else { throw .handleTwice(handle) }
            uuids[handle] = uuid
        }
    }
}

/// What is wrong with a handle map.
public enum HandleMapError: Error, Sendable, Hashable {
    /// The text is not a JSON object whose values are strings.
    case notAnObjectOfStrings
    /// A key is no handle (1 … 65535).
    case notAHandle(String)
    /// A value is no UUID.
    case notAUUID(String, handle: UInt16)
    /// A handle has two different UUIDs.
    case handleTwice(UInt16)
}

extension HandleMapError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        switch self {
        case .notAnObjectOfStrings:
            "the handle map is not a JSON object like {\"0x000e\": \"2a18\"}"
        case .notAHandle(let key): "the handle map's \"\(key)\" is not a handle: expected 0x0001 to 0xffff"
        case .notAUUID(let value, let handle):
            "the handle map's \"\(value)\" (handle \(handle)) is not a UUID: expected 4 hexadecimal digits or a full UUID"
        case .handleTwice(let handle): "the handle map has two UUIDs for handle \(handle)"
        }
    }
}
