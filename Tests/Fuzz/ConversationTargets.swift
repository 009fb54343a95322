import Dispatch
import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings
import Synchronization

extension FuzzTarget {
    /// A whole contact with a device that says whatever it likes: an octet picks the name it claims, two what it has,
    /// one whether the store knows it; the rest is a tape of what it does when something is asked of it.
    static let conversation = FuzzTarget(
        "conversation", longest: 1024,
        seeds: { _ in
            let record: [UInt8] = [3, 5, 0, 0xEA, 0x07, 11, 1, 8, 5, 0, 0, 0, 0x5F, 0xB0, 0x11]
            func value(_ place: UInt8, _ octets: [UInt8]) -> [UInt8] { [2, place, UInt8(octets.count)] + octets }
            let clock = OneTouchFrame(payload: [0x06, 1, 2, 3, 0x30]).encoded
            return [
                [0, 0x07, 0, 0] + value(2, [5, 0, 1, 0]) + value(0, record) + value(2, [6, 0, 1, 1]),
                [7, 0, 0x01, 0] + value(8, clock) + value(8, OneTouchFrame(payload: [0x06, 4, 0, 0, 0]).encoded),
                [9, 0x08, 0, 1] + value(3, [0, 127, 0, 79, 0, 0xFF, 0x07]),
                [20, 0x10, 0, 0] + value(4, [6, 0x41, 100, 0, 5, 0]) + value(2, [6, 0, 1, 1]),
            ]
        }
    ) { octets in
        guard octets.count >= 4 else { return }
        let device = TalkingDevice(octets)
        let finished = DispatchSemaphore(value: 0)
        Task.detached {
            await device.holdContact(wantsAll: octets[3] & 2 != 0)
            finished.signal()
        }
        finished.wait()
    }
}

/// A device that does what a tape says, with the store beside it.
private final class TalkingDevice: Peripheral, FrameJournal, DeviceMemory {
    /// What a device may have, one for each bit.
    private static let offered: [(uuid: BluetoothUUID, service: BluetoothUUID)] = [
        (0x2A18, 0x1808), (0x2A34, 0x1808), (0x2A52, 0x1808), (0x2A35, 0x1810), (0x2AA7, 0x181F), (0x2AA8, 0x181F),
        (0x2AA9, 0x181F), (0x2AAA, 0x181F),
        (
            BluetoothUUID(high: 0xAF9D_F7A3_E595_11E3, low: 0x96B4_0002_A5D5_C51B),
            BluetoothUUID(high: 0xAF9D_F7A1_E595_11E3, low: 0x96B4_0002_A5D5_C51B)
        ),
        (
            BluetoothUUID(high: 0x233B_F001_5A34_1B6D, low: 0x975C_000D_5690_ABE4),
            BluetoothUUID(high: 0x233B_F000_5A34_1B6D, low: 0x975C_000D_5690_ABE4)
        ),
        (0x2A08, 0x1810), (0x2A25, 0x180A), (0x2A2B, 0x1805), (0x2A5E, 0x1822), (0x2A9D, 0x181D), (0x2A9C, 0x181B),
    ]
    private static let healthSensorControlPoint: BluetoothUUID = 0x2BF4
    private static let questions = BluetoothUUID(high: 0xAF9D_F7A2_E595_11E3, low: 0x96B4_0002_A5D5_C51B)

    private struct State {
        var tape: ArraySlice<UInt8>
        var notifying: Set<BluetoothUUID> = []
        var storeHasFailed = false
        var now: Int64 = 1_795_000_000
    }

    let advertisement: Advertisement
    private let has: [Characteristic]
    private let last: LastRecord?
    private let state: Mutex<State>
    private let decoder = ModelFrameDecoder()

    init(_ octets: [UInt8]) {
        let models = Catalogue().models
        let rules = models[Int(octets[0]) % models.count].names
        let name: String? =
            switch rules.first {
            case .exact(let text), .prefix(let text): text
            case .prefixAndDigit(let text): text + "7"
            case nil: nil
            }
        advertisement = Advertisement(
            address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), name: name, services: [], isPaired: true,
            seenAt: Instant(seconds: 0))
        let bits = UInt16(octets[1]) | UInt16(octets[2]) << 8
        var places = Self.offered.indices.filter { bits >> UInt16($0) & 1 != 0 }.map { Self.offered[$0] }
        if octets[3] & 8 != 0 { places += [(0x2B8B, 0x1840), (Self.healthSensorControlPoint, 0x1840)] }
        if bits & 0x100 != 0 { places.append((Self.questions, Self.offered[8].service)) }
        has = places.enumerated().map { number, place in
            Characteristic(uuid: place.uuid, service: place.service, valueHandle: UInt16(number + 3))
        }
        last =
            octets[3] & 1 == 0
            ? nil
            : LastRecord(
                sequence: 5, baseTime: WallTime("2026-11-01T08:05:00"),
                time: octets[3] & 16 == 0 ? nil : Instant(rfc3339: "2026-11-01T07:05:00Z"), count: 1,
                followsCompleteTransfer: octets[3] & 4 == 0)
        state = Mutex(State(tape: octets.dropFirst(4)))
    }

    /// Reads the device as `run` does; whatever it does, it is left in order.
    func holdContact(wantsAll: Bool) async {
        do {
            let summary = try await MeterReader(journal: self, memory: self).read(self, allRecords: wantsAll)
            expect(summary.error?.isEmpty != true, "an error without a name")
        } catch {
            expect(!ContactFailure(error).code.isEmpty, "an error without a name")
        }
        expect(state.withLock { $0.notifying.isEmpty }, "something notifies that was left")
    }

    // MARK: The device

    func connect() async throws -> Instant { Instant(seconds: 1_795_000_000) }
    func characteristics() async throws -> [Characteristic] { has }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        try state.withLock { state in
            expect(!state.storeHasFailed, "the device was asked though nothing can be stored")
            try Self.refuse(&state.tape)
            return CharacteristicValue(
                uuid: characteristic.uuid, octets: Self.octets(&state.tape), receivedAt: Instant(seconds: state.now))
        }
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        try state.withLock { state in
            expect(!state.storeHasFailed, "the device was asked though nothing can be stored")
            let isQuestion =
                characteristic.uuid == 0x2A52 || characteristic.uuid == Self.questions
                || characteristic.uuid == Self.offered[9].uuid && octets == [0x02, 0x00, 0xE1]
                || characteristic.uuid == Self.healthSensorControlPoint && octets == [0x01]
            expect(isQuestion, "\(octets) was written to \(characteristic.uuid)")
            try Self.refuse(&state.tape)
        }
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        try state.withLock { state in
            expect(!state.storeHasFailed, "\(characteristic.uuid) was enabled though nothing can be stored")
            try Self.refuse(&state.tape)
            state.notifying.insert(characteristic.uuid)
        }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        state.withLock { _ = $0.notifying.remove(characteristic.uuid) }
    }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        state.withLock { state in
            state.now += 1
            guard let kind = state.tape.popFirst() else { return .disconnected }
            switch kind % 8 {
            case 0: return .silence
            case 1: return .disconnected
            case let count:
                var values: [CharacteristicValue] = []
                for _ in 1..<count {
                    guard let place = state.tape.popFirst() else { break }
                    values.append(
                        CharacteristicValue(
                            uuid: Self.offered[Int(place) % Self.offered.count].uuid,
                            octets: Self.octets(&state.tape), receivedAt: Instant(seconds: state.now)))
                }
                return values.isEmpty ? .disconnected : .values(values)
            }
        }
    }

    func disconnect() async {}

    /// A length and so many octets.
    private static func octets(_ tape: inout ArraySlice<UInt8>) -> [UInt8] {
        let octets = Array(tape.dropFirst().prefix(Int(tape.popFirst() ?? 0)))
        tape = tape.dropFirst(octets.count)
        return octets
    }

    /// Every sixteenth octet refuses, with the next as the reason.
    private static func refuse(_ tape: inout ArraySlice<UInt8>) throws {
        guard let first = tape.first, first & 0xF0 == 0xF0 else { return }
        tape = tape.dropFirst()
        guard first != 0xFF, let code = tape.popFirst() else { throw GATTError.disconnected }
        throw GATTError.attribute(code)
    }

    // MARK: The store

    private struct Full: Error {}

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        expect(!frames.isEmpty, "nothing was to be stored")
        let isFull = state.withLock { state in
            expect(!state.storeHasFailed, "a store that failed was asked again")
            if state.tape.first == 0xEE { state.storeHasFailed = true }
            return state.storeHasFailed
        }
        if isFull { throw Full() }
        return frames.map { frame in
            switch decoder.decode(frame, model: contact.device.model) {
            case .malformed(let error): .malformed(error)
            case .record(let record):
                .new(
                    Reading(
                        id: ReadingID(high: 0, low: 0), record: record, device: contact.device,
                        time: ResolvedTime(instant: nil, basis: .unknown), receivedAt: frame.receivedAt))
            case .glucoseContext: .waiting
            case .nothing, .sensor, .entry, .imported, .withdrawal, .figures: .nothing
            }
        }
    }

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        Contact(id: 1, device: device, startedAt: start, clock: clock)
    }

    func lastRecord(of contact: Contact) async throws -> LastRecord? {
        contact.sequenceEpoch == 0 ? last : nil
    }

    func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        var contact = contact
        contact.sequenceEpoch += 1
        return contact
    }

    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {}
}
