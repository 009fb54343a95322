import TestSupport
import Testing

@testable import GATTClient

@Suite struct BluetoothUUIDTests {
    private func forAll(_ property: (inout SeededGenerator) -> Bool) {
        let seed = UInt64.random(in: .min ... .max)
        var generator = SeededGenerator(seed: seed)
        for round in 0..<2000 where !property(&generator) {
            Issue.record("the property does not hold: seed \(seed), round \(round)")
            return
        }
    }

    private func octets(_ uuid: BluetoothUUID) -> [UInt8] {
        [uuid.low, uuid.high].flatMap { half in
            stride(from: 0, to: 64, by: 8).map { UInt8(truncatingIfNeeded: half >> UInt64($0)) }
        }
    }

    @Test("every assigned number is read back, in each way it is written and sent")
    func assignedNumbers() {
        for number in UInt16.min ... .max {
            let uuid = BluetoothUUID(number)
            let short = uuid.description
            let isRight =
                uuid.assignedNumber == number && short.utf8.count == 4 && BluetoothUUID(short) == uuid
                && uuid.littleEndian == [UInt8(truncatingIfNeeded: number), UInt8(number >> 8)]
                && BluetoothUUID(littleEndian: uuid.littleEndian) == uuid
                && BluetoothUUID(littleEndian: octets(uuid)) == uuid
            guard isRight else {
                Issue.record("\(number)")
                return
            }
        }
    }

    @Test("any UUID is printed and read back, in either case")
    func fullUUIDs() {
        forAll { generator in
            let uuid = BluetoothUUID(high: generator.next(), low: generator.next())
            return BluetoothUUID(uuid.description) == uuid && BluetoothUUID(uuid.description.uppercased()) == uuid
                && uuid.littleEndian == octets(uuid) && BluetoothUUID(littleEndian: octets(uuid)) == uuid
        }
    }

    @Test("known spellings")
    func spellings() throws {
        let glucose: BluetoothUUID = 0x2A18
        for text in ["2a18", "2A18", "0x2A18", "0X2a18", "00002a18-0000-1000-8000-00805f9b34fb"] {
            #expect(BluetoothUUID(text) == glucose, "\(text)")
        }
        #expect(glucose.description == "2a18")
        let contour = try #require(BluetoothUUID("00000000-0002-11E2-9E96-0800200C9A66"))
        #expect(contour.description == "00000000-0002-11e2-9e96-0800200c9a66")
        #expect(contour.assignedNumber == nil)
        // 32-bit numbers are over the base too, and have no short form.
        let wide = try #require(BluetoothUUID(littleEndian: [0x18, 0x2A, 0x01, 0x00]))
        #expect(wide.description == "00012a18-0000-1000-8000-00805f9b34fb" && wide.assignedNumber == nil)
    }

    @Test(
        "what is no UUID is none",
        arguments: [
            "", "2a1", "2a188", "0x", "+a18", "-a18", " 2a18", "2a18 ", "2g18", "\u{0662}a18",
            "00002a18-0000-1000-8000-00805f9b34f", "00002a1800001000800000805f9b34fb",
            "00002a18-0000-1000-80000-0805f9b34fb", "{00002a18-0000-1000-8000-00805f9b34fb}",
            "00002a18-0000-1000-8000-00805f9b34fg", "----", "+0002a18-0000-1000-8000-00805f9b34fb",
        ])
    func refused(text: String) { #expect(BluetoothUUID(text) == nil) }

    @Test("octets of any length never trap, and only 2, 4 and 16 are a UUID")
    func lengths() {
        for length in 0...40 {
            let uuid = BluetoothUUID(littleEndian: Array(repeating: 0xA5, count: length))
            #expect((uuid != nil) == [2, 4, 16].contains(length))
        }
    }

    @Test("any text is read or refused, never a trap")
    func anyText() {
        forAll { generator in
            let length = Int.random(in: 0...40, using: &generator)
            let text = String(
                decoding: (0..<length).map { _ in UInt8.random(in: .min ... .max, using: &generator) }, as: UTF8.self)
            guard let uuid = BluetoothUUID(text) else { return true }
            return BluetoothUUID(uuid.description) == uuid
        }
    }
}
