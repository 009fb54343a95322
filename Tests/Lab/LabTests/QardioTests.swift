import Foundation
import Testing

extension LabTests {
    /// A cuff that measures when it is told to, over the real bluetoothd.
    @Suite struct Qardio {
        /// A paired cuff.
        private func cuff(_ gateway: TestGateway, _ behaviour: Document = [:]) async throws -> LabMeter {
            let meter = try await Lab.fresh().add(Meters.qardio(), behaviour)
            let paired = try await gateway("pair", meter.address)
            try #require(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["model"]?.text == "qardio_arm" && paired.document["proven"]?.isTrue == true)
            return meter
        }

        /// What it was told, in hexadecimal.
        private func told(_ meter: LabMeter) async throws -> [String] {
            try await meter.log().filter { $0.name == "told" }.map(\.hex)
        }

        private func expectEmpty(_ meter: LabMeter) async throws {
            for _ in 0..<50 where try await meter.act("cuff")["inflated"]?.isTrue == true {
                try await Task.sleep(for: .milliseconds(200))
            }
            #expect(try await meter.act("cuff")["inflated"]?.isTrue == false, "there is air in the cuff")
        }

        @Test(
            "a cuff is paired, told to measure once, and its result is a reading; read, probe and scan tell it nothing")
        func measured() async throws {
            let gateway = try TestGateway()
            let meter = try await cuff(gateway, ["results": 2])
            let read = try await gateway("read", meter.address)
            #expect(read.status == 69 && read.errorCode == "nothing_to_read", "\(read.errors)")
            #expect(try await gateway("devices", "probe", meter.address).status == 0)
            #expect(try await gateway.scan().status == 0)
            #expect(try await gateway("measure", meter.address).status == 64)
            #expect(try await told(meter).isEmpty)
            let measured = try await gateway("measure", meter.address, "--yes")
            #expect(measured.status == 0, "\(measured.errors)")
            let pressure = try measured.document["blood_pressure"]
            #expect(pressure?["systolic"]?["value"]?.integer == 121 && pressure?["diastolic"]?["value"]?.integer == 80)
            #expect(try measured.document["pulse"]?["value"]?.integer == 70)
            #expect(measured.errors.contains(#""value":20,"unit":"mmHg""#))
            #expect(try await told(meter) == ["f101"])
            #expect(try await gateway.stored().count == 1)
            try await expectEmpty(meter)
        }

        @Test("Ctrl-C lets the air out", arguments: [SIGINT, SIGTERM])
        func stopped(_ signal: Int32) async throws {
            let gateway = try TestGateway()
            let meter = try await cuff(gateway, ["result": nil])
            let measuring = try gateway.start(["measure", meter.address, "--yes"])
            try await meter.wait("sent", count: 2)
            measuring.kill(signal)
            let result = await measuring.finish()
            #expect(result.status == 75 && result.errorCode == "interrupted", "\(result.errors)")
            #expect(try await told(meter) == ["f101", "f102"])
            try await expectEmpty(meter)
            #expect(try await gateway.stored().isEmpty)
        }

        @Test("a link that is lost is made once more to let the air out, and nothing is started again")
        func lost() async throws {
            let gateway = try TestGateway()
            let meter = try await cuff(gateway, ["drop_after_pressures": 3])
            let measured = try await gateway("measure", meter.address, "--yes")
            #expect(measured.status == 75 && measured.errorCode == "qardio_link_lost", "\(measured.errors)")
            #expect(try await told(meter) == ["f101", "f102"])
            try await expectEmpty(meter)
        }

        @Test("a failure at the cuff is told by its name, and is no reading")
        func failure() async throws {
            let gateway = try TestGateway()
            let meter = try await cuff(gateway, ["result": "14ff070200000000000200", "pressures": [20]])
            let measured = try await gateway("measure", meter.address, "--yes")
            #expect(measured.status == 75 && measured.errorCode == "qardio_cuff_too_loose", "\(measured.errors)")
            #expect(try await told(meter) == ["f101", "f102"])
            #expect(try await gateway.stored().isEmpty)
        }
    }
}
