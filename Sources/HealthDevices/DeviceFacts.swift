import GATTClient
import GATTProfiles
import HealthReadings

/// What a connected device says of itself: read before its records, so that they are stored with it.
struct DeviceFacts {
    /// Serial number string (2A25).
    var serial: String?
    /// Battery level (2A19), 0 … 100 per cent.
    var batteryPercent: UInt8?
    /// Current time (2A2B), or the date and time (2A08) that some meters offer in its place.
    var clock: ClockReading?

    /// Asks the peripheral. What it refuses or does not have stays nil; what it answers wrongly does too.
    init(of peripheral: any Peripheral, _ characteristics: [Characteristic]) async throws {
        func value(_ uuid: BluetoothUUID) async throws -> CharacteristicValue? {
            guard let characteristic = characteristics.first(where: { $0.uuid == uuid }) else { return nil }
            do {
                return try await peripheral.read(characteristic)
            } catch GATTError.attribute {
                return nil
            }
        }
        serial = try await value(0x2A25).flatMap { value in
            let text = String(decoding: value.octets.prefix { $0 != 0 }, as: UTF8.self)
            return text.isEmpty ? nil : text
        }
        batteryPercent = try await value(0x2A19)?.octets.first.flatMap { $0 <= 100 ? $0 : nil }
        if let current = try await value(0x2A2B) {
            clock = try? CurrentTime(decoding: current.octets).wallTime.map {
                ClockReading(deviceTime: $0, readAt: current.receivedAt)
            }
        } else if let date = try await value(0x2A08) {
            clock = try? DateTime(decoding: date.octets).wallTime.map {
                ClockReading(deviceTime: $0, readAt: date.receivedAt)
            }
        }
    }
}
