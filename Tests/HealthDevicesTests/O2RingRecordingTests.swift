import Foundation
import GATTClient
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// What an O2Ring has recorded.
@Suite struct O2RingRecordingTests {
    private let log = EventLog()
    private let store: RecordingStore

    init() { store = RecordingStore(log) }

    // MARK: Octets

    /// A recording that begins at a time given as its name: `samples` of five octets each.
    static func recording(
        _ name: String, _ samples: [[UInt8]], interval: Int = 4, version: UInt8 = 3, mode: UInt8 = 0,
        duration: Int? = nil
    ) -> [UInt8] {
        let digits = name.utf8.map { Int($0) - 0x30 }
        func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + $1 } }
        func little(_ value: Int, _ count: Int) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        }
        let parts = [4..<6, 6..<8, 8..<10, 10..<12, 12..<14].map { UInt8(number($0)) }
        let head =
            [version, mode] + little(number(0..<4), 2) + parts + little(40 + 5 * samples.count, 4)
            + little(duration ?? interval * samples.count, 2)
        return head + [UInt8](repeating: 0, count: 40 - head.count) + samples.flatMap(\.self)
    }

    /// A night's sample, which differs from its neighbours.
    private static func sample(_ number: Int) -> [UInt8] {
        [UInt8(90 + number % 9), UInt8(50 + number % 37), 0, UInt8(number % 128), 0]
    }

    static func night(_ name: String, _ count: Int = 300) -> (name: String, octets: [UInt8]) {
        (name, recording(name, (0..<count).map(sample)))
    }

    private static let name = "20261117225251"
    private static let named = O2RingRecordingName(Array(name.utf8))

    private static func read(_ octets: [UInt8], name: String = name) throws -> O2RingRecording {
        let name = try #require(O2RingRecordingName(Array(name.utf8)))
        return try O2RingRecording(octets, named: name)
    }

    @Test("questions have the octets that projects have published")
    func questions() throws {
        #expect(O2RingQuestion.information.octets == [UInt8](hex: "aa14eb00000000c6"))
        let name = try #require(O2RingRecordingName(Array("20260116233312.vld".utf8)))
        #expect(
            O2RingQuestion.open(name).octets
                == [UInt8](hex: "aa03fc0000130032303236303131363233333331322e766c6400f9"))
        #expect(O2RingQuestion.piece(17).octets == [UInt8](hex: "aa04fb110000001b"))
        #expect(O2RingQuestion.close.octets == [UInt8](hex: "aa05fa0000000021"))
        #expect(name.start == WallTime("2026-01-16T23:33:12"))
        for text in ["", "a/b", "2026 0116", String(repeating: "1", count: 33)] {
            #expect(O2RingRecordingName(Array(text.utf8)) == nil)
        }
        for text in ["20260116", "20261316233312", "20260116233312x", "recording"] {
            #expect(O2RingRecordingName(Array(text.utf8))?.start == nil)
        }
    }

    @Test("what an oximeter says of itself is read as owners have logged it")
    func information() throws {
        let logged =
            #"{"Region":"CE","Model":"1641","SN":"1912217640","CurTIME":"2020-07-27,11:08:24","CurBAT":"30%","#
            + #""CurMode":1,"FileList":"20200723114655,20200723170412,20200724083753,"}"#
        let read = try O2RingInformation(Array(logged.utf8) + [0, 0, 0])
        #expect(read.time == WallTime("2020-07-27T11:08:24") && read.unusableNames == 0)
        #expect(read.recordings.map(\.description) == ["20200723114655", "20200723170412", "20200724083753"])
        #expect(try O2RingInformation(Array(#"{"FileList":""}"#.utf8)).recordings.isEmpty)
        for text in ["", "{", "{}", #"{"FileList"}"#, #"{"FileList":"#, #"{"FileList":"1"#, #"["FileList"]"#] {
            #expect(throws: MalformedFrame.self) { try O2RingInformation(Array(text.utf8)) }
        }
    }

    @Test("a recording becomes two readings with series: values that are none have no number")
    func decoding() throws {
        let octets = Self.recording(
            Self.name,
            [
                [97, 60, 0, 3, 0], [98, 61, 0, 0, 0x80], [0xFF, 0xFF, 0xFF, 0, 0], [0, 0, 0, 0, 0],
                [99, 64, 0, 127, 0x40],
                [101, 15, 0, 0, 0], [96, 44, 1, 0, 0],
            ])
        let recording = try Self.read(octets)
        #expect(recording.start == WallTime("2026-11-17T22:52:51") && recording.interval == 4)
        #expect(recording.samples.map(\.saturation) == [97, 98, nil, nil, 99, nil, 96])
        #expect(recording.samples.map(\.pulse) == [60, 61, nil, nil, 64, nil, nil])
        let record = recording.record(of: .saturation)
        guard case .vital(let value) = record.value, let series = value.series else {
            Issue.record("no series")
            return
        }
        #expect(value.kind == .spo2 && value.main?.number.number == ExactDecimal(significand: 975, exponent: -1))
        #expect(series.map(\.milliseconds) == [0, 4000, 8000, 12000, 16000, 20000, 24000])
        #expect(record.baseTime == recording.start && record.exclusion == nil)
        guard case .vital(let rate) = recording.record(of: .pulse).value else {
            Issue.record("no rate")
            return
        }
        #expect(rate.kind == .heartRate && rate.main?.number.number == ExactDecimal(significand: 617, exponent: -1))
        let none = try Self.read(Self.recording(Self.name, [[0xFF, 0xFF, 0xFF, 0, 0]]))
        #expect(none.record(of: .saturation).exclusion == .noValue)
    }

    @Test("samples are of one, two or four seconds by the header; doubled ones are read once", arguments: [1, 2, 4])
    func intervals(interval: Int) throws {
        let samples = (0..<40).map(Self.sample)
        for rest in [0, 1 - interval, interval - 1] {
            let octets = Self.recording(
                Self.name, samples, interval: interval, version: 5, duration: 40 * interval + rest)
            let read = try Self.read(octets)
            #expect(read.interval == interval && read.samples.count == 40)
        }
        let doubled = samples.flatMap { [$0, $0] }
        var octets = Self.recording(Self.name, doubled, interval: 2)
        #expect(try Self.read(octets).interval == 4 && Self.read(octets).samples.count == 40)
        // The size of older ones counts each once.
        octets.replaceSubrange(9..<11, with: [UInt8(truncatingIfNeeded: 240), 0])
        #expect(try Self.read(octets).samples.count == 40)
        #expect(try Self.read(Self.recording(Self.name, doubled, interval: 2, version: 5)).samples.count == 80)
    }

    @Test("a recording of another layout, size, duration or start is none, and is named")
    func malformed() throws {
        let good = Self.recording(Self.name, (0..<10).map(Self.sample))
        #expect(try Self.read(good).samples.count == 10)
        func expectRefused(_ octet: Int, _ change: (inout [UInt8]) -> Void) {
            var octets = good
            change(&octets)
            let error = #expect(throws: MalformedFrame.self) { try Self.read(octets) }
            #expect(
                error?.octet == octet && error?.subject == "O2Ring recording \(Self.name)",
                "\(String(describing: error))")
        }
        for version: UInt8 in [0, 1, 2, 4, 6, 255] { expectRefused(0) { $0[0] = version } }
        expectRefused(1) { $0[1] = 2 }
        expectRefused(2) { $0[4] = 13 }
        expectRefused(2) { $0[8] = 52 }
        expectRefused(39) { $0 = Array($0.prefix(39)) }
        expectRefused(9) { $0 = Array($0.prefix(85)) }
        expectRefused(88) { $0 = Array($0.prefix(88)) }
        expectRefused(9) { $0[12] = 1 }
        for duration: UInt8 in [3, 12, 50] { expectRefused(13) { $0[13] = duration } }
        #expect(throws: MalformedFrame.self) { try Self.read(good, name: "20261117225252") }
        #expect(try Self.read(good, name: "night-1").start == WallTime("2026-11-17T22:52:51"))
        let decoder = ModelFrameDecoder()
        for payload: [UInt8] in [[], [0], [3, 1], [1, 0x2F], [14] + Array(Self.name.utf8)] {
            let frame = Frame(
                format: .o2ringSaturations, payload: payload, receivedAt: Instant(seconds: 0), ordinal: 0)
            guard case .malformed = decoder.decode(frame, model: "viatom_o2ring") else {
                Issue.record("\(payload) is read")
                continue
            }
        }
    }

    @Test("a recorded contact is replayed question by question")
    func replay() async throws {
        let recorder = SessionRecorder(ring())
        #expect(try await reader().read(recorder).isComplete)
        let replayed = RecordingStore(EventLog())
        let again = MeterReader(journal: replayed, memory: replayed, model: "viatom_o2ring")
        let summaries = try await recorder.replay { try await again.read($0) }
        #expect(summaries.first == ContactSummary(isComplete: true, announced: 4, received: 4))
        #expect(Set(replayed.records) == Set(store.records) && replayed.readingCount == 4)
    }

    // MARK: Conversations

    private func ring(
        _ names: [String] = ["20261116224510", "20261117225251"],
        _ adjust: (inout EmulatedO2Ring.Behaviour) -> Void = { _ in }
    ) -> EmulatedO2Ring {
        EmulatedO2Ring(log: log) { behaviour in
            behaviour.recordings = names.map { Self.night($0) }
            adjust(&behaviour)
        }
    }

    private func reader() -> MeterReader { MeterReader(journal: store, memory: store) }

    /// Each night is stored once and whole.
    private func expectStored(
        _ ring: EmulatedO2Ring, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let wanted = ring.behaviour.recordings.flatMap { name, octets -> [Record] in
            guard let recording = try? Self.read(octets, name: name) else { return [] }
            return [recording.record(of: .saturation), recording.record(of: .pulse)]
        }
        #expect(Set(store.records) == Set(wanted), sourceLocation: sourceLocation)
        #expect(store.readingCount == wanted.count, sourceLocation: sourceLocation)
        #expect(!ring.isOpen, sourceLocation: sourceLocation)
        #expect(Set(ring.commands).isSubset(of: [0x14, 0x03, 0x04, 0x05]), sourceLocation: sourceLocation)
    }

    @Test("promise 1 and 2: nights are read, each piece durable before the next is asked for, and once")
    func reading() async throws {
        let (ring, reader) = (ring(), reader())
        #expect(try await reader.read(ring) == ContactSummary(isComplete: true, announced: 4, received: 4))
        expectStored(ring)
        #expect(ring.commands == [0x14, 0x03, 0x04, 0x04, 0x04, 0x04, 0x05, 0x03, 0x04, 0x04, 0x04, 0x04, 0x05])
        #expect(store.clocks.map(\.deviceTime) == [WallTime("2026-11-18T07:30:00")])
        #expect(store.contacts[0].device.model == "viatom_o2ring")
        // What is stored is not read again, also by another process: its size is asked for.
        #expect(try await self.reader().read(ring) == ContactSummary(isComplete: true, announced: 0, received: 0))
        #expect(ring.commands == [0x14, 0x03, 0x05, 0x03, 0x05])
        ring.change { $0.recordings = [$0.recordings[1], Self.night("20261118230102", 17)] }
        #expect(try await reader.read(ring).received == 2)
        #expect(ring.commands == [0x14, 0x03, 0x05, 0x03, 0x04, 0x05] && store.readingCount == 6)
        #expect(try await reader.read(ring, allRecords: true).received == 4)
        #expect(store.readingCount == 6)
    }

    @Test("nights of every size are read in pieces of any", arguments: [14, 40, 100, 512, 2048])
    func sizes(piece: Int) async throws {
        for count in [1, 2, 90, 700] {
            let store = RecordingStore(log)
            let ring = ring([]) { behaviour in
                behaviour.pieceOfRecording = piece
                behaviour.recordings = [Self.night(Self.name, count)]
            }
            #expect(try await MeterReader(journal: store, memory: store).read(ring).isComplete)
            #expect(store.readingCount == 2)
        }
    }

    @Test(
        "a damaged, lost, late or doubled answer is asked for again and kept, and no night is wrong", arguments: 0..<14)
    func faults(question: Int) async throws {
        for fault in 0..<5 {
            let (log, ring) = (
                EventLog(),
                ring { behaviour in
                    switch fault {
                    case 0: behaviour.damages = [question]
                    case 1: behaviour.ignores = { $0 == question }
                    case 2: behaviour.repeats = [question]
                    case 3: behaviour.delays = [question]
                    default: behaviour.losesPieces = [question, question * 7 + 3, question * 11 + 5]
                    }
                }
            )
            let store = RecordingStore(log)
            #expect(try await MeterReader(journal: store, memory: store).read(ring).isComplete, "fault \(fault)")
            #expect(store.readingCount == 4, "fault \(fault)")
            let wanted = try ring.behaviour.recordings.map {
                try Self.read($0.octets, name: $0.name).record(of: .pulse)
            }
            #expect(Set(store.records).isSuperset(of: wanted), "fault \(fault)")
            let damaged = store.frames.filter { frame in
                guard frame.format == .o2ringMessage else { return false }
                if case .malformed = ModelFrameDecoder().decode(frame, model: nil) { return true }
                return false
            }
            if fault == 0, question < 13 { #expect(damaged.count == 1, "question \(question)") }
        }
    }

    @Test("promise 3: cut at each question, a night is stored whole or not at all, and whole after the next contact")
    func cuts() async throws {
        for cut in 0..<13 {
            let store = RecordingStore(log)
            let reader = MeterReader(journal: store, memory: store)
            let ring = ring { $0.cutAfterQuestions = cut }
            let summary = try await reader.read(ring)
            // The question before the last brings the last piece; then the recording is only closed.
            #expect(summary.error == (cut < 12 ? "transfer_interrupted" : nil), "\(cut)")
            #expect(store.readingCount == (cut < 6 ? 0 : cut < 12 ? 2 : 4), "\(cut)")
            ring.change { $0.cutAfterQuestions = nil }
            #expect(try await reader.read(ring).isComplete)
            #expect(store.readingCount == 4, "\(cut)")
        }
    }

    @Test("a silent oximeter is left, one that is refused or damaged again and again is named, the others are read")
    func unreadable() async throws {
        let reader = reader()
        let ring = ring { behaviour in
            // The second piece of the first night, each time.
            behaviour.damages = Set(3...40)
        }
        let summary = try await reader.read(ring)
        #expect(summary.error == "o2ring_incomplete" || summary.error == "o2ring_refused")
        ring.change { $0.damages = [] }
        #expect(try await reader.read(ring).isComplete)
        expectStored(ring)
        let silent = EmulatedO2Ring(log: log) { $0.ignores = { _ in true } }
        #expect(try await self.reader().read(silent).error == "timeout")
        #expect(silent.commands == [UInt8](repeating: 0x14, count: 6))
        let refusing = self.ring(["20261119220000"]) { $0.status = 1 }
        #expect(try await self.reader().read(refusing).error == "o2ring_refused")
    }

    @Test("an oximeter that opens another recording than it was asked for is asked again; never a wrong night")
    func mistaken() async throws {
        let (ring, reader) = (ring { $0.mistakes = ("20261117225251", 1) }, reader())
        #expect(try await reader.read(ring).isComplete)
        expectStored(ring)
        let stubborn = RecordingStore(log)
        let other = self.ring { $0.mistakes = ("20261117225251", 100) }
        let again = MeterReader(journal: stubborn, memory: stubborn)
        #expect(try await again.read(other).error == "o2ring_layout")
        #expect(stubborn.readingCount == 2)
        other.change { $0.mistakes = nil }
        #expect(try await again.read(other).isComplete && stubborn.readingCount == 4)
    }

    @Test(
        "a recording that was cut short or has an unknown layout is kept as octets, named, and asked for when it has grown"
    )
    func unknownLayout() async throws {
        let whole = Self.night(Self.name, 120)
        let cut = Array(whole.octets.prefix(340))
        let (ring, reader) = (
            ring([]) { $0.recordings = [(whole.name, cut), Self.night("20261116224510", 20)] }, reader()
        )
        #expect(try await reader.read(ring).error == "o2ring_layout")
        #expect(ring.commands.filter { $0 == 0x03 }.count == 3)
        #expect(store.readingCount == 2)
        let kept = store.frames.filter { $0.format == .o2ringSaturations }.map(\.payload)
        #expect(kept.contains(O2RingRecording.payload(cut, named: try #require(Self.named))))
        // It is known, and nothing to complain of each time.
        #expect(try await reader.read(ring).isComplete)
        #expect(ring.commands == [0x14, 0x03, 0x05, 0x03, 0x05])
        ring.change { $0.recordings[0].octets = whole.octets }
        #expect(try await reader.read(ring).isComplete)
        expectStored(ring)
        let unknown = RecordingStore(log)
        let later = self.ring([]) {
            $0.recordings = [(Self.name, Self.recording(Self.name, [[97, 60, 0, 0, 0]], version: 9))]
        }
        let summary = try await MeterReader(journal: unknown, memory: unknown).read(later)
        #expect(summary.error == "o2ring_layout" && unknown.readingCount == 0)
        #expect(later.commands.filter { $0 == 0x03 }.count == 1)
    }

    @Test("a store that takes nothing more ends the contact; the night comes with the next")
    func full() async throws {
        for appends in 0..<8 {
            let store = RecordingStore(log)
            let (ring, reader) = (ring(), MeterReader(journal: store, memory: store))
            store.failAppending(after: appends)
            await #expect(throws: RecordingStore.Full.self) { try await reader.read(ring) }
            store.failAppending(after: nil)
            #expect(try await reader.read(ring).isComplete)
            #expect(store.readingCount == 4)
        }
    }

    @Test("in a store each night is two readings with their samples, and known when the store is opened again")
    func inStore() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "nights-\(ProcessInfo.processInfo.globallyUniqueString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func open() async throws -> ReadingStore {
            try await ReadingStore.open(
                directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear",
                timeZone: "Europe/Berlin")
        }
        // A clock that is right, and one that was never set.
        for clock in ["2026-11-18,07:30:00", "2015-01-01,08:00:00"] {
            let name = clock.hasPrefix("2026") ? Self.name : "20150101000102"
            let ring = ring([name]) { $0.clock = clock }
            let store = try await open()
            #expect(try await MeterReader(journal: store, memory: store).read(ring).received == 2)
            try store.close()
            let again = try await open()
            #expect(try await MeterReader(journal: again, memory: again).read(ring).received == 0)
            #expect(ring.commands == [0x14, 0x03, 0x05])
            #expect(try await again.verify().isEmpty)
            try again.close()
        }
        let store = try await open()
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.count == 4 && Set(readings.map(\.kind)) == [.spo2, .heartRate])
        for reading in readings {
            guard case .vital(let value) = reading.record.value else { continue }
            #expect(value.series?.count == 300)
        }
        try store.close()
    }
}
