import HealthReadings

/// A device's answer at the Record Access Control Point (2A52). Glucose Service 1.0.1, 3.4.
public enum RecordAccessResponse: CharacteristicCoding {
    /// 2A52.
    public static let assignedNumber: UInt16 = 0x2A52

    /// Number of Stored Records (05): the answer to a count.
    case numberOfRecords(UInt16)
    /// Response Code (06), 1: the request with this op code succeeded.
    case succeeded(requestOpCode: UInt8)
    /// Response Code (06), any other: the request with this op code ended so.
    case failed(requestOpCode: UInt8, RACPError)

    /// Reads an answer.
    ///
    /// The operator octet, which the specification sets to 0, is not looked at: an answer must not be lost to it, or
    /// a finished transfer would be taken for one that stalled.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Record Access Control Point response (2A52)")
        let opCode = try cursor.octet("op code", of: octets)
        guard opCode == 5 || opCode == 6 else {
            throw cursor.unexpected(
                "op code 0x05 (number of stored records) or 0x06 (response code)", found: hexadecimal(opCode))
        }
        _ = try cursor.octet("operator", of: octets)
        if opCode == 5 {
            self = .numberOfRecords(try cursor.word("number of stored records", of: octets))
            return
        }
        let requestOpCode = try cursor.octet("request op code", of: octets)
        let responseCode = try cursor.octet("response code", of: octets)
        if let error = RACPError(responseCode: responseCode) {
            self = .failed(requestOpCode: requestOpCode, error)
        } else {
            self = .succeeded(requestOpCode: requestOpCode)
        }
    }

    /// Four octets.
    public var encoded: [UInt8] {
        switch self {
        case .numberOfRecords(let count):
            [5, 0, UInt8(truncatingIfNeeded: count), UInt8(truncatingIfNeeded: count >> 8)]
        case .succeeded(let requestOpCode): [6, 0, requestOpCode, 1]
        case .failed(let requestOpCode, let error): [6, 0, requestOpCode, error.responseCode]
        }
    }
}
