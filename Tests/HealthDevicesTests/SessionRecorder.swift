import Foundation
import GATTClient
import HealthReadings
import Synchronization

@testable import HCICapture
@testable import HealthDevices

/// Notes what is said to a device by its maker's own protocol, and what it says, as a capture shows it.
final class SessionRecorder: Peripheral {
    private enum Said: Sendable {
        case enabled(UInt16)
        case written(UInt16, [UInt8], isAcknowledged: Bool)
        case notified(UInt16, [UInt8])
    }

    private let monitor: any Peripheral
    private let said = Mutex<[Said]>([])

    init(_ monitor: any Peripheral) { self.monitor = monitor }

    var advertisement: Advertisement { monitor.advertisement }
    func connect() async throws -> Instant { try await monitor.connect() }
    func characteristics() async throws -> [Characteristic] { try await monitor.characteristics() }
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        try await monitor.read(characteristic)
    }
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        said.withLock {
            $0.append(.written(characteristic.valueHandle, octets, isAcknowledged: expectingResponse))
        }
        try await monitor.write(octets, to: characteristic, expectingResponse: expectingResponse)
    }
    func startNotifying(_ characteristic: Characteristic) async throws {
        said.withLock { $0.append(.enabled(characteristic.valueHandle)) }
        try await monitor.startNotifying(characteristic)
    }
    func stopNotifying(_ characteristic: Characteristic) async throws {
        try await monitor.stopNotifying(characteristic)
    }
    func keepNotifying() async { await monitor.keepNotifying() }
    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        let burst = try await monitor.nextValues(within: timeout)
        guard case .values(let values) = burst else { return burst }
        let characteristics = try await monitor.characteristics()
        said.withLock { said in
            for value in values {
                guard let found = characteristics.first(where: { $0.uuid == value.uuid }) else { continue }
                said.append(.notified(found.valueHandle, value.octets))
            }
        }
        return burst
    }
    func disconnect() async { await monitor.disconnect() }

    /// Replays a capture of all this.
    func replay<Result>(_ read: (any Peripheral) async throws -> Result) async throws -> [Result] {
        let file = FileManager.default.temporaryDirectory
            .appending(path: "own-\(ProcessInfo.processInfo.globallyUniqueString).btsnoop")
        try await Data(capture()).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var results: [Result] = []
        for try await peripheral in try ReplayCentral(paths: [file.path]).peripherals() {
            results.append(try await read(peripheral))
        }
        return results
    }

    /// The octets of a capture of all this.
    func capture() async throws -> [UInt8] {
        let characteristics = try await monitor.characteristics().filter { $0.service != 0x180A }
        var packets = Packets()
        packets.event(0x3E, [1, 0, 64, 0, 0, 1, 7, 0, 0, 0, 0, 0xC0, 24, 0, 0, 0, 72, 0, 0])
        let service = characteristics[0].service ?? 0x1800
        let uuid =
            service.assignedNumber.map { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] } ?? Self.octets(service)
        packets.sent([0x10, 1, 0, 255, 255, 0, 0x28])
        packets.received([0x11, UInt8(4 + uuid.count), 1, 0, 60, 0] + uuid)
        for characteristic in characteristics {
            let handle = UInt8(characteristic.valueHandle)
            packets.sent([0x08, handle - 1, 0, 60, 0, 3, 0x28])
            packets.received([0x09, 21, handle - 1, 0, 0x1C, handle, 0] + Self.octets(characteristic.uuid))
        }
        for one in said.withLock(\.self) {
            switch one {
            case .enabled(let handle):
                packets.sent([0x12, UInt8(handle) + 1, 0, 1, 0])
                packets.received([0x13])
            case .written(let handle, let octets, let isAcknowledged):
                packets.sent([isAcknowledged ? 0x12 : 0x52, UInt8(handle), 0] + octets)
                if isAcknowledged { packets.received([0x13]) }
            case .notified(let handle, let octets): packets.received([0x1B, UInt8(handle), 0] + octets)
            }
        }
        packets.event(0x05, [0, 64, 0, 0x13])
        return BTSnoopEncoder.header(.linuxMonitor)
            + packets.records.flatMap { BTSnoopEncoder.record($0, .linuxMonitor) ?? [] }
    }

    private static func octets(_ uuid: BluetoothUUID) -> [UInt8] {
        [uuid.low, uuid.high].flatMap { half in (0..<8).map { UInt8(truncatingIfNeeded: half >> (8 * $0)) } }
    }

    /// Packets of one connection, a tenth of a second apart.
    private struct Packets {
        var records: [CaptureRecord] = []

        private mutating func add(_ kind: HCIPacketKind, _ direction: HCIDirection?, _ octets: [UInt8]) {
            let time = Instant(microseconds: 1_795_176_000_000_000 + Int64(records.count) * 100_000)
            records.append(CaptureRecord(time: time, adapter: 0, kind: kind, direction: direction, octets: octets))
        }

        mutating func event(_ code: UInt8, _ body: [UInt8]) {
            add(.event, .received, [code, UInt8(body.count)] + body)
        }

        private mutating func attribute(_ pdu: [UInt8], received: Bool) {
            let packet = [UInt8(pdu.count), 0, 4, 0] + pdu
            add(.aclData, received ? .received : .sent, [64, received ? 0x20 : 0, UInt8(packet.count), 0] + packet)
        }

        mutating func sent(_ pdu: [UInt8]) { attribute(pdu, received: false) }
        mutating func received(_ pdu: [UInt8]) { attribute(pdu, received: true) }
    }
}
