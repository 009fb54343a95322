import HealthReadings

/// A message between a OneTouch meter and its host: `01 | 02 length 00 03 payload 03 CRC`.
///
/// The first octet says that it is the first packet, and that there is one; the length counts all octets behind it. The
/// checksum is CRC-16/CCITT-FALSE, low octet first, over everything behind the first octet. Protocol: xDrip, Tidepool.
public struct OneTouchFrame: Sendable, Hashable {
    /// What it says.
    public var payload: [UInt8]

    /// Octets around a payload.
    static let overhead = 8

    /// Makes a message of up to 247 octets; what is longer is cut, which no question is.
    public init(payload: [UInt8]) { self.payload = Array(payload.prefix(255 - 7)) }

    /// Reads a message.
    ///
    /// - Throws: `MalformedFrame` with the octet at which it is none.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        func expect(_ expected: String, _ place: Int, _ isSo: Bool) throws(MalformedFrame) {
            guard isSo else {
                throw MalformedFrame(subject: "OneTouch message", expected: expected, octet: place, in: octets)
            }
        }
        try expect("at least \(Self.overhead) octets", octets.count, octets.count >= Self.overhead)
        try expect("0x01 (one packet)", 0, octets[0] == 0x01)
        try expect("0x02 (start)", 1, octets[1] == 0x02)
        try expect("the length \(octets.count - 1)", 2, Int(octets[2]) == octets.count - 1)
        try expect("0x00", 3, octets[3] == 0x00)
        try expect("0x03 before the payload", 4, octets[4] == 0x03)
        try expect("0x03 behind the payload", octets.count - 3, octets[octets.count - 3] == 0x03)
        let checksum = Self.checksum(octets[1..<(octets.count - 2)])
        let sent = UInt16(octets[octets.count - 2]) | UInt16(octets[octets.count - 1]) << 8
        try expect("the checksum 0x" + String(checksum, radix: 16, uppercase: true), octets.count - 2, checksum == sent)
        payload = Array(octets[5..<(octets.count - 3)])
    }

    /// The octets.
    public var encoded: [UInt8] {
        let body = [0x02, UInt8(payload.count + 7), 0x00, 0x03] + payload + [0x03]
        let checksum = Self.checksum(body[...])
        return [0x01] + body + [UInt8(truncatingIfNeeded: checksum), UInt8(truncatingIfNeeded: checksum >> 8)]
    }

    /// CRC-16/CCITT-FALSE: polynomial 1021, beginning with FFFF, nothing reflected.
    static func checksum(_ octets: ArraySlice<UInt8>) -> UInt16 {
        octets.reduce(0xFFFF) { checksum, octet in
            (0..<8).reduce(checksum ^ UInt16(octet) << 8) { value, _ in
                value & 0x8000 == 0 ? value << 1 : value << 1 ^ 0x1021
            }
        }
    }
}

/// What a meter says to a question.
enum OneTouchAnswer: Sendable, Hashable {
    /// The answer's octets.
    case answer([UInt8])
    /// It refuses, with the code of why.
    case refused(UInt8)

    /// The code of a meter that permits nothing to this host.
    static let notAllowed: UInt8 = 0x07

    init(_ frame: OneTouchFrame) {
        guard let code = frame.payload.first else {
            self = .refused(0)
            return
        }
        self = code == 0x06 ? .answer(Array(frame.payload.dropFirst())) : .refused(code)
    }
}

extension FrameFormat {
    /// A record of a OneTouch meter: its number (two octets, low first), then the meter's message.
    public static let oneTouchRecord = FrameFormat(rawValue: 0x1_0001)
}
