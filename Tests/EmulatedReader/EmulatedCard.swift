import Glibc
import Synchronization

/// A tag at a PC/SC reader, as vsmartcard-vpcd lends one: what the reader makes of the tag is part of it.
public final class EmulatedCard: Sendable {
    /// The tag and its reader.
    public struct Behaviour: Sendable {
        /// The tag.
        public var tag: EmulatedTag
        /// Whether the reader has transparent sessions.
        public var forwardsFrames = true
        /// Whether the reader has commands to read a storage card.
        public var readsBlocks = true
        /// Whether the reader gives the UID with its highest octet first, as some do.
        public var turnsUIDRound = false
        /// The standard in the answer to reset (PC/SC part 3): 0B is ISO 15693 part 3, 03 ISO 14443 A part 3.
        public var standard: UInt8 = 0x0B
        /// The tag's answers that the reader finds damaged, counted from 1 at every change.
        public var damagedAnswers: Set<Int> = []
        /// The tag does not answer any more, and the reader has not noticed that it was taken away.
        public var isSilent = false

        /// A tag at a reader that can do everything.
        public init(_ tag: EmulatedTag) { self.tag = tag }
    }

    private struct State {
        var behaviour: Behaviour
        var answers = 0
        var commands: [[UInt8]] = []
        var isInSession = false
    }

    private let state: Mutex<State>
    private let connection: Int32

    /// There is no such reader.
    public struct Failure: Error {
        /// What is not there.
        public var what: String
    }

    /// Puts the tag to the reader that waits at a port.
    public init(port: UInt16, _ behaviour: Behaviour) throws {
        state = Mutex(State(behaviour: behaviour))
        connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard Self.withAddress(port, { [connection] in connect(connection, $0, $1) }) == 0 else {
            // deinit closes the connection.
            throw Failure(what: "no reader waits at port \(port)")
        }
        let line = CardLine(connection: dup(connection)) { [weak self] in self?.answer($0) }
        var thread = pthread_t()
        let status = pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<CardLine>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(line).toOpaque())
        guard status == 0 else { throw Failure(what: "no thread") }
        pthread_detach(thread)
    }

    deinit {
        remove()
        close(connection)
    }

    /// Takes the tag away.
    public func remove() { shutdown(connection, Int32(SHUT_RDWR)) }

    /// Changes what it does; a new count of answers begins.
    public func change(_ body: (inout Behaviour) -> Void) {
        state.withLock { state in
            body(&state.behaviour)
            state.answers = 0
        }
    }

    /// The commands the reader was given.
    public var commands: [[UInt8]] { state.withLock { $0.commands } }

    /// Makes an address on loopback.
    static func withAddress(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    // MARK: The reader's side

    /// What vpcd is told: one octet is for the card's power, 04 asks for the answer to reset; the rest are commands.
    private func answer(_ message: [UInt8]) -> [UInt8]? {
        if message.count == 1 {
            if message[0] != 0x04 { state.withLock { $0.isInSession = false } }
            return message[0] == 0x04 ? answerToReset : nil
        }
        return state.withLock { state in
            state.commands.append(message)
            return Self.run(message, &state)
        }
    }

    private var answerToReset: [UInt8] {
        let standard = state.withLock { $0.behaviour.standard }
        let octets: [UInt8] =
            [0x8F, 0x80, 0x01, 0x80, 0x4F, 0x0C, 0xA0, 0x00, 0x00, 0x03, 0x06, standard] + [0, 0x14, 0, 0, 0, 0]
        return [0x3B] + octets + [octets.reduce(0, ^)]
    }

    private static let done: [UInt8] = [0x90, 0x00]
    private static let unknown: [UInt8] = [0x6A, 0x81]
    private static let failed: [UInt8] = [0x64, 0x00]

    private static func run(_ command: [UInt8], _ state: inout State) -> [UInt8] {
        guard command.count >= 5, command[0] == 0xFF else { return [0x6E, 0x00] }
        let parameters = Array(command.dropFirst(5))
        switch (command[1], command[2], command[3]) {
        case (0xCA, 0, 0):
            guard !state.behaviour.isSilent else { return failed }
            let uid = state.behaviour.tag.uid
            return (state.behaviour.turnsUIDRound ? uid : uid.reversed()) + done
        case (0xB0, 0, let block):
            guard state.behaviour.readsBlocks else { return unknown }
            guard let answer = ask([0x02, 0x20, block], &state)?.octets else { return failed }
            return answer[0] & 1 == 0 ? Array(answer.dropFirst()) + done : [0x6A, 0x82]
        case (0xC2, 0, let function):
            guard state.behaviour.forwardsFrames else { return unknown }
            let understood: [UInt8] = [0xC0, 0x03, 0x00, 0x90, 0x00]
            switch (function, parameters.first) {
            case (0x00, 0x81):
                state.isInSession = true
                return understood + done
            case (0x00, 0x82):
                state.isInSession = false
                return understood + done
            case (0x02, 0x8F):
                let isKnown = parameters.prefix(4) == [0x8F, 0x02, 0x02, 0x03]
                return isKnown ? understood + [0x8F, 0x01, 0x00] + done : [0xC0, 0x03, 0x01, 0x6A, 0x80] + done
            case (0x01, 0x95):
                guard state.isInSession, parameters.count >= 2 else { return [0x69, 0x85] }
                let frame = Array(parameters.dropFirst(2).prefix(Int(parameters[1])))
                guard let answer = ask(frame, &state) else { return [0xC0, 0x03, 0x01, 0x64, 0x01] + done }
                let status: [UInt8] = [0x92, 0x01, 0x00, 0x96, 0x02, answer.isDamaged ? 0x01 : 0x00, 0x00]
                return understood + status + [0x97, UInt8(answer.octets.count)] + answer.octets + done
            default: return [0xC0, 0x03, 0x01, 0x6A, 0x81] + done
            }
        default: return unknown
        }
    }

    private static func ask(_ frame: [UInt8], _ state: inout State) -> (octets: [UInt8], isDamaged: Bool)? {
        guard !state.behaviour.isSilent, let answer = state.behaviour.tag.answer(to: frame) else { return nil }
        state.answers += 1
        return (Array(answer.dropLast(2)), state.behaviour.damagedAnswers.contains(state.answers))
    }
}

/// The connection to the virtual reader: two octets of length, then a message.
private final class CardLine: Sendable {
    private let connection: Int32
    private let answer: @Sendable ([UInt8]) -> [UInt8]?

    init(connection: Int32, answer: @escaping @Sendable ([UInt8]) -> [UInt8]?) {
        (self.connection, self.answer) = (connection, answer)
    }

    func run() {
        while let head = read(2), let message = read(Int(head[0]) << 8 | Int(head[1])) {
            guard let octets = answer(message) else { continue }
            let whole = [UInt8(octets.count >> 8), UInt8(octets.count & 0xFF)] + octets
            guard send(connection, whole, whole.count, Int32(MSG_NOSIGNAL)) == whole.count else { break }
        }
        close(connection)
    }

    private func read(_ count: Int) -> [UInt8]? {
        var octets = [UInt8](repeating: 0, count: count)
        var place = 0
        while place < count {
            let got = octets.withUnsafeMutableBytes {
                recv(connection, $0.baseAddress?.advanced(by: place), count - place, 0)
            }
            guard got > 0 else { return nil }
            place += got
            // The driver sends a length and waits for its acknowledgement before the rest.
            var isQuick: Int32 = 1
            setsockopt(
                connection, Int32(IPPROTO_TCP), Int32(TCP_QUICKACK), &isQuick, socklen_t(MemoryLayout<Int32>.size))
        }
        return octets
    }
}
