import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OximeterTests {
    /// The maker's kit (viatomEcho/LepuBle, `PC60FwBleResponse.RtDataParam`): bit 1 of the octet behind the perfusion says
    /// that no finger is there, bit 2 that the pulse is still looked for.
    @Test("a PC-60FW that says that its probe is off has no value", arguments: [0x02, 0x06] as [UInt8])
    func probeOff(status: UInt8) {
        let body: [UInt8] = [0xAA, 0x55, 0x0F, 0x08, 0x01, 98, 57, 0, 68, status, 0xC0]
        var reader = OximeterStreamReader(.pc60fw)
        #expect(reader.take(body + [OximeterStreamReader.checksum(body[...])]) == nil)
    }
}
