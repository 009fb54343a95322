import GATTClient
import HealthReadings
import Synchronization
import Testing

@testable import HealthDevices

/// An O2Ring by its own protocol, with the faults that links have. Its time passes while it is waited for.
final class EmulatedO2Ring: Peripheral {
    struct Behaviour: Sendable {
        /// What it says of its values, for the question with this number, counted from 0 over all connections.
        var values: @Sendable (Int) -> [UInt8] = { _ in EmulatedO2Ring.payload(98, 66) }
        /// The status of its answers.
        var status: UInt8 = 0
        /// Questions that it doesn't answer, counted as above.
        var ignores: @Sendable (Int) -> Bool = { _ in false }
        /// Answers that come with a bit changed, counted as above.
        var damages: Set<Int> = []
        /// Questions of one connection after which the link goes.
        var cutAfterQuestions: Int?
        /// Microseconds until an answer's first piece comes.
        var delay: Int64 = 60_000
        /// What it says may be done with the characteristic that it is asked at, and takes there.
        var properties: CharacteristicProperties?
        /// Whether its service has a characteristic to be asked at.
        var canBeAsked = true
        var hasService = true
        /// What it has recorded, by name.
        var recordings: [(name: String, octets: [UInt8])] = []
        /// What its clock shows.
        var clock = "2026-11-18,07:30:00"
        /// The most octets of a recording in one answer.
        var pieceOfRecording = 512
        /// The name for which it opens another recording instead, the first of these times.
        var mistakes: (name: String, times: Int)?
        /// Octets that recordings are said to have beyond those that they have.
        var claims = 0
        /// Notifications that are lost, counted over all that are sent.
        var losesPieces: Set<Int> = []
        /// Answers that come twice, and that come with the next one, counted as questions.
        var repeats: Set<Int> = []
        var delays: Set<Int> = []
        var name = "O2Ring 4512"
        var address = DeviceAddress.device(11)
    }

    private struct State {
        var behaviour: Behaviour
        var isConnected = false
        var isNotifying = false
        var queue: [(at: Int64, octets: [UInt8])] = []
        var questions = 0
        var questionsOfConnection = 0
        var connections = 0
        var askedAt: [Int64] = []
        var written: [UInt8] = []
        /// The commands of the last connection.
        var commands: [UInt8] = []
        var open: [UInt8]?
        var late: [[UInt8]] = []
        var pieces = 0
        var now: Int64 = 1_795_000_000_000_000
    }

    let log: EventLog
    private let state: Mutex<State>

    init(log: EventLog, _ adjust: (inout Behaviour) -> Void = { _ in }) {
        var behaviour = Behaviour()
        adjust(&behaviour)
        state = Mutex(State(behaviour: behaviour))
        self.log = log
    }

    /// An answer's thirteen octets.
    static func payload(_ saturation: UInt8, _ pulse: UInt16, worn: UInt8 = 1) -> [UInt8] {
        [saturation, UInt8(truncatingIfNeeded: pulse), UInt8(pulse >> 8), 0, 0, 0, 0, 97, 0, 3, 11, worn, 0]
    }

    var behaviour: Behaviour { state.withLock { $0.behaviour } }
    func change(_ change: @Sendable (inout Behaviour) -> Void) { state.withLock { change(&$0.behaviour) } }
    var connections: Int { state.withLock { $0.connections } }
    var isConnected: Bool { state.withLock { $0.isConnected } }
    /// What the last connection was asked.
    var commands: [UInt8] { state.withLock { $0.commands } }
    /// Whether a recording was left open.
    var isOpen: Bool { state.withLock { $0.open != nil } }
    /// When it was asked, in microseconds.
    var askedAt: [Int64] { state.withLock { $0.askedAt } }

    var advertisement: Advertisement {
        Advertisement(address: behaviour.address, name: behaviour.name, seenAt: Instant(seconds: 0))
    }

    func connect() async throws -> Instant {
        log.note(.connect)
        return state.withLock { state in
            (state.isConnected, state.questionsOfConnection, state.queue) = (true, 0, [])
            (state.written, state.commands, state.open, state.late) = ([], [], nil, [])
            state.connections += 1
            return Instant(microseconds: state.now)
        }
    }

    func characteristics() async throws -> [Characteristic] {
        let behaviour = behaviour
        let information = [Characteristic(uuid: 0x2A29, service: 0x180A, valueHandle: 20)]
        guard behaviour.hasService else { return information }
        let answers = Characteristic(uuid: Viatom.answers, service: Viatom.service, valueHandle: 30)
        let requests = Characteristic(
            uuid: Viatom.requests, service: Viatom.service, valueHandle: 33, properties: behaviour.properties)
        return information + [answers] + (behaviour.canBeAsked ? [requests] : [])
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        log.note(.read(characteristic.uuid))
        throw GATTError.attribute(0x02)
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        log.note(.write(octets))
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            let needed: CharacteristicProperties = expectingResponse ? .write : .writeWithoutResponse
            guard characteristic.uuid == Viatom.requests,
                (state.behaviour.properties ?? .writeWithoutResponse).contains(needed)
            else { throw GATTError.attribute(0x03) }
            state.written += octets
            guard state.written.count >= 8, state.written.count >= 8 + Int(state.written[5]) else { return }
            let question = state.written
            state.written = []
            let number = state.questions
            state.questions += 1
            state.questionsOfConnection += 1
            state.askedAt.append(state.now)
            if let cut = state.behaviour.cutAfterQuestions, state.questionsOfConnection > cut {
                state.isConnected = false
                throw GATTError.disconnected
            }
            #expect(ViatomFrame.checksum(question.dropLast()) == question.last && question[2] == ~question[1])
            state.commands.append(question[1])
            guard state.isNotifying, !state.behaviour.ignores(number), let given = Self.answer(question, number, &state)
            else { return }
            var answer = given.encoded
            if state.behaviour.damages.contains(number) { answer[min(8, answer.count - 1)] ^= 0x10 }
            let answers = state.late + [answer] + (state.behaviour.repeats.contains(number) ? [answer] : [])
            state.late = []
            if state.behaviour.delays.contains(number) { return state.late = answers }
            // The link carries twenty octets at a time.
            for answer in answers {
                for place in stride(from: 0, to: answer.count, by: 20) {
                    defer { state.pieces += 1 }
                    guard !state.behaviour.losesPieces.contains(state.pieces) else { continue }
                    state.queue.append(
                        (state.now + state.behaviour.delay, Array(answer[place..<min(place + 20, answer.count)])))
                }
            }
        }
    }

    private static func answer(_ question: [UInt8], _ number: Int, _ state: inout State) -> O2RingAnswer? {
        let behaviour = state.behaviour
        let block = UInt16(question[3]) | UInt16(question[4]) << 8
        switch question[1] {
        case 0x17: return O2RingAnswer(status: behaviour.status, payload: behaviour.values(number))
        case 0x14:
            let list = behaviour.recordings.map { $0.name + "," }.joined()
            let text =
                #"{"Region":"CE","Model":"1652","CurTIME":"\#(behaviour.clock)","CurBAT":"97%","FileList":"\#(list)"}"#
            return O2RingAnswer(payload: Array(text.utf8) + [UInt8](repeating: 0, count: max(0, 512 - text.utf8.count)))
        case 0x03:
            let name = String(decoding: question[7..<(question.count - 2)], as: UTF8.self)
            guard question[question.count - 2] == 0, behaviour.status == 0 else {
                return O2RingAnswer(status: 9, payload: [])
            }
            state.open = behaviour.recordings.first { $0.name == name }?.octets
            if let mistake = behaviour.mistakes, mistake.name == name, mistake.times > 0 {
                state.behaviour.mistakes?.times -= 1
                state.open = behaviour.recordings.first { $0.name != name }?.octets
            }
            guard let open = state.open else { return O2RingAnswer(status: 1, payload: []) }
            let size = UInt32(open.count + behaviour.claims)
            return O2RingAnswer(payload: (0..<4).map { UInt8(truncatingIfNeeded: size >> (8 * UInt32($0))) })
        case 0x04:
            guard let open = state.open else { return O2RingAnswer(status: 2, payload: []) }
            let start = Int(block) * behaviour.pieceOfRecording
            guard start < open.count else { return O2RingAnswer(status: 3, block: block, payload: []) }
            return O2RingAnswer(
                block: block, payload: Array(open[start..<min(start + behaviour.pieceOfRecording, open.count)]))
        case 0x05:
            state.open = nil
            return O2RingAnswer(payload: [])
        default:
            Issue.record("an oximeter is told \(question[1])")
            return nil
        }
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        log.note(.start(characteristic.uuid))
        state.withLock { $0.isNotifying = true }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        log.note(.stop(characteristic.uuid))
        state.withLock { ($0.isNotifying, $0.queue) = (false, []) }
    }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        try Task.checkCancellation()
        await Task.yield()
        return state.withLock { state in
            guard state.isConnected else { return .disconnected }
            let patience = timeout.components.seconds * 1_000_000 + timeout.components.attoseconds / 1_000_000_000_000
            guard let first = state.queue.first, first.at <= state.now + patience else {
                state.now += patience
                return .silence
            }
            state.queue.removeFirst()
            state.now = max(state.now, first.at)
            return .values([
                CharacteristicValue(
                    uuid: Viatom.answers, octets: first.octets, receivedAt: Instant(microseconds: state.now))
            ])
        }
    }

    func disconnect() async {
        log.note(.disconnect)
        state.withLock { $0.isConnected = false }
    }
}
