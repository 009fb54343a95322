import Foundation
import GATTClient
import HealthReadings
import LibDBus
import LogLines
import Logging
import TestBus
import Testing

@testable import BlueZCentral

/// A bus, an emulated daemon on it and a radio that uses it.
struct Bench {
    let bus: TestBus
    let daemon: EmulatedDaemon
    let radio: BlueZRadio
    let log = LogLines()

    init(
        powered: Bool? = true, adapter: String? = nil, limits: RadioLimits = .test,
        rfkill: RFKill = RFKill(folder: "/nowhere"), matchRules: Int = 5000, replies: Int = 50000
    ) async throws {
        bus = try await TestBus.start(matchRules: matchRules, replies: replies)
        daemon = try await EmulatedDaemon.start(on: bus, powered: powered)
        radio = Self.radio(bus, adapter: adapter, limits: limits, rfkill: rfkill, log)
    }

    static func radio(
        _ bus: TestBus, adapter: String? = nil, limits: RadioLimits = .test,
        rfkill: RFKill = RFKill(folder: "/nowhere"),
        _ log: LogLines = LogLines()
    ) -> BlueZRadio {
        BlueZRadio(
            adapter: adapter, bus: .address(bus.address), limits: limits, rfkill: rfkill,
            logger: log.logger("bluez", from: .debug))
    }

    /// A glucose meter: 2A18 notifies, 2A34 notifies, 2A51 is read, 2A52 is written and indicates.
    func addMeter(_ address: String = Self.meter.description, _ more: EmulatedDaemon.Properties = [:]) async throws
        -> Meter
    {
        let path = try await daemon.addDevice(address, name: "meter+1", more)
        try await daemon.addService(0x1808, of: path, at: 0x1B, [0x2A18, 0x2A34, 0x2A51, 0x2A52])
        return Meter(path: path)
    }

    /// The peripheral of a meter, connected, with its characteristics by number.
    func connect(_ address: DeviceAddress = meter) async throws -> (any Peripheral, [UInt16: Characteristic]) {
        let peripheral = try await radio.peripheral(address, within: .seconds(600))
        _ = try await peripheral.connect()
        var characteristics: [UInt16: Characteristic] = [:]
        for one in try await peripheral.characteristics() { characteristics[one.uuid.assignedNumber ?? 0] = one }
        return (peripheral, characteristics)
    }

    static let meter = DeviceAddress(bits: 0xC000_0000_1808, kind: .random)

    struct Meter {
        let path: String
        var measurement: String { path + "/service001b/char001c" }
        var context: String { path + "/service001b/char001f" }
        var feature: String { path + "/service001b/char0022" }
        var controlPoint: String { path + "/service001b/char0025" }
    }
}

extension RadioLimits {
    /// Retries without pauses; nothing that is waited for in earnest is shorter than in life.
    static var test: RadioLimits {
        var limits = RadioLimits()
        limits.pause = .milliseconds(5)
        limits.reconnecting = .milliseconds(5)
        limits.listenAgain = [.milliseconds(5)]
        limits.look = .milliseconds(5)
        return limits
    }
}

extension RFKill {
    /// Switches as the kernel shows them.
    static func emulated(soft: Bool, hard: Bool) throws -> RFKill {
        let folder = try TestBus.makeFolder()
        let one = folder.appendingPathComponent("rfkill0")
        try FileManager.default.createDirectory(at: one, withIntermediateDirectories: true)
        for (file, text) in ["type": "bluetooth", "name": "hci0", "soft": soft ? "1" : "0", "hard": hard ? "1" : "0"] {
            try Data((text + "\n").utf8).write(to: one.appendingPathComponent(file))
        }
        return RFKill(folder: folder.path)
    }
}
