import Crypto
import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Many devices")
struct ManyDevicesTests {
    @Test("a device is found by each of its addresses, whatever kind is said, and no other is")
    func likeAddress() async throws {
        let harness = try await Harness()
        for number in 1...9 {
            try await harness.contact([], device: Build.device(UInt64(number), serial: "S\(number)"))
        }
        // One device with two addresses.
        try await harness.contact([], device: Build.device(10, serial: "S3"))
        let all = try await harness.store.pairings()
        #expect(all.count == 9 && all.contains { $0.addresses.count == 2 })
        for device in all {
            for address in device.addresses {
                for kind in DeviceAddress.Kind.allCases {
                    let asked = DeviceAddress(bits: address.bits, kind: kind)
                    #expect(try await harness.store.pairings(like: asked) == [device])
                }
                #expect(try await harness.store.pairing(of: address) == device)
            }
        }
        let stranger = try #require(Build.device(11).address)
        #expect(try await harness.store.pairings(like: stranger).isEmpty)
    }

    @Test("what was read of a device's label is not believed of another label, another device, or without the keys")
    func labels() async throws {
        let harness = try await Harness()
        let sealing = harness.store.sealing
        let (first, second) = (DeviceLabel(serial: "1", name: "a"), DeviceLabel(serial: "2", name: "a"))
        let blob = try sealing.seal(first, of: 1)
        for _ in 0..<2 {
            #expect(try sealing.label(blob, of: 1) == first)
            #expect(try sealing.label(sealing.seal(second, of: 1), of: 1) == second)
            #expect(throws: StoreError.self) { try sealing.label(blob, of: 2) }
            var damaged = blob
            damaged[damaged.count - 1] ^= 1
            #expect(throws: StoreError.self) { try sealing.label(damaged, of: 1) }
        }
        #expect(try sealing.label(blob, of: 1) == first)
        sealing.set(Sealing.State(refusal: .diskFull))
        #expect(throws: StoreError.self) { try sealing.label(blob, of: 1) }
    }

    @Test("a label under a key that is retired is not believed, although it was opened before")
    func retired() throws {
        let keys = [1, 2].map { GenerationKeys(generation: $0, key: SymmetricKey(size: .bits256)) }
        let former = Sealing(Sealing.State(current: 1, inUse: [1], keys: [1: keys[0]]))
        let sealing = Sealing(Sealing.State(current: 2, inUse: [2, 1], keys: [1: keys[0], 2: keys[1]]))
        let label = DeviceLabel(serial: "1", name: "a")
        let blob = try former.seal(label, of: 1)
        #expect(try sealing.label(blob, of: 1) == label)
        sealing.retireOthers()
        #expect(try sealing.label(blob, of: 1) == label)
        sealing.forgetRetired()
        #expect(throws: StoreError.self) { try sealing.label(blob, of: 1) }
    }

    @Test("the rules that judged each of many devices are kept as in a dictionary")
    func rules() throws {
        let database = try DatabaseQueue()
        var generator = SystemRandomNumberGenerator()
        try database.write { db in
            try db.execute(sql: "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
            var expected: [Int64: String] = [:]
            for _ in 0..<300 {
                let known = try JudgedRules(db)
                // Numbers that begin or end like others.
                let device = Int64([1, 11, 111, 2, 12, 121, 21, 1000].randomElement(using: &generator) ?? 1)
                let rules = ["", "from 1", "1 11", "é", "from 20 to 600 1"].randomElement(using: &generator) ?? ""
                try known.note([device: rules, 13: "always"], db)
                expected[device] = rules
                expected[13] = "always"
                let read = try JudgedRules(db)
                for device: Int64 in [1, 11, 111, 2, 12, 121, 21, 1000, 0, 10] {
                    #expect(read[device] == expected[device] ?? "")
                }
                #expect(read.byDevice == expected.filter { !$0.value.isEmpty })
            }
        }
    }
}
