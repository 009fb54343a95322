/// What a PC/SC reader answers to a transparent exchange: data objects and a status (PC/SC part 3 supplement 2.02,
/// 3.2).
public struct PCSCTransparentAnswer: Sendable, Hashable {
    /// What became of a command.
    public struct Status: Sendable, Hashable {
        /// The first object that was not understood, from 1; 0 for none.
        public var object: UInt8
        /// The status word.
        public var word: UInt16
    }

    /// Object C0.
    public var status: Status?
    /// Object 96: what was wrong with the tag's answer.
    public var damage: UInt8 = 0
    /// Object 97: the tag's answer, flags and data; its CRC was checked by the reader.
    public var response: [UInt8]?

    /// - Parameter octets: the whole answer, with its status word.
    /// - Throws: ``ISO15693Error/reader(code:name:)`` with a status other than 9000, or
    ///   ``ISO15693Error/malformedAnswer(_:)``.
    public init(_ octets: [UInt8]) throws(ISO15693Error) {
        var rest = try PCSCStatus.data(of: octets)[...]
        while let first = rest.first {
            // A tag whose lower five bits are set goes on in the next octet.
            var tag = UInt16(first)
            rest = rest.dropFirst()
            if first & 0x1F == 0x1F {
                guard let second = rest.popFirst() else { throw Self.short("a data object's tag") }
                tag = tag << 8 | UInt16(second)
            }
            guard var length = rest.popFirst().map(Int.init) else { throw Self.short("a data object's length") }
            if length == 0x81 {
                guard let long = rest.popFirst() else { throw Self.short("a data object's length") }
                length = Int(long)
            }
            guard length <= rest.count else { throw Self.short("\(length) octets of object \(tag)") }
            take(tag, Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
    }

    private mutating func take(_ tag: UInt16, _ value: [UInt8]) {
        switch (tag, value.count) {
        case (0xC0, 3): status = Status(object: value[0], word: UInt16(value[1]) << 8 | UInt16(value[2]))
        case (0x96, 1...): damage = value[0] & 0x0F
        case (0x97, _): response = value
        default: break
        }
    }

    private static func short(_ what: String) -> ISO15693Error { .malformedAnswer("expected \(what), found its end") }

    /// The tag's answer; nil where it gave none.
    /// - Throws: ``ISO15693Error/badCRC``, ``ISO15693Error/malformedAnswer(_:)``, or
    ///   ``ISO15693Error/reader(code:name:)`` where the reader did not do it.
    public func answer() throws(ISO15693Error) -> [UInt8]? {
        if let status, status.word != 0x9000 {
            // 6401: the tag does not respond; 6300 and 6400: no information why.
            if [0x6401, 0x6400, 0x6300].contains(status.word) { return nil }
            throw PCSCStatus.error(status.word)
        }
        if damage & 0x01 != 0 { throw .badCRC }
        if damage != 0 { throw .malformedAnswer("collision, parity or framing, says the reader") }
        return response
    }
}

/// The two octets at the end of a reader's answer.
enum PCSCStatus {
    /// The data of an answer whose status is 9000.
    static func data(of octets: [UInt8]) throws(ISO15693Error) -> [UInt8] {
        guard let word = word(of: octets) else {
            throw .malformedAnswer("expected a status, found \(octets.count) octets")
        }
        guard word == 0x9000 else { throw error(word) }
        return Array(octets.dropLast(2))
    }

    static func word(of octets: [UInt8]) -> UInt16? {
        guard octets.count >= 2 else { return nil }
        return UInt16(octets[octets.count - 2]) << 8 | UInt16(octets[octets.count - 1])
    }

    static func error(_ word: UInt16) -> ISO15693Error {
        .reader(code: Int32(word), name: "status \(String(word, radix: 16, uppercase: true))")
    }

    /// Statuses that say: this reader does not know this command.
    static func isUnknownCommand(_ word: UInt16) -> Bool {
        [0x6A81, 0x6D00, 0x6E00, 0x6800, 0x6881].contains(word)
    }
}

/// What a card's answer to reset says of it (PC/SC part 3, 3.1.3.2.3).
enum PCSCCardKind: Hashable {
    /// ISO 15693, part 1 to 4.
    case iso15693
    /// Anything else.
    case other

    init(answerToReset octets: [UInt8]) {
        // Historical bytes of a storage card: an application identifier of the PC/SC workgroup, and the standard.
        let mark: [UInt8] = [0x80, 0x4F, 0x0C, 0xA0, 0x00, 0x00, 0x03, 0x06]
        guard octets.count >= 5 + mark.count, Array(octets[4..<4 + mark.count]) == mark else {
            self = .other
            return
        }
        self = (0x09...0x0C).contains(octets[4 + mark.count]) ? .iso15693 : .other
    }
}
