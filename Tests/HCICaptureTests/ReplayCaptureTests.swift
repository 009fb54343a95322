import GATTClient
import HealthReadings
import Testing

@testable import HCICapture

/// What the captures themselves are like: several, damaged, without an address or a discovery.
extension ReplayTests {
    @Test("promise 11: any chunking and any container replay the same, with interleaved connections")
    func determinism() async throws {
        var (builder, parts) = (Builder(), [CaptureBuilder]())
        for number in 0..<9 {
            var part = Builder()
            part.delivery(64 + number, address: Builder.address(UInt8(number)), sequences: 1..<(3 + number))
            parts.append(part)
        }
        for place in 0..<40 {
            for part in parts where place < part.records.count {
                var record = part.records[place]
                builder.clock += 1
                record.time = Builder.time(builder.clock)
                builder.records.append(record)
            }
        }
        let expected = try await replay(builder.btsnoop()) { await transcript($0) }
        #expect(expected.filter { $0.hasPrefix("value 2a18") }.count == (2...10).reduce(0, +))
        for readSize in [1, 16, 24, 31, 64, 100, 1000] {
            #expect(try await replay(builder.btsnoop(), readSize: readSize) { await transcript($0) } == expected)
        }
        let encoder = PcapEncoder(isBigEndian: true)
        for file in [
            builder.btsnoop(.h4), builder.btsnoop(.unencapsulated), encoder.pcap(builder.records, link: 187),
            encoder.pcap(builder.records, link: 254), encoder.pcapng(builder.records, link: 201),
        ] {
            #expect(try await replay(file) { await transcript($0) } == expected)
        }
    }

    @Test("a later connection without discovery uses the table of the one before, in another file too")
    func cachedDiscovery() async throws {
        var first = Builder()
        first.delivery(sequences: 1..<2)
        var second = Builder()
        second.clock = 600_000
        second.connect()
        second.request([1, 1])
        second.notify(Builder.glucose(2))
        second.answer([6, 0, 1, 1])
        let both = first.btsnoop() + second.btsnoop().dropFirst(16)
        for captures in [[both], [first.btsnoop(), second.btsnoop()]] {
            let files = try captures.map { try TemporaryFile($0) }
            let central = try ReplayCentral(paths: files.map(\.path))
            #expect(await transcript(central).filter { $0.hasPrefix("value 2a18") }.count == 2)
        }
        try await replay(second.btsnoop()) { central in
            #expect(await transcript(central) == [])
            guard case .noHandleMap(_, values: 2)? = central.warnings.first else {
                Issue.record("\(central.warnings)")
                return
            }
        }
        let map = try HandleMap(json: Array(#"{"14": "2a18", "15": "2902", "22": "2a52"}"#.utf8))
        try await replay(second.btsnoop(), handles: map) { central in
            #expect(kinds(await transcript(central)).dropFirst() == ["value 2a18", "value 2a52"])
            #expect(central.connections.map(\.attValues) == [2])
        }
    }

    @Test("a connection that discovered only a part takes the rest from others of its device, if nothing of it differs")
    func partialDiscovery() async throws {
        var first = Builder()
        first.delivery(sequences: 1..<2)
        // A host that keeps the table looks for Service Changed again, and the next time for nothing.
        var second = Builder()
        second.clock = 600_000
        second.connect()
        second.exchange([0x06, 1, 0, 255, 255, 0, 0x28, 0x01, 0x18], [0x07, 1, 0, 4, 0])
        second.exchange([0x08, 1, 0, 4, 0, 3, 0x28], [0x09, 7, 2, 0, 0x20, 3, 0, 0x05, 0x2A])
        var third = Builder()
        third.clock = 1_200_000
        third.connect()
        func deliver(_ builder: inout Builder, _ sequence: Int) {
            builder.request([1, 1])
            builder.notify(Builder.glucose(sequence))
            builder.answer([6, 0, 1, 1])
            builder.disconnect()
        }
        deliver(&second, 2)
        deliver(&third, 3)
        let all = first.btsnoop() + second.btsnoop().dropFirst(16) + third.btsnoop().dropFirst(16)
        try await replay(all) { central in
            #expect(await transcript(central).filter { $0.hasPrefix("value 2a18") }.count == 3)
            #expect(central.warnings.isEmpty, "\(central.warnings)")
        }
        // Where a service has taken the place of another, the handles of before say nothing.
        var changed = Builder()
        changed.clock = 600_000
        changed.connect()
        changed.exchange([0x10, 1, 0, 255, 255, 0, 0x28], [0x11, 6, 12, 0, 24, 0, 0x10, 0x18])
        changed.exchange([0x08, 12, 0, 24, 0, 3, 0x28], [0x09, 7, 16, 0, 0x10, 17, 0, 0x36, 0x2A])
        changed.notify([1])
        try await replay(first.btsnoop(), changed.btsnoop()) { central in
            guard case .unknownHandle(_, handle: 14, values: 1)? = central.warnings.first else {
                Issue.record("\(central.warnings)")
                return
            }
        }
    }

    @Test("a connection that discovered what sent its values, and not the clock that was read, takes that from another")
    func undiscoveredClock() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverPressure()
        builder.exchange([0x08, 25, 0, 27, 0, 3, 0x28], [0x09, 7, 26, 0, 2, 27, 0, 0x2B, 0x2A])
        builder.notify([1])
        builder.disconnect()
        builder.connect()
        builder.discoverPressure()
        builder.exchange([0x0A, 27, 0], [0x0B, 0xEA, 7, 7, 29, 9, 30, 0, 3, 0, 0])
        builder.notify([2])
        builder.disconnect()
        try await replay(builder.btsnoop()) { central in
            let lines = await transcript(central)
            #expect(lines.count { $0.hasPrefix("read 2a2b ea07071d091e00030000") } == 1, "\(lines)")
            #expect(lines.count { $0.hasPrefix("value 2a35") } == 2, "\(lines)")
        }
    }

    @Test("connections are offered as they began, whatever the order of the files")
    func order() async throws {
        var (first, second) = (Builder(), Builder())
        first.delivery(sequences: 1..<2)
        second.clock = 600_000
        second.delivery(sequences: 2..<3)
        let files = try [second.btsnoop(), first.btsnoop()].map { try TemporaryFile($0) }
        let central = try ReplayCentral(paths: files.map(\.path))
        #expect(central.connections.map(\.path) == [files[1].path, files[0].path])
        #expect(await transcript(central) == transcript(try ReplayCentral(paths: files.reversed().map(\.path))))
    }

    @Test(
        "a characteristic that only a handle map names is offered in its profile's service",
        arguments: [
            (0x2A18, 0x1808), (0x2A35, 0x1810), (0x2A37, 0x180D), (0x2A1C, 0x1809), (0x2A5E, 0x1822),
            (0x2A5F, 0x1822), (0x2A9D, 0x181D), (0x2A9C, 0x181B), (0x2AA7, 0x181F), (0x2B8B, 0x1840),
        ] as [(UInt16, UInt16)])
    func serviceOfAHandleMap(characteristic: UInt16, service: UInt16) async throws {
        var builder = Builder()
        builder.connect()
        builder.notify(Builder.glucose(2))
        let map = HandleMap([14: BluetoothUUID(characteristic)])
        try await replay(builder.btsnoop(), handles: map) { central in
            var iterator = central.peripherals().makeAsyncIterator()
            let peripheral = try #require(try await iterator.next())
            #expect(peripheral.advertisement.services == [BluetoothUUID(service)])
        }
    }

    @Test("an address the capture does not show is the given one, else none with a warning")
    func address() async throws {
        var builder = Builder()
        builder.discoverPressure()
        builder.notify([1])
        builder.notify([2], on: 50)
        let given = try #require(DeviceAddress("AA:BB:CC:DD:EE:FF"))
        try await replay(builder.btsnoop(), address: given) { central in
            #expect(await transcript(central).first?.hasPrefix("connect AA:BB:CC:DD:EE:FF") == true)
        }
        try await replay(builder.btsnoop()) { central in
            #expect(await transcript(central).first?.hasPrefix("connect - ") == true)
            let connection = ReplayConnection(
                path: central.connections[0].path, handle: 64, start: central.connections[0].start)
            #expect(
                central.warnings == [.addressUnknown(connection), .unknownHandle(connection, handle: 50, values: 1)])
        }
    }

    @Test("a private address without its identity is the given one; without one it is told, since it changes")
    func privateAddress() async throws {
        var builder = Builder()
        builder.connect(address: [1, 2, 3, 4, 5, 0x7A])
        builder.discoverPressure()
        builder.notify([1])
        builder.disconnect()
        builder.connect(address: [9, 8, 7, 6, 5, 0x4B])
        builder.notify([2])
        builder.disconnect()
        let given = try #require(DeviceAddress("C0:00:00:00:18:08"))
        try await replay(builder.btsnoop(), address: given) { central in
            let lines = await transcript(central)
            #expect(lines.count { $0.hasPrefix("connect C0:00:00:00:18:08") } == 2, "\(lines)")
            #expect(lines.count { $0.hasPrefix("value 2a35") } == 2, "\(lines)")
            #expect(central.warnings.isEmpty, "\(central.warnings)")
        }
        try await replay(builder.btsnoop()) { central in
            #expect(await transcript(central).first?.hasPrefix("connect 7A:05:04:03:02:01") == true)
            guard case .addressPrivate? = central.warnings.first else {
                Issue.record("\(central.warnings)")
                return
            }
        }
    }

    @Test("an address that was typed is of the kind that another connection shows")
    func kindOfAddress() async throws {
        var builder = Builder()
        builder.discoverPressure()
        builder.notify([1])
        builder.disconnect()
        builder.clock += 5000
        builder.connect(type: 0)
        builder.discoverPressure()
        builder.notify([2])
        let typed = try #require(DeviceAddress("C0:00:00:00:18:08"))
        let addresses = try await replay(builder.btsnoop(), address: typed) { central in
            var found: [DeviceAddress?] = []
            for try await peripheral in central.peripherals() { found.append(peripheral.advertisement.address) }
            return found
        }
        #expect(addresses == [DeviceAddress?](repeating: DeviceAddress("C0:00:00:00:18:08", kind: .public), count: 2))
    }

    @Test("values nobody asked for are told")
    func unread() async throws {
        var builder = Builder()
        builder.delivery(sequences: 1..<4)
        try await replay(builder.btsnoop()) { central in
            for try await _ in central.peripherals() {}
            guard case .valuesLeftUnread(_, characteristic: 0x2A18, values: 3)? = central.warnings.first else {
                Issue.record("\(central.warnings)")
                return
            }
        }
    }

    @Test("damage is thrown after everything before it was offered, wherever the cut is")
    func damage() async throws {
        var builder = Builder()
        builder.delivery(64, sequences: 1..<3)
        builder.delivery(65, address: Builder.address(9), sequences: 1..<3)
        let file = builder.btsnoop()
        for length in stride(from: 16, through: file.count, by: 5) {
            let whole = allRecords(Array(file[..<length])).records.flatMap { record in
                record.octets.count > 8 && record.direction == .received && record.octets[8] == 0x1B ? [record] : []
            }
            try await replay(Array(file[..<length])) { central in
                let lines = await transcript(central)
                #expect(lines.filter { $0.hasPrefix("value 2a18") }.count == whole.count, "cut at \(length)")
                #expect((lines.last?.hasPrefix("error") == true) == !central.failures.isEmpty)
            }
        }
    }

    @Test("a file that is no capture does not take the readings of the others with it")
    func noCapture() async throws {
        var builder = Builder()
        builder.delivery(sequences: 1..<3)
        try await replay(Array("no capture".utf8), builder.btsnoop()) { central in
            let lines = await transcript(central)
            #expect(lines.filter { $0.hasPrefix("value 2a18") }.count == 2)
            #expect(lines.last?.contains("expected the head of a btsnoop") == true)
        }
    }

    @Test("a cancelled consumer is not held by a peripheral it left connected")
    func cancellation() async throws {
        var builder = Builder()
        builder.delivery(sequences: 1..<3)
        try await replay(builder.btsnoop()) { central in
            let task = Task {
                var held: [any Peripheral] = []
                for try await peripheral in central.peripherals() {
                    _ = try await peripheral.connect()
                    held.append(peripheral)
                }
                return held.count
            }
            try await Task.sleep(for: .milliseconds(50))
            task.cancel()
            #expect(try await task.value == 1)
        }
    }

    @Test("a missing file is a typed error at once")
    func missing() {
        #expect(throws: CaptureError.cannotOpen(path: "/nowhere", code: 2)) {
            _ = try ReplayCentral(paths: ["/nowhere"])
        }
    }
}
