import GATTClient
import GATTProfiles
import HealthReadings

/// What a connected device says of itself: read before its records, so that they are stored with it.
struct DeviceFacts {
    /// Serial Number String.
    static let serialNumber = BluetoothUUID(DeviceInformationString.Kind.serialNumber.rawValue)

    /// Serial number string (2A25).
    var serial: String?
    /// Battery level (2A19), 0 … 100 per cent.
    var batteryPercent: UInt8?
    /// Current time (2A2B), or the date and time (2A08) that some meters offer in its place.
    var clock: ClockReading?
    /// Whether it answered at all: on the link of a bonded device, that the bond holds.
    private(set) var hasAnswered = false

    /// Asks the peripheral. What it refuses or does not have stays nil; what it answers wrongly does too.
    ///
    /// - Throws: ``GATTError/disconnected``, and what says more than that this value cannot be had.
    init(of peripheral: any Peripheral, _ characteristics: [Characteristic]) async throws {
        var answers = 0
        func value(_ uuid: BluetoothUUID) async throws -> CharacteristicValue? {
            guard let characteristic = characteristics.first(where: { $0.uuid == uuid }) else { return nil }
            do {
                let value = try await peripheral.read(characteristic)
                answers += 1
                return value
            } catch let error as GATTError where error != .disconnected {
                return nil
            } catch RadioError.other {
                // The service could not ask for it: nothing that is needed.
                return nil
            }
        }
        serial = try await value(Self.serialNumber).flatMap { Self.serial($0.octets) }
        batteryPercent = try await value(BatteryLevel.uuid).flatMap { try? BatteryLevel(decoding: $0.octets).percent }
        for profile in ServiceProfile.clocks where clock == nil && profile.showsWallTime {
            clock = try await value(profile.uuid).flatMap { value in
                (try? profile.wallTime(in: value.octets)).map {
                    ClockReading(deviceTime: $0, readAt: value.receivedAt)
                }
            }
        }
        hasAnswered = answers > 0
    }

    /// A serial number joins two addresses of one device: one that is no text, or says nothing, must not.
    static func serial(_ octets: [UInt8]) -> String? {
        let string = DeviceInformationString(decoding: octets)
        guard string.isFaithful, string.text.contains(where: { $0.isLetter || $0.isNumber }) else { return nil }
        return string.text
    }
}
