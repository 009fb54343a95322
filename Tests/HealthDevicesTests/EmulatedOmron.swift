import GATTClient
import HealthReadings
import Synchronization

@testable import HealthDevices

/// An Omron monitor by its own protocol: octets of a memory and what answers requests, with the faults that links have.
final class EmulatedOmron: Peripheral {
    struct Behaviour: Sendable {
        /// The catalogue's id of the layout that the memory has.
        var model = "omron_hem7322t"
        /// The model that its device information names.
        var stated: String?
        /// What it calls itself.
        var name = "BLESmart_0000021A28FF"
        /// Each user's slots; `nil`: nothing was recorded there.
        var slots: [[[UInt8]?]] = []
        /// Where each user's next record is written; `nil`: the user has recorded nothing.
        var cursors: [Int?] = []
        /// The words of the index in which that stands; `nil`: the first ones.
        var cursorWords: [Int]?
        /// Other words of the index, by their place.
        var otherWords: [Int: UInt16] = [:]
        var clock: [UInt8]?
        /// The key that is stored in it.
        var key: [UInt8]?
        /// Whether it may be given a key.
        var isPairing = false
        /// How often it says that the link is not encrypted yet.
        var refusesKey = 0
        /// Pieces come in this order.
        var channels = [0, 1, 2, 3]
        /// Pieces that are lost, counted over all that are sent.
        var losesPieces: Set<Int> = []
        /// Answers to reads of these addresses come damaged, so many times each.
        var damages: [UInt16: Int] = [:]
        /// Requests that are not answered, so many times.
        var silences = 0
        /// Reads of these addresses are refused, with a code.
        var refuses: [UInt16: UInt8] = [:]
        /// Reads of these addresses are refused so many times.
        var refusals: [UInt16: Int] = [:]
        /// Reads of more octets are refused.
        var longestRead = 0x38
        /// The link goes in the middle of the answer to so many reads.
        var cutAfterReads: Int?
        /// It ends the session by itself after so many reads, and begins none that it is not asked for.
        var endsSessionAfterReads: Int?
        /// It also has the standard service, with these records.
        var standard: [[UInt8]]?
        /// Whether this gateway has a bond with it.
        var isBonded = true
        /// An answer to another address comes before each answer.
        var sendsLateAnswers = false
        /// What its battery level reads; `nil`: it has none.
        var battery: UInt8?
        /// It ends each link but that of its pairing; the radio may take it for one that has lost its bond.
        var endsLaterLinks = false
        /// It ends the link when it has ended a session.
        var hangsUp = false
        var seemsToForget = false
    }

    private struct State {
        var behaviour: Behaviour
        var isConnected = false
        /// The link on which it was paired is there.
        var isPairingLink = false
        var notifying: Set<BluetoothUUID> = []
        var queue: [(uuid: BluetoothUUID, octets: [UInt8], frames: Int)] = []
        var isOpen = false
        var isUnlocked = false
        var reads: [OmronFrame] = []
        var sessions = 0
        var ended = 0
        var pieces = 0
        var waited = Duration.zero
        var now: Int64 = 1_795_000_000
        var requests = 0
        var writesToMemory = 0
    }

    let log: EventLog
    private let state: Mutex<State>

    init(_ behaviour: Behaviour, log: EventLog) {
        state = Mutex(State(behaviour: behaviour))
        self.log = log
    }

    func change(_ change: @Sendable (inout Behaviour) -> Void) { state.withLock { change(&$0.behaviour) } }
    var behaviour: Behaviour { state.withLock { $0.behaviour } }
    /// What was read of its memory.
    var reads: [OmronFrame] { state.withLock { $0.reads } }
    /// How many requests the last contact made to the memory.
    var requests: Int { state.withLock { $0.requests } }
    var waited: Duration { state.withLock { $0.waited } }
    /// How many sessions were begun, and how many ended.
    var sessions: (begun: Int, ended: Int) { state.withLock { ($0.sessions, $0.ended) } }
    /// Requests that were none of those that read.
    var writesToMemory: Int { state.withLock { $0.writesToMemory } }

    var memory: OmronMemory {
        Catalogue()[behaviour.model]?.omronMemory
            ?? OmronMemory(
                .bond, .lowFirst, octets: 14, users: [0], count: 1, settings: 0x100, clock: 0x10..<0x20, .verified)
    }

    var advertisement: Advertisement {
        Advertisement(
            address: .device(7), name: behaviour.name, isPaired: behaviour.isBonded, seenAt: Instant(seconds: 0))
    }

    /// It is bonded, and stays connected.
    func wasPaired() {
        state.withLock { state in (state.behaviour.isBonded, state.isPairingLink) = (true, true) }
    }

    func connect() async throws -> Instant {
        log.note(.connect)
        return try state.withLock { state in
            if state.behaviour.endsLaterLinks, !state.isPairingLink {
                if state.behaviour.seemsToForget { throw RadioError.forgottenByDevice(.device(7)) }
                throw GATTError.disconnected
            }
            (state.isConnected, state.isOpen, state.isUnlocked, state.requests) = (true, false, false, 0)
            state.reads = []
            state.now += 3600
            return Instant(seconds: state.now)
        }
    }

    func characteristics() async throws -> [Characteristic] {
        let memory = memory
        let service = memory.stack == .key ? Omron.keyService : Omron.bondService
        var all = [Omron.requests] + Omron.answers.prefix(memory.stack.channels)
        if memory.stack != .bond { all.append(Omron.key) }
        var found = all.enumerated().map { Characteristic(uuid: $1, service: service, valueHandle: UInt16(3 * $0 + 3)) }
        if behaviour.standard != nil {
            found.append(Characteristic(uuid: 0x2A35, service: 0x1810, valueHandle: 90))
        }
        if behaviour.battery != nil {
            found.append(Characteristic(uuid: 0x2A19, service: 0x180F, valueHandle: 98))
        }
        return found + [Characteristic(uuid: 0x2A24, service: 0x180A, valueHandle: 95)]
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        log.note(.read(characteristic.uuid))
        if characteristic.uuid == 0x2A19, let battery = behaviour.battery {
            return CharacteristicValue(uuid: 0x2A19, octets: [battery], receivedAt: Instant(seconds: 0))
        }
        if characteristic.uuid == 0x2A24, let stated = behaviour.stated {
            return CharacteristicValue(uuid: 0x2A24, octets: Array(stated.utf8), receivedAt: Instant(seconds: 0))
        }
        throw GATTError.attribute(0x02)
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        log.note(.write(octets))
        let memory = memory
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            switch characteristic.uuid {
            case Omron.key where expectingResponse: Self.answerKey(octets, memory, &state)
            case Omron.requests where !expectingResponse: try Self.answer(octets, memory, &state)
            default: throw GATTError.attribute(0x03)
            }
        }
    }

    private static func answerKey(_ octets: [UInt8], _ memory: OmronMemory, _ state: inout State) {
        func say(_ octets: [UInt8]) {
            if state.notifying.contains(Omron.key) { state.queue.append((Omron.key, octets, 0)) }
        }
        switch octets.first {
        case 0x02 where octets.count == 17:
            if state.behaviour.refusesKey > 0 || !state.behaviour.isPairing {
                state.behaviour.refusesKey -= 1
                return say([0x82, 0x0F])
            }
            say([0x82, 0x00])
        case 0x00 where octets.count == 17 && state.behaviour.isPairing:
            state.behaviour.key = Array(octets.dropFirst())
            state.isUnlocked = true
            say([0x80, 0x00])
        case 0x01 where octets.count == 17:
            state.isUnlocked = Array(octets.dropFirst()) == state.behaviour.key
            say([0x81, state.isUnlocked ? 0x00 : 0x04])
        case 0x11 where octets.count == 20:
            state.isUnlocked = true
            say([0x91, 0x00] + octets[1...4])
        default: say([0x00, 0x00])
        }
    }

    private static func answer(_ octets: [UInt8], _ memory: OmronMemory, _ state: inout State) throws {
        let request = try OmronFrame(decoding: octets)
        state.requests += 1
        if state.behaviour.silences > 0 {
            state.behaviour.silences -= 1
            return
        }
        guard memory.stack == .bond || state.isUnlocked else { return }
        switch OmronFrame.Kind(rawValue: request.kind) {
        case .start:
            state.isOpen = true
            state.sessions += 1
            let identity: [UInt8] = memory.stack == .key ? [UInt8](hex: "00000094041311020778" + "5a00ffff954d") : []
            send(OmronFrame(.started, count: 0x10, data: identity), memory, frames: 0, &state)
        case .end:
            state.isOpen = false
            state.ended += 1
            send(OmronFrame(.ended), memory, frames: 0, &state)
        case .read where state.isOpen && state.reads.count < state.behaviour.endsSessionAfterReads ?? .max:
            answerRead(request, memory, &state)
        case .read where state.behaviour.endsSessionAfterReads != nil:
            state.isOpen = false
            send(OmronFrame(.ended, status: 3), memory, frames: 0, &state)
        default:
            state.writesToMemory += 1
            send(OmronFrame(.ended, status: 3), memory, frames: 0, &state)
        }
    }

    private static func answerRead(_ request: OmronFrame, _ memory: OmronMemory, _ state: inout State) {
        state.reads.append(request)
        let (address, count) = (Int(request.address), Int(request.count))
        var refusal = state.behaviour.refuses[request.address]
        if let left = state.behaviour.refusals[request.address], left > 0 {
            state.behaviour.refusals[request.address] = left - 1
            refusal = 0xE7
        }
        if refusal != nil || count > state.behaviour.longestRead {
            let frame = OmronFrame(
                .hasRead, address: request.address, count: request.count, status: refusal ?? 0xE3)
            return send(frame, memory, frames: 1, &state)
        }
        let image = image(memory, state.behaviour)
        let data = (address..<(address + count)).map { image[$0] ?? 0xFF }
        let order = memory.layout.order ?? .highFirst
        _ = order
        let slots = stride(from: 0, to: count, by: memory.layout.length).filter { place in
            memory.user(at: UInt16(address + place)) != nil && place + memory.layout.length <= count
                && !OmronRecordLayout.isEmpty(data[place..<(place + memory.layout.length)])
        }
        if state.behaviour.sendsLateAnswers {
            let late = OmronFrame(.hasRead, address: request.address &+ 2, count: request.count, data: data)
            send(late, memory, frames: 0, &state)
        }
        send(
            OmronFrame(.hasRead, address: request.address, count: request.count, data: data), memory,
            frames: 1 + slots.count, &state)
    }

    /// The memory's octets by address.
    private static func image(_ memory: OmronMemory, _ behaviour: Behaviour) -> [Int: UInt8] {
        var image: [Int: UInt8] = [:]
        func put(_ octets: [UInt8], at address: Int) {
            for (place, octet) in octets.enumerated() { image[address + place] = octet }
        }
        for (user, slots) in behaviour.slots.enumerated() {
            for (slot, octets) in slots.enumerated() {
                if let octets { put(octets, at: Int(memory.address(slot, of: user))) }
            }
        }
        let words = (0..<8).map { place -> UInt16 in
            guard let user = (behaviour.cursorWords ?? Array(memory.users.indices)).firstIndex(of: place),
                user < behaviour.cursors.count, let cursor = behaviour.cursors[user]
            else { return behaviour.otherWords[place] ?? 0x8000 }
            return UInt16(cursor)
        }
        put(
            words.flatMap { word -> [UInt8] in
                let pair = [UInt8(word >> 8), UInt8(truncatingIfNeeded: word)]
                return memory.layout.order == .lowFirst ? pair.reversed() : pair
            }, at: Int(memory.settings))
        if let clock = behaviour.clock { put(clock, at: Int(memory.settings) + Int(memory.clock.lowerBound)) }
        return image
    }

    private static func send(_ frame: OmronFrame, _ memory: OmronMemory, frames: Int, _ state: inout State) {
        var (octets, frames) = (frame.encoded, frames)
        if let left = state.behaviour.damages[frame.address], left > 0, frames > 0 {
            state.behaviour.damages[frame.address] = left - 1
            octets[octets.count - 3] ^= 0x40
            // It will be asked for again, and is kept only where it never comes whole.
            frames = 0
        }
        guard memory.stack.channels > 1 else {
            state.queue.append((Omron.answers[0], octets, frames))
            return
        }
        while octets.count % 16 != 0 { octets.append(0) }
        let pieces = stride(from: 0, to: octets.count, by: 16).map { Array(octets[$0..<($0 + 16)]) }
        var sent: [(uuid: BluetoothUUID, octets: [UInt8], frames: Int)] = []
        var isWhole = true
        for channel in state.behaviour.channels where channel < pieces.count {
            state.pieces += 1
            if state.behaviour.losesPieces.contains(state.pieces) {
                isWhole = false
                continue
            }
            sent.append((Omron.answers[channel], pieces[channel], 0))
        }
        if isWhole, !sent.isEmpty { sent[sent.count - 1].frames = frames }
        state.queue += sent
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        log.note(.start(characteristic.uuid))
        state.withLock { state in
            state.notifying.insert(characteristic.uuid)
            if characteristic.uuid == 0x2A35, let records = state.behaviour.standard {
                for record in records { state.queue.append((0x2A35, record, 1)) }
            }
        }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        try Task.checkCancellation()
        log.note(.stop(characteristic.uuid))
        state.withLock { state in
            state.notifying.remove(characteristic.uuid)
            state.queue.removeAll { $0.uuid == characteristic.uuid }
        }
    }

    func keepNotifying() async { log.note(.keep) }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        state.withLock { state in
            guard state.isConnected else { return .disconnected }
            if let cut = state.behaviour.cutAfterReads, state.reads.count > cut {
                state.isConnected = false
                return .disconnected
            }
            guard !state.queue.isEmpty else {
                if state.behaviour.hangsUp, state.requests > 0, !state.isOpen {
                    state.isConnected = false
                    return .disconnected
                }
                state.waited += timeout
                return .silence
            }
            let (uuid, octets, frames) = state.queue.removeFirst()
            if frames > 0 { log.note(.handedOut(frames)) }
            return .values([
                CharacteristicValue(uuid: uuid, octets: octets, receivedAt: Instant(seconds: state.now))
            ])
        }
    }

    func disconnect() async {
        log.note(.disconnect)
        state.withLock { state in
            (state.isConnected, state.isPairingLink) = (false, false)
            (state.notifying, state.queue) = ([], [])
        }
    }
}

extension EmulatedOmron.Behaviour {
    /// A memory with records a minute apart, as if each user had measured so many times since it was new.
    static func memory(_ model: String, records: [Int]) throws -> EmulatedOmron.Behaviour {
        var behaviour = EmulatedOmron.Behaviour()
        behaviour.model = model
        guard let memory = Catalogue()[model]?.omronMemory else { throw GATTError.timedOut }
        behaviour.slots = memory.users.map { _ in Array(repeating: nil, count: memory.count) }
        behaviour.cursors = memory.users.map { _ in nil }
        for (user, count) in records.enumerated() { behaviour.measure(count, user: user, of: memory) }
        return behaviour
    }

    /// The measurement with this number of a user.
    static func sample(_ number: Int, user: Int) -> OmronSample {
        var sample = OmronSample()
        sample.systolic = UInt16(110 + number % 60 + user)
        sample.number = UInt16(number)
        (sample.day, sample.hour, sample.minute) = (
            UInt16(1 + number / 1440), UInt16(number / 60 % 24), UInt16(number % 60)
        )
        return sample
    }

    /// A user measures so many times more.
    mutating func measure(_ count: Int, user: Int, of memory: OmronMemory, since first: Int? = nil) {
        let order = memory.layout.order ?? .highFirst
        let before = first ?? slots[user].count { $0 != nil }
        for number in before..<(before + count) {
            let slot = number % memory.count
            slots[user][slot] = Self.sample(number, user: user).octets(memory.layout.length, order)
            cursors[user] = (slot + 1) % memory.count | (number >= memory.count - 1 ? 0x4000 : 0)
        }
    }
}
