import GATTClient
import HealthReadings

/// Xiaomi's scales as they advertise.
enum XiaomiScale {
    /// The catalogue's id of scales that measure impedance too.
    static let bodyComposition = "xiaomi_body_composition_scale"
    /// The catalogue's id of scales that only weigh.
    static let weight = "xiaomi_scale"

    /// Body Composition, as whose data a scale says what it measures, in a format of its own.
    static let compositionService: BluetoothUUID = 0x181B
    /// Weight Scale, likewise.
    static let weightService: BluetoothUUID = 0x181D

    /// The service under which each format is advertised.
    private static let services: [(service: BluetoothUUID, format: FrameFormat, model: String)] = [
        (compositionService, .xiaomiComposition, bodyComposition), (weightService, .xiaomiWeight, weight),
    ]

    /// The model that says such things of its services; `nil` for any other device.
    static func model(of advertisement: Advertisement) -> String? {
        services.first { advertisement.serviceData[$0.service]?.count == XiaomiMeasurement.length(of: $0.format) }?
            .model
    }

    /// What an advertisement says of a measurement, as it came.
    struct Said: Sendable, Hashable {
        let format: FrameFormat
        let payload: [UInt8]
        /// `nil` where it cannot be understood.
        let measurement: XiaomiMeasurement?
    }

    /// The measurement in an advertisement: a stable one, or octets that cannot be understood; `nil` where there is none.
    static func measurement(in advertisement: Advertisement) -> Said? {
        for (service, format, _) in services {
            guard let payload = advertisement.serviceData[service] else { continue }
            let measurement = try? XiaomiMeasurement(decoding: payload, as: format)
            guard measurement?.isStable != false else { continue }
            return Said(format: format, payload: payload, measurement: measurement)
        }
        return nil
    }

    // MARK: Scales that encrypt what they say

    /// MiBeacon, Xiaomi's format for advertisements.
    private static let beacon: BluetoothUUID = 0xFE95
    /// The number that the S400 has in it.
    private static let s400: UInt16 = 0x3BD5

    /// Why a scale cannot be read whose measurements only the owner's account at Xiaomi can decrypt; `nil` for others.
    static func encryption(of advertisement: Advertisement) -> ContactFailure? {
        let octets = advertisement.serviceData[beacon] ?? []
        let isS400 = octets.count >= 4 && UInt16(octets[2]) | UInt16(octets[3]) << 8 == s400
        guard isS400 || advertisement.name?.lowercased().hasPrefix("mijia scale s") == true else { return nil }
        return ContactFailure(
            code: "encrypted_scale",
            description: "the scale encrypts what it advertises, as the S400 and the S800 do; it cannot be read",
            hint: "the scales that can be read are listed by `healthrelay catalog`")
    }
}
