import HealthReadings

/// What is written to an O2Ring or a relative: the one type that ``LiveCourse`` and ``O2RingLink`` take.
///
/// Its constructors are all that there is. Other commands of such an oximeter set its clock, its alarms and its vibration
/// (16), erase it (18) or program it (19, 1A); none can be made of this type.
struct O2RingQuestion: Sendable, Hashable {
    private let command: UInt8
    private let block: UInt16
    private let payload: [UInt8]

    private init(_ command: UInt8, block: UInt16 = 0, _ payload: [UInt8] = []) {
        (self.command, self.block, self.payload) = (command, block, payload)
    }

    /// Asks for the values that the oximeter shows.
    static let values = O2RingQuestion(0x17)
    /// Asks what the oximeter is, what its clock shows, and which recordings it has.
    static let information = O2RingQuestion(0x14)
    /// Opens a recording to be read; the answer is its size.
    static func open(_ name: O2RingRecordingName) -> O2RingQuestion { O2RingQuestion(0x03, name.octets + [0]) }
    /// Asks for a piece of the open recording, by its number.
    static func piece(_ number: UInt16) -> O2RingQuestion { O2RingQuestion(0x04, block: number) }
    /// Closes the open recording.
    static let close = O2RingQuestion(0x05)

    /// The octets: `AA | command | its complement | block (2) | length (2) | payload | CRC-8`.
    var octets: [UInt8] {
        let body =
            [
                0xAA, command, ~command, UInt8(truncatingIfNeeded: block), UInt8(block >> 8), UInt8(payload.count), 0,
            ] + payload
        return body + [ViatomFrame.checksum(body[...])]
    }
}

/// What an oximeter calls a recording: letters, digits, dots and lines, up to 32 of them.
struct O2RingRecordingName: Sendable, Hashable, CustomStringConvertible {
    let octets: [UInt8]

    /// - Returns: `nil` for what an oximeter does not call a recording.
    init?(_ octets: some Collection<UInt8>) {
        let allowed = octets.allSatisfy { octet in
            (0x30...0x39).contains(octet) || (0x41...0x5A).contains(octet) || (0x61...0x7A).contains(octet)
                || octet == 0x2E || octet == 0x2D || octet == 0x5F
        }
        guard (1...32).contains(octets.count), allowed else { return nil }
        self.octets = Array(octets)
    }

    var description: String { String(decoding: octets, as: UTF8.self) }

    /// When the recording began, as the name says: `20200817225251`, in the oximeter's local time.
    var start: WallTime? {
        let digits = octets.prefix(14).map { Int($0) - 0x30 }
        guard digits.count == 14, digits.allSatisfy((0...9).contains),
            octets.count == 14 || octets[14] == 0x2E
        else { return nil }
        func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + $1 } }
        return WallTime(
            year: number(0..<4), month: number(4..<6), day: number(6..<8), hour: number(8..<10),
            minute: number(10..<12), second: number(12..<14))
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
    /// The longest payload that is believed of values: they have thirteen octets.
    static let longestValues = 56
    /// The longest payload that is believed: what an oximeter says of itself has 512 octets.
    static let longestPayload = 2048

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
                throw MalformedFrame(subject: "O2Ring answer", expected: expected, octet: place, in: octets)
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
                UInt8(truncatingIfNeeded: payload.count), UInt8(payload.count >> 8),
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
    /// How many octets that belong to no answer are kept.
    private static let mostRefused = 4096

    /// The longest payload that is waited for.
    private let longest: Int
    private var octets: [UInt8] = []
    private var refused: [UInt8] = []

    /// - Parameter longest: the longest payload that is waited for.
    init(longest: Int = O2RingAnswer.longestValues) { self.longest = longest }

    /// Takes a piece.
    ///
    /// - Returns: the answers that are whole now.
    mutating func take(_ piece: [UInt8]) -> [O2RingAnswer] {
        octets += piece
        var answers: [O2RingAnswer] = []
        var place = 0
        while octets.count - place >= O2RingAnswer.overhead {
            let length = O2RingAnswer.length(octets[place...])
            guard octets[place] == O2RingAnswer.start, octets[place + 2] == ~octets[place + 1],
                length <= longest + O2RingAnswer.overhead
            else {
                refuse(octets[place])
                place += 1
                continue
            }
            guard octets.count - place >= length else { break }
            guard let answer = try? O2RingAnswer(decoding: Array(octets[place..<(place + length)])) else {
                refuse(octets[place])
                place += 1
                continue
            }
            answers.append(answer)
            place += length
        }
        octets.removeFirst(place)
        return answers
    }

    /// Whether octets have come that belong to no answer.
    var hasRefused: Bool { !refused.isEmpty }

    /// Takes out what has come and belongs to no answer, and what may be the beginning of one.
    mutating func takeRefused() -> [UInt8] {
        defer { (octets, refused) = ([], []) }
        return Array((refused + octets).prefix(Self.mostRefused))
    }

    private mutating func refuse(_ octet: UInt8) {
        if refused.count < Self.mostRefused { refused.append(octet) }
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
