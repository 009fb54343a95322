import Foundation
import Testing

extension LabTests {
    /// Bonds that hold, and bonds that one side has lost.
    @Suite struct Bonds {
        @Test("a bond outlives this program, the state directory's lock and a restart of bluetoothd")
        func restart() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 5, "seed": 3]]))
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            try await lab.bluetoothd("restart")
            let mark = try await meter.mark()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings())
            let events = try await meter.log(since: mark).map(\.name)
            #expect(events.contains("encrypted") && !events.contains("bonded"))
        }

        @Test("a second host took the meter's only bond: named, and --repair mends it without losing the history")
        func secondHost() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(
                Meters.accuchek(["records": ["count": 5, "seed": 3]]), ["bond_slots": 1])
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            #expect(try await gateway("read", meter.address).documents.count >= 5)
            let before = try await gateway.stored()
            try await meter.pairWithSecondHost()

            let lost = try await gateway("read", meter.address, "--wait", "20")
            #expect(lost.status == 77 && lost.errorCode == "bond_lost_by_device", "\(lost.errors)")
            #expect(lost.hint?.contains("--repair") == true)
            #expect(try await gateway.device(meter)?["proven"] == false)
            #expect(try await gateway.pair(meter).errorCode == "bond_lost_by_device")

            try await meter.add(["count": 2, "seed": 4, "first": 6, "step": 5])
            let repaired = try await gateway.pair(meter, "--repair")
            #expect(repaired.status == 0, "\(repaired.errors)")
            #expect(try repaired.document["proven"] == true)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            #expect(Set(read.documents.compactMap { $0["sequence"]?.integer }) == [6, 7], "only what is new")
            let after = try await gateway.stored()
            #expect(before.allSatisfy { old in after.contains { $0["id"] == old["id"] } })
            Comparison.expect(after, equal: try await meter.readings())
        }

        @Test("the gateway lost its bond: reading says so, and pairing again mends it")
        func lostHere() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 4, "seed": 9]]))
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            try await lab("lose_bond", ["address": .string(meter.address)])
            let read = try await gateway("read", meter.address, "--wait", "5")
            #expect(read.status == 78 && read.errorCode == "not_paired", "\(read.errors)")
            #expect(try await gateway.device(meter)?["paired"] == false)
            let again = try await gateway.pair(meter)
            #expect(again.status == 0, "\(again.errors)")
            #expect(try await gateway("read", meter.address).status == 0)
        }

        @Test("the gateway lost its bond and the meter insists on it: named, with the way out")
        func forgottenHere() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(), ["refuses_known": true])
            let gateway = try TestGateway()
            #expect(try await gateway.pair(meter).status == 0)
            try await lab("lose_bond", ["address": .string(meter.address)])
            let refused = try await gateway("pair", meter.address, "--passkey", "123456")
            #expect(refused.status == 77, "\(refused.errors)")
            #expect(["bond_lost_here", "pairing_rejected_by_device"].contains(refused.errorCode ?? ""))
            #expect(refused.hint?.contains("forget") == true)
            try await meter.forget()
            #expect(try await gateway.pair(meter).status == 0)
        }

        @Test("a meter that needs its button after bonding: kept unproven, proven at its next contact")
        func button() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(
                Meters.accuchek(["records": ["count": 4, "seed": 9]]), ["advertises": "until_bonded"])
            let gateway = try TestGateway()
            let paired = try await gateway.pair(meter, "--wait", "4")
            #expect(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["paired"] == true && paired.document["proven"] == false)
            #expect(paired.errors.contains("press"))
            #expect(try await gateway.device(meter)?["proven"] == false)
            try await meter.press()
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            #expect(try await gateway.device(meter)?["proven"] == true)
        }

        @Test("a meter that leaves after bonding, as an A&D must be left, is proven all the same")
        func leavesAfterBonding() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.omron(), ["leaves_after_bonding": true])
            let paired = try await TestGateway().pair(meter)
            #expect(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["proven"] == true)
        }

        @Test("a private address is found, paired, and resolved: the device is its identity address from then on")
        func privateAddress() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(
                Meters.omron(["records": ["count": 2, "seed": 8], "private": true]), ["leaves_when_done": true])
            let gateway = try TestGateway()
            let found = try await gateway.scan()
            let shown = try #require(found.documents.first?["address"]?.text)
            #expect(shown != meter.address)
            let paired = try await gateway.pair(meter, address: shown)
            #expect(paired.status == 0, "\(paired.errors)")
            #expect(try paired.document["address"]?.text == meter.address)
            #expect(try paired.document["proven"] == true)
            let read = try await gateway("read", meter.address)
            #expect(read.status == 0, "\(read.errors)")
            Comparison.expect(read.documents, equal: try await meter.readings(ever: true))
            let scanned = try await gateway.scan()
            #expect(Set(scanned.documents.compactMap { $0["address"]?.text }) == [meter.address], "\(scanned.output)")
            let devices = try await gateway("devices").document["devices"]?.elements ?? []
            #expect(devices.count == 1, "one device, not one for each address: \(devices)")
        }
    }
}
