import HealthReadings

/// What can go wrong between a central and a peripheral.
public enum GATTError: Error, Sendable, Hashable {
    /// The device refused: an ATT error code (Core Specification, Vol 3, Part F, 3.4.1.1; 0x80 … 0x9F are a profile's,
    /// 0xE0 … 0xFF are common profile errors).
    case attribute(UInt8)
    /// The device has no such characteristic.
    case noSuchCharacteristic(BluetoothUUID)
    /// The connection is gone.
    case disconnected
    /// The device did not answer in time.
    case timedOut
}

extension GATTError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        switch self {
        case .attribute(let code): "the device refused: \(Self.name(ofAttributeError: code))"
        case .noSuchCharacteristic(let uuid): "the device has no characteristic \(uuid)"
        case .disconnected: "the device has disconnected"
        case .timedOut: "the device did not answer in time"
        }
    }

    /// The specification's name of an ATT error code: `read not permitted (0x02)`.
    public static func name(ofAttributeError code: UInt8) -> String {
        let names: [UInt8: String] = [
            0x01: "invalid handle", 0x02: "read not permitted", 0x03: "write not permitted", 0x04: "invalid PDU",
            0x05: "insufficient authentication", 0x06: "request not supported", 0x07: "invalid offset",
            0x08: "insufficient authorization", 0x09: "prepare queue full", 0x0A: "attribute not found",
            0x0B: "attribute not long", 0x0C: "insufficient encryption key size",
            0x0D: "invalid attribute value length", 0x0E: "unlikely error", 0x0F: "insufficient encryption",
            0x10: "unsupported group type", 0x11: "insufficient resources", 0x12: "database out of sync",
            0x13: "value not allowed", 0x80: "procedure already in progress",
            0x81: "client characteristic configuration improperly configured", 0xFC: "write request rejected",
            0xFD: "client characteristic configuration improperly configured", 0xFE: "procedure already in progress",
            0xFF: "out of range",
        ]
        return "\(names[code] ?? "error") (0x\(code.hexadecimal(uppercase: true)))"
    }
}
