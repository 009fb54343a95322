import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct ProbeAdvertisementTests {
    @Test("what a scale advertises of a person's weight is not in the report")
    func manufacturerData() {
        // 72.35 kg and 512 ohm, as scales of the OKOK family say them.
        let advertisement = Advertisement(
            address: DeviceAddress("28:FF:B2:9A:BC:DE"), name: "ADV",
            manufacturerData: [0x10C0: [0x1C, 0x43, 0x02, 0x00, 0x00, 0x01, 0x24]], seenAt: Instant(seconds: 0))
        var report = DeviceReport(advertisement, model: nil)
        report.disguise(Disguise(address: advertisement.address, serials: []))
        #expect(!report.document.text.contains("1c43"))
    }
}
