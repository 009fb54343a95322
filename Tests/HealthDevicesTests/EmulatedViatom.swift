import GATTClient
import HealthReadings
import Synchronization

@testable import HealthDevices

/// A BP2 by its own protocol, with the faults that links have.
final class EmulatedViatom: Peripheral {
    struct Behaviour: Sendable {
        /// The records of its list.
        var records: [[UInt8]] = []
        /// What its clock shows; `nil`: it was never set.
        var clock: WallTime? = WallTime("2026-03-08T12:30:03")
        /// The most octets of the list that it sends at a time.
        var pieceOfList = 100
        /// Whether it measures: it opens no list then.
        var isMeasuring = false
        /// The code with which it opens no list.
        var refuses: UInt8?
        /// Whether it sends the curve of a measurement between its answers.
        var sendsCurves = false
        /// Pieces that are lost, counted over all that are sent.
        var losesPieces: Set<Int> = []
        /// Answers with octets of the list come damaged, so many times.
        var damages = 0
        /// Answers to these requests, counted from 0, come when the next is asked.
        var delays: Set<Int> = []
        /// Answers to these requests, counted from 0, come twice.
        var repeats: Set<Int> = []
        /// The most octets that the link takes in one write.
        var longestWrite = 244
        /// Octets that its list is said to have beyond those that it has.
        var claims = 0
        /// Each answer with octets of the list is sent twice.
        var repeatsAnswers = false
        /// The link goes once it was asked so often.
        var cutAfterRequests: Int?
        var name = "LP-BP2W"
        var address = DeviceAddress.device(9)
        /// Whether it has its own service.
        var hasService = true
    }

    private struct State {
        var behaviour: Behaviour
        var isConnected = false
        var isNotifying = false
        var queue: [(octets: [UInt8], frames: Int)] = []
        var late: [(octets: [UInt8], frames: Int)] = []
        var commands: [UInt8] = []
        var written: [UInt8] = []
        var isOpen = false
        var wasOpened = false
        var pieces = 0
        var waited = Duration.zero
        var now: Int64 = 1_795_000_000
    }

    let log: EventLog
    private let state: Mutex<State>

    init(_ behaviour: Behaviour, log: EventLog) {
        state = Mutex(State(behaviour: behaviour))
        self.log = log
    }

    func change(_ change: @Sendable (inout Behaviour) -> Void) { state.withLock { change(&$0.behaviour) } }
    var behaviour: Behaviour { state.withLock { $0.behaviour } }
    /// What the last contact was asked.
    var commands: [UInt8] { state.withLock { $0.commands } }
    var waited: Duration { state.withLock { $0.waited } }
    /// Whether the last contact left the list open.
    var isOpen: Bool { state.withLock { $0.isOpen } }

    var advertisement: Advertisement {
        Advertisement(address: behaviour.address, name: behaviour.name, isPaired: false, seenAt: Instant(seconds: 0))
    }

    func connect() async throws -> Instant {
        log.note(.connect)
        return state.withLock { state in
            (state.isConnected, state.commands, state.isOpen, state.wasOpened) = (true, [], false, false)
            (state.pieces, state.late, state.queue, state.written) = (0, [], [], [])
            state.now += 3600
            return Instant(seconds: state.now)
        }
    }

    func characteristics() async throws -> [Characteristic] {
        let information = [Characteristic(uuid: 0x2A24, service: 0x180A, valueHandle: 95)]
        guard behaviour.hasService else { return information }
        return [
            Characteristic(uuid: Viatom.answers, service: Viatom.service, valueHandle: 3),
            Characteristic(uuid: Viatom.requests, service: Viatom.service, valueHandle: 6),
        ] + information
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        log.note(.read(characteristic.uuid))
        throw GATTError.attribute(0x02)
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        log.note(.write(octets))
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            guard characteristic.uuid == Viatom.requests, !expectingResponse else { throw GATTError.attribute(0x03) }
            guard octets.count <= state.behaviour.longestWrite else {
                throw RadioError.other(name: "org.bluez.Error.Failed", message: "Failed to initiate write")
            }
            state.written += octets
            guard let length = ViatomFrame.length(state.written), state.written.count >= length else { return }
            let request = try ViatomFrame(decoding: state.written)
            state.written = []
            state.commands.append(request.command)
            if let cut = state.behaviour.cutAfterRequests, state.commands.count > cut {
                state.isConnected = false
                return
            }
            state.queue += state.late
            state.late = []
            if state.behaviour.sendsCurves { send(0x08, [3, 0, 80], number: 0, &state) }
            answer(request, &state)
        }
    }

    private func answer(_ request: ViatomFrame, _ state: inout State) {
        let list = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0] + state.behaviour.records.flatMap(\.self)
        switch request.command {
        case 0xE1: send(0xE1, Self.information(state.behaviour.clock), number: request.number, &state)
        case 0xF2:
            guard !state.behaviour.isMeasuring, request.payload.starts(with: Array("bp2nibp.list".utf8)) else { return }
            if let code = state.wasOpened ? 0xE1 : state.behaviour.refuses {
                return send(0xF2, [], number: request.number, direction: code, &state)
            }
            (state.isOpen, state.wasOpened) = (true, true)
            send(0xF2, Self.little(UInt32(list.count + state.behaviour.claims)), number: request.number, &state)
        case 0xF3 where state.isOpen:
            let offset = request.payload.reversed().reduce(0) { $0 << 8 | Int($1) }
            let end = min(offset + state.behaviour.pieceOfList, list.count)
            // Records that end in this piece.
            let frames = state.behaviour.records.indices.count { index in
                let last = 10 + (index + 1) * 37
                return last > offset && last <= end && !ViatomPressure.isEmpty(state.behaviour.records[index])
            }
            send(
                0xF3, offset < end ? Array(list[offset..<end]) : [], number: request.number, records: frames, &state)
        case 0xF4:
            state.isOpen = false
            send(0xF4, [], number: request.number, isStored: false, &state)
        default: break
        }
    }

    private static func little(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
    }

    private static func information(_ clock: WallTime?) -> [UInt8] {
        // As an owner has logged it, but for the clock and the serial number.
        var octets = [UInt8](hex: "42000101010000010033323132303031310500002286030100000000000000")
        if let clock {
            let parts = clock.description.split { !$0.isNumber }.compactMap { Int($0) }
            octets.replaceSubrange(
                24..<31,
                with: [UInt8(parts[0] & 0xFF), UInt8(parts[0] >> 8)] + parts[1...5].map { UInt8($0) })
        }
        return octets + [UInt8](repeating: 0, count: 29)
    }

    private func send(
        _ command: UInt8, _ payload: [UInt8], number: UInt8, direction: UInt8 = 1, records: Int = 0,
        isStored: Bool = true, _ state: inout State
    ) {
        guard state.isNotifying else { return }
        var octets = ViatomFrame(command: command, direction: direction, number: number, payload: payload).encoded
        var isWhole = isStored && command != 0x08
        if command == 0xF3, state.behaviour.damages > 0 {
            state.behaviour.damages -= 1
            octets[octets.count / 2] ^= 0x10
            isWhole = false
        }
        var sent: [(octets: [UInt8], frames: Int)] = []
        for place in stride(from: 0, to: octets.count, by: 20) {
            defer { state.pieces += 1 }
            guard !state.behaviour.losesPieces.contains(state.pieces) else {
                isWhole = false
                continue
            }
            sent.append((Array(octets[place..<min(place + 20, octets.count)]), 0))
        }
        let isLate = command != 0x08 && state.behaviour.delays.contains(state.commands.count - 1)
        let again = sent
        if isWhole, !isLate, !sent.isEmpty { sent[sent.count - 1].frames = 1 + records }
        if command != 0x08, state.behaviour.repeats.contains(state.commands.count - 1) { sent += again }
        if isLate { state.late += sent } else { state.queue += sent }
        if command == 0xF3, state.behaviour.repeatsAnswers { state.queue += sent.map { ($0.octets, 0) } }
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
            guard state.isConnected else { return .disconnected }
            guard !state.queue.isEmpty else {
                state.waited += timeout
                return .silence
            }
            let (octets, frames) = state.queue.removeFirst()
            if frames > 0 { log.note(.handedOut(frames)) }
            return .values([
                CharacteristicValue(uuid: Viatom.answers, octets: octets, receivedAt: Instant(seconds: state.now))
            ])
        }
    }

    func disconnect() async {
        log.note(.disconnect)
        state.withLock { ($0.isConnected, $0.isNotifying, $0.queue) = (false, false, []) }
    }
}
