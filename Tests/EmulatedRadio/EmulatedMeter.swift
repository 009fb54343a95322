import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization

/// A glucose meter at the seam of the radio: it is paired, connected and read as the profile says.
package final class EmulatedMeter: Peripheral {
    /// How it wants to be paired.
    package enum Pairing: Sendable, Hashable {
        /// It shows six digits, which are typed at the gateway.
        case passkey(UInt32)
        /// Both show the same digits.
        case comparison(UInt32)
        /// Without digits; the agent is asked.
        case justWorks
        /// It shows nothing and wants the digits typed at itself.
        case display(UInt32)
        /// It comes to nothing.
        case fails(PairingFailure)
    }

    /// What was done with it.
    package enum Event: Sendable, Hashable {
        case connected, disconnected
        case started(BluetoothUUID), stopped(BluetoothUUID)
        case wrote([UInt8])
    }

    fileprivate struct State {
        var name: String?
        var pairing: Pairing
        var isAwake = true
        var isBonded = false
        var forgets = false
        var sleepsAfterBonding = false
        var ending: PairingFailure?
        var isConnected = false
        var notifying: Set<BluetoothUUID> = []
        var queue: [CharacteristicValue] = []
        var records: [[UInt8]]
        var handedOut = 0
        var contexts: Bool?
        var clock: [UInt8]?
        var refusesClock = false
        var beats: [[UInt8]] = []
        var holdsAfter: Int?
        var cuff: (values: [[UInt8]], every: Duration)?
        /// When it began to measure, and how many values have left it since.
        var measuring: (since: ContinuousClock.Instant, sent: Int)?
        var events: [Event] = []
        var waiters: [Int: CheckedContinuation<ValueBurst, Never>] = [:]
        var nextWaiter = 0
    }

    package let address: DeviceAddress
    private let needsBond: Bool
    private let battery: UInt8
    private let serial: String
    private let services: [BluetoothUUID]
    private let manufacturerData: [UInt16: [UInt8]]
    private let changed = Mutex<(@Sendable () -> Void)?>(nil)
    private let state: Mutex<State>

    /// - Parameters:
    ///   - records: sequence numbers of its records, oldest first.
    ///   - needsBond: whether its records can be had with a bond only.
    package init(
        _ address: String, name: String?, pairing: Pairing = .justWorks, records: ClosedRange<UInt16>? = 1...5,
        needsBond: Bool = true, services: [BluetoothUUID] = [0x1808], serial: String = "00001808",
        battery: UInt8 = 87, manufacturerData: [UInt16: [UInt8]] = [:]
    ) {
        self.address = DeviceAddress(address) ?? DeviceAddress(bits: 0, kind: .random)
        self.needsBond = needsBond
        self.battery = battery
        self.serial = serial
        self.services = services
        self.manufacturerData = manufacturerData
        state = Mutex(State(name: name, pairing: pairing, records: (records.map(Array.init) ?? []).map(Self.record)))
    }

    /// The octets of the record with this number: a different value each, an hour apart.
    package static func record(_ sequence: UInt16) -> [UInt8] {
        GlucoseMeasurement(
            sequenceNumber: sequence,
            baseTime: DateTime(
                WallTime(secondsSinceEpoch: 1_780_000_000).advanced(byMinutes: Int(sequence) * 60)), timeOffset: 0,
            concentration: .init(
                value: MedFloat16(rawValue: 0xB000 | (80 + sequence % 200)), unit: .kilogramsPerLitre,
                type: .capillaryWholeBlood, location: .finger)
        ).encoded
    }

    // MARK: For tests

    func onChange(_ body: @escaping @Sendable () -> Void) { changed.withLock { $0 = body } }
    private func tellChange() { changed.withLock(\.self)?() }

    package var events: [Event] { state.withLock(\.events) }
    package var isBonded: Bool { state.withLock(\.isBonded) }
    package var isConnected: Bool { state.withLock(\.isConnected) }
    var isAwake: Bool { state.withLock(\.isAwake) }
    var forgets: Bool { state.withLock(\.forgets) }

    package func wake() {
        state.withLock { $0.isAwake = true }
        tellChange()
    }
    package func sleep() {
        state.withLock { $0.isAwake = false }
        cut()
    }
    package func measure(_ sequences: ClosedRange<UInt16>) {
        state.withLock { $0.records += sequences.map(Self.record) }
    }
    /// One measurement more, whatever the last was.
    package func measureOther() {
        state.withLock { $0.records.append(Self.record(UInt16(truncatingIfNeeded: 1000 + $0.records.count))) }
    }
    /// A context (fasting) goes with each record, before it or behind it.
    package func sendContexts(first: Bool) { state.withLock { $0.contexts = first } }
    /// It has a Current Time (2A2B) that can be set, or refuses that.
    package func giveClock(_ time: WallTime, refusesToBeSet: Bool = false) {
        state.withLock { state in
            state.clock = CurrentTime(dateTime: DateTime(time)).encoded
            state.refusesClock = refusesToBeSet
        }
    }
    /// It is a strap, and sends these values of 2A37 when they are enabled.
    package func beat(_ values: [[UInt8]]) { state.withLock { $0.beats = values } }
    /// It is a QardioArm: so much time apart, it sends these values of 2A35 when it is told to measure.
    package func measureWhenTold(_ values: [[UInt8]], every: Duration) {
        state.withLock { $0.cuff = (values, every) }
    }
    /// A QardioArm's control characteristic.
    package static let cuffControl = BluetoothUUID(high: 0x583C_B5B3_875D_40ED, low: 0x9098_C39E_B0C1_983D)
    /// What was written to it.
    package var written: [[UInt8]] { events.compactMap { if case .wrote(let octets) = $0 { octets } else { nil } } }
    /// It was bonded before the test begins.
    package func bondAlready() { bond(true) }
    /// Its next pairing.
    package func setPairing(_ pairing: Pairing) { state.withLock { $0.pairing = pairing } }
    /// It stops advertising once it is bonded, as many do, until its button is pressed.
    package func sleepAfterBonding() { state.withLock { $0.sleepsAfterBonding = true } }
    /// It no longer knows its bond.
    package func forgetBond() { state.withLock { $0.forgets = true } }
    /// So many values leave it, then it waits for ``release()`` or the end of the connection.
    package func hold(after values: Int) {
        state.withLock { state in
            state.holdsAfter = values
            state.handedOut = 0
        }
    }
    package func release() {
        let waiters = state.withLock { state in
            state.holdsAfter = nil
            return state.takeWaiters()
        }
        for waiter in waiters { waiter.resume(returning: .silence) }
    }
    /// The link goes.
    package func cut() {
        let waiters = state.withLock { state in
            if state.isConnected { state.events.append(.disconnected) }
            state.isConnected = false
            state.notifying = []
            state.queue = []
            return state.takeWaiters()
        }
        for waiter in waiters { waiter.resume(returning: .disconnected) }
        tellChange()
    }

    func bond(_ isBonded: Bool) {
        state.withLock { state in
            state.isBonded = isBonded
            if isBonded { state.forgets = false }
        }
        tellChange()
    }

    /// Ends the pairing that goes on.
    package func endPairing(_ failure: PairingFailure) { state.withLock { $0.ending = failure } }

    /// Asks the agent, which is cancelled where the pairing ends meanwhile.
    func pair(_ agent: any PairingAgent) async throws {
        state.withLock { $0.ending = nil }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await self.ask(agent) }
            group.addTask {
                while true {
                    if let ending = self.state.withLock(\.ending) { throw RadioError.pairing(ending) }
                    try await Task.sleep(for: .milliseconds(5))
                }
            }
            try await group.next()
        }
        bond(true)
        state.withLock { state in
            state.isConnected = true
            if state.sleepsAfterBonding { state.isAwake = false }
            state.events.append(.connected)
        }
        tellChange()
    }

    private func ask(_ agent: any PairingAgent) async throws {
        let advertisement = advertisement
        do {
            switch state.withLock(\.pairing) {
            case .passkey(let digits):
                guard try await agent.passkey(shownBy: advertisement) == digits else {
                    throw RadioError.pairing(.wrongPasskey)
                }
            case .comparison(let digits):
                guard try await agent.confirm(digits, shownBy: advertisement) else {
                    throw RadioError.pairing(.rejectedHere)
                }
            case .justWorks:
                guard try await agent.allowUnauthenticated(advertisement) else {
                    throw RadioError.pairing(.rejectedHere)
                }
            case .display(let digits): await agent.show(passkey: digits, typed: 0, at: advertisement)
            case .fails(let failure): throw RadioError.pairing(failure)
            }
        } catch let error as RadioError {
            throw error
        } catch {
            throw RadioError.pairing(.rejectedHere)
        }
    }

    // MARK: Peripheral

    package var advertisement: Advertisement {
        state.withLock { state in
            Advertisement(
                address: address, name: state.name, services: services, manufacturerData: manufacturerData, rssi: -60,
                isPaired: state.isBonded, seenAt: .now)
        }
    }

    package func connect() async throws -> Instant {
        try state.withLock { state in
            guard state.isAwake else { throw RadioError.notConnected(address, "the device is asleep") }
            guard !(state.isBonded && state.forgets) else { throw RadioError.forgottenByDevice(address) }
            if !state.isConnected { state.events.append(.connected) }
            state.isConnected = true
        }
        tellChange()
        return .now
    }

    package func characteristics() async throws -> [Characteristic] {
        var known: [(BluetoothUUID, BluetoothUUID)] = [
            (0x2A18, 0x1808), (0x2A34, 0x1808), (0x2A51, 0x1808), (0x2A52, 0x1808), (0x2A19, 0x180F), (0x2A25, 0x180A),
        ]
        if services.contains(0x1810) {
            known = [(0x2A35, 0x1810), (0x2A49, 0x1810), (0x2A19, 0x180F), (0x2A25, 0x180A)]
        }
        if state.withLock({ $0.cuff != nil }) { known.append((Self.cuffControl, 0x1810)) }
        if state.withLock({ $0.clock != nil }) { known.append((0x2A2B, 0x1805)) }
        if state.withLock({ !$0.beats.isEmpty }) { known = [(0x2A37, 0x180D)] }
        return known.enumerated().map { index, known in
            Characteristic(uuid: known.0, service: known.1, valueHandle: UInt16(index + 3))
        }
    }

    package func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            let octets: [UInt8]
            switch characteristic.uuid {
            case 0x2A19: octets = [battery]
            case 0x2A25: octets = Array(serial.utf8)
            case 0x2A2B:
                guard let clock = state.clock else { throw GATTError.attribute(0x02) }
                octets = clock
            case 0x2A51:
                guard state.isBonded || !needsBond else { throw GATTError.attribute(0x05) }
                octets = [0x7B, 0x04]
            case 0x2A49: octets = [0x35, 0x00]
            default: throw GATTError.attribute(0x02)
            }
            return CharacteristicValue(uuid: characteristic.uuid, octets: octets, receivedAt: .now)
        }
    }

    package func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            if characteristic.uuid == Self.cuffControl {
                state.events.append(.wrote(octets))
                state.measuring = octets == [0xF1, 0x01] ? (.now, 0) : nil
                return
            }
            if characteristic.uuid == 0x2A2B {
                guard state.clock != nil, !state.refusesClock else { throw GATTError.attribute(0x80) }
                state.events.append(.wrote(octets))
                state.clock = octets
                return
            }
            guard state.notifying.contains(0x2A52) else { throw GATTError.attribute(0xFD) }
            state.events.append(.wrote(octets))
            state.answer(octets)
        }
    }

    package func startNotifying(_ characteristic: Characteristic) async throws {
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            guard state.isBonded || !needsBond else { throw GATTError.attribute(0x05) }
            state.notifying.insert(characteristic.uuid)
            state.events.append(.started(characteristic.uuid))
            guard characteristic.uuid == 0x2A37 else { return }
            state.queue += state.beats.map {
                CharacteristicValue(uuid: 0x2A37, octets: $0, receivedAt: .now)
            }
        }
    }

    package func stopNotifying(_ characteristic: Characteristic) async throws {
        state.withLock { state in
            guard state.notifying.remove(characteristic.uuid) != nil else { return }
            state.events.append(.stopped(characteristic.uuid))
        }
    }

    package func nextValues(within timeout: Duration) async throws -> ValueBurst {
        try Task.checkCancellation()
        if state.withLock({ $0.cuff != nil }) { return try await nextOfCuff(within: timeout) }
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let burst: ValueBurst? = state.withLock { state in
                    guard state.isConnected else { return .disconnected }
                    let left = state.holdsAfter.map { max(0, $0 - state.handedOut) } ?? 3
                    let values = Array(state.queue.prefix(min(3, left)))
                    state.queue.removeFirst(values.count)
                    state.handedOut += values.count
                    if !values.isEmpty { return .values(values) }
                    guard state.holdsAfter != nil, !Task.isCancelled else { return .silence }
                    state.waiters[number] = continuation
                    return nil
                }
                if let burst { continuation.resume(returning: burst) }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: .silence)
        }
    }

    /// The next value of a QardioArm, when its time has come.
    private func nextOfCuff(within timeout: Duration) async throws -> ValueBurst {
        let end = ContinuousClock.now + timeout
        while true {
            let burst: ValueBurst? = state.withLock { state in
                guard state.isConnected else { return .disconnected }
                guard let cuff = state.cuff, let (since, sent) = state.measuring, sent < cuff.values.count,
                    since + cuff.every * (sent + 1) <= .now
                else { return nil }
                state.measuring = (since, sent + 1)
                return .values([CharacteristicValue(uuid: 0x2A35, octets: cuff.values[sent], receivedAt: .now)])
            }
            if let burst { return burst }
            guard ContinuousClock.now < end else { return .silence }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    package func disconnect() async { cut() }
}

extension EmulatedMeter.State {
    fileprivate mutating func takeWaiters() -> [CheckedContinuation<ValueBurst, Never>] {
        defer { waiters = [:] }
        return Array(waiters.values)
    }

    /// The Record Access Control Point: reports and counts of all, of the last, and from a number on.
    fileprivate mutating func answer(_ octets: [UInt8]) {
        func send(_ uuid: BluetoothUUID, _ octets: [UInt8]) {
            queue.append(CharacteristicValue(uuid: uuid, octets: octets, receivedAt: .now))
        }
        guard let request = try? RecordAccessRequest(decoding: octets) else {
            return send(0x2A52, [6, 0, octets.first ?? 0, 2])
        }
        func select(_ selection: RecordSelection) -> [[UInt8]] {
            switch selection {
            case .last: records.suffix(1)
            case .atLeast(.sequenceNumber(let least)):
                records.filter { UInt16($0[1]) | UInt16($0[2]) << 8 >= least }
            default: records
            }
        }
        switch request {
        case .abort:
            queue = []
            send(0x2A52, [6, 0, 3, 1])
        case .count(let selection):
            let count = select(selection).count
            send(0x2A52, [5, 0, UInt8(truncatingIfNeeded: count), UInt8(truncatingIfNeeded: count >> 8)])
        case .report(let selection):
            let chosen = select(selection)
            for record in chosen {
                let context: [UInt8] = [0x02, record[1], record[2], 0x03]
                if contexts == true { send(0x2A34, context) }
                send(0x2A18, record)
                if contexts == false { send(0x2A34, context) }
            }
            send(0x2A52, [6, 0, 1, chosen.isEmpty ? 6 : 1])
        }
    }
}
