import GATTClient
import HealthReadings
import Synchronization
import Testing

@testable import HealthDevices

/// Devices near a radio, a store and a manager between them.
struct RadioBench {
    let clock = ManualClock()
    let log = EventLog()
    let radio: EmulatedRadio
    let store: RecordingStore
    let manager: DevicesManager

    init() {
        radio = EmulatedRadio(clock)
        store = RecordingStore(log)
        manager = DevicesManager(radio: radio, journal: store, memory: store, pairings: store, clock: clock)
    }

    /// A glucose meter; each has a log of its own.
    @discardableResult func meter(
        _ number: UInt64 = 1, records: [[UInt8]] = glucoseRecords(1...5), paired: PairingState = .unpaired,
        script: EmulatedRadio.PairingScript = .justWorks, identity: DeviceAddress? = nil,
        _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }
    ) async throws -> EmulatedDevice {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(number)
        behaviour.name = "meter+\(number)"
        behaviour.glucose = EmulatedGlucoseMemory(records)
        return try await add(behaviour, paired, script, identity, adjust)
    }

    /// A thermometer that is paired, and sends a value each second for as long as it is worn.
    ///
    /// - Parameter timePasses: whether the clock goes on by that second.
    func wornThermometer(timePasses: @escaping @Sendable () -> Bool = { true }) async throws -> EmulatedDevice {
        let clock = clock
        return try await meter(paired: .proven) {
            $0.glucose = nil
            $0.name = "Thermometer"
            $0.more = [(0x2A1C, 0x1809)]
            $0.isWorn = { if timePasses() { clock.advance(by: .seconds(1)) } }
        }
    }

    /// A cuff.
    @discardableResult func cuff(
        _ number: UInt64 = 1, records: [[UInt8]] = [pressureRecord(1), pressureRecord(2)],
        paired: PairingState = .unpaired, _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }
    ) async throws -> EmulatedDevice {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(number)
        behaviour.name = "BLESmart_\(number)"
        behaviour.cuffRecords = records
        return try await add(behaviour, paired, .justWorks, nil, adjust)
    }

    /// A QardioArm, which sends these values when it is told to measure.
    @discardableResult func qardio(
        _ values: [[UInt8]] = EmulatedQardio.measurement, paired: PairingState = .proven,
        _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }
    ) async throws -> EmulatedDevice {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(1)
        behaviour.name = "QardioARM 2"
        behaviour.services = [0x1810]
        behaviour.readable = [0x2A19: .success([80]), 0x2A49: .success([0x17, 0]), 0x2A25: .success(Array("Q1".utf8))]
        behaviour.qardio = EmulatedQardio(values: values) { [clock] in clock.advance(by: .seconds(1)) }
        return try await add(behaviour, paired, .justWorks, nil, adjust)
    }

    private func add(
        _ behaviour: EmulatedDevice.Behaviour, _ paired: PairingState, _ script: EmulatedRadio.PairingScript,
        _ identity: DeviceAddress?, _ adjust: (inout EmulatedDevice.Behaviour) -> Void
    ) async throws -> EmulatedDevice {
        var behaviour = behaviour
        behaviour.wantsEncryption = true
        behaviour.isPaired = paired.isPaired
        adjust(&behaviour)
        let device = EmulatedDevice(behaviour, log: EventLog())
        if paired.isPaired {
            try await store.notePairing(
                of: DeviceDescription(address: behaviour.address, name: behaviour.name), as: paired)
        }
        radio.add(device, script, identity: identity)
        return device
    }
}

extension DeviceAddress {
    static func device(_ number: UInt64) -> DeviceAddress {
        DeviceAddress(bits: 0xC0_0000_000000 + number, kind: .random)
    }
}

/// What was told, in order.
final class Told<Event: Sendable>: Sendable {
    private let state = Mutex<[Event]>([])
    var events: [Event] { state.withLock { $0 } }
    func note(_ event: Event) { state.withLock { $0.append(event) } }
}
