import HealthReadings

/// A message of Omron's memory protocol: `length | kind (2) | address (2) | count | data | status | check`.
///
/// Kind and address are big-endian. The length counts every octet, and the XOR of all of them is 0. A request has 0 for its
/// status. Protocol: omblepy, hass-omron.
public struct OmronFrame: Sendable, Hashable {
    /// What the message is. Answers have the highest bit set.
    public enum Kind: UInt16, Sendable, Hashable, CaseIterable {
        case start = 0x0000
        case read = 0x0100
        case end = 0x0F00
        case started = 0x8000
        case hasRead = 0x8100
        case ended = 0x8F00
    }

    /// What it is.
    public var kind: UInt16
    /// The address in the monitor's memory; 0 where none is meant.
    public var address: UInt16
    /// How many octets are asked for, or were asked for.
    public var count: UInt8
    /// The octets of the memory; empty where a monitor refuses.
    public var data: [UInt8]
    /// 0, or the code of why a monitor refuses.
    public var status: UInt8

    /// Octets around the data.
    static let overhead = 8
    /// The octets of the longest message: four channels of 16.
    static let longest = 64
    /// The most octets of memory in one message.
    static let mostData = longest - overhead

    /// Makes a message; of the data, what is longer than a message can carry is cut.
    public init(_ kind: Kind, address: UInt16 = 0, count: UInt8 = 0, data: [UInt8] = [], status: UInt8 = 0) {
        self.kind = kind.rawValue
        self.address = address
        self.count = count
        self.data = Array(data.prefix(Self.mostData))
        self.status = status
    }

    /// Reads a message. Octets behind its length are the padding of the last channel's.
    ///
    /// - Throws: `MalformedFrame` with the octet at which it is none.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        func expect(_ expected: String, _ place: Int, _ isSo: Bool) throws(MalformedFrame) {
            guard isSo else {
                throw MalformedFrame(subject: "Omron message", expected: expected, octet: place, in: octets)
            }
        }
        try expect("at least \(Self.overhead) octets", octets.count, octets.count >= Self.overhead)
        let length = Int(octets[0])
        try expect("a length of \(Self.overhead) … \(Self.longest)", 0, (Self.overhead...Self.longest).contains(length))
        try expect("\(length) octets", octets.count, octets.count >= length)
        let check = octets[..<length].reduce(0, ^)
        try expect("the check 0x" + (check ^ octets[length - 1]).hexadecimal(uppercase: true), length - 1, check == 0)
        kind = UInt16(octets[1]) << 8 | UInt16(octets[2])
        address = UInt16(octets[3]) << 8 | UInt16(octets[4])
        count = octets[5]
        data = Array(octets[6..<(length - 2)])
        status = octets[length - 2]
    }

    /// The octets.
    public var encoded: [UInt8] {
        let body =
            [
                UInt8(data.count + Self.overhead), UInt8(kind >> 8), UInt8(truncatingIfNeeded: kind),
                UInt8(address >> 8), UInt8(truncatingIfNeeded: address), count,
            ] + data + [status]
        return body + [body.reduce(0, ^)]
    }
}

extension FrameFormat {
    /// A message of an Omron monitor as it came: what was read of its memory, or that it was refused.
    public static let omronMessage = FrameFormat(rawValue: 0x1_0003)
    /// A record of an Omron monitor's memory: its address (two octets, high first), then its octets as they stand there.
    public static let omronRecord = FrameFormat(rawValue: 0x1_0004)
}
