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

    @Test("the rules that each device was judged by are taken from the line it had in a setting")
    func rules() throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let store = try DatabaseQueue(configuration: configuration)
        try Schema.migrator.migrate(store, upTo: "24 deliveries that grow at their end")
        // Numbers that begin or end like others; 3 was judged by none, and 7 is gone.
        let expected: [Int64: String] = [
            1: "from 1", 11: "1 11", 111: "é", 2: "from 20 to 600 1", 12: "", 121: "11 1", 3: "",
        ]
        try store.write { db in
            for device in expected.keys {
                try db.execute(sql: "INSERT INTO device (key, provider) VALUES (?, 'manual')", arguments: [device])
            }
            var lines = ["7 from 1"]
            for (device, rules) in expected where device != 3 { lines.append("\(device) \(rules)") }
            try ReadingStore.set(db, "judged.devices", lines: lines)
        }
        try Schema.migrator.migrate(store)
        try store.read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT key, judged_by FROM device")
            let found: [(Int64, String)] = rows.map { ($0[0], $0[1]) }
            #expect(Dictionary(uniqueKeysWithValues: found) == expected)
            let left = try String.fetchAll(db, sql: "SELECT name FROM setting WHERE name = 'judged.devices'")
            #expect(left.isEmpty)
        }
    }

    @Test("meeting a device for the first time writes no more pages when many are known")
    func pages() async throws {
        let harness = try await Harness(decoder: TestDecoder(lowest: 60))
        let path = harness.directory + "/readings.sqlite-wal"
        var written: [Int] = []
        for number in 1...UInt64(300) {
            try await harness.store.pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
            try await harness.contact([], device: Build.device(number, serial: "S\(number)"))
            let octets = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
            written.append(octets / (1024 + 24))
        }
        let (few, many) = (written[20..<40].reduce(0, +), written.suffix(20).reduce(0, +))
        #expect(many * 4 <= few * 5, "\(written)")
        try harness.store.close()
    }
}
