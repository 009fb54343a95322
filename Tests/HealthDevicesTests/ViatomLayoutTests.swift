import HealthReadings
import Testing

@testable import HealthDevices

/// What the maker's own kit says of a record of `bp2nibp.list` (viatomEcho/LepuBle, `LeBp2wBpList` and `Bp2wBpList`).
///
/// `time (4) | user (4) | mode: 1 for three measurements | 0 | interval (2) | status | systolic (2) | diastolic (2) |
/// mean (2) | pulse (1) | result: bit 0 irregular, bit 1 movement | level | …`
@Suite struct ViatomLayoutTests {
    private func decoded(mode: UInt8 = 0, status: UInt8 = 0, pulse: UInt8 = 64, result: UInt8 = 0) -> Record? {
        let octets =
            [UInt8](hex: "66b40f69 d7530300") + [mode, 0, mode == 0 ? 0 : 30, 0, status] + [UInt8](hex: "7e004c006200")
            + [pulse, result, 2] + [UInt8](repeating: 0, count: 15)
        guard case .record(let record) = ViatomPressure.decode([0] + octets) else { return nil }
        return record
    }

    private func pulse(_ record: Record?) -> Int64? {
        guard case .bloodPressure(let value)? = record?.value else { return nil }
        return value.pulse?.number.number?.significand
    }

    @Test("the pulse is one octet, whatever the result beside it", arguments: [0, 1, 2, 3] as [UInt8])
    func pulse(result: UInt8) throws {
        #expect(pulse(decoded(result: result)) == 64)
    }

    @Test("the result says that the pulse was irregular, or that its person moved; the mode does not")
    func status() throws {
        #expect(decoded(result: 1)?.status == .irregularPulse)
        #expect(decoded(result: 2)?.status == .bodyMovement)
        #expect(decoded(mode: 1)?.status == [])
    }
}
