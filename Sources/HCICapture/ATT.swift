import GATTClient
import GATTProfiles

/// The attribute protocol's opcodes (Core Specification, Vol 3, Part F, 3.4.8).
enum ATT {
    static let findInformationRequest: UInt8 = 0x04
    static let findInformationResponse: UInt8 = 0x05
    static let findByTypeValueRequest: UInt8 = 0x06
    static let findByTypeValueResponse: UInt8 = 0x07
    static let readByTypeRequest: UInt8 = 0x08
    static let readByTypeResponse: UInt8 = 0x09
    static let readRequest: UInt8 = 0x0A
    static let readResponse: UInt8 = 0x0B
    static let readBlobRequest: UInt8 = 0x0C
    static let readBlobResponse: UInt8 = 0x0D
    static let readMultipleRequest: UInt8 = 0x0E
    static let readMultipleResponse: UInt8 = 0x0F
    static let readByGroupTypeRequest: UInt8 = 0x10
    static let readByGroupTypeResponse: UInt8 = 0x11
    static let writeRequest: UInt8 = 0x12
    static let prepareWriteRequest: UInt8 = 0x16
    static let writeCommand: UInt8 = 0x52
    static let notification: UInt8 = 0x1B
    static let indication: UInt8 = 0x1D
    static let confirmation: UInt8 = 0x1E
    static let readMultipleVariableRequest: UInt8 = 0x20
    static let readMultipleVariableResponse: UInt8 = 0x21
    static let multipleNotification: UInt8 = 0x23
}

extension BluetoothUUID {
    static let characteristicDeclaration: BluetoothUUID = 0x2803
    static let deviceName: BluetoothUUID = 0x2A00
    static let recordAccessControlPoint = RecordAccessRequest.uuid
    /// What shows a device's clock: Current Time, Date Time, CGM Status.
    static let clocks = Set(ServiceProfile.clocks.map(\.uuid))
    /// What comes when it is asked for at a record access control point: glucose measurements and contexts, and the
    /// measurements of continuous sensors.
    static let askedFor = Set(ServiceProfile.all.filter(\.isAskedFor).flatMap { $0.records + $0.companions })

    /// Declarations (28xx) and descriptors (29xx): attributes that are no characteristic's value.
    var isDeclarationOrDescriptor: Bool {
        guard let assignedNumber else { return false }
        return (0x2800...0x29FF).contains(assignedNumber)
    }
}

extension [UInt8] {
    /// The UUID of 2 or 16 octets in a PDU; nil for another length.
    func uuid(_ range: Range<Int>) -> BluetoothUUID? { BluetoothUUID(littleEndian: Array(self[range])) }
}
