import GATTClient
import LibDBus
import Logging

/// Reads an object's properties: one that is missing, or of another type than BlueZ documents, is nil.
///
/// The latter is logged at debug, by the property's name and the types alone.
struct PropertyReader {
    let interface: String
    let values: [String: DBusValue]
    let logger: Logger

    func string(_ name: String) -> String? { read(name, "s", \.stringValue) }
    func bool(_ name: String) -> Bool? { read(name, "b", \.boolValue) }
    func strings(_ name: String) -> [String]? { read(name, "as", \.stringValues) }
    func objectPath(_ name: String) -> String? { read(name, "o", \.objectPathValue) }

    /// Octets by number.
    func numberedOctets(_ name: String) -> [UInt16: [UInt8]]? {
        read(name, "a{qv}") { value in
            guard case .dictionary(let entries, _, _) = value.unwrapped else { return nil }
            var found: [UInt16: [UInt8]] = [:]
            for (key, entry) in entries {
                guard case .uint16(let number) = key, case .bytes(let octets) = entry.unwrapped else { return nil }
                found[number] = octets
            }
            return found
        }
    }

    /// Octets by UUID.
    func octetsByUUID(_ name: String) -> [BluetoothUUID: [UInt8]]? {
        read(name, "a{sv}") { value in
            guard case .dictionary(let entries, _, _) = value.unwrapped else { return nil }
            var found: [BluetoothUUID: [UInt8]] = [:]
            for (key, entry) in entries {
                guard let text = key.stringValue, case .bytes(let octets) = entry.unwrapped else { return nil }
                if let uuid = BluetoothUUID(text) { found[uuid] = octets }
            }
            return found
        }
    }

    func integer(_ name: String, in range: ClosedRange<Int>) -> Int? {
        read(name, "an integer of \(range.lowerBound) to \(range.upperBound)") { value in
            value.intValue.flatMap { range.contains($0) ? $0 : nil }
        }
    }

    private func read<Value>(_ name: String, _ expected: String, _ convert: (DBusValue) -> Value?) -> Value? {
        guard let value = values[name] else { return nil }
        if let converted = convert(value) { return converted }
        logger.debug(
            "a property of another type is passed over",
            metadata: [
                "property": "\(interface).\(name)", "expected": "\(expected)", "found": "\(value.unwrapped.signature)",
            ])
        return nil
    }
}
