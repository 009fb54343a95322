import Foundation
import GATTClient
import HCICapture
import HealthReadings
import ReadingStore
import TestSupport
import Testing

@testable import HealthDevices

@Suite struct MemoryJournalTests {
    private static let zone = ZoneRules.named("Europe/Berlin")
    private static let device = DeviceDescription(
        address: DeviceAddress("C0:00:00:00:18:08"), model: "accuchek_guide", serial: "1")

    private func empty(_ person: String? = nil) throws -> MemoryJournal {
        MemoryJournal(timeZone: try #require(Self.zone), person: person)
    }

    private func begin(
        _ journal: MemoryJournal, _ device: DeviceDescription = device, minute: Int64 = 0
    ) async throws -> Contact {
        try await journal.beginContact(
            with: device, at: Instant(seconds: 1_795_260_000 + minute * 60), clock: nil, batteryPercent: nil)
    }

    /// Number 5 of 2026-11-20T12:30:00, 95 mg/dL; with another last digit where it is given.
    private func record(_ digit: UInt8 = 0x5F) -> Frame {
        frame(0x2A18, [0x13, 5, 0, 0xEA, 7, 11, 20, 12, 30, 0, 0x3C, 0, digit, 0xB0, 0x11])
    }

    private func meal(_ number: UInt8) -> Frame { frame(0x2A34, [0x02, 5, 0, number]) }

    private func frame(_ characteristic: UInt16, _ octets: [UInt8]) -> Frame {
        Frame(
            format: FrameFormat(characteristic: characteristic), payload: octets,
            receivedAt: Instant(seconds: 1_795_260_000), ordinal: 0)
    }

    private func documents(_ readings: [Reading]) -> Set<String> {
        Set(
            readings.map { reading in
                var reading = reading
                reading.deliveries = []
                return reading.document.text
            })
    }

    @Test(
        "readings have the ids, times and contexts that a new store gives them",
        arguments: [
            "cgm-session", "cuff-no-time", "cuff-three", "glucose-cut", "glucose-oddities", "glucose-first-delivery",
            "onetouch-second-delivery", "quirks-caresens", "quirks-myglucose", "quirks-taidoc", "two-meters",
        ])
    func likeAStore(capture: String) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "memory-journal-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try await ReadingStore.open(
            directory: directory.path, decoder: ModelFrameDecoder(), clientUserID: "somebody",
            timeZone: "Europe/Berlin")
        let journal = try empty("somebody")
        let path = try RecordedConversation(capture).path
        for try await meter in try ReplayCentral(paths: [path]).peripherals() {
            try await MeterReader(journal: store, memory: store).read(meter)
        }
        for try await meter in try ReplayCentral(paths: [path]).peripherals() {
            try await MeterReader(journal: journal, memory: journal).read(meter)
        }
        let stored = try await store.query(ReadingQuery(limit: 10_000)).readings
        #expect(documents(journal.readings) == documents(stored))
        #expect(!stored.isEmpty)
        try store.close()
    }

    @Test(
        "whatever two meters send, and however their contacts end, a store makes the same readings of it",
        arguments: 0..<24
    )
    func likeAStoreForAll(seed: UInt64) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "memory-journal-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try await ReadingStore.open(
            directory: directory.path, decoder: ModelFrameDecoder(), clientUserID: "somebody",
            timeZone: "Europe/Berlin", now: { Instant(seconds: 1_795_400_000) })
        let journal = try empty("somebody")
        var generator = SeededGenerator(seed: seed)
        var open: [Int: (Contact, Contact)] = [:]
        for hour in 0..<12 {
            let meter = Int.random(in: 0...1, using: &generator)
            // Now and then it is an older contact, from a capture.
            let age = Int.random(in: 0..<4, using: &generator) == 0 ? Int64.random(in: 0...6, using: &generator) : 0
            let start = Instant(seconds: 1_795_260_000 + (Int64(hour) - age) * 3600)
            if open[meter] == nil || Int.random(in: 0..<4, using: &generator) == 0 {
                let device = Self.meter(meter, seed)
                open[meter] = (
                    try await store.beginContact(with: device, at: start, clock: nil, batteryPercent: nil),
                    try await journal.beginContact(with: device, at: start, clock: nil, batteryPercent: nil)
                )
            }
            guard var contacts = open[meter] else { continue }
            for ordinal in 0..<Int.random(in: 0...6, using: &generator) {
                if Int.random(in: 0..<8, using: &generator) == 0 {
                    contacts = (
                        try await store.beginSequenceEpoch(in: contacts.0),
                        try await journal.beginSequenceEpoch(in: contacts.1)
                    )
                }
                let frames = (0..<Int.random(in: 1...3, using: &generator)).map { place in
                    randomFrame(at: start, ordinal: ordinal * 3 + place, &generator)
                }
                let outcomes = (
                    try await store.append(frames, of: contacts.0), try await journal.append(frames, of: contacts.1)
                )
                #expect(outcomes.0.map(summary) == outcomes.1.map(summary))
            }
            open[meter] = contacts
            let last = (try await store.lastRecord(of: contacts.0), try await journal.lastRecord(of: contacts.1))
            #expect(last.0 == last.1)
            guard Bool.random(using: &generator) else { continue }
            let summary = ContactSummary(isComplete: Bool.random(using: &generator), received: 1)
            try await store.endContact(contacts.0, summary)
            try await journal.endContact(contacts.1, summary)
            open[meter] = nil
        }
        let stored = try await store.query(ReadingQuery(limit: 10_000)).readings
        #expect(documents(journal.readings) == documents(stored))
        try store.close()
    }

    /// A meter that numbers its records as the standard says, one whose contexts may say "ketone", or one that numbers by
    /// age.
    private static func meter(_ number: Int, _ seed: UInt64) -> DeviceDescription {
        DeviceDescription(
            address: DeviceAddress("C0:00:00:00:18:0\(number)"),
            model: ["accuchek_guide", "caresens", "taidoc_fora"][(Int(seed) + number) % 3])
    }

    /// What became of a frame, and the document of the reading that it changed.
    private func summary(_ outcome: FrameOutcome) -> [String] {
        let document = documents([outcome.changedReading].compactMap(\.self)).first ?? ""
        return switch outcome {
        case .new: ["new", document]
        case .revised: ["revised", document]
        case .clash(_, let other): ["clash with \(other)", document]
        case .repeated, .waiting, .nothing, .malformed: ["\(outcome)"]
        }
    }

    /// A record or a context of few numbers, values and times, so that they repeat, differ and clash; some are cut short.
    private func randomFrame(
        at start: Instant, ordinal: Int, _ generator: inout some RandomNumberGenerator
    ) -> Frame {
        let number = UInt8.random(in: 1...4, using: &generator)
        let hour = UInt8.random(in: 7...8, using: &generator)
        let digit = UInt8.random(in: 0x5F...0x60, using: &generator)
        // 2026, or 2030 by a clock that is wrong.
        let year: UInt8 = Int.random(in: 0..<12, using: &generator) == 0 ? 0xEE : 0xEA
        var octets: [UInt8]
        var characteristic: UInt16 = 0x2A18
        switch Int.random(in: 0..<5, using: &generator) {
        case 0:
            (characteristic, octets) = (0x2A34, [0x02, number, 0, [1, 2, 6].randomElement(using: &generator) ?? 1])
        case 1:
            // Without a time offset, and with the battery's bit of the status now and then.
            octets = [0x0A, number, 0, year, 7, 11, 20, hour, 30, 0, digit, 0xB0, 0x11, number & 1, 0]
        default:
            octets = [0x03, number, 0, year, 7, 11, 20, hour, 30, 0, 0x3C, 0, digit, 0xB0, 0x11]
        }
        if Int.random(in: 0..<16, using: &generator) == 0 { octets.removeLast(3) }
        return Frame(
            format: FrameFormat(characteristic: characteristic), payload: octets, receivedAt: start, ordinal: ordinal)
    }

    @Test("a meter that is read again brings nothing new")
    func again() async throws {
        let journal = try empty()
        for pass in 0..<2 {
            let central = try ReplayCentral(paths: [try RecordedConversation("two-meters").path])
            for try await meter in central.peripherals() {
                try await MeterReader(journal: journal, memory: journal).read(meter, allRecords: true) { event in
                    guard case .stored(let outcomes) = event, pass == 1 else { return }
                    for outcome in outcomes { #expect(outcome.changedReading == nil) }
                }
            }
            #expect(journal.readings.count == 18)
        }
    }

    @Test("a context joins its record, whichever comes first, and changes it once")
    func contexts() async throws {
        let (late, early) = (try empty(), try empty())
        var contact = try await begin(late)
        let outcomes = try await late.append([record(), meal(1), meal(1), meal(2)], of: contact)
        guard case .new = outcomes[0], case .revised(let revised) = outcomes[1], case .repeated = outcomes[2],
            case .revised = outcomes[3]
        else {
            Issue.record("found \(outcomes)")
            return
        }
        #expect(revised.context?.meal == "preprandial")
        #expect(late.readings.map(\.context?.meal) == ["postprandial"])

        contact = try await begin(early)
        #expect(try await early.append([meal(1)], of: contact) == [.waiting])
        guard case .new(let reading) = try await early.append([record()], of: contact)[0] else {
            Issue.record("the record is not new")
            return
        }
        #expect(reading.context?.meal == "preprandial")
    }

    @Test("two values under one number are both kept, and told apart when they come again")
    func clash() async throws {
        let journal = try empty()
        let contact = try await begin(journal)
        let outcomes = try await journal.append([record(), record(0x60), record(), record(0x60)], of: contact)
        guard case .new(let first) = outcomes[0], case .clash(let second, with: let other) = outcomes[1] else {
            Issue.record("found \(outcomes)")
            return
        }
        #expect(other == first.id && second.id != first.id)
        #expect(outcomes[2...] == [.repeated(first.id), .repeated(second.id)])
        #expect(journal.readings.map(\.id) == [first.id, second.id])
    }

    @Test("the last record follows a complete transfer only if the contact before ended complete")
    func lastRecord() async throws {
        let journal = try empty()
        let cut = try await begin(journal)
        _ = try await journal.append([record()], of: cut)
        let second = try await begin(journal)
        let afterCut = try #require(try await journal.lastRecord(of: second))
        #expect(afterCut.sequence == 5 && afterCut.count == 1 && !afterCut.followsCompleteTransfer)
        try await journal.endContact(second, ContactSummary(isComplete: true, received: 0))

        // The same device under another address.
        let third = try await begin(
            journal,
            DeviceDescription(address: DeviceAddress("C0:00:00:00:18:09"), model: "accuchek_guide", serial: "1"))
        #expect(try await journal.lastRecord(of: third)?.followsCompleteTransfer == true)
        #expect(third.device.model == "accuchek_guide")

        let renewed = try await journal.beginSequenceEpoch(in: third)
        #expect(renewed.sequenceEpoch == 1)
        #expect(try await journal.lastRecord(of: renewed) == nil)
        guard case .repeated = try await journal.append([record()], of: renewed)[0] else {
            Issue.record("a record of an earlier epoch is new")
            return
        }
        #expect(try await begin(journal).sequenceEpoch == 1)
    }

    @Test("an older contact of a capture begins no sequence epoch, and hides nothing of what a later one left behind")
    func olderContact() async throws {
        let journal = try empty()
        let complete = ContactSummary(isComplete: true, received: 1)
        let first = try await begin(journal)
        _ = try await journal.append([record()], of: first)
        try await journal.endContact(first, complete)
        // The second was cut.
        _ = try await begin(journal, minute: 60)
        let older = try await begin(journal)
        #expect(try await journal.lastRecord(of: older)?.followsCompleteTransfer == false)
        #expect(try await journal.beginSequenceEpoch(in: older) == older)
        try await journal.endContact(older, complete)
        let again = try await begin(journal, minute: 60)
        #expect(try await journal.lastRecord(of: again)?.followsCompleteTransfer == false, "the newest was cut")
        try await journal.endContact(again, complete)
        let later = try await begin(journal, minute: 120)
        #expect(try await journal.lastRecord(of: later)?.followsCompleteTransfer == true)
        #expect(try await journal.beginSequenceEpoch(in: later).sequenceEpoch == 1)
    }

    @Test("devices of two models are two, whatever serial number they give")
    func sameSerial() async throws {
        var other = Self.device
        other.address = DeviceAddress("C0:00:00:00:18:09")
        other.model = "contour_next"
        let journal = try empty()
        _ = try await begin(journal)
        _ = try await begin(journal, other)
        #expect(try await journal.pairings().map(\.addresses.count) == [1, 1])
    }

    @Test(
        "a record that was made before the clock was set is placed by the old clock, as a store places it",
        arguments: [true, false])
    func clockThatWasSet(clockIsReadAgain: Bool) async throws {
        let zone = try #require(Self.zone)
        let directory = FileManager.default.temporaryDirectory.appending(path: "memory-journal-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try await ReadingStore.open(
            directory: directory.path, decoder: ModelFrameDecoder(), clientUserID: "somebody",
            timeZone: "Europe/Berlin", now: { Instant(seconds: 1_795_400_000) })
        let journal = try empty("somebody")
        let set = try #require(Instant(rfc3339: "2026-11-22T19:00:00Z"))
        let later = set.advanced(bySeconds: 3600)
        // Two days slow, until it is set.
        let slow = ClockReading(deviceTime: zone.wallTime(at: set.advanced(bySeconds: -2 * 86_400)), readAt: set)
        let written = set.advanced(bySeconds: 5)
        let right = ClockReading(deviceTime: zone.wallTime(at: written), readAt: written)
        let again = ClockReading(deviceTime: zone.wallTime(at: later), readAt: later)
        let memories: [any FrameJournal & DeviceMemory] = [store, journal]
        for memory in memories {
            let setting = try await memory.beginContact(
                with: Self.device, at: set, clock: slow, batteryPercent: nil)
            let ended = try await memory.noteClock(right, in: setting)
            #expect(ended.clock == right)
            try await memory.endContact(ended, ContactSummary(isComplete: true, received: 0))
            let contact = try await memory.beginContact(
                with: Self.device, at: later, clock: clockIsReadAgain ? again : nil, batteryPercent: nil)
            let frame = Frame(format: record().format, payload: record().payload, receivedAt: later, ordinal: 0)
            #expect(try await memory.append([frame], of: contact).count == 1)
        }
        // 12:30, and an hour of offset, by a clock that was two days slow.
        #expect(journal.readings.map(\.time.instant) == [Instant(rfc3339: "2026-11-22T12:30:00Z")])
        let stored = try await store.query(ReadingQuery()).readings
        #expect(documents(journal.readings) == documents(stored))
        try store.close()
    }

    @Test("what becomes of a bond is remembered")
    func pairings() async throws {
        let journal = try empty()
        try await journal.admit(Self.device, as: .paired)
        try await journal.notePairing(of: Self.device, as: .proven)
        var pairing = try #require(try await journal.pairings().first)
        #expect(pairing.state == .proven && pairing.pairedAt != nil && pairing.provenAt != nil && !pairing.isBarred)
        try await journal.notePairing(of: DeviceDescription(address: Self.device.address), as: .unpaired)
        pairing = try #require(try await journal.pairings().first)
        #expect(pairing.state == .unpaired && pairing.provenAt == nil && pairing.device.serial == "1")
        #expect(try await journal.pairings().count == 1)
    }
}
