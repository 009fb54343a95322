import HealthReadings

/// What is written to an O2Ring or a relative: the one type that ``LiveCourse`` takes.
///
/// Its constructors are all that there is. Other commands of such an oximeter set its clock, its alarms and its vibration
/// (16), erase it (18) or program it (19, 1A); none can be made of this type.
struct O2RingQuestion: Sendable, Hashable {
    private let command: UInt8

    private init(_ command: UInt8) { self.command = command }

    /// Asks for the values that the oximeter shows.
    static let values = O2RingQuestion(0x17)

    /// The octets: `AA | command | its complement | block (2) | length (2) | CRC-8`, as no question has a payload.
    var octets: [UInt8] {
        let body: [UInt8] = [0xAA, command, ~command, 0, 0, 0, 0]
        return body + [ViatomFrame.checksum(body[...])]
    }
}

/// An O2Ring's answer: `55 | status | its complement | block (2, low octet first) | length (2) | payload | CRC-8`.
///
/// The checksum is that of a ``ViatomFrame``. An answer doesn't say which question it belongs to. Protocol: the o2r and
/// viatom-ble projects, and the maker's own kit, LepuBle.
public struct O2RingAnswer: Sendable, Hashable {
    /// 0 if the oximeter answers, else its reason not to.
    let status: UInt8
    /// Which piece of a file it is; 0 for other answers.
    let block: UInt16
    /// What stands in it.
    let payload: [UInt8]

    /// The first octet of each answer.
    static let start: UInt8 = 0x55
    /// Octets around the payload.
    static let overhead = 8
    /// The longest payload that is believed: the values have thirteen octets.
    static let longestPayload = 56

    init(status: UInt8 = 0, block: UInt16 = 0, payload: [UInt8]) {
        (self.status, self.block) = (status, block)
        self.payload = Array(payload.prefix(Self.longestPayload))
    }

    /// Reads an answer.
    ///
    /// - Throws: `MalformedFrame` with the octet at which it is none.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) {
        func expect(_ expected: String, _ place: Int, _ isSo: Bool) throws(MalformedFrame) {
            guard isSo else {
                throw MalformedFrame(
                    subject: "O2Ring answer", expected: expected, octet: place,
                    found: place < octets.count
                        ? "0x" + octets[place].hexadecimal(uppercase: true) : "the end after \(octets.count) octets")
            }
        }
        try expect("at least \(Self.overhead) octets", octets.count, octets.count >= Self.overhead)
        try expect("0x55 (start)", 0, octets[0] == Self.start)
        try expect("the complement of the status", 2, octets[2] == ~octets[1])
        let length = octets.count - Self.overhead
        try expect("the length \(length)", 5, Self.length(octets[...]) == octets.count)
        try expect("at most \(Self.longestPayload) octets", 5, length <= Self.longestPayload)
        let checksum = ViatomFrame.checksum(octets.dropLast())
        try expect(
            "the checksum 0x" + checksum.hexadecimal(uppercase: true), octets.count - 1,
            octets[octets.count - 1] == checksum)
        status = octets[1]
        block = UInt16(octets[3]) | UInt16(octets[4]) << 8
        payload = Array(octets[7..<(octets.count - 1)])
    }

    /// The octets.
    public var encoded: [UInt8] {
        let body =
            [
                Self.start, status, ~status, UInt8(truncatingIfNeeded: block), UInt8(truncatingIfNeeded: block >> 8),
                UInt8(payload.count), 0,
            ] + payload
        return body + [ViatomFrame.checksum(body[...])]
    }

    /// How many octets the answer has that begins so.
    static func length(_ octets: ArraySlice<UInt8>) -> Int {
        Int(octets[octets.startIndex + 5]) + Int(octets[octets.startIndex + 6]) << 8 + overhead
    }
}

/// Puts together the answers that an O2Ring sends in pieces of twenty octets.
struct O2RingPieces: Sendable {
    private var octets: [UInt8] = []

    /// Takes a piece.
    ///
    /// - Returns: the answers that are whole now. Octets that belong to none are dropped.
    mutating func take(_ piece: [UInt8]) -> [O2RingAnswer] {
        octets += piece
        var answers: [O2RingAnswer] = []
        while octets.count >= O2RingAnswer.overhead {
            let length = O2RingAnswer.length(octets[...])
            guard octets[0] == O2RingAnswer.start, octets[2] == ~octets[1],
                length <= O2RingAnswer.longestPayload + O2RingAnswer.overhead
            else {
                octets.removeFirst()
                continue
            }
            guard octets.count >= length else { break }
            guard let answer = try? O2RingAnswer(decoding: Array(octets.prefix(length))) else {
                octets.removeFirst()
                continue
            }
            answers.append(answer)
            octets.removeFirst(length)
        }
        return answers
    }
}

/// What an O2Ring shows, as its answer to ``O2RingQuestion/values`` says it:
/// `SpO2 | pulse (2, low octet first) | steps (4) | battery | charging | motion | perfusion | worn | alarms`.
struct O2RingValues: Sendable, Hashable {
    /// Percent; 0 while it calibrates, 255 without a finger.
    let saturation: UInt8
    /// Beats a minute; 0 while it calibrates, 65,535 without a finger.
    let pulse: UInt16
    /// Whether it is on a finger.
    let isWorn: Bool

    /// - Returns: `nil` where the answer is another.
    init?(_ answer: O2RingAnswer) {
        let payload = answer.payload
        // Older firmware has no alarms.
        guard answer.status == 0, payload.count >= 12 else { return nil }
        saturation = payload[0]
        pulse = UInt16(payload[1]) | UInt16(payload[2]) << 8
        // The upper bits count down, once it was taken off.
        isWorn = payload[11] & 0x01 == 1
    }
}
