import HealthReadings

/// A message between a Viatom device and its host:
/// `A5 | command | its complement | direction | number | length (2, low octet first) | payload | CRC-8`.
///
/// The checksum has the polynomial 07 and begins with 0; it covers everything before it. Protocol: the viatom_bp2_ha and
/// o2ring-s-protocol projects, which have logged it.
public struct ViatomFrame: Sendable, Hashable {
    /// What is asked for, or answered.
    package let command: UInt8
    /// 0 from the host, 1 from the device; the device's code where it refuses.
    package let direction: UInt8
    /// Which message of the connection it is.
    package let number: UInt8
    /// What stands in it.
    package let payload: [UInt8]

    static let (fromHost, fromDevice): (UInt8, UInt8) = (0, 1)
    /// The first octet of each message.
    package static let start: UInt8 = 0xA5
    /// Octets around the payload.
    static let overhead = 8
    /// The longest payload that is believed.
    static let longestPayload = 2048

    package init(command: UInt8, direction: UInt8, number: UInt8, payload: [UInt8] = []) {
        (self.command, self.direction, self.number) = (command, direction, number)
        self.payload = Array(payload.prefix(Self.longestPayload))
    }

    /// Reads a message.
    ///
    /// - Throws: `MalformedFrame` with the octet at which it is none.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        func expect(_ expected: String, _ place: Int, _ isSo: Bool) throws(MalformedFrame) {
            guard isSo else {
                throw MalformedFrame(subject: "Viatom message", expected: expected, octet: place, in: octets)
            }
        }
        try expect("at least \(Self.overhead) octets", octets.count, octets.count >= Self.overhead)
        try expect("0xA5 (start)", 0, octets[0] == Self.start)
        try expect("the complement of the command", 2, octets[2] == ~octets[1])
        try expect("the length \(octets.count - Self.overhead)", 5, Self.length(octets) == octets.count)
        let checksum = Self.checksum(octets.dropLast())
        try expect(
            "the checksum 0x" + checksum.hexadecimal(uppercase: true), octets.count - 1,
            octets[octets.count - 1] == checksum)
        (command, direction, number) = (octets[1], octets[3], octets[4])
        payload = Array(octets[7..<(octets.count - 1)])
    }

    /// The octets.
    public var encoded: [UInt8] {
        let length = payload.count
        let body =
            [
                Self.start, command, ~command, direction, number, UInt8(truncatingIfNeeded: length),
                UInt8(truncatingIfNeeded: length >> 8),
            ] + payload
        return body + [Self.checksum(body[...])]
    }

    /// How many octets the message has that begins so; `nil` before that can be known.
    static func length(_ octets: [UInt8]) -> Int? {
        octets.count < 7 ? nil : Int(octets[5]) + Int(octets[6]) << 8 + overhead
    }

    /// CRC-8 with the polynomial 07, beginning with 0, nothing reflected.
    static func checksum(_ octets: ArraySlice<UInt8>) -> UInt8 {
        octets.reduce(0) { checksum, octet in
            (0..<8).reduce(checksum ^ octet) { value, _ in value & 0x80 == 0 ? value << 1 : value << 1 ^ 0x07 }
        }
    }
}

/// Puts together the messages that a Viatom device sends in pieces as long as the link allows.
package struct ViatomPieces: Sendable {
    private var octets: [UInt8] = []

    package init() {}

    /// Forgets what has come.
    mutating func clear() { octets = [] }

    /// Takes a piece.
    ///
    /// - Returns: the messages that are whole now, and what can be none.
    package mutating func take(_ piece: [UInt8]) -> [[UInt8]] {
        octets += piece
        var messages: [[UInt8]] = []
        while let first = octets.first {
            guard first == ViatomFrame.start else { return messages + [taken(octets.count)] }
            guard let length = ViatomFrame.length(octets) else { return messages }
            guard length <= ViatomFrame.longestPayload + ViatomFrame.overhead else {
                return messages + [taken(octets.count)]
            }
            guard octets.count >= length else { return messages }
            messages.append(taken(length))
        }
        return messages
    }

    private mutating func taken(_ count: Int) -> [UInt8] {
        defer { octets.removeFirst(count) }
        return Array(octets.prefix(count))
    }
}

extension FrameFormat {
    /// A message of a Viatom device as it came.
    public static let viatomMessage = FrameFormat(rawValue: 0x1_0007)
    /// A record of a BP2's list of blood pressures: which of the equal records without a time it is (an octet, from 0),
    /// then its octets as they stand in the list.
    public static let viatomPressure = FrameFormat(rawValue: 0x1_0008)
}
