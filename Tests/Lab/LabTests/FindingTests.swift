import Foundation
import Testing

extension LabTests {
    /// What is found, and what it costs to look.
    @Suite struct Finding {
        @Test("a scan finds each meter once, with its model, and of a brand only that one")
        func scanByBrand() async throws {
            let lab = try await Lab.fresh()
            for definition in [Meters.accuchek(), Meters.contour(), Meters.omron()] {
                _ = try await lab.add(definition)
            }
            let gateway = try TestGateway()

            let scan = try gateway.start(["scan"])
            #expect(
                try await scan.wait { Set($0.documents.compactMap { $0["model"]?.text }).count == 3 },
                "\(scan.errorText)")
            let all = await scan.end()
            #expect(all.status == 0, "\(all.errors)")
            #expect(
                Set(all.documents.compactMap { $0["model"]?.text })
                    == ["accuchek_guide", "contour_next", "omron_blesmart"])
            let found = try #require(all.documents.first { $0["model"]?.text == "accuchek_guide" })
            #expect(found["address"]?.text == "C0:00:00:00:18:08")
            #expect(found["address_type"]?.text == "random")
            #expect(found["name"]?.text == "meter+00001808")
            #expect(found["kinds"] == ["glucose"])
            #expect(found["rssi"]?.integer == -50)
            #expect(found["paired"] == false)

            let second = try gateway.start(["scan", "--brand", "Omron"])
            #expect(try await second.wait { !$0.documents.isEmpty }, "\(second.errorText)")
            try await Task.sleep(for: .seconds(2))
            let brand = await second.end()
            #expect(brand.status == 0, "\(brand.errors)")
            #expect(Set(brand.documents.compactMap { $0["address"]?.text }) == ["C0:00:00:00:18:10"])
            #expect(brand.documents.count == 1, "told once: \(brand.output)")
        }

        @Test("a scan that finds nothing ends with 0")
        func nothing() async throws {
            _ = try await Lab.fresh()
            let result = try await TestGateway()("scan", "--for", "1")
            #expect(result.status == 0 && result.documents.isEmpty, "\(result.errors)")
        }

        @Test("a meter among a hundred and fifty strangers is found alone, paired and read")
        func manyStrangers() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 20, "seed": 5]]))
            try await lab.strangers(150)
            let gateway = try TestGateway()
            let scan = try gateway.start(["scan"])
            #expect(try await scan.wait { !$0.documents.isEmpty }, "\(scan.errorText)")
            try await Task.sleep(for: .seconds(2))
            let found = await scan.end()
            #expect(found.status == 0 && Set(found.documents.map { $0["address"]?.text }) == [meter.address])
            let paired = try await gateway.pair(meter)
            #expect(paired.status == 0, "\(paired.errors)")
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
        }

        @Test("malformed advertisements harm nothing, and the meter among them is found")
        func malformedAdvertisements() async throws {
            let lab = try await Lab.fresh()
            _ = try await lab.add(Meters.omron())
            try await lab.strangers(60, interval: 0.5, malformed: true)
            let gateway = try TestGateway()
            let scan = try gateway.start(["scan", "--all"])
            #expect(
                try await scan.wait { $0.documents.contains { $0["address"]?.text == "C0:00:00:00:18:10" } },
                "\(scan.errorText)")
            let result = await scan.end()
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.documents.count == result.output.split(separator: "\n").count, "a line is no JSON")
        }

        @Test("a scan that is interrupted ends with 0, and the adapter listens no more")
        func endsDiscovery() async throws {
            let lab = try await Lab.fresh()
            let scan = try TestGateway().start(["scan"])
            #expect(try await scan.wait { _ in try await lab("scanning")["scanning"]?.isTrue == true })
            let result = await scan.end()
            #expect(result.status == 0 && result.signal == nil, "\(result.errors)")
            let end = Lab.now + 15
            while Lab.now < end, try await lab("scanning")["scanning"]?.isTrue == true {
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect(try await lab("scanning")["scanning"] == false)
        }
    }
}
