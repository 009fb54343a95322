import HealthReadings

/// A message between a Microlife monitor and its host: `4D | side | length (2, high octet first) | command | data | sum`.
///
/// The length counts the command, the data and the sum, which is that of all octets before it. Protocol: the
/// blood-pressure-monitor and microlife_bp projects; the octets that an owner has logged agree with it.
public struct MicrolifeFrame: Sendable, Hashable {
    /// Who sends it.
    enum Side: UInt8, Sendable, Hashable {
        case host = 0xFF
        /// A monitor of the present generation.
        case monitor = 0x3A
        /// A monitor of the generation before, which its maker calls 3G. It sets its clock by what it is asked for its memory with.
        case earlierMonitor = 0x31
    }

    /// What a message asks for, or says.
    enum Command: UInt8, Sendable, Hashable {
        case history = 0x00
        case disconnect = 0x04
        case identity = 0x05
        /// The monitor has done what it was asked for.
        case done = 0x81
        /// The monitor does not do it.
        case notDone = 0x91
    }

    /// Who sends it.
    package let side: UInt8
    /// What it asks for, or says.
    package let command: UInt8
    /// What stands behind that.
    package private(set) var data: [UInt8]

    /// Octets around the data.
    static let overhead = 6
    /// Octets in front of those that the length counts.
    static let head = 4
    /// The first octet of each message.
    static let start: UInt8 = 0x4D
    /// The longest message that is believed: two hundred and fifty-five records.
    static let longest = 42 + 255 * MicrolifeRecord.length + 1

    init(_ side: Side, _ command: UInt8, _ data: [UInt8] = []) {
        self.side = side.rawValue
        self.command = command
        self.data = data
    }

    /// The same message with other data.
    package func replacing(_ data: [UInt8]) -> MicrolifeFrame {
        var other = self
        other.data = data
        return other
    }

    /// Reads a message.
    ///
    /// - Throws: `MalformedFrame` with the octet at which it is none.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        func expect(_ expected: String, _ place: Int, _ isSo: Bool) throws(MalformedFrame) {
            guard isSo else {
                throw MalformedFrame(subject: "Microlife message", expected: expected, octet: place, in: octets)
            }
        }
        try expect("at least \(Self.overhead) octets", octets.count, octets.count >= Self.overhead)
        try expect("0x4D (start)", 0, octets[0] == Self.start)
        try expect("the length \(octets.count - Self.head)", 2, Self.length(octets) == octets.count)
        let sum = octets.dropLast().reduce(0, &+)
        try expect(
            "the sum 0x" + sum.hexadecimal(uppercase: true), octets.count - 1, octets[octets.count - 1] == sum)
        side = octets[1]
        command = octets[4]
        data = Array(octets[5..<(octets.count - 1)])
    }

    /// The octets.
    public var encoded: [UInt8] {
        let count = data.count + 2
        let body = [Self.start, side, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count), command]
        return body + data + [(body + data).reduce(0, &+)]
    }

    /// How many octets the message has that begins so; `nil` before that can be known.
    static func length(_ octets: [UInt8]) -> Int? {
        octets.count < head ? nil : Int(octets[2]) << 8 + Int(octets[3]) + head
    }
}

/// Puts together the message that a monitor sends in pieces of up to 20 octets.
package struct MicrolifePieces: Sendable {
    private var octets: [UInt8] = []

    package init() {}

    /// Forgets what has come, at each new request.
    mutating func clear() { octets = [] }

    /// Takes a piece.
    ///
    /// - Returns: the message, where it is whole, or where it can be none; it may still be none.
    package mutating func take(_ piece: [UInt8]) -> [UInt8]? {
        octets += piece
        let isMessage = octets.prefix(1).allSatisfy { $0 == MicrolifeFrame.start }
        guard isMessage, let length = MicrolifeFrame.length(octets) else { return isMessage ? nil : taken() }
        guard (MicrolifeFrame.overhead...MicrolifeFrame.longest).contains(length) else { return taken() }
        return octets.count < length ? nil : taken()
    }

    private mutating func taken() -> [UInt8] {
        defer { octets = [] }
        return octets
    }
}

extension FrameFormat {
    /// A message of a Microlife monitor as it came.
    public static let microlifeMessage = FrameFormat(rawValue: 0x1_0005)
    /// A record of a Microlife monitor: whose it is (an octet: 1, 2, or 3 for a guest), which of the equal records of that
    /// user it is (an octet, from 0), then its octets as they stand in the message.
    public static let microlifeRecord = FrameFormat(rawValue: 0x1_0006)
}
