import HealthReadings
import Synchronization

/// What was stored of what scales advertise: the same measurement is heard again and again.
///
/// Forgotten when the program ends. The store then takes a measurement that it has for a repetition.
final class HeardMeasurements: Sendable {
    private struct Key: Hashable {
        var moment: [UInt16]
        var unit: XiaomiMeasurement.Unit
        var rawWeight: UInt16
    }

    private struct Device {
        var last: (key: Key, time: WallTime?, hasImpedance: Bool)?
        /// Octets that could not be understood, by why.
        var malformed: Set<[UInt8]> = []
    }

    /// How many octets that cannot be understood are kept of a device, as long as the program runs.
    private static let mostMalformed = 16
    /// How long after a weight became stable the scale may show it with another time, in seconds.
    private static let longestLeaving: Int64 = 120

    private let devices = Mutex<[DeviceAddress: Device]>([:])

    /// What is new in what a scale says.
    enum News: Sendable, Hashable {
        case nothing
        /// Another measurement than before.
        case measurement
        /// The impedance of the measurement before; octets that cannot be understood.
        case more
    }

    func news(in said: XiaomiScale.Said, of address: DeviceAddress) -> News {
        devices.withLock { devices in
            let device = devices[address] ?? Device()
            guard let measurement = said.measurement else {
                let isFull = device.malformed.count >= Self.mostMalformed
                return isFull || device.malformed.contains(said.payload) ? .nothing : .more
            }
            guard let last = device.last else { return .measurement }
            let bringsImpedance = measurement.impedance != nil && !last.hasImpedance
            guard last.key == Self.key(measurement) else {
                return !bringsImpedance && Self.isLeaving(measurement, last.key, last.time) ? .nothing : .measurement
            }
            return bringsImpedance ? .more : .nothing
        }
    }

    /// It is durable.
    func note(_ said: XiaomiScale.Said, of address: DeviceAddress) {
        devices.withLock { devices in
            guard let measurement = said.measurement else {
                devices[address, default: Device()].malformed.insert(said.payload)
                return
            }
            devices[address, default: Device()].last = (
                Self.key(measurement), measurement.time, measurement.impedance != nil
            )
        }
    }

    /// Whether the person of the last measurement has left the scale.
    ///
    /// Some scales then show the weight with the time at which the person left: openScale's page on the scale says that the time
    /// doesn't hold then, and an owner has logged it (xiaomi_mi_scale).
    private static func isLeaving(_ measurement: XiaomiMeasurement, _ last: Key, _ lastTime: WallTime?) -> Bool {
        guard measurement.isRemoved, measurement.unit == last.unit, measurement.rawWeight == last.rawWeight,
            let time = measurement.time, let lastTime
        else { return false }
        return (0...longestLeaving).contains(time.secondsSinceEpoch - lastTime.secondsSinceEpoch)
    }

    private static func key(_ measurement: XiaomiMeasurement) -> Key {
        Key(moment: measurement.moment, unit: measurement.unit, rawWeight: measurement.rawWeight)
    }
}
