import Foundation
import Testing

extension LabTests {
    /// `devices probe`, of devices that are known and of such that are not.
    @Suite struct Probes {
        /// What a report says of a characteristic.
        private func characteristic(_ uuid: String, in report: Document) -> Document? {
            report["characteristics"]?.elements.first { $0["uuid"]?.text == uuid }
        }

        @Test("a device is described without a bond, without what is its own, and without being written to")
        func stranger() async throws {
            let meter = try await Lab.fresh().add(
                Meters.generic(["name": "Nobody 4711", "records": ["count": 3, "seed": 9]]))
            let gateway = try TestGateway()
            let probed = try await gateway("devices", "probe", meter.address)
            // It gives no value without a bond, and the link ends when the system wants to make one.
            #expect(probed.status == 75 && probed.errorCode == "not_paired", "\(probed.errors)")
            let report = try probed.document
            #expect(report["report"]?.text == "healthrelay.device" && report["paired"]?.json == "false")
            #expect(report["error"]?.text == "not_paired")
            #expect(characteristic("2a18", in: report)?["properties"]?.elements.map(\.text) == ["notify"])
            #expect(characteristic("2a18", in: report)?["octets"] == nil)
            #expect(!probed.output.contains("0042") && !probed.output.contains(meter.address))
            #expect(try await meter.requests().isEmpty)
            // It can be paired and read as before.
            #expect(try await gateway.pair(meter).status == 0)
            let read = try await gateway("read", meter.address)
            Comparison.expect(read.documents, equal: try await meter.readings())
        }

        @Test("a bonded device is described too, and keeps all its records")
        func bonded() async throws {
            let meter = try await SharedMeter.glucose.borrow(records: ["count": 3, "seed": 10])
            let gateway = try TestGateway()
            let report = try await gateway("devices", "probe", meter.address).document
            #expect(characteristic("2a24", in: report)?["text"]?.text == "932")
            #expect(report["paired"]?.isTrue == true && characteristic("2a25", in: report)?["text"]?.text == "00000000")
            #expect(try await meter.requests().isEmpty)
            #expect(try await gateway.stored().isEmpty)
        }

        @Test("a device that is not there is not seen, and one that is gone is told with what was read before")
        func absent() async throws {
            _ = try await Lab.fresh()
            let probed = try await TestGateway()("devices", "probe", "C0:00:00:00:99:99", "--wait", "5")
            #expect(probed.status == 75 && probed.errorCode == "device_not_seen", "\(probed.errors)")
        }
    }
}
