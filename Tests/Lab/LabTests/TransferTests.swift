import Foundation
import Testing

extension LabTests {
    /// What comes of reading a glucose meter, whatever it does.
    @Suite struct Transfers {
        @Test("450 records with contexts equal what the meter holds, to the digit; a second read brings nothing new")
        func everything() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 450, "seed": 11, "contexts": true]]))
            let gateway = try TestGateway()
            let paired = try await gateway.pair(meter)
            #expect(paired.status == 0, "\(paired.errors)")

            let first = try await gateway("read", meter.address)
            #expect(first.status == 0, "\(first.errors)")
            let held = try await meter.readings()
            Comparison.expect(first.documents, equal: held)
            Comparison.expect(try await gateway.stored(), equal: held)

            let mark = try await meter.mark()
            let second = try await gateway("read", meter.address)
            #expect(second.status == 0 && second.documents.isEmpty, "\(second.errors)")
            let sent = try await meter.log(since: mark).filter { $0.name == "sent" && $0.characteristic == "2a18" }
            #expect(sent.count <= 2, "a meter that has nothing new was asked for \(sent.count) records")
        }
    }
}
