import HealthReadings

/// Which records a request is about: operator and operand of the Record Access Control Point (2A52).
public enum RecordSelection: Sendable, Hashable {
    /// What records are compared by.
    public enum Bound: Sendable, Hashable {
        /// The sequence number.
        case sequenceNumber(UInt16)
        /// The time the user sees: base time + offset.
        case userFacingTime(DateTime)
    }

    /// All stored records.
    case all
    /// Records up to and including a bound.
    case atMost(Bound)
    /// Records from a bound on, the bound included.
    case atLeast(Bound)
    /// Records between two sequence numbers, both included.
    case sequenceNumbers(from: UInt16, to: UInt16)
    /// Records between two user-facing times, both included.
    case userFacingTimes(from: DateTime, to: DateTime)
    /// The oldest record.
    case first
    /// The newest record.
    case last
}

/// A request at the Record Access Control Point (2A52). Glucose Service 1.0.1, 3.4.
///
/// There is deliberately no request to delete records: readings are never taken from a device's memory.
public enum RecordAccessRequest: CharacteristicCoding {
    /// 2A52.
    public static let assignedNumber: UInt16 = 0x2A52

    /// Send the selected records as notifications.
    case report(RecordSelection)
    /// Say how many records are selected.
    case count(RecordSelection)
    /// End the running procedure.
    case abort

    /// The op code: report 1, abort 3, count 4.
    public var opCode: UInt8 {
        switch self {
        case .report: 1
        case .abort: 3
        case .count: 4
        }
    }

    /// Reads a request, as a capture or an emulated meter receives it.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Record Access Control Point request (2A52)")
        let opCode = try cursor.octet("op code", of: octets)
        switch opCode {
        case 1: self = .report(try RecordSelection(decoding: octets, after: &cursor))
        case 4: self = .count(try RecordSelection(decoding: octets, after: &cursor))
        case 3:
            guard try cursor.octet("operator", of: octets) == 0 else {
                throw cursor.unexpected("operator 0x00 (null)", found: "another operator")
            }
            self = .abort
        default:
            throw cursor.unexpected(
                "op code 0x01 (report), 0x03 (abort) or 0x04 (count)",
                found: hexadecimal(opCode) + (opCode == 2 ? " (delete, which is not supported)" : ""))
        }
    }

    /// 2 to 17 octets.
    public var encoded: [UInt8] {
        switch self {
        case .report(let selection), .count(let selection): [opCode] + selection.encoded
        case .abort: [opCode, 0]
        }
    }
}

extension RecordSelection {
    private enum Filter: UInt8 {
        case sequenceNumber = 1
        case userFacingTime = 2
    }

    init(decoding octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) {
        let code = try cursor.octet("operator", of: octets)
        switch code {
        case 1: self = .all
        case 2: self = .atMost(try Self.bound(try Self.filter(in: octets, after: &cursor), in: octets, after: &cursor))
        case 3: self = .atLeast(try Self.bound(try Self.filter(in: octets, after: &cursor), in: octets, after: &cursor))
        case 4:
            switch try Self.filter(in: octets, after: &cursor) {
            case .sequenceNumber:
                self = .sequenceNumbers(
                    from: try cursor.word("first sequence number", of: octets),
                    to: try cursor.word("last sequence number", of: octets))
            case .userFacingTime:
                self = .userFacingTimes(
                    from: try cursor.dateTime("first user-facing time", of: octets),
                    to: try cursor.dateTime("last user-facing time", of: octets))
            }
        case 5: self = .first
        case 6: self = .last
        default: throw cursor.unexpected("operator 0x01 to 0x06", found: hexadecimal(code))
        }
    }

    private static func filter(in octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) -> Filter {
        let code = try cursor.octet("filter type", of: octets)
        guard let filter = Filter(rawValue: code) else {
            throw cursor.unexpected(
                "filter type 0x01 (sequence number) or 0x02 (user-facing time)", found: hexadecimal(code))
        }
        return filter
    }

    private static func bound(
        _ filter: Filter, in octets: RawSpan, after cursor: inout OctetCursor
    ) throws(MalformedFrame) -> Bound {
        switch filter {
        case .sequenceNumber: .sequenceNumber(try cursor.word("sequence number", of: octets))
        case .userFacingTime: .userFacingTime(try cursor.dateTime("user-facing time", of: octets))
        }
    }

    var encoded: [UInt8] {
        var octets: [UInt8]
        switch self {
        case .all: return [1]
        case .atMost(let bound): return [2] + bound.encoded
        case .atLeast(let bound): return [3] + bound.encoded
        case .sequenceNumbers(let from, let to):
            octets = [4, Filter.sequenceNumber.rawValue]
            octets.append(word: from)
            octets.append(word: to)
            return octets
        case .userFacingTimes(let from, let to):
            return [4, Filter.userFacingTime.rawValue] + from.encoded + to.encoded
        case .first: return [5]
        case .last: return [6]
        }
    }
}

extension RecordSelection.Bound {
    var encoded: [UInt8] {
        switch self {
        case .sequenceNumber(let number):
            var octets: [UInt8] = [1]
            octets.append(word: number)
            return octets
        case .userFacingTime(let time): return [2] + time.encoded
        }
    }
}
