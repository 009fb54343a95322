import GATTProfiles
import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// A value of a QardioArm.
    static let qardio = FuzzTarget(
        "qardio", longest: 32,
        seeds: { _ in
            [
                [0, 120, 0, 0, 0, 0, 0], [0x14, 121, 0, 79, 0, 93, 0, 64, 0, 0, 0],
                [0x14, 0xFF, 0x07, 2, 0, 0, 0, 0, 0, 2, 0], [0x04, 0xFF, 0x07, 238, 0, 0, 0, 0, 0],
                [0x15, 0x9D, 0xF0, 0x6E, 0xF0, 0x7C, 0xF0, 64, 0, 1, 0],
            ]
        }
    ) { octets in
        guard let frame = try? QardioFrame(decoding: octets) else { return }
        let standard = frame.measurement.record
        switch frame.meaning {
        case .result: expect(frame.record == standard && standard.exclusion == nil, "a result is no reading")
        case .pressure(let pressure):
            expect(frame.record.exclusion == .intermediate, "the pressure in a cuff is a reading")
            expect(pressure.number.number != nil, "a pressure without a number is shown")
        case .failure: expect(frame.record.exclusion != nil, "a failure is a reading")
        }
        expect((try? QardioFrame(decoding: octets)) == frame, "the same octets say two things")
        _ = frame.record.document().text
    }
}
