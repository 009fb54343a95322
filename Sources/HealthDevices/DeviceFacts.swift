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

    /// The serial number in these octets; `nil` if it is no text, or if other devices are likely to give it too.
    ///
    /// A serial number joins two addresses of one device. Some makers ship what their toolkit came with: a word
    /// ("Serial Number" in TI's devinfoservice.c), one repeated digit, or digits that count up. A device report has 0
    /// and X in place of digits and letters. Fewer than three characters tell too few devices apart.
    static func serial(_ octets: [UInt8]) -> String? {
        let string = DeviceInformationString(decoding: octets)
        guard string.isFaithful else { return nil }
        let signs = string.text.uppercased().filter { $0.isLetter || $0.isNumber }
        let isCounting = ["0123456789", "1234567890"].contains { $0.hasPrefix(signs) }
        let isMask = signs.allSatisfy { $0 == "0" || $0 == "X" }
        guard signs.count >= 3, Set(signs).count > 1, signs.contains(where: { $0.isNumber }), !isCounting, !isMask
        else { return nil }
        return string.text
    }
}
