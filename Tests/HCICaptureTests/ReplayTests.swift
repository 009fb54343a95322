import GATTClient
import HealthReadings
import Testing

@testable import HCICapture

@Suite("Replay")
struct ReplayTests {
    typealias Builder = CaptureBuilder

    /// A central over captures that are files for as long as the work lasts.
    func replay<Result: Sendable>(
        _ captures: [UInt8]..., handles: HandleMap? = nil, address: DeviceAddress? = nil, readSize: Int = 65_536,
        _ work: @Sendable (ReplayCentral) async throws -> Result
    ) async throws -> Result {
        let files = try captures.map { try TemporaryFile($0) }
        defer { withExtendedLifetime(files) {} }
        return try await work(
            ReplayCentral(paths: files.map(\.path), handleMap: handles, address: address, readSize: readSize))
    }

    func kinds(_ lines: [String]) -> [String] {
        lines.map { $0.split(separator: " ").prefix(2).joined(separator: " ") }
    }

    static let control = Characteristic(uuid: 0x2A52, service: 0x1808, valueHandle: 22)
    static let measurement = Characteristic(uuid: 0x2A18, service: 0x1808, valueHandle: 14)

    /// The first peripheral, connected, with everything enabled.
    func opened(_ central: ReplayCentral) async throws -> any Peripheral {
        var iterator = central.peripherals().makeAsyncIterator()
        let peripheral = try #require(try await iterator.next())
        _ = try await peripheral.connect()
        for characteristic in try await peripheral.characteristics() {
            try await peripheral.startNotifying(characteristic)
        }
        return peripheral
    }

    func burst(_ peripheral: any Peripheral, _ seconds: Int = 30) async throws -> [String] {
        switch try await peripheral.nextValues(within: .seconds(seconds)) {
        case .values(let values): values.map { hex($0.octets) }
        case .silence: ["silence"]
        case .disconnected: ["disconnected"]
        }
    }

    @Test("a delivery is read as it was: address, name, reads, values with their packet times, the answer")
    func delivery() async throws {
        var builder = Builder()
        builder.advertise(Builder.address(8), name: "meter+1")
        builder.delivery(sequences: 1..<3)
        try await replay(builder.btsnoop()) { central in
            let lines = await transcript(central)
            let glucose = (1..<3).map { hex(Builder.glucose($0)) }
            #expect(
                lines == [
                    "connect C0:00:00:00:18:08 meter+1 \(Builder.time(2))", "read 2a51 0300 \(Builder.time(14))",
                    "value 2a18 \(glucose[0]) \(Builder.time(21))", "value 2a18 \(glucose[1]) \(Builder.time(22))",
                    "value 2a52 06000101 \(Builder.time(23))",
                ])
            #expect(central.warnings.isEmpty)
            #expect(central.attValues == 3)
        }
    }

    @Test("what was not read then is not readable now; what is not there is named")
    func reads() async throws {
        var builder = Builder()
        builder.delivery(sequences: 1..<3)
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            await #expect(throws: GATTError.attribute(0x02)) { _ = try await peripheral.read(Self.measurement) }
            let other = Characteristic(uuid: 0x2A35, service: 0x1810, valueHandle: 99)
            await #expect(throws: GATTError.noSuchCharacteristic(0x2A35)) { _ = try await peripheral.read(other) }
            await peripheral.disconnect()
            await #expect(throws: GATTError.disconnected) { _ = try await peripheral.read(Self.measurement) }
        }
    }

    @Test("a connection that brought neither a value nor a clock is not offered: there a host has only bonded")
    func onlyBonded() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        builder.enable(23, 2)
        builder.disconnect()
        builder.connect()
        builder.discoverGlucose()
        builder.exchange([0x10, 25, 0, 255, 255, 0, 0x28], [0x11, 6, 25, 0, 27, 0, 0x05, 0x18])
        builder.exchange([0x08, 25, 0, 27, 0, 3, 0x28], [0x09, 7, 26, 0, 2, 27, 0, 0x2B, 0x2A])
        builder.exchange([0x0A, 27, 0], [0x0B, 0xEA, 7, 11, 20, 12, 0, 0, 5, 0, 0])
        builder.disconnect()
        builder.delivery(sequences: 1..<3)
        try await replay(builder.btsnoop()) { central in
            #expect(central.connections.map(\.attValues) == [0, 3])
            let lines = await transcript(central)
            #expect(lines.count { $0.hasPrefix("connect") } == 2 && lines.contains { $0.hasPrefix("read 2a2b") })
            #expect(central.warnings.isEmpty)
        }
    }

    @Test("long reads, reads of several and the first of two reads")
    func longReads() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        builder.exchange([0x0A, 17, 0], [0x0B, 1, 2, 3])
        builder.exchange([0x0C, 17, 0, 3, 0], [0x0D, 4])
        builder.exchange([0x0A, 20, 0], [0x0B, 9, 9])
        builder.exchange([0x20, 14, 0, 22, 0], [0x21, 1, 0, 7, 2, 0, 8, 9])
        builder.answer([6, 0, 1, 6])
        try await replay(builder.btsnoop()) { central in
            let reads = await transcript(central).filter { $0.hasPrefix("read") }.map { $0.split(separator: " ")[2] }
            #expect(reads == ["07", "01020304", "0300", "0809"])
        }
    }

    @Test("values wait for a report request, and a request without the enabled control point is refused")
    func gate() async throws {
        var builder = Builder()
        builder.delivery(sequences: 1..<3)
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            #expect(try await burst(peripheral, 0) == ["silence"])
            try await peripheral.stopNotifying(Self.control)
            await #expect(throws: GATTError.attribute(0xFD)) {
                try await peripheral.write([1, 1], to: Self.control, expectingResponse: true)
            }
            try await peripheral.startNotifying(Self.control)
            // Any report request plays what is there, whatever its filter.
            try await peripheral.write([1, 3, 1, 9, 0], to: Self.control, expectingResponse: true)
            await #expect(throws: GATTError.attribute(0xFE)) {
                try await peripheral.write([1, 1], to: Self.control, expectingResponse: true)
            }
            let glucose = (1..<3).map { hex(Builder.glucose($0)) }
            #expect(try await burst(peripheral) == glucose + ["06000101"])
            #expect(try await burst(peripheral) == ["disconnected"])
            #expect(try await burst(peripheral) == ["disconnected"])
        }
    }

    @Test("a count or an abort is answered as the capture holds it, else 'op code not supported'")
    func countAndAbort() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        builder.request([4, 1])
        builder.answer([5, 0, 2, 0])
        builder.request([1, 1])
        builder.notify(Builder.glucose(1))
        builder.answer([6, 0, 1, 1])
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            func ask(_ request: [UInt8]) async throws -> [String] {
                try await peripheral.write(request, to: Self.control, expectingResponse: true)
                return try await burst(peripheral)
            }
            #expect(try await ask([4, 1]) == ["05000200"])
            #expect(try await ask([4, 3, 1, 5, 0]) == ["06000402"])
            #expect(try await ask([3, 0]) == ["06000302"])
            #expect(try await ask([2, 1]) == ["06000202"])
            #expect(try await ask([1, 6]) == ["06000102"])
            #expect(try await ask([1, 5]) == ["06000102"])
            #expect(try await ask([1, 1]) == [hex(Builder.glucose(1)), "06000101"])
        }
    }

    @Test("the last record is answered only where the capture asked for it next")
    func lastRecord() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        builder.request([1, 6])
        builder.notify(Builder.glucose(9))
        builder.answer([6, 0, 1, 1])
        builder.request([1, 1])
        for sequence in 1..<4 { builder.notify(Builder.glucose(sequence)) }
        builder.answer([6, 0, 1, 1])
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            // Waiting before asking loses nothing.
            #expect(try await burst(peripheral, 0) == ["silence"])
            try await peripheral.write([1, 6], to: Self.control, expectingResponse: true)
            #expect(try await burst(peripheral) == [hex(Builder.glucose(9)), "06000101"])
            try await peripheral.write([1, 6], to: Self.control, expectingResponse: true)
            #expect(try await burst(peripheral) == ["06000102"])
            try await peripheral.write([1, 1], to: Self.control, expectingResponse: true)
            #expect(try await burst(peripheral).count == 4)
        }
    }

    @Test("a peripheral says whether the recorded host asked for what the reader asks for, or for less")
    func answerSource() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        builder.request([1, 3, 1, 50, 0])
        builder.notify(Builder.glucose(50))
        builder.answer([6, 0, 1, 1])
        try await replay(builder.btsnoop()) { central in
            let asked: [([UInt8], AnswerSource)] = [
                ([1, 3, 1, 50, 0], .recording), ([1, 1], .narrowerRecording), ([1, 3, 1, 9, 0], .narrowerRecording),
            ]
            for (request, source) in asked {
                let peripheral = try await opened(central)
                #expect(peripheral.answerSource == .recording)
                try await peripheral.write(request, to: Self.control, expectingResponse: true)
                #expect(try await burst(peripheral) == [hex(Builder.glucose(50)), "06000101"])
                #expect(peripheral.answerSource == source)
            }
        }
        var all = Builder()
        all.delivery(sequences: 1..<3)
        try await replay(all.btsnoop()) { central in
            let peripheral = try await opened(central)
            try await peripheral.write([1, 3, 1, 2, 0], to: Self.control, expectingResponse: true)
            #expect(try await burst(peripheral).count == 3)
            #expect(peripheral.answerSource == .recording, "all that there was came")
        }
    }

    @Test("a recorded refusal answers the request that was refused then, and no other")
    func refusals() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        for operation: UInt8 in [4, 1] {
            builder.request([operation, 3, 1, 2, 0])
            builder.answer([6, 0, operation, 4])
        }
        builder.request([1, 1])
        for sequence in 1..<3 { builder.notify(Builder.glucose(sequence)) }
        builder.answer([6, 0, 1, 1])
        let glucose = (1..<3).map { hex(Builder.glucose($0)) }
        try await replay(builder.btsnoop()) { central in
            for isAskedAlike in [true, false] {
                let peripheral = try await opened(central)
                func ask(_ request: [UInt8]) async throws -> [String] {
                    try await peripheral.write(request, to: Self.control, expectingResponse: true)
                    return try await burst(peripheral)
                }
                #expect(try await ask([4, 3, 1, 2, 0]) == ["06000404"])
                if isAskedAlike { #expect(try await ask([1, 3, 1, 2, 0]) == ["06000104"]) }
                #expect(try await ask([1, 1]) == glucose + ["06000101"])
            }
        }
    }

    @Test("a cut transfer: its values, then gone; nothing is invented")
    func cut() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        builder.request([1, 1])
        builder.notify(Builder.glucose(1))
        builder.clock += 4000
        builder.disconnect()
        try await replay(builder.btsnoop()) { central in
            #expect(kinds(await transcript(central)).suffix(2) == ["value 2a18", "disconnected"])
        }
    }

    @Test("a second procedure is offered as another visit, and none after a visit that consumes nothing")
    func visits() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverGlucose()
        for sequences in [1..<3, 3..<4] {
            builder.clock += 60_000
            builder.request([1, 1])
            for sequence in sequences { builder.notify(Builder.glucose(sequence)) }
            builder.answer([6, 0, 1, 1])
        }
        builder.disconnect()
        try await replay(builder.btsnoop()) { central in
            let lines = await transcript(central)
            #expect(
                kinds(lines.filter { !$0.hasPrefix("read") }) == [
                    "connect C0:00:00:00:18:08", "value 2a18", "value 2a18", "value 2a52", "connect C0:00:00:00:18:08",
                    "value 2a18", "value 2a52",
                ])
            #expect(central.warnings.isEmpty)
            #expect(await transcript(central) == lines, "a second replay is the same")
        }
    }

    @Test("silence is the capture's silence; what the recorded host did before is not waited for")
    func silence() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverPressure()
        builder.clock += 90_000
        builder.enable(15, 2)
        builder.indicate([1], on: 14)
        builder.clock += 5000
        builder.indicate([2], on: 14)
        builder.clock += 200
        builder.indicate([3], on: 14)
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            var bursts: [[String]] = []
            for _ in 0..<5 { bursts.append(try await burst(peripheral, 2)) }
            #expect(bursts == [["01"], ["silence"], ["silence"], ["02", "03"], ["disconnected"]])
        }
        try await replay(builder.btsnoop()) { central in
            // A reader that stops at the gap is offered the rest.
            let lines = await transcript(central, timeout: .seconds(2))
            #expect(kinds(lines).filter { $0.hasPrefix("value") }.count == 3)
            #expect(lines.filter { $0.hasPrefix("connect") }.count == 2)
        }
    }

    @Test("a clock that jumps by years does not hold a reader for ever")
    func brokenClock() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverPressure()
        builder.notify([1])
        builder.clock += 200_000_000_000_000
        builder.notify([2])
        builder.clock = 5000
        builder.notify([3])
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            var (values, silences) = ([String](), 0)
            loop: while true {
                let next = try await burst(peripheral, 30)
                if next == ["disconnected"] { break loop }
                if next == ["silence"] { silences += 1 } else { values += next }
            }
            #expect(values == ["01", "02", "03"])
            #expect(silences <= 200_002)
        }
    }

    @Test("a characteristic enabled late gets what was stepped over")
    func lateEnable() async throws {
        var builder = Builder()
        builder.connect()
        builder.discoverPressure()
        for value: UInt8 in 1...3 {
            builder.notify([0x36, value], on: 17)
            builder.indicate([0x35, value], on: 14)
        }
        try await replay(builder.btsnoop()) { central in
            var iterator = central.peripherals().makeAsyncIterator()
            let peripheral = try #require(try await iterator.next())
            _ = try await peripheral.connect()
            let characteristics = try await peripheral.characteristics()
            try await peripheral.startNotifying(characteristics[0])
            #expect(try await burst(peripheral) == ["3501", "3502", "3503"])
            try await peripheral.startNotifying(characteristics[1])
            #expect(try await burst(peripheral) == ["3601", "3602", "3603"])
            await peripheral.disconnect()
            #expect(try await iterator.next() == nil)
            #expect(central.warnings.isEmpty)
        }
    }

    @Test("a burst is bounded, and the same whatever the chunking")
    func burstBound() async throws {
        var builder = Builder()
        builder.delivery(sequences: 1..<600)
        try await replay(builder.btsnoop()) { central in
            let peripheral = try await opened(central)
            try await peripheral.write([1, 1], to: Self.control, expectingResponse: true)
            var sizes: [Int] = []
            for _ in 0..<3 { sizes.append(try await burst(peripheral).count) }
            #expect(sizes == [256, 256, 88])
        }
    }
}
