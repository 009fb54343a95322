import GATTClient
import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// What a Xiaomi scale advertises: the service's low octet, then its data.
    static let xiaomi = FuzzTarget(
        "xiaomi", longest: 40,
        seeds: { _ in
            let composition: [UInt8] = [2, 0xA6, 0xE4, 7, 9, 6, 13, 38, 20, 0xE9, 1, 0x5A, 0x37]
            let weight: [UInt8] = [0x22, 0x9E, 0x43, 0xE5, 7, 4, 11, 16, 19, 1]
            return [[0x1B] + composition, [0x1D] + weight]
        }
    ) { octets in
        guard let service = octets.first else { return }
        let payload = Array(octets.dropFirst())
        let format = service & 1 == 1 ? FrameFormat.xiaomiComposition : .xiaomiWeight
        let decoded = XiaomiMeasurement.decode(payload, as: format)
        expect(decoded == XiaomiMeasurement.decode(payload, as: format), "the same frame says two things")
        if case .record(let record) = decoded { _ = record.document().text }
        let advertisement = Advertisement(
            address: nil, serviceData: [BluetoothUUID(0x1800 | UInt16(service)): payload], seenAt: Instant(seconds: 0))
        _ = XiaomiScale.encryption(of: advertisement)
        _ = XiaomiScale.measurement(in: advertisement)
        guard let measurement = try? XiaomiMeasurement(decoding: payload, as: format) else { return }
        expect(
            (try? XiaomiMeasurement(decoding: measurement.encoded, as: format)) == measurement,
            "a measurement is not what its octets say")
        let heard = HeardMeasurements()
        let said = XiaomiScale.Said(format: format, payload: payload, measurement: measurement)
        let address = DeviceAddress(bits: 1, kind: .random)
        expect(heard.news(in: said, of: address) == .measurement, "the first measurement is none")
        heard.note(said, of: address)
        expect(heard.news(in: said, of: address) == .nothing, "the same measurement is two")
    }
}
