import Foundation
import Testing

extension LabTests {
    /// `devices report`, and devices that are made of such reports.
    @Suite struct Reports {
        /// What is the same in a device's reading and in that of its report: which kind it is, and what it says beside its
        /// numbers and times.
        private static func shapes(_ readings: [Document]) -> [String] {
            readings.map { reading in
                ["kind", "sequence", "status", "sample_type", "sample_location", "user", "excluded"].map {
                    reading[$0]?.json ?? "-"
                }.joined(separator: " ")
            }.sorted()
        }

        private static func times(_ readings: [Document]) -> Set<String> {
            Set(readings.compactMap { $0["base_time"]?.text })
        }

        /// Reports a device that was paired with this gateway; then pairs and reads what the report is, with another.
        private func replay(
            _ meter: LabMeter, _ gateway: TestGateway, _ behaviour: Document, _ more: String...
        ) async throws -> (report: Document, readings: [Document]) {
            let file = gateway.directory.appendingPathComponent("report-\(UUID().uuidString).json")
            let reported = try await gateway.start(
                ["devices", "report", meter.address, "--yes", "--output", file.path] + more
            ).finish()
            #expect(reported.status == 0, "\(reported.errors)")
            let text = try String(contentsOf: file, encoding: .utf8)
            #expect(!text.contains(meter.address) && !text.contains(meter.address.lowercased()))
            let copy = try await Lab.fresh().add(report: file, behaviour)
            let other = try TestGateway()
            let paired = try await other.pair(copy)
            #expect(paired.status == 0, "\(paired.errors)")
            // Pairing may have read it already.
            let read = try await other("read", copy.address, "--all-records")
            #expect(read.status == 0, "\(read.errors)")
            return (try Document(text), try await other.stored())
        }

        @Test("a glucose meter's report is a device whose readings have the same structure, and other numbers")
        func glucose() async throws {
            let meter = try await Lab.fresh().add(
                Meters.accuchek(["mtu": 185, "records": ["count": 12, "seed": 31, "contexts": true]]))
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            let (report, readings) = try await replay(meter, gateway, ["pairing": "passkey"], "--all-records")
            let held = try await gateway.stored()
            #expect(held.count == 12 && Self.shapes(readings) == Self.shapes(held))
            let (times, heldTimes) = (Self.times(readings), Self.times(held))
            #expect(times.isDisjoint(with: heldTimes) && times.count == 12)
            #expect(report["model"]?.text == "accuchek_guide")
            #expect(report["information"]?["model_number"]?.text == "932")
            #expect(report["procedures"]?.elements.isEmpty == false)
        }

        @Test("a cuff's report is a cuff")
        func cuff() async throws {
            let meter = try await Lab.fresh().add(Meters.omron(["records": ["count": 4, "seed": 32]]))
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            // Pairing may have read it already, and a cuff keeps its records here.
            let (report, readings) = try await replay(meter, gateway, [:])
            let held = try await gateway.stored()
            #expect(held.count == 4 && Self.shapes(readings) == Self.shapes(held))
            #expect(report["model"]?.text == "omron_blesmart")
        }
    }
}
