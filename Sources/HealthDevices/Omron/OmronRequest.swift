import HealthReadings

/// What is written to an Omron monitor: the one type that ``OmronLink`` takes.
///
/// Its constructors are all that there is: begin, read and end in the memory, and the key. No request writes to the
/// memory, so that no record, counter, setting or clock of a monitor can change. Its own app finds everything as it was.
struct OmronRequest: Sendable, Hashable {
    /// The characteristics it is written to.
    enum Place: Sendable, Hashable {
        /// The first channel to the memory.
        case memory
        /// The characteristic of the key.
        case key
    }

    let place: Place
    let octets: [UInt8]
    /// What its answer begins with.
    private let answer: [UInt8]

    private init(_ frame: OmronFrame) {
        place = .memory
        octets = frame.encoded
        answer = [octets[1] | 0x80] + octets[2...4]
    }

    private init(key octets: [UInt8], answer: [UInt8]) {
        place = .key
        self.octets = octets
        self.answer = answer
    }

    // MARK: The memory

    /// Begins a session.
    static let start = OmronRequest(OmronFrame(.start, count: 0x10))
    /// Ends a session.
    static let end = OmronRequest(OmronFrame(.end))

    /// Asks for octets of the memory.
    ///
    /// - Parameters:
    ///   - address: the first.
    ///   - count: 1 … 56.
    /// - Returns: `nil` if no message can ask for as many, or the memory ends before the last of them.
    static func read(_ count: Int, at address: UInt16) -> OmronRequest? {
        guard (1...OmronFrame.mostData).contains(count), Int(address) + count <= 0x1_0000 else { return nil }
        return OmronRequest(OmronFrame(.read, address: address, count: UInt8(count)))
    }

    // MARK: The key

    /// Asks a monitor that is being paired to take a key.
    static let programKey = OmronRequest(key: [0x02] + [UInt8](repeating: 0, count: 16), answer: [0x82])

    /// Gives the monitor the key.
    static func store(_ key: OmronKey) -> OmronRequest { OmronRequest(key: [0x00] + key.octets, answer: [0x80]) }

    /// Shows the key at the beginning of a session.
    static func unlock(_ key: OmronKey) -> OmronRequest { OmronRequest(key: [0x01] + key.octets, answer: [0x81]) }

    /// Asks a monitor without a key to say four octets again, as it wants to be asked before a session.
    static func echo(_ token: UInt32) -> OmronRequest {
        let octets = (0..<4).map { UInt8(truncatingIfNeeded: token >> (24 - 8 * UInt32($0))) }
        return OmronRequest(
            key: [0x11] + octets + [UInt8](repeating: 0, count: 15), answer: [0x91, 0x00] + octets)
    }

    // MARK: Answers

    /// Whether a message of the memory answers this request.
    func isAnswered(by frame: OmronFrame) -> Bool {
        let head = frame.encoded[1...4]
        // The address of an answer to the start or the end is not ours to expect.
        return octets[1] == 0x01 ? head.elementsEqual(answer) : head.prefix(2).elementsEqual(answer.prefix(2))
    }

    /// What a value of the key's characteristic says to this request; `nil` if it answers another.
    func keyAnswer(_ octets: [UInt8]) -> OmronKeyAnswer? {
        guard let first = octets.first, first == answer[0] || first == 0 else { return nil }
        if answer.count > 1 { return octets.starts(with: answer) ? .accepted : .refused(octets.dropFirst().first ?? 0) }
        return octets.count > 1 && first == answer[0] && octets[1] == 0
            ? .accepted : .refused(octets.dropFirst().first ?? 0)
    }
}

/// What a monitor says to a request with a key.
enum OmronKeyAnswer: Sendable, Hashable {
    case accepted
    /// With the monitor's code: 0F where the link is not encrypted yet, 04 where another key is stored.
    case refused(UInt8)
}

/// The key that a monitor with four channels wants: chosen at pairing, and shown in each session.
///
/// Whoever has it, and a bond, can read the monitor. It is in no log: its description shows nothing of it.
public struct OmronKey: Sendable, Hashable, CustomStringConvertible {
    /// The octets.
    let octets: [UInt8]

    /// Octets of a key.
    static let length = 16

    /// A key that nobody can guess.
    static func random() -> OmronKey {
        var generator = SystemRandomNumberGenerator()
        return OmronKey(unchecked: (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) })
    }

    /// Makes a key of its 16 octets; `nil` for another count.
    init?(_ octets: [UInt8]) {
        guard octets.count == Self.length else { return nil }
        self.octets = octets
    }

    private init(unchecked octets: [UInt8]) { self.octets = octets }

    /// No octet of it.
    public var description: String { "a key of \(octets.count) octets" }
}
