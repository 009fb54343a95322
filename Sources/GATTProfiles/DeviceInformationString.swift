import HealthReadings

/// One of the texts of the Device Information Service: model, serial number, versions, manufacturer.
///
/// Device Information Service 1.1, 3: UTF-8 without terminator. Many devices pad with NULs, which are dropped; octets
/// that are no UTF-8 become U+FFFD, see ``isFaithful``.
public struct DeviceInformationString: Sendable, Hashable {
    /// Which text it is.
    public enum Kind: UInt16, Sendable, Hashable, CaseIterable {
        case modelNumber = 0x2A24
        case serialNumber = 0x2A25
        case firmwareRevision = 0x2A26
        case hardwareRevision = 0x2A27
        case softwareRevision = 0x2A28
        case manufacturerName = 0x2A29

        /// The name in documents: `serial_number`, …
        public var name: String {
            switch self {
            case .modelNumber: "model_number"
            case .serialNumber: "serial_number"
            case .firmwareRevision: "firmware_revision"
            case .hardwareRevision: "hardware_revision"
            case .softwareRevision: "software_revision"
            case .manufacturerName: "manufacturer_name"
            }
        }
    }

    /// The text; empty where the device says nothing.
    public var text: String

    /// Makes a value of its text.
    public init(text: String) { self.text = text }

    /// Reads a text; any octets are one, so that a bad name never stops a device from being read.
    public init(decoding octets: [UInt8]) {
        let end = octets.lastIndex { $0 != 0 }.map { $0 + 1 } ?? 0
        text = String(decoding: octets[..<end], as: UTF8.self)
    }

    /// False where octets had to be replaced: such a serial number must not be taken for an identity.
    public var isFaithful: Bool { !text.unicodeScalars.contains("\u{FFFD}") }

    /// The text in UTF-8.
    public var encoded: [UInt8] { Array(text.utf8) }
}
