import Foundation
import GATTClient
import HealthReadings
import ReadingStore
import Synchronization
import Testing

@testable import HealthDevices

/// Recordings that go on under their names, and those that cannot be read beside others.
@Suite struct O2RingGrowthTests {
    private let log = EventLog()
    private let store: RecordingStore
    private static let (first, second, third) = ("20261116224510", "20261117225251", "20261118230102")

    init() { store = RecordingStore(log) }

    private func ring(_ recordings: [(name: String, octets: [UInt8])]) -> EmulatedO2Ring {
        EmulatedO2Ring(log: log) { $0.recordings = recordings }
    }

    private static func night(_ name: String, _ count: Int) -> (name: String, octets: [UInt8]) {
        O2RingRecordingTests.night(name, count)
    }

    /// The number of samples of each stored night.
    private static func counts(_ records: [Record]) -> [String: [Int]] {
        var counts: [String: [Int]] = [:]
        for record in records {
            guard case .vital(let value) = record.value, value.kind == .spo2 else { continue }
            counts[record.baseTime?.description ?? "", default: []].append(value.series?.count ?? 0)
        }
        return counts.mapValues { $0.sorted() }
    }

    private func read(_ ring: EmulatedO2Ring, all: Bool = false) async throws -> ContactSummary {
        try await MeterReader(journal: store, memory: store).read(ring, allRecords: all)
    }

    // MARK: Growth

    @Test("a recording that has gone on is read again, and is one night", arguments: [1, 40, 300])
    func grown(more: Int) async throws {
        let ring = ring([Self.night(Self.first, 20), Self.night(Self.second, 120)])
        #expect(try await read(ring).received == 4)
        ring.change { $0.recordings[1] = Self.night(Self.second, 120 + more) }
        #expect(try await read(ring) == ContactSummary(isComplete: true, announced: 2, received: 2))
        #expect(
            Self.counts(store.records)
                == ["2026-11-16T22:45:10": [20], "2026-11-17T22:52:51": [120 + more]])
        #expect(try await read(ring).received == 0 && !ring.isOpen)
    }

    @Test("a recording that has gone on before the next night began is read to its end, by the same process too")
    func grownBefore() async throws {
        let ring = ring([Self.night(Self.first, 20), Self.night(Self.second, 120)])
        let reader = MeterReader(journal: store, memory: store)
        for _ in 0..<3 { #expect(try await reader.read(ring).isComplete) }
        // One that was seen twice and is no longer the newest is left alone.
        #expect(ring.commands == [0x14, 0x03, 0x05])
        ring.change {
            $0.recordings = [
                Self.night(Self.first, 20), Self.night(Self.second, 200), Self.night(Self.third, 31),
            ]
        }
        #expect(try await reader.read(ring).received == 4)
        #expect(Self.counts(store.records)["2026-11-17T22:52:51"] == [200])
        // A ring whose clock was set back lists its newest night last.
        ring.change { $0.recordings = [Self.night(Self.third, 31), Self.night(Self.first, 20)] }
        for _ in 0..<2 { #expect(try await reader.read(ring).isComplete) }
        ring.change { $0.recordings[1] = Self.night(Self.first, 25) }
        #expect(try await reader.read(ring).received == 2)
        #expect(Self.counts(store.records)["2026-11-16T22:45:10"] == [25])
    }

    @Test("in a store the longer recording is a revision: the same id, both frames, whatever comes again")
    func inStore() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "growth-\(ProcessInfo.processInfo.globallyUniqueString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
        func read(_ ring: EmulatedO2Ring, all: Bool = false) async throws -> [FrameOutcome] {
            let told = Told<FrameOutcome>()
            let summary = try await MeterReader(journal: store, memory: store).read(ring, allRecords: all) { event in
                if case .stored(let outcomes) = event { for outcome in outcomes { told.note(outcome) } }
            }
            #expect(summary.isComplete, "\(summary)")
            return told.events
        }
        func nights() async throws -> [Reading] { try await store.query(ReadingQuery()).readings }
        let ring = ring([Self.night(Self.second, 120)])
        _ = try await read(ring)
        let before = try await nights()
        ring.change { $0.recordings[0] = Self.night(Self.second, 300) }
        let revised = try await read(ring).count { if case .revised = $0 { true } else { false } }
        let after = try await nights()
        #expect(revised == 2 && Set(after.map(\.id)) == Set(before.map(\.id)) && after.count == 2)
        #expect(after.map(\.time.instant) == before.map(\.time.instant))
        #expect(Self.counts(after.map(\.record)) == ["2026-11-17T22:52:51": [300]])
        #expect(try await store.verify().isEmpty)
        // What it was before takes nothing away, and comes from an older capture.
        let older = self.ring([Self.night(Self.second, 120)])
        _ = try await read(older, all: true)
        #expect(try await nights().map(\.record) == after.map(\.record))
        #expect(try await store.verify().isEmpty)
        // Another night under the name: of a ring whose clock is set to the same time after each night.
        let other = O2RingRecordingTests.recording(Self.second, (0..<90).map { _ in [91, 70, 0, 0, 0] })
        ring.change { $0.recordings[0].octets = other }
        let clashes = try await read(ring).count { if case .clash = $0 { true } else { false } }
        #expect(clashes == 2)
        #expect(Self.counts(try await nights().map(\.record)) == ["2026-11-17T22:52:51": [90, 300]])
        #expect(try await store.verify().isEmpty)
        _ = try await read(ring)
        #expect(ring.commands == [0x14, 0x03, 0x05])
        _ = try await read(ring, all: true)
        #expect(try await nights().count == 4)
        try store.close()
    }

    @Test("a recording that was read before it ended is read to its end, though its octets are old and were let go")
    func thinned() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "thinned-\(ProcessInfo.processInfo.globallyUniqueString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let now = try #require(Instant(rfc3339: "2026-11-21T12:00:00Z"))
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin",
            now: { now })
        let ring = ring([Self.night(Self.second, 120)])
        // The gateway starts anew for each contact.
        func read() async throws -> Int { try await MeterReader(journal: store, memory: store).read(ring).received }
        #expect(try await read() == 2)
        for group in try await store.groupsWaiting() {
            let items = try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10)
            try await store.acknowledge(items.map(\.id), at: now)
        }
        // Those of the pulses: how long the recording was stands in those of the saturations.
        #expect(try await store.thin(Retention([.frames: .zero])).map(\.frames) == [1])
        // A recording that has not gone on is opened, and not transferred.
        for _ in 0..<2 { #expect(try await read() == 0 && ring.commands == [0x14, 0x03, 0x05]) }
        ring.change { $0.recordings[0] = Self.night(Self.second, 300) }
        #expect(try await read() == 2)
        #expect(
            Self.counts(try await store.query(ReadingQuery()).readings.map(\.record)) == ["2026-11-17T22:52:51": [300]])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("what has no value yet counts once it has one; an embedder's journal follows the same rules")
    func withoutValue() async throws {
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("UTC")))
        let none = O2RingRecordingTests.recording(Self.second, [[0xFF, 0xFF, 0xFF, 0, 0]])
        let ring = ring([(Self.second, none)])
        let reader = MeterReader(journal: journal, memory: journal)
        #expect(try await reader.read(ring).isComplete)
        #expect(journal.readings.map(\.excluded) == [.noValue, .noValue])
        let more = O2RingRecordingTests.recording(Self.second, [[0xFF, 0xFF, 0xFF, 0, 0], [97, 60, 0, 0, 0]])
        ring.change { $0.recordings[0].octets = more }
        #expect(try await reader.read(ring).received == 2)
        #expect(journal.readings.map(\.excluded) == [nil, nil] && journal.readings.count == 2)
        #expect(try await reader.read(ring).received == 0)
    }

    @Test("a series is the beginning of one that goes on, also of one with samples between its own")
    func beginnings() {
        func series(_ values: [Int64?], every step: Int = 4000) -> SampleSeries {
            SampleSeries(
                values.enumerated().map { place, value in
                    .init(milliseconds: place * step, value: value.map { ExactDecimal(significand: $0) })
                })
        }
        let short = series([97, nil, 96])
        #expect(short.isBeginning(of: short) && series([]).isBeginning(of: short))
        #expect(short.isBeginning(of: series([97, nil, 96, 95])))
        #expect(short.isBeginning(of: series([97, 97, nil, nil, 96, 96, 95], every: 2000)))
        #expect(!short.isBeginning(of: series([97, nil, 95])) && !short.isBeginning(of: series([97, nil])))
        #expect(!short.isBeginning(of: series([97, 98, 96, 95])) && !short.isBeginning(of: series([])))
        #expect(!short.isBeginning(of: series([97, nil, 96, 95], every: 2000)))
    }

    // MARK: What cannot be read

    @Test("a recording that is never answered hides none behind it; the rest is read in the same contact")
    func unanswered() async throws {
        let ring = ring([Self.night(Self.first, 20), Self.night(Self.second, 20), Self.night(Self.third, 20)])
        // The first recording's only piece, six times.
        ring.change { $0.ignores = { (2...7).contains($0) } }
        let summary = try await read(ring)
        #expect(summary.error == "o2ring_incomplete" && summary.errorDetail?.contains(Self.first) == true)
        #expect(store.readingCount == 4 && !ring.isOpen)
        #expect(try await read(ring).isComplete && store.readingCount == 6)
        // Nothing is answered any more: it is left.
        let silent = self.ring([Self.night(Self.first, 20), Self.night(Self.second, 20)])
        silent.change { $0.ignores = { $0 >= 2 } }
        let other = RecordingStore(log)
        #expect(try await MeterReader(journal: other, memory: other).read(silent).error == "timeout")
        #expect(silent.commands.count == 9)
    }

    @Test("what cannot be read is named once while the gateway runs, and each time that all is asked for")
    func namedOnce() async throws {
        let (good, bad) = (Self.night(Self.first, 20), (name: Self.second, octets: [UInt8](repeating: 3, count: 12)))
        for recordings in [[bad, good], [good, bad], [good, ("night of/1", good.octets)]] {
            let store = RecordingStore(log)
            let (reader, ring) = (MeterReader(journal: store, memory: store), ring(recordings))
            let first = try await reader.read(ring)
            #expect(["o2ring_layout", "o2ring_refused"].contains(first.error) && store.readingCount == 2)
            #expect(try await reader.read(ring).isComplete)
            #expect(try await reader.read(ring, allRecords: true).error == first.error)
            // A new night is read beside it, and nothing is wrong with that contact.
            ring.change { $0.recordings.append(Self.night(Self.third, 40)) }
            #expect(try await reader.read(ring).isComplete && store.readingCount == 4)
        }
    }

    @Test("octets that are no recording are told once in a contact, though two kinds are read from them")
    func toldOnce() async throws {
        var cut = Self.night(Self.second, 120)
        cut.octets.removeLast(200)
        let ring = ring([cut, Self.night(Self.first, 20)])
        let told = Told<MalformedFrame>()
        _ = try await MeterReader(journal: store, memory: store).read(ring) { event in
            guard case .stored(let outcomes) = event else { return }
            for case .malformed(let error) in outcomes { told.note(error) }
        }
        #expect(told.events.count == 1 && store.readingCount == 2)
        // Both kinds are kept, so that a version that knows the layout makes both readings of it.
        #expect(Set(store.frames.map(\.format)).isSuperset(of: [.o2ringSaturations, .o2ringPulses]))
    }

    @Test("a list that names a recording twice, and one that is longer than any ring's, lose no night")
    func lists() async throws {
        let ring = ring([Self.night(Self.first, 20), Self.night(Self.first, 20)])
        #expect(try await read(ring).received == 2)
        let names = (0..<70).map { "202610\(10 + $0 / 60 * 1)22\(10 + $0 % 50)\(10 + $0 / 50)" }
        let text = #"{"FileList":"\#(names.joined(separator: ","))"}"#
        let information = try O2RingInformation(Array(text.utf8))
        #expect(information.recordings.last?.description == names.last)
        #expect(information.recordings.count == 64 && information.unusableNames == 6)
    }
}
