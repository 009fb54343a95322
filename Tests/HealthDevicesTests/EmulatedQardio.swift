import GATTClient

@testable import HealthDevices

/// What makes an emulated device a QardioArm: it sends nothing until it is told to measure.
struct EmulatedQardio: Sendable {
    /// What it sends then, one value after the other.
    var values: [[UInt8]]
    /// Refuses what is written to its control characteristic with this code.
    var refuses: UInt8?
    /// Lets the time pass that there is between two values.
    var lapse: @Sendable () -> Void

    init(values: [[UInt8]], lapse: @escaping @Sendable () -> Void) {
        (self.values, self.lapse) = (values, lapse)
    }

    static let characteristics: [(BluetoothUUID, BluetoothUUID)] = [(0x2A35, 0x1810), (Qardio.control, 0x1810)]

    /// A pressure in the cuff.
    static func pressure(_ millimetres: UInt8) -> [UInt8] { [0, millimetres, 0, 0, 0, 0, 0] }

    /// A result, with pulse and status.
    static func result(_ systolic: UInt8, _ diastolic: UInt8, pulse: UInt8 = 64, status: UInt8 = 0) -> [UInt8] {
        [0x14, systolic, 0, diastolic, 0, 93, 0, pulse, 0, status, 0]
    }

    /// Pressures up and down, and a result.
    static let measurement = [10, 60, 120, 170, 150, 110, 70].map(pressure) + [result(121, 79)]

    /// What public code shows as "2047/2": no systolic pressure, and a number where the diastolic stands.
    static func failure(status: UInt8 = 0) -> [UInt8] { [0x14, 0xFF, 0x07, 2, 0, 0, 0, 0, 0, status, 0] }
}
