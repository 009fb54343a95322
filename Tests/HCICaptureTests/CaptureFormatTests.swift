import HCICapture
import HealthReadings
import Testing

@Suite("Capture files")
struct CaptureFormatTests {
    private static let session: CaptureBuilder = {
        var builder = CaptureBuilder()
        builder.add(.command, .sent, [0x0D, 0x20, 0])
        builder.delivery(sequences: 1..<4)
        return builder
    }()

    @Test("what is written as btsnoop is read back", arguments: BTSnoopDatalink.allCases)
    func roundTrip(_ datalink: BTSnoopDatalink) throws {
        let (records, error) = allRecords(Self.session.btsnoop(datalink))
        #expect(error == nil)
        #expect(records.count == Self.session.records.count)
        for (found, expected) in zip(records, Self.session.records) {
            var expected = expected
            expected.offset = found.offset
            #expect(found == expected)
        }
    }

    @Test("the Linux monitor's adapters and messages are told apart")
    func monitor() throws {
        let record = CaptureRecord(
            time: CaptureBuilder.epoch, adapter: 3, kind: .monitor(opcode: 1), direction: nil, octets: [])
        let octets = try #require(BTSnoopEncoder.record(record, .linuxMonitor))
        let found = allRecords(BTSnoopEncoder.header(.linuxMonitor) + octets).records
        #expect(found.map(\.kind) == [.monitor(opcode: 1)] && found.map(\.adapter) == [3])
        #expect(BTSnoopEncoder.record(record, .h4) == nil)
    }

    @Test("pcap in both byte orders, microseconds and nanoseconds", arguments: [false, true], [187, 201, 254])
    func pcap(_ isBigEndian: Bool, _ link: Int) {
        for nanoseconds in [false, true] {
            let file = PcapEncoder(isBigEndian: isBigEndian).pcap(
                Self.session.records, link: link, nanoseconds: nanoseconds)
            expectSession(allRecords(file), link: link)
        }
    }

    @Test("pcapng in both byte orders, with blocks nobody knows", arguments: [false, true], [187, 201, 254])
    func pcapng(_ isBigEndian: Bool, _ link: Int) {
        expectSession(
            allRecords(PcapEncoder(isBigEndian: isBigEndian).pcapng(Self.session.records, link: link)), link: link)
    }

    private func expectSession(_ found: (records: [CaptureRecord], error: CaptureError?), link: Int) {
        #expect(found.error == nil)
        #expect(found.records.map(\.octets) == Self.session.records.map(\.octets))
        #expect(found.records.map(\.time) == Self.session.records.map(\.time))
        #expect(found.records.map(\.kind) == Self.session.records.map(\.kind))
        for (found, expected) in zip(found.records, Self.session.records) {
            // Link type 187 does not say which way data went.
            #expect(found.direction == (link == 187 && expected.kind == .aclData ? nil : expected.direction))
        }
    }

    @Test("a pcapng interface's resolution and offset move its times")
    func resolution() throws {
        let (encoder, packet) = (PcapEncoder(isBigEndian: true), [UInt8]([4, 0x0E, 0]))
        func time(_ resolution: UInt8?, _ offset: Int64?, _ ticks: UInt64) -> Instant? {
            let file =
                encoder.section + encoder.interface(link: 187, resolution: resolution, offset: offset)
                + encoder.enhanced(packet, ticks: ticks)
            return allRecords(file).records.first?.time
        }
        #expect(time(nil, nil, 1_500_000) == Instant(microseconds: 1_500_000))
        #expect(time(3, nil, 1500) == Instant(microseconds: 1_500_000))
        #expect(time(9, nil, 1_500_000_999) == Instant(microseconds: 1_500_000))
        #expect(time(0x8A, nil, 1536) == Instant(microseconds: 1_500_000))
        #expect(time(0xFF, nil, 1 << 63) == Instant(microseconds: 0))
        #expect(time(127, nil, .max) == Instant(microseconds: 0))
        #expect(time(6, -3600, 3_601_000_000) == Instant(seconds: 1))
        #expect(time(6, .max, 0) == nil)
        #expect(time(0, nil, .max) == nil)
    }

    @Test("several sections, interfaces and old and simple packet blocks")
    func sections() throws {
        let (little, big) = (PcapEncoder(), PcapEncoder(isBigEndian: true))
        let event: [UInt8] = [4, 0x0E, 0]
        var file = little.section + little.interface(link: 1) + little.interface(link: 187, snap: 2)
        file += little.enhanced([1, 2, 3], ticks: 1) + little.enhanced(event, ticks: 2, interface: 1)
        file += big.section + big.interface(link: 187, snap: 2) + big.obsolete(event, ticks: 3) + big.simple(event)
        let (records, error) = allRecords(file)
        #expect(error == nil)
        #expect(records.map(\.adapter) == [1, 0, 0])
        #expect(records.map(\.time) == [Instant(microseconds: 2), Instant(microseconds: 3), nil])
        #expect(records.map(\.octets) == [[0x0E, 0], [0x0E, 0], [0x0E]])
        #expect(records.last?.originalLength == 2)
    }

    @Test("a capture of something else is refused by its link type")
    func foreign() {
        let file = PcapEncoder().pcap([], link: 1)
        #expect(allRecords(file).error == .unsupported(path: "memory", offset: 20, found: "link type 1"))
        let next = PcapEncoder().section + PcapEncoder().interface(link: 1) + PcapEncoder().enhanced([1], ticks: 1)
        #expect(allRecords(next).error == .unsupported(path: "memory", offset: 0, found: "link type 1"))
        var old = BTSnoopEncoder.header(.h4)
        old[15] = 0
        #expect(allRecords(old).error == .unsupported(path: "memory", offset: 12, found: "btsnoop datalink 768"))
    }

    @Test("no capture at all, and nothing, are named as damage of octet 0")
    func noCapture() {
        for octets in [[], Array("hello, world".utf8)] {
            guard case .damaged(let damage)? = allRecords(octets).error else {
                Issue.record("not refused")
                continue
            }
            #expect(damage.offset == 0)
            #expect(damage.found == (octets.isEmpty ? "an empty file" : "68 65 6c 6c 6f 2c 20 77 6f 72 6c 64"))
        }
    }

    @Test("a missing file and a folder keep the system's error")
    func missing() {
        #expect(throws: CaptureError.cannotOpen(path: "/nowhere/at/all", code: 2)) {
            _ = try CaptureReader(path: "/nowhere/at/all")
        }
        #expect(throws: CaptureError.cannotRead(path: "/", offset: 0, code: 21)) { _ = try CaptureReader(path: "/") }
    }

    @Test("a cut or damaged capture yields all before the damage and names its octet")
    func truncation() throws {
        var builder = CaptureBuilder()
        builder.connect()
        builder.notify([1, 2, 3])
        builder.notify([4, 5, 6, 7])
        let encoder = PcapEncoder(isBigEndian: true)
        let files = [
            builder.btsnoop(.h4), builder.btsnoop(.linuxMonitor), encoder.pcap(builder.records, link: 201),
            encoder.pcapng(builder.records, link: 254),
        ]
        for file in files {
            let whole = allRecords(file).records
            #expect(whole.count == 3)
            let ends = whole.dropFirst().map(\.offset) + [UInt64(file.count)]
            for length in file.indices {
                let (records, error) = allRecords(Array(file[..<length]))
                let intact = ends.count { $0 <= UInt64(length) }
                #expect(records == Array(whole[..<intact]), "cut at \(length)")
                if let error {
                    guard case .damaged(let damage) = error else {
                        Issue.record("cut at \(length): \(error)")
                        continue
                    }
                    #expect(damage.offset <= UInt64(length) && damage.offset >= (intact > 0 ? ends[intact - 1] : 0))
                    #expect(!damage.expected.isEmpty && !damage.found.isEmpty)
                } else {
                    // A cut between records cannot be seen.
                    let boundaries = ends + whole.map(\.offset) + [16, 24]
                    let isPcapNGHead = file.starts(with: encoder.section) && UInt64(length) <= whole[0].offset
                    #expect(isPcapNGHead || boundaries.contains(UInt64(length)), "cut at \(length)")
                }
            }
        }
    }

    @Test("a length that is garbage is damage of its own octet")
    func garbageLength() {
        var file = Self.session.btsnoop(.h4)
        let second = Int(allRecords(file).records[1].offset)
        file[second + 4] = 0x7F
        let (records, error) = allRecords(file)
        #expect(records.count == 1)
        guard case .damaged(let damage)? = error else { return #expect(Bool(false)) }
        #expect(damage.offset == UInt64(second + 4))
        #expect(damage.description.contains("damaged at octet \(second + 4)"))
    }

    @Test("a time outside the years 0 to 9999 is damage, never an invented instant")
    func garbageTime() {
        var file = Self.session.btsnoop(.h4)
        file[16 + 16] = 0xFF
        guard case .damaged(let damage)? = allRecords(file).error else { return #expect(Bool(false)) }
        #expect(damage.offset == 32)
    }

    @Test("promise 11: any chunking reads the same records", arguments: [1, 2, 7, 24, 25, 61, 4096])
    func chunking(_ readSize: Int) {
        let encoder = PcapEncoder()
        for file in [Self.session.btsnoop(), encoder.pcapng(Self.session.records, link: 201)] {
            #expect(allRecords(file, readSize: readSize).records == allRecords(file).records)
        }
    }

    @Test("the writer's file is the encoder's, and its owner's alone")
    func writer() throws {
        let file = try TemporaryFile(Array("older and longer".utf8))
        var writer = try BTSnoopWriter(path: file.path, datalink: .h4)
        for record in Self.session.records { try writer.write(record) }
        try writer.flush()
        var reader = try CaptureReader(path: file.path)
        var count = 0
        while try reader.next() != nil { count += 1 }
        #expect(count == Self.session.records.count)
        #expect(try fileMode(file.path) == 0o600)
        #expect(throws: CaptureError.cannotOpen(path: "/nowhere/x", code: 2)) {
            _ = try BTSnoopWriter(path: "/nowhere/x", datalink: .h4)
        }
        var full = try BTSnoopWriter(path: "/dev/full", datalink: .h4)
        #expect(throws: CaptureError.cannotWrite(path: "/dev/full", code: 28)) { try full.flush() }
    }
}
