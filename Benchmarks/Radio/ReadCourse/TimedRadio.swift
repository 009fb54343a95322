import GATTClient
import HealthReadings
import Synchronization

/// A radio whose peripherals note how long disconnecting takes: that time is BlueZ's.
final class TimedRadio: Radio {
    let disconnects = Mutex<[(at: Double, took: Double)]>([])
    private let radio: any Radio

    init(_ radio: any Radio) { self.radio = radio }

    func adapterStates() -> AsyncStream<AdapterState> { radio.adapterStates() }
    func advertisements() -> AsyncThrowingStream<Advertisement, any Error> { radio.advertisements() }
    func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> { radio.peripherals() }
    func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        radio.peripherals(addresses)
    }
    func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral {
        TimedPeripheral(try await radio.peripheral(address, within: timeout), self)
    }
    func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond {
        try await radio.pair(address, within: timeout, agent: agent)
    }
    func unpair(_ address: DeviceAddress) async throws -> Bool { try await radio.unpair(address) }
    func bonds() async throws -> [Bond] { try await radio.bonds() }
    func bond(with address: DeviceAddress) async throws -> Bond? { try await radio.bond(with: address) }
    func bondedElsewhere(among addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> {
        try await radio.bondedElsewhere(among: addresses)
    }
    func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error> {
        radio.connectionChanges(addresses)
    }
}

private struct TimedPeripheral: Peripheral {
    let peripheral: any Peripheral
    let radio: TimedRadio

    init(_ peripheral: any Peripheral, _ radio: TimedRadio) { (self.peripheral, self.radio) = (peripheral, radio) }

    var advertisement: Advertisement { peripheral.advertisement }
    func connect() async throws -> Instant { try await peripheral.connect() }
    func characteristics() async throws -> [Characteristic] { try await peripheral.characteristics() }
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        try await peripheral.read(characteristic)
    }
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        try await peripheral.write(octets, to: characteristic, expectingResponse: expectingResponse)
    }
    func startNotifying(_ characteristic: Characteristic) async throws {
        try await peripheral.startNotifying(characteristic)
    }
    func stopNotifying(_ characteristic: Characteristic) async throws {
        try await peripheral.stopNotifying(characteristic)
    }
    func keepNotifying() async { await peripheral.keepNotifying() }
    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        try await peripheral.nextValues(within: timeout)
    }
    func disconnect() async {
        let begun = ReadCourse.monotonic()
        await peripheral.disconnect()
        radio.disconnects.withLock { $0.append((begun, ReadCourse.monotonic() - begun)) }
    }
}
