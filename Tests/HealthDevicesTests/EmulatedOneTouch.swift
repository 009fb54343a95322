import GATTClient
import HealthReadings
import Synchronization

@testable import HealthDevices

/// A OneTouch meter by its own protocol, with the faults that links have.
final class EmulatedOneTouch: Peripheral {
    struct Behaviour: Sendable {
        /// Records by number: seconds of its clock, mg/dL, control solution.
        var records: [(number: UInt16, time: UInt32, value: UInt16, control: UInt8)] = []
        var clock: UInt32 = 848_000_000
        /// Every message is sent so many times.
        var copies = 1
        /// Answers to records of these numbers come damaged, so many times each.
        var damages: [UInt16: Int] = [:]
        /// It answers for records of these numbers only after so long, once, and nothing else meanwhile.
        var delays: [UInt16: Duration] = [:]
        /// Before it answers for records of these numbers, it sends others once more.
        var resends: [UInt16: UInt16] = [:]
        /// Once it was asked for the record behind this one, it sends this one whatever it is asked.
        var stuckAt: UInt16?
        /// Answers that are not sent, so many times.
        var silences = 0
        /// The code it refuses everything with.
        var refuses: UInt8?
        /// The codes that it refuses records of these numbers with.
        var refusesRecords: [UInt16: UInt8] = [:]
        /// It never answers for records of these numbers.
        var unreadable: Set<UInt16> = []
        /// For numbers that it does not have it sends the record whose number is so much higher.
        var ring: UInt16?
        /// The link goes after so many records.
        var cutAfter: Int?
        /// What it says its newest number and its count are, in place of the truth.
        var claims: (newest: UInt32, count: UInt16)?
    }

    private struct State {
        var behaviour: Behaviour
        var isConnected = false
        var isNotifying = false
        /// Messages, and when they come by ``waited``.
        var queue: [(octets: [UInt8], at: Duration)] = []
        var busyUntil = Duration.zero
        var asked: [UInt16] = []
        var acknowledged = 0
        var handedOut = 0
        var waited = Duration.zero
        var now: Int64 = 1_795_000_000

        mutating func send(_ octets: [UInt8]) { queue.append((octets, max(waited, busyUntil))) }
    }

    let log: EventLog
    private let state: Mutex<State>

    init(_ behaviour: Behaviour, log: EventLog) {
        state = Mutex(State(behaviour: behaviour))
        self.log = log
    }

    func change(_ change: @Sendable (inout Behaviour) -> Void) { state.withLock { change(&$0.behaviour) } }
    var behaviour: Behaviour { state.withLock { $0.behaviour } }
    /// The numbers of the records that were asked for.
    var asked: [UInt16] { state.withLock { $0.asked } }
    var acknowledged: Int { state.withLock { $0.acknowledged } }
    var waited: Duration { state.withLock { $0.waited } }
    func forgetQuestions() { state.withLock { $0.asked = [] } }

    var advertisement: Advertisement {
        Advertisement(address: .device(7), name: "OneTouch AB12", isPaired: true, seenAt: Instant(seconds: 0))
    }

    func connect() async throws -> Instant {
        log.note(.connect)
        return state.withLock { state in
            (state.isConnected, state.handedOut) = (true, 0)
            state.now += 3600
            return Instant(seconds: state.now)
        }
    }

    func characteristics() async throws -> [Characteristic] {
        [
            Characteristic(uuid: OneTouch.questions, service: OneTouch.service, valueHandle: 3),
            Characteristic(uuid: OneTouch.answers, service: OneTouch.service, valueHandle: 5),
            Characteristic(uuid: 0x2A25, service: 0x180A, valueHandle: 8),
        ]
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        log.note(.read(characteristic.uuid))
        guard characteristic.uuid == 0x2A25 else { throw GATTError.attribute(0x02) }
        return CharacteristicValue(uuid: 0x2A25, octets: Array("OT-1".utf8), receivedAt: Instant(seconds: 0))
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        log.note(.write(octets))
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            guard characteristic.uuid == OneTouch.questions, !expectingResponse else { throw GATTError.attribute(0x03) }
            guard octets != OneTouch.acknowledgement else {
                state.acknowledged += 1
                return
            }
            guard state.isNotifying else { return }
            state.send(OneTouch.acknowledgement)
            let question = try OneTouchFrame(decoding: octets).payload
            if state.behaviour.silences > 0 {
                state.behaviour.silences -= 1
                return
            }
            if let stuck = state.behaviour.stuckAt, state.asked.contains(stuck),
                let earlier = Self.record(stuck, state.behaviour)
            {
                state.send(earlier)
                return
            }
            if question.count == 3, question[0] == 0xB3 {
                let number = UInt16(question[1]) | UInt16(question[2]) << 8
                guard !state.behaviour.unreadable.contains(number) else {
                    state.asked.append(number)
                    return
                }
                if let delay = state.behaviour.delays.removeValue(forKey: number) {
                    state.busyUntil = state.waited + delay
                }
                if let earlier = state.behaviour.resends[number].flatMap({ Self.record($0, state.behaviour) }) {
                    state.send(earlier)
                }
            }
            for _ in 0..<state.behaviour.copies {
                let answer = Self.answer(question, &state)
                state.send(answer)
            }
        }
    }

    private static func little(_ value: UInt32, _ count: Int = 4) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
    }

    /// The answer for a record; `nil` if there is none of this number.
    private static func record(_ number: UInt16, _ behaviour: Behaviour) -> [UInt8]? {
        guard let record = behaviour.records.first(where: { $0.number == number }) else { return nil }
        let octets = little(record.time) + little(UInt32(record.value), 2) + [record.control, 0, 0, 0, 0]
        return OneTouchFrame(payload: [0x06] + octets).encoded
    }

    private static func answer(_ question: [UInt8], _ state: inout State) -> [UInt8] {
        func frame(_ payload: [UInt8]) -> [UInt8] { OneTouchFrame(payload: payload).encoded }
        if let code = state.behaviour.refuses { return frame([code]) }
        let records = state.behaviour.records
        switch question {
        case [0x20, 0x02]: return frame([0x06] + little(state.behaviour.clock))
        case [0x0A, 0x02, 0x06]:
            return frame([0x06] + little(state.behaviour.claims?.newest ?? UInt32(records.last?.number ?? 0)))
        case [0x27, 0x00]:
            return frame([0x06] + little(UInt32(state.behaviour.claims?.count ?? UInt16(records.count)), 2))
        case let set where set.starts(with: [0x20, 0x01]) && set.count == 6:
            state.behaviour.clock = OneTouch.word(set[2...])
            return frame([0x06])
        case let ask where ask.first == 0xB3 && ask.count == 3:
            let number = UInt16(ask[1]) | UInt16(ask[2]) << 8
            state.asked.append(number)
            if let code = state.behaviour.refusesRecords[number] { return frame([code]) }
            let higher = state.behaviour.ring.flatMap { record(number + $0, state.behaviour) }
            guard var octets = record(number, state.behaviour) ?? higher else { return frame([0x08]) }
            if let left = state.behaviour.damages[number], left > 0 {
                state.behaviour.damages[number] = left - 1
                octets[9] ^= 0x40
            }
            return octets
        default: return frame([0x09])
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
        let burst: ValueBurst = state.withLock { state in
            guard state.isConnected else { return .disconnected }
            if let cut = state.behaviour.cutAfter, state.handedOut > cut {
                state.isConnected = false
                return .disconnected
            }
            guard let next = state.queue.first, next.at <= state.waited + timeout else {
                state.waited += timeout
                return .silence
            }
            state.queue.removeFirst()
            state.waited = max(state.waited, next.at)
            let octets = next.octets
            if octets.count == OneTouchFrame.overhead + 1 + OneTouchRecord.length { state.handedOut += 1 }
            if let cut = state.behaviour.cutAfter, state.handedOut > cut {
                state.isConnected = false
                return .disconnected
            }
            if octets.count == OneTouchFrame.overhead + 1 + OneTouchRecord.length { log.note(.handedOut(1)) }
            return .values([
                CharacteristicValue(uuid: OneTouch.answers, octets: octets, receivedAt: Instant(seconds: state.now))
            ])
        }
        return burst
    }

    func disconnect() async {
        log.note(.disconnect)
        state.withLock { ($0.isConnected, $0.isNotifying, $0.queue) = (false, false, []) }
    }
}
