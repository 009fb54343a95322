import GATTClient
import HealthReadings
import TestSupport
import Testing

@testable import HCICapture

@Suite("From HCI to ATT")
struct CaptureIndexTests {
    private func index(_ builder: CaptureBuilder) throws -> CaptureIndex { try CaptureIndex(octets: builder.btsnoop()) }

    private static let address = DeviceAddress("C0:00:00:00:18:08")

    @Test("values are counted for each connection, interleaved ones apart")
    func counts() throws {
        var builder = CaptureBuilder()
        for handle in 0..<12 { builder.connect(64 + handle, address: CaptureBuilder.address(UInt8(handle))) }
        for round in 0..<5 {
            for handle in 0..<12 where round <= handle { builder.notify([1], 64 + handle) }
        }
        let found = try index(builder)
        #expect(found.connections.map(\.attValues) == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5])
        #expect(found.attValues == 50)
    }

    @Test("a value in any fragments is one value", arguments: 1...20)
    func fragments(_ size: Int) throws {
        var builder = CaptureBuilder()
        builder.connect()
        builder.discoverGlucose()
        builder.received([0x1B, 14, 0] + CaptureBuilder.glucose(7), fragments: size)
        let found = try index(builder)
        #expect(found.connections.map(\.attValues) == [1])
        #expect(found.connections.map(\.lostPDUs) == [0])
        #expect(found.failure == nil)
    }

    @Test("fragments of two connections and of both directions interleave")
    func interleavedFragments() throws {
        var builder = CaptureBuilder()
        builder.connect(64)
        builder.connect(65, address: CaptureBuilder.address(9))
        let first = CaptureBuilder.fragments(4, [0x1B, 14, 0, 1, 2, 3, 4, 5], received: true, 64, size: 5)
        let second = CaptureBuilder.fragments(4, [0x1D, 14, 0, 9, 9, 9, 9, 9], received: true, 65, size: 5)
        let host = CaptureBuilder.fragments(4, [0x12, 14, 0, 7, 7, 7, 7, 7], received: false, 64, size: 5)
        for place in first.indices {
            builder.add(.aclData, .received, first[place])
            builder.add(.aclData, .received, second[place])
            builder.add(.aclData, .sent, host[place])
        }
        #expect(try index(builder).connections.map(\.attValues) == [1, 1])
    }

    @Test("missing, cut and overlong fragments lose their value, never another's")
    func lostFragments() throws {
        var builder = CaptureBuilder()
        builder.connect()
        let value = CaptureBuilder.fragments(4, [0x1B, 14, 0, 1, 2, 3, 4, 5], received: true, 64, size: 5)
        builder.add(.aclData, .received, value[0])
        builder.notify([1])
        builder.add(.aclData, .received, value[1])
        builder.add(.aclData, .received, Array(value[0].dropLast()))
        builder.notify([2])
        builder.add(.aclData, .received, value[0])
        builder.add(.aclData, .received, [64, 0x10, 255, 0] + [UInt8](repeating: 0, count: 255))
        builder.add(.aclData, .received, [64, 0x20, 9, 0, 1, 0, 4, 0, 0x1B, 14, 0, 1, 1])
        builder.add(.aclData, .received, [64, 0x20, 0])
        builder.notify([3])
        let connection = try #require(try index(builder).connections.first)
        #expect(connection.attValues == 3)
        #expect(connection.lostPDUs == 5)
    }

    @Test("where records were lost between two fragments, the second is not taken for the rest of the first")
    func lostRecords() throws {
        var builder = CaptureBuilder()
        builder.connect()
        let values: [[[UInt8]]] = [1, 2].map { (octet: UInt8) in
            CaptureBuilder.fragments(
                4, [0x1B, 14, 0] + [UInt8](repeating: octet, count: 5), received: true, 64, size: 9)
        }
        builder.add(.aclData, .received, values[0][0])
        builder.add(.aclData, .received, values[1][1])
        builder.notify([3])
        for lost in UInt8(0)...1 {
            // The count stands in each record from the loss on.
            let records = builder.records.enumerated().flatMap { place, record -> [UInt8] in
                var octets = BTSnoopEncoder.record(record, .linuxMonitor) ?? []
                if place >= 2, octets.count >= 24 { octets[15] = lost }
                return octets
            }
            let found = try CaptureIndex(octets: BTSnoopEncoder.header(.linuxMonitor) + records)
            let entry = try #require(found.entries.first)
            #expect(entry.attValues == (lost == 0 ? 2 : 1) && (entry.lostPDUs > 0) == (lost > 0))
            var cursor = try ConnectionCursor(entry, readSize: 4096)
            let step = try cursor.advance()
            #expect(step == .value && cursor.octets() == (lost == 0 ? [1, 1, 2, 2, 2] : [3]))
        }
    }

    @Test("several values in one notification are several")
    func multiple() throws {
        var builder = CaptureBuilder()
        builder.connect()
        builder.received([0x23, 14, 0, 2, 0, 1, 2, 17, 0, 1, 0, 3, 14, 0, 9, 0, 1])
        #expect(try index(builder).connections.map(\.attValues) == [2])
    }

    @Test("the address of plain and enhanced connection events")
    func addresses() throws {
        var builder = CaptureBuilder()
        let peer = CaptureBuilder.address(8)
        let cases: [(UInt8, DeviceAddress.Kind)] = [(0, .public), (1, .random), (2, .public), (3, .random)]
        for (type, _) in cases {
            for version2 in [false, true] {
                builder.connectEnhanced(address: peer, type: type, version2: version2)
                builder.notify([1])
            }
            builder.connect(address: peer, type: type)
            builder.notify([1])
        }
        let found = try index(builder).connections
        #expect(
            found.map(\.address)
                == cases.flatMap { _, kind in
                    [DeviceAddress?](repeating: DeviceAddress("C0:00:00:00:18:08", kind: kind), count: 3)
                })
    }

    @Test("the pairing tells the identity behind a private address, for its other connections too")
    func identity() throws {
        var builder = CaptureBuilder()
        let privateAddress: [UInt8] = [1, 2, 3, 4, 5, 0x7A]
        builder.advertise(privateAddress, name: "meter+1")
        builder.connect(address: privateAddress)
        builder.l2cap(6, [0x09, 1] + CaptureBuilder.address(8), received: true)
        // Our own identity is not the peer's.
        builder.l2cap(6, [0x09, 0, 9, 9, 9, 9, 9, 9], received: false)
        builder.notify([1])
        builder.disconnect()
        builder.clock += 5000
        builder.connect(address: privateAddress)
        builder.notify([1])
        let found = try index(builder).connections
        #expect(found.map(\.address) == [Self.address, Self.address])
        #expect(found.map(\.name) == ["meter+1", "meter+1"])
    }

    @Test("a handle is used again: by an event, after a lost disconnection, after a reset, after the adapter went")
    func reuse() throws {
        var builder = CaptureBuilder()
        func next(_ last: UInt8) {
            builder.connect(address: CaptureBuilder.address(last))
            builder.notify([last])
        }
        next(1)
        builder.disconnect()
        next(2)
        next(3)
        builder.add(.command, .sent, [0x03, 0x0C, 0])
        builder.notify([0])
        builder.add(.monitor(opcode: 1), nil, [])
        builder.clock += 5000
        builder.notify([0])
        let found = try index(builder).connections
        #expect(found.map { $0.address?.bits ?? 0 } == [0xC000_0000_1801, 0xC000_0000_1802, 0xC000_0000_1803, 0])
        #expect(found.map(\.attValues) == [1, 1, 2, 1])
    }

    @Test("lost records and resets take no longer the more connections there are", .timeLimit(.minutes(1)))
    func many() throws {
        var builder = CaptureBuilder()
        let count = 60_000
        for number in 0..<count {
            builder.adapter = UInt16(number / 3000)
            builder.connect(number % 3000)
        }
        builder.adapter = 1000
        for _ in 0..<count { builder.add(.command, .sent, [0x03, 0x0C, 0]) }
        // Each record says that another one was lost before it.
        var octets = BTSnoopEncoder.header(.linuxMonitor)
        for (place, record) in builder.records.enumerated() {
            var record = BTSnoopEncoder.record(record, .linuxMonitor) ?? []
            if record.count >= 24 {
                record.replaceSubrange(12..<16, with: (0..<4).map { UInt8(truncatingIfNeeded: place >> (24 - 8 * $0)) })
            }
            octets += record
        }
        #expect(try CaptureIndex(octets: octets).connections.isEmpty)
    }

    @Test("what a contact lacks is looked up no longer the more contacts there are", .timeLimit(.minutes(1)))
    func manyContacts() throws {
        var builder = CaptureBuilder()
        for _ in 0..<4000 {
            builder.connect()
            builder.discoverGlucose()
            // No contact names it.
            builder.notify([1], on: 900)
            builder.disconnect()
        }
        let plans = ReplayPlan.make([try index(builder)], handleMap: nil, address: nil).plans
        #expect(plans.count == 4000)
    }

    @Test("data that was on its way when the link went is of that link, later data is not")
    func stragglers() throws {
        var builder = CaptureBuilder()
        builder.connect()
        builder.disconnect()
        builder.notify([1])
        builder.clock += 2000
        builder.notify([2])
        let found = try index(builder).connections
        #expect(found.map(\.address) == [Self.address, nil])
    }

    @Test("adapters with the same handle are apart")
    func adapters() throws {
        var builder = CaptureBuilder()
        builder.connect(address: CaptureBuilder.address(1))
        builder.adapter = 1
        builder.connect(address: CaptureBuilder.address(2))
        builder.notify([2])
        builder.adapter = 0
        builder.notify([1])
        builder.notify([1])
        #expect(try index(builder).connections.map(\.attValues) == [2, 1])
    }

    @Test("a connection older than the capture has no address; BR/EDR and what we send are no values")
    func unknownAndOther() throws {
        var builder = CaptureBuilder()
        builder.notify([1])
        builder.event(0x03, [0, 70, 0, 1, 2, 3, 4, 5, 6, 1, 0])
        builder.notify([1], 70)
        builder.connect(71)
        builder.sent([0x1B, 14, 0, 1], 71)
        builder.event(0x3E, [1, 0x3C] + [72, 0, 0, 1] + CaptureBuilder.address(8) + [24, 0, 0, 0, 72, 0, 0])
        let found = try index(builder).connections
        #expect(found.map(\.address) == [nil])
        #expect(found.map(\.handle) == [64])
    }

    @Test("names: extended advertising, the complete name over the shortened, the name read, none")
    func names() throws {
        var builder = CaptureBuilder()
        let peers = (1...4).map { CaptureBuilder.address(UInt8($0)) }
        builder.advertiseExtended(peers[0], name: "extended")
        builder.event(0x3E, [2, 1, 0, 1] + peers[1] + [5, 4, 8] + Array("cut".utf8) + [0])
        builder.advertise(peers[1], name: "cut no more")
        for (place, peer) in peers.enumerated() {
            builder.connect(64 + place, address: peer)
            builder.notify([1], 64 + place)
        }
        builder.exchange([0x08, 1, 0, 255, 255, 0, 0x2A], [0x09, 7, 3, 0] + Array("named".utf8), 66)
        #expect(try index(builder).connections.map(\.name) == ["extended", "cut no more", "named", nil])
    }

    @Test("every discovery procedure names handles; a CCCD belongs to the characteristic before it")
    func discovery() throws {
        var builder = CaptureBuilder()
        builder.connect()
        let long: [UInt8] = [0x66, 0x9A, 0x0C, 0x20, 0, 8, 0x96, 0x9E, 0xE2, 0x11, 2, 0, 2, 0, 0, 0]
        builder.exchange([0x06, 1, 0, 255, 255, 0, 0x28, 0x08, 0x18], [0x07, 12, 0, 24, 0])
        builder.exchange([0x10, 25, 0, 255, 255, 0, 0x28], [0x11, 20, 25, 0, 40, 0] + long)
        builder.exchange([0x08, 25, 0, 40, 0, 3, 0x28], [0x09, 21, 26, 0, 2, 27, 0] + long)
        builder.exchange([0x04, 13, 0, 15, 0], [0x05, 1, 13, 0, 3, 0x28, 14, 0, 0x18, 0x2A, 15, 0, 2, 0x29])
        builder.exchange([0x04, 30, 0, 30, 0], [0x05, 2, 30, 0] + long)
        builder.exchange([0x08, 1, 0, 9, 0, 3, 0x28], [0x01, 0x08, 1, 0, 0x0A])
        // An answer to nothing we asked says nothing.
        builder.received([0x09, 7, 2, 0, 2, 3, 0, 0, 0x2A])
        let attributes = try #require(try index(builder).connections.first).attributes
        let uuid = try #require(BluetoothUUID("00000002-0002-11e2-9e96-0800200c9a66"))
        #expect(attributes.services.map(\.uuid) == [0x1808, uuid])
        #expect(
            attributes.characteristics == [
                Characteristic(uuid: 0x2A18, service: 0x1808, valueHandle: 14),
                Characteristic(uuid: uuid, service: uuid, valueHandle: 27),
                Characteristic(uuid: uuid, service: uuid, valueHandle: 30),
            ])
        #expect(attributes.characteristic(ofDescriptor: 15) == 14)
        #expect(attributes.characteristic(ofDescriptor: 16) == nil)
    }

    @Test("promise 5: no octets trap, and what is before a damage stays")
    func mutations() throws {
        let seed = UInt64.random(in: 0 ... .max)
        var generator = SeededGenerator(seed: seed)
        var builder = CaptureBuilder()
        builder.advertise(CaptureBuilder.address(8), name: "meter")
        builder.delivery(sequences: 1..<6)
        builder.received([0x23, 14, 0, 2, 0, 1, 2], fragments: 3)
        let encoder = PcapEncoder()
        let files = [
            builder.btsnoop(.h4), builder.btsnoop(), builder.btsnoop(.unencapsulated),
            encoder.pcap(builder.records, link: 187), encoder.pcapng(builder.records, link: 254),
        ]
        for round in 0..<3000 {
            var file = files[round % files.count]
            for _ in 0...Int.random(in: 0..<4, using: &generator) {
                file[Int.random(in: 0..<file.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            if round % 7 == 0 { file.removeLast(Int.random(in: 0..<file.count, using: &generator)) }
            let (records, _) = allRecords(file)
            #expect(zip(records, records.dropFirst()).allSatisfy { $0.offset < $1.offset }, "seed \(seed)")
            guard let index = try? CaptureIndex(octets: file) else { continue }
            if round % 5 == 0 { #expect(exerciseCapture(file) ?? -1 >= 0, "seed \(seed), round \(round)") }
            for entry in index.entries {
                var cursor = try ConnectionCursor(entry, readSize: 4096)
                var values = 0
                // Damage is told by the index; the second pass stops before it.
                loop: while true {
                    switch try cursor.advance() {
                    case .value: values += 1
                    case .write: continue
                    case .end: break loop
                    }
                }
                #expect(values == entry.attValues, "seed \(seed), round \(round)")
            }
        }
    }
}
