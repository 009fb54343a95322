import GATTClient
import HealthReadings
import Synchronization

@testable import HealthDevices

/// A Microlife monitor by its own protocol, with the faults that links have.
final class EmulatedMicrolife: Peripheral {
    struct Behaviour: Sendable {
        /// Each user's records, oldest first.
        var records: [[[UInt8]]] = [[], []]
        /// The user that is chosen at it: 1 or 2.
        var chosen: UInt8 = 1
        /// How many users it says it has; `nil`: it says nothing of itself.
        var users: UInt8? = 2
        /// The generation that it is.
        var side = MicrolifeFrame.Side.monitor
        /// Whether it shows only the user that is chosen, whoever is asked for.
        var showsChosenOnly = false
        /// Whether it refuses to show its memory.
        var refuses = false
        /// The measurement that goes on.
        var measuring: [UInt8]?
        /// Pieces that are lost, counted over all that are sent.
        var losesPieces: Set<Int> = []
        /// Histories come with a changed octet, so many times.
        var damages = 0
        /// Histories come twice, so many times.
        var repeats = 0
        /// Requests that are not answered, so many times.
        var silences = 0
        /// The link goes once so many pieces were sent.
        var cutAfterPieces: Int?
        /// Whether requests are written without a response.
        var takesCommandsOnly = false
        /// Acknowledgements of nothing come before each answer.
        var sendsStrays = false
    }

    private struct State {
        var behaviour: Behaviour
        var isConnected = false
        var isNotifying = false
        var queue: [(octets: [UInt8], frames: Int)] = []
        var requests: [MicrolifeFrame] = []
        var pieces = 0
        var waited = Duration.zero
        var now: Int64 = 1_795_000_000
        var settingsOfClock = 0
    }

    let log: EventLog
    private let name: String
    private let state: Mutex<State>

    init(_ behaviour: Behaviour, name: String = "B3 BT", log: EventLog) {
        state = Mutex(State(behaviour: behaviour))
        (self.name, self.log) = (name, log)
    }

    func change(_ change: @Sendable (inout Behaviour) -> Void) { state.withLock { change(&$0.behaviour) } }
    var behaviour: Behaviour { state.withLock { $0.behaviour } }
    /// What the last contact was asked.
    var requests: [MicrolifeFrame] { state.withLock { $0.requests } }
    var waited: Duration { state.withLock { $0.waited } }
    /// How often its clock was set, as one of the earlier generation does by what it is asked for its memory with.
    var settingsOfClock: Int { state.withLock { $0.settingsOfClock } }

    var advertisement: Advertisement {
        Advertisement(address: .device(8), name: name, isPaired: true, seenAt: Instant(seconds: 0))
    }

    func connect() async throws -> Instant {
        log.note(.connect)
        return state.withLock { state in
            (state.isConnected, state.requests, state.pieces) = (true, [], 0)
            state.now += 3600
            return Instant(seconds: state.now)
        }
    }

    func characteristics() async throws -> [Characteristic] {
        [
            Characteristic(uuid: Microlife.answers, service: Microlife.service, valueHandle: 3),
            Characteristic(uuid: Microlife.requests, service: Microlife.service, valueHandle: 6),
            Characteristic(uuid: 0x2A24, service: 0x180A, valueHandle: 95),
        ]
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        log.note(.read(characteristic.uuid))
        throw GATTError.attribute(0x02)
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            guard characteristic.uuid == Microlife.requests,
                expectingResponse != state.behaviour.takesCommandsOnly
            else { throw GATTError.attribute(0x06) }
            log.note(.write(octets))
            let request = try MicrolifeFrame(decoding: octets)
            state.requests.append(request)
            if state.behaviour.silences > 0 {
                state.behaviour.silences -= 1
                return
            }
            let side = state.behaviour.side
            if state.behaviour.sendsStrays { send(MicrolifeFrame(side, 0x81), &state) }
            switch request.command {
            case 0x04: state.queue = []
            case 0x05: if let users = state.behaviour.users { send(Self.identity(users, side), &state) }
            case 0x00: history(request.data, &state)
            default: send(MicrolifeFrame(side, 0x91), &state)
            }
        }
    }

    private static func identity(_ users: UInt8, _ side: MicrolifeFrame.Side) -> MicrolifeFrame {
        // Of the generation before it says who its only user is, and which version it is.
        guard side == .monitor else { return MicrolifeFrame(side, 0x05, [UInt8](repeating: 1, count: 20)) }
        var data = [UInt8](repeating: 0, count: 57)
        (data[0], data[49], data[50]) = (1, users, 99)
        return MicrolifeFrame(side, 0x05, data)
    }

    private func history(_ request: [UInt8], _ state: inout State) {
        if state.behaviour.side == .earlierMonitor {
            state.settingsOfClock += 1
            // Seven octets, three measurements that go on, and records of seven.
            let record: [UInt8] = [134, 70, 68, 7, 17, 17, 2]
            return send(MicrolifeFrame(.earlierMonitor, 0, [UInt8](repeating: 0, count: 28) + record), &state)
        }
        guard !state.behaviour.refuses, request.count == 7, request.dropLast().allSatisfy({ $0 == 0 }) else {
            return send(MicrolifeFrame(.monitor, 0x91), &state)
        }
        let user =
            request[6] == 0xFD || state.behaviour.showsChosenOnly ? state.behaviour.chosen : request[6]
        guard (1...state.behaviour.records.count).contains(Int(user)) else {
            return send(MicrolifeFrame(.monitor, 0x91), &state)
        }
        let records = state.behaviour.measuring == nil ? state.behaviour.records[Int(user) - 1] : []
        var head = [UInt8](repeating: 0, count: 37)
        (head[2], head[3]) = (UInt8(records.count), user)
        if let measuring = state.behaviour.measuring {
            head[2] = 7
            head.replaceSubrange(7..<(7 + measuring.count), with: measuring)
        }
        let frame = MicrolifeFrame(.monitor, 0, head + records.flatMap(\.self))
        let isWanted = request[6] == 0xFD || request[6] == user
        let stored = isWanted ? records.count { !MicrolifeRecord.isEmpty($0) } : 0
        guard state.behaviour.damages > 0 else { return send(frame, records: stored, &state) }
        state.behaviour.damages -= 1
        send(frame, records: stored, damaged: true, &state)
    }

    /// What stays damaged is told of to the log when it is sent for the last time, as only that is stored.
    private func send(
        _ frame: MicrolifeFrame, records: Int = 0, damaged: Bool = false, _ state: inout State
    ) {
        guard state.isNotifying else { return }
        var octets = frame.encoded
        if damaged { octets[octets.count / 2] ^= 0x10 }
        var isWhole = !damaged
        var sent: [(octets: [UInt8], frames: Int)] = []
        for place in stride(from: 0, to: octets.count, by: 20) {
            defer { state.pieces += 1 }
            guard !state.behaviour.losesPieces.contains(state.pieces) else {
                isWhole = false
                continue
            }
            sent.append((Array(octets[place..<min(place + 20, octets.count)]), 0))
        }
        // An acknowledgement is no answer, and is not stored.
        let again = sent
        if isWhole, frame.command != 0x81, !sent.isEmpty { sent[sent.count - 1].frames = 1 + records }
        state.queue += sent
        if frame.command == 0x00, state.behaviour.repeats > 0 {
            state.behaviour.repeats -= 1
            state.queue += again
        }
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        log.note(.start(characteristic.uuid))
        state.withLock { $0.isNotifying = true }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        try Task.checkCancellation()
        log.note(.stop(characteristic.uuid))
        state.withLock { ($0.isNotifying, $0.queue) = (false, []) }
    }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        state.withLock { state in
            if let cut = state.behaviour.cutAfterPieces, state.pieces > cut, state.queue.count < state.pieces - cut {
                state.isConnected = false
            }
            guard state.isConnected else { return .disconnected }
            guard !state.queue.isEmpty else {
                state.waited += timeout
                return .silence
            }
            let (octets, frames) = state.queue.removeFirst()
            if frames > 0 { log.note(.handedOut(frames)) }
            return .values([
                CharacteristicValue(uuid: Microlife.answers, octets: octets, receivedAt: Instant(seconds: state.now))
            ])
        }
    }

    func disconnect() async {
        log.note(.disconnect)
        state.withLock { ($0.isConnected, $0.isNotifying, $0.queue) = (false, false, []) }
    }
}
