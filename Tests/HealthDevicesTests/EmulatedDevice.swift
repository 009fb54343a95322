import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization

@testable import HealthDevices

/// A meter, a cuff or both, as the profiles describe them, with the faults that real ones have.
final class EmulatedDevice: Peripheral {
    /// What the radio's own end does with a wait for values when the device is silent.
    enum Silence: Sendable { case elapses, lastsUntilCancelled }

    struct Behaviour: Sendable {
        var address = DeviceAddress(bits: 0xC0_0000_001808, kind: .random)
        var name: String? = "meter+00001808"
        /// Advertised; those of its characteristics are found on connecting.
        var services: [BluetoothUUID] = []
        var manufacturerData: [UInt16: [UInt8]] = [:]
        var serviceData: [BluetoothUUID: [UInt8]] = [:]
        /// When it was heard last; the device's own clock where nil.
        var heardAt: Instant?
        /// Values that can be read; an error code where it refuses.
        var readable: [BluetoothUUID: Result<[UInt8], GATTError>] = [:]
        var glucose: EmulatedGlucoseMemory?
        /// What a cuff has stored; what was handed out is deleted.
        var cuffRecords: [[UInt8]]?
        var cuffPressures: [[UInt8]] = []
        var cuffDisconnects = true
        var burst = 1
        /// After each request, so many are refused as coming too early.
        var busyAnswers = 0
        var busyCode: UInt8 = 0xFE
        /// The link goes after so many values.
        var cutAfter: Int?
        var silence = Silence.elapses
        /// Enabling these is refused.
        var refusesToNotify: Set<BluetoothUUID> = []
        var failsToConnect = false
        /// A cuff has these on their way when its indications are stopped.
        var cuffSendsWhenStopped: [[UInt8]] = []
        /// There is a bond here.
        var isPaired = false
        /// There is one in the device.
        var knowsBond = true
        /// Asks for encryption, and refuses what is not.
        var wantsEncryption = false
        /// Where the bond is gone, the link comes about all the same, without encryption.
        var connectsWithoutBond = false
        var isInReach = true
        /// It stops advertising when it was bonded, as many do that have a button.
        var sleepsAfterBonding = false
        /// The radio fails to ask for any value, for a reason of its own.
        var unaskable: RadioError?
        /// Values wait until this ends.
        var isHeld = false
        /// Characteristics it has besides.
        var more: [(uuid: BluetoothUUID, service: BluetoothUUID)] = []
        /// What becomes of writing these; what is written can then be read. Others cannot be written.
        var writable: [BluetoothUUID: GATTError?] = [:]
        /// What it answers with an error it has taken all the same.
        var takesWhatItRefuses = false
        /// What it sends when these are enabled.
        var streams: [BluetoothUUID: [[UInt8]]] = [:]
        /// What a scale sends of several characteristics, in this order, when its weights are enabled.
        var weighings: [(uuid: BluetoothUUID, octets: [UInt8])] = []
        /// What it has stored, and sends by 2A5E when it is asked for all at its control point; then its answer.
        var spotChecks: (stored: [[UInt8]], answer: UInt8)?
        /// What it measures as soon as it has answered, and sends by 2A5E.
        var measuresThen: [[UInt8]] = []
        /// What it measures once it has been silent, for ``measuringTime`` at least, and sends by 2A5E.
        var measuresLater: [[UInt8]] = []
        var measuringTime = Duration.zero
        /// It is worn, and sends another 2A1C whenever it is waited for, after this.
        var isWorn: (@Sendable () -> Void)?
        /// It disconnects as soon as it has sent what was enabled.
        var leavesWhenSent = false
        /// Subscriptions are lost that come sooner after the connection.
        var needsPause = Duration.zero
        /// What it sent before, which it sends again where it is asked to by A&D's command.
        var sentBefore: [[UInt8]] = []
        /// It is a QardioArm.
        var qardio: EmulatedQardio?
        /// The task that reads is cancelled as soon as values have left the device.
        var cancelsItsReader = false
    }

    private struct State {
        var behaviour: Behaviour
        var isConnected = false
        var notifying: Set<BluetoothUUID> = []
        var queue: [CharacteristicValue] = []
        var handedOut = 0
        var busyLeft = 0
        /// How many values come though their characteristic was stopped.
        var onItsWay = 0
        var waited = Duration.zero
        var waitedSinceConnecting = Duration.zero
        var clock: Int64 = 1_795_000_000
        var linkChanged: (@Sendable (Bool) -> Void)?
        var joiner = HealthObservationJoiner()
        var compositions = CompositionJoiner()

        /// What the device does where encryption is missing.
        func checkSecurity() throws {
            guard behaviour.wantsEncryption, !(behaviour.isPaired && behaviour.knowsBond) else { return }
            throw GATTError.attribute(0x05)
        }
    }

    let log: EventLog
    private let state: Mutex<State>

    init(_ behaviour: Behaviour, log: EventLog) {
        self.log = log
        state = Mutex(State(behaviour: behaviour))
    }

    /// Changes the device between contacts, or in one.
    func change(_ change: @Sendable (inout Behaviour) -> Void) {
        state.withLock { state in
            change(&state.behaviour)
            state.handedOut = 0
        }
    }

    var behaviour: Behaviour { state.withLock { $0.behaviour } }
    var isConnected: Bool { state.withLock { $0.isConnected } }
    /// Told of each connection and each disconnection.
    func follow(_ linkChanged: @escaping @Sendable (Bool) -> Void) { state.withLock { $0.linkChanged = linkChanged } }

    private func tellLink(_ isConnected: Bool) { state.withLock { $0.linkChanged }?(isConnected) }

    /// Ends the link from the device's side.
    func cut() {
        state.withLock { state in
            state.isConnected = false
            state.notifying = []
            state.queue = []
        }
    }

    var cuffRecords: [[UInt8]] { state.withLock { $0.behaviour.cuffRecords ?? [] } }
    /// How long the device was waited for in vain.
    var waited: Duration { state.withLock { $0.waited } }

    var advertisement: Advertisement {
        state.withLock {
            Advertisement(
                address: $0.behaviour.address, name: $0.behaviour.name, services: $0.behaviour.services,
                manufacturerData: $0.behaviour.manufacturerData, serviceData: $0.behaviour.serviceData,
                isPaired: $0.behaviour.isPaired, seenAt: $0.behaviour.heardAt ?? Instant(seconds: $0.clock))
        }
    }

    func connect() async throws -> Instant {
        log.note(.connect)
        let instant = try state.withLock { state in
            guard !state.behaviour.failsToConnect, state.behaviour.isInReach else { throw GATTError.timedOut }
            if state.behaviour.isPaired, !state.behaviour.knowsBond, !state.behaviour.connectsWithoutBond {
                throw RadioError.forgottenByDevice(state.behaviour.address)
            }
            state.compositions = CompositionJoiner(hasWeights: state.behaviour.more.contains { $0.uuid == 0x2A9D })
            state.isConnected = true
            state.handedOut = 0
            state.waitedSinceConnecting = .zero
            state.clock += 3600
            return Instant(seconds: state.clock)
        }
        tellLink(true)
        return instant
    }

    func characteristics() async throws -> [Characteristic] {
        state.withLock { state in
            var known = state.behaviour.readable.keys.map { ($0, BluetoothUUID(0x180A)) }
            if let glucose = state.behaviour.glucose {
                let service: BluetoothUUID = glucose.measurement == 0x2A18 ? 0x1808 : 0x181F
                known += [(glucose.measurement, service)]
                if service == 0x1808 { known.append((0x2A34, service)) }
                if glucose.hasControlPoint { known.append((0x2A52, service)) }
            }
            if state.behaviour.cuffRecords != nil { known += [(0x2A35, 0x1810), (0x2A36, 0x1810)] }
            if state.behaviour.qardio != nil { known += EmulatedQardio.characteristics }
            known += state.behaviour.more.map { ($0.uuid, $0.service) }
            return known.enumerated().map { index, known in
                Characteristic(uuid: known.0, service: known.1, valueHandle: UInt16(index + 3))
            }
        }
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        log.note(.read(characteristic.uuid))
        return try state.withLock { state in
            try state.checkSecurity()
            if let error = state.behaviour.unaskable { throw error }
            return CharacteristicValue(
                uuid: characteristic.uuid,
                octets: try (state.behaviour.readable[characteristic.uuid] ?? .failure(.attribute(0x02))).get(),
                receivedAt: Instant(seconds: state.clock))
        }
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        log.note(.write(octets))
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            if let qardio = state.behaviour.qardio, characteristic.uuid == Qardio.control {
                try state.checkSecurity()
                if let code = qardio.refuses { throw GATTError.attribute(code) }
                state.queue = (octets == [0xF1, 0x01] ? qardio.values : []).map {
                    CharacteristicValue(uuid: 0x2A35, octets: $0, receivedAt: Instant(seconds: state.clock))
                }
                return
            }
            if characteristic.uuid != 0x2A52 {
                guard let outcome = state.behaviour.writable[characteristic.uuid] else {
                    throw GATTError.attribute(0x03)
                }
                if outcome == nil || state.behaviour.takesWhatItRefuses,
                    state.behaviour.readable[characteristic.uuid] != nil
                {
                    state.behaviour.readable[characteristic.uuid] = .success(octets)
                }
                if let outcome { throw outcome }
                if octets == AndCommand.sendAll {
                    state.behaviour.cuffRecords = state.behaviour.sentBefore + (state.behaviour.cuffRecords ?? [])
                    state.behaviour.sentBefore = []
                }
                return
            }
            guard state.notifying.contains(0x2A52) else { throw GATTError.attribute(0xFD) }
            if state.busyLeft > 0 {
                state.busyLeft -= 1
                throw GATTError.attribute(state.behaviour.busyCode)
            }
            state.busyLeft = state.behaviour.busyAnswers
            let answers: [(BluetoothUUID, [UInt8])] =
                if octets == [1, 1], let spots = state.behaviour.spotChecks {
                    spots.stored.map { (0x2A5E, $0) } + [(0x2A52, [6, 0, 1, spots.answer])]
                        + state.behaviour.measuresThen.map { (0x2A5E, $0) }
                } else {
                    state.behaviour.glucose?.answer(to: octets) ?? []
                }
            for (uuid, octets) in answers {
                state.queue.append(
                    CharacteristicValue(uuid: uuid, octets: octets, receivedAt: Instant(seconds: state.clock)))
            }
        }
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        try state.withLock { state in
            guard state.isConnected else { throw GATTError.disconnected }
            try state.checkSecurity()
            guard !state.behaviour.refusesToNotify.contains(characteristic.uuid) else {
                throw GATTError.attribute(0x06)
            }
            log.note(.start(characteristic.uuid))
            guard state.waitedSinceConnecting >= state.behaviour.needsPause else { return }
            state.notifying.insert(characteristic.uuid)
            func send(_ values: [[UInt8]]) {
                state.queue += values.map {
                    CharacteristicValue(
                        uuid: characteristic.uuid, octets: $0, receivedAt: Instant(seconds: state.clock))
                }
            }
            switch characteristic.uuid {
            case 0x2A36: send(state.behaviour.cuffPressures)
            case 0x2A35: send(state.behaviour.cuffRecords ?? [])
            case let records
            where state.behaviour.glucose?.hasControlPoint == false && records == state.behaviour.glucose?.measurement:
                send(state.behaviour.glucose?.records ?? [])
            case 0x2A9D where !state.behaviour.weighings.isEmpty:
                state.queue += state.behaviour.weighings.map {
                    CharacteristicValue(uuid: $0.uuid, octets: $0.octets, receivedAt: Instant(seconds: state.clock))
                }
            case let other where state.behaviour.streams[other] != nil: send(state.behaviour.streams[other] ?? [])
            default: break
            }
        }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        // As a bus does: a cancelled task gets nothing done any more.
        try Task.checkCancellation()
        log.note(.stop(characteristic.uuid))
        state.withLock { state in
            state.notifying.remove(characteristic.uuid)
            // What a cuff has sent is confirmed: it waits here to be taken.
            guard characteristic.uuid == 0x2A35 else {
                state.queue.removeAll { $0.uuid == characteristic.uuid }
                return
            }
            state.queue = state.behaviour.cuffSendsWhenStopped.map {
                CharacteristicValue(uuid: 0x2A35, octets: $0, receivedAt: Instant(seconds: state.clock))
            }
            state.onItsWay = state.queue.count
        }
    }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        // A busy machine takes longer than the profile's 30 s to let go of what it holds.
        let end = ContinuousClock.now + (timeout < .seconds(15) ? timeout : .seconds(300))
        while state.withLock({ $0.behaviour.isHeld && $0.isConnected }) {
            guard ContinuousClock.now < end else { return .silence }
            try await Task.sleep(for: .milliseconds(1))
        }
        if timeout > .zero, let isWorn = behaviour.isWorn {
            try await Task.sleep(for: .milliseconds(1))
            isWorn()
            state.withLock { state in
                // 36.6 °C and 36.7 °C in turn.
                let octets: [UInt8] = [0x00, 0x6E + UInt8(state.handedOut % 2), 0x01, 0x00, 0xFF]
                state.queue.append(
                    CharacteristicValue(uuid: 0x2A1C, octets: octets, receivedAt: Instant(seconds: state.clock)))
            }
        }
        let burst: ValueBurst? = state.withLock { state in
            guard state.isConnected else { return .disconnected }
            var values: [CharacteristicValue] = []
            while values.count < state.behaviour.burst, !state.queue.isEmpty {
                if let cut = state.behaviour.cutAfter, state.handedOut >= cut { break }
                let value = state.queue.removeFirst()
                guard state.notifying.contains(value.uuid) || state.onItsWay > 0 else { continue }
                values.append(value)
                state.handedOut += 1
                if state.onItsWay > 0 {
                    state.onItsWay -= 1
                } else if value.uuid == 0x2A35, let sent = state.behaviour.cuffRecords?.removeFirst() {
                    state.behaviour.sentBefore.append(sent)
                }
            }
            if !values.isEmpty { return .values(values) }
            if let cut = state.behaviour.cutAfter, state.handedOut >= cut {
                state.isConnected = false
                return .disconnected
            }
            if timeout == .zero { return .silence }
            if state.behaviour.leavesWhenSent, state.handedOut > 0 {
                state.isConnected = false
                return .disconnected
            }
            if state.behaviour.cuffRecords != nil, state.behaviour.cuffDisconnects, state.notifying.contains(0x2A35) {
                state.isConnected = false
                return .disconnected
            }
            state.waited += timeout
            state.waitedSinceConnecting += timeout
            if state.waitedSinceConnecting >= state.behaviour.measuringTime {
                state.queue += state.behaviour.measuresLater.map {
                    CharacteristicValue(uuid: 0x2A5E, octets: $0, receivedAt: Instant(seconds: state.clock))
                }
                state.behaviour.measuresLater = []
            }
            return state.behaviour.silence == .elapses ? .silence : nil
        }
        guard let burst else {
            try await Task.sleep(for: .seconds(600))
            return .silence
        }
        if case .values(let values) = burst {
            behaviour.qardio?.lapse()
            // Each value of a sensor's notification is a frame, and what segments are together is one more.
            let frames = state.withLock { state in
                values.filter { $0.uuid != 0x2A52 }.reduce(0) { count, value in
                    if value.uuid == 0x2AA7 {
                        return count + ContinuousGlucoseMeasurement.parts(of: value.octets).count
                    }
                    // So is a composition, with its second packet or its weight.
                    let whole = state.compositions.take(value).whole.count
                    let segment = value.uuid == 0x2B8B ? try? HealthObservationSegment(decoding: value.octets) : nil
                    return count + whole + (segment.flatMap { state.joiner.take($0) } == nil ? 1 : 2)
                }
            }
            if frames > 0 { log.note(.handedOut(frames)) }
            if state.withLock({ $0.behaviour.cancelsItsReader }) { withUnsafeCurrentTask { $0?.cancel() } }
        }
        return burst
    }

    func disconnect() async {
        guard !Task.isCancelled else { return }
        log.note(.disconnect)
        state.withLock { state in
            state.isConnected = false
            state.notifying = []
            state.queue = []
        }
        tellLink(false)
    }
}
