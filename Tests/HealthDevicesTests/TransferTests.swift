import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// Promises 3 to 5: what a summary says, and how transfers end.
@Suite struct TransferTests {
    @Test("promise 3: gaps are in the summary; a count that agrees says that they are the meter's own")
    func gaps() async throws {
        let bench = Bench(records: glucoseRecords(1...3) + glucoseRecords(6...7) + glucoseRecords(9...9))
        let summary = try await bench.read()
        #expect(summary == ContactSummary(isComplete: true, announced: 6, received: 6, gaps: [4...5, 8...8]))
    }

    @Test("promise 3: a count that differs from what came is in the summary, and all is read again")
    func lostRecord() async throws {
        let bench = Bench(records: glucoseRecords(1...5)) { $0.loses = [3] }
        let first = try await bench.read()
        #expect(first == ContactSummary(isComplete: false, announced: 5, received: 4, gaps: [3...3]))
        bench.glucose { $0.loses = [] }
        let second = try await bench.read()
        #expect(second == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(bench.reported.new == 5)
    }

    @Test("promise 3: a duplicate does not stand for the record that was lost")
    func duplicates() async throws {
        let bench = Bench(records: glucoseRecords(1...5)) {
            $0.copies = 2
            $0.loses = [3]
        }
        let summary = try await bench.read()
        #expect(summary == ContactSummary(isComplete: false, announced: 5, received: 4, gaps: [3...3]))
    }

    @Test("promise 3: what a second full transfer does not bring either, the meter does not have")
    func countedWrong() async throws {
        let bench = Bench(records: glucoseRecords(1...5)) { $0.loses = [3] }
        #expect(try await bench.read().isComplete == false)
        #expect(try await bench.read().isComplete)
        try await bench.read()
        #expect(bench.log.requests == [[1, 6]])
    }

    @Test(
        "promise 3: a meter that lacks a record becomes complete though there are new ones in each contact",
        arguments: [1, 3] as [UInt16], [true, false])
    func countedWrongAndNew(news: UInt16, counts: Bool) async throws {
        let bench = Bench(records: glucoseRecords(1...5)) {
            $0.loses = [3]
            if !counts { $0.refuses = [.count: 2] }
        }
        #expect(try await bench.read().isComplete == false)
        bench.glucose { $0.records = glucoseRecords(1...(5 + news)) }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.readingCount == 4 + Int(news))
        try await bench.read()
        #expect(bench.log.requests == [[1, 6]])
    }

    @Test("promise 3: a new record that is lost is not one that the meter lacks", arguments: [true, false])
    func lostNews(counts: Bool) async throws {
        let bench = Bench(records: glucoseRecords(1...5)) {
            $0.loses = [3]
            if !counts { $0.refuses = [.count: 2] }
        }
        #expect(try await bench.read().isComplete == false)
        bench.glucose {
            $0.records = glucoseRecords(1...7)
            $0.loses = [3, 6]
        }
        #expect(try await bench.read().isComplete == false)
        bench.glucose { $0.loses = [3] }
        // What came only now was lost on the way: so may be what did not come now.
        #expect(try await bench.read().isComplete == false)
        #expect(bench.store.readingCount == 6)
        #expect(try await bench.read().isComplete)
    }

    @Test("promise 3: a memory that knows only whether the last contact was complete confirms a second full transfer")
    func plainMemory() async throws {
        let bench = Bench(records: glucoseRecords(1...5)) { $0.loses = [3] }
        let reader = MeterReader(journal: bench.store, memory: PlainMemory(store: bench.store))
        #expect(try await reader.read(bench.device).isComplete == false)
        #expect(try await reader.read(bench.device).isComplete)
    }

    @Test("promise 3: a contact that was cut, or asked for the newest records alone, was no full transfer")
    func noFullTry() async throws {
        let bench = Bench(records: glucoseRecords(1...5))
        #expect(try await bench.read().isComplete)
        bench.glucose {
            $0.records = glucoseRecords(1...7)
            $0.loses = [6]
        }
        bench.device.change { $0.cutAfter = 0 }
        #expect(try await bench.read().error == "transfer_interrupted")
        bench.device.change { $0.cutAfter = nil }
        // The newest one is stored as soon as it is asked for, so that nothing is new in the first full transfer.
        let partial = ContactSummary(isComplete: false, announced: 7, received: 6, gaps: [6...6])
        #expect(try await bench.read() == partial)
        bench.glucose { $0.loses = [] }
        #expect(try await bench.read().isComplete && bench.store.readingCount == 7)

        bench.glucose {
            $0.records = glucoseRecords(1...10)
            $0.loses = [8]
        }
        #expect(try await bench.read() == ContactSummary(isComplete: false, announced: 4, received: 3, gaps: [8...8]))
        #expect(try await bench.read().isComplete == false)
        bench.glucose { $0.loses = [] }
        #expect(try await bench.read().isComplete && bench.store.readingCount == 10)
    }

    @Test("records that come behind the answer are taken", arguments: [1, 4])
    func late(burst: Int) async throws {
        let bench = Bench(records: glucoseRecords(1...5), burst: burst) { $0.lateRecords = 2 }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(bench.store.readingCount == 5)
    }

    @Test("promise 6: a context that comes behind the answer is taken, also where nothing else is new")
    func lateContext() async throws {
        let records: [[UInt8]] = glucoseRecords(1...2).map { [$0[0] | 0x10] + Array($0.dropFirst()) }
        let bench = Bench(records: records, burst: 1) {
            $0.hasContexts = true
            $0.lateRecords = 1
        }
        func contexts() -> [UInt8] {
            bench.store.frames.filter { $0.format == FrameFormat(characteristic: 0x2A34) }.map { $0.payload[1] }
        }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 2, received: 2))
        #expect(contexts() == [1, 2] && bench.device.waited == .zero)
        #expect(try await bench.read().isComplete)
        #expect(contexts() == [1, 2, 2] && bench.device.waited == .zero)
        // One that never comes is waited for, for a second.
        bench.glucose { ($0.hasContexts, $0.lateRecords) = (false, 0) }
        #expect(try await bench.read().isComplete)
        #expect(contexts() == [1, 2, 2] && bench.device.waited == GlucoseTransfer.lateness)
    }

    @Test("promise 4: after 30 s of silence the procedure is aborted and the error named", arguments: [false, true])
    func silence(answersAbort: Bool) async throws {
        let bench = Bench(records: glucoseRecords(1...5)) {
            $0.silentOn = answersAbort ? [.all] : [.all, .abort]
        }
        let summary = try await bench.read()
        #expect(summary.error == "timeout")
        #expect(summary.announced == 5 && summary.received == 0 && !summary.isComplete)
        #expect(bench.log.requests == [[4, 1], [1, 1], [3, 0]])
        #expect(bench.device.waited == .seconds(answersAbort ? 30 : 60))
    }

    @Test("a meter that is silent when asked to count, and can be stopped, is read all the same")
    func silentCount() async throws {
        let bench = Bench(records: glucoseRecords(1...5)) { $0.silentOn = [.count] }
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 5))
        #expect(bench.log.requests == [[4, 1], [3, 0], [1, 1]])
    }

    @Test(
        "promise 4: every response code ends the transfer with its own name",
        arguments: [
            (2, "racp_op_code_not_supported"), (3, "racp_invalid_operator"), (4, "racp_operator_not_supported"),
            (5, "racp_invalid_operand"), (7, "racp_abort_unsuccessful"), (8, "racp_procedure_not_completed"),
            (9, "racp_operand_not_supported"), (0, "racp_reserved_response_code"), (99, "racp_reserved_response_code"),
        ] as [(UInt8, String)])
    func responseCodes(code: UInt8, name: String) async throws {
        let bench = Bench(records: glucoseRecords(1...5)) { $0.endsReportsWith = code }
        let summary = try await bench.read()
        #expect(summary.error == name)
        #expect(summary.received == 5 && !summary.isComplete)
        #expect(bench.store.readingCount == 5)
        #expect(bench.log.events.last == .disconnect)
    }

    @Test(
        "a meter that is still busy with its last answer is asked again; one that stays so is refused by its code",
        arguments: [(1, 0xFE), (5, 0x80), (6, 0xFE)] as [(Int, UInt8)])
    func busy(answers: Int, code: UInt8) async throws {
        let bench = Bench(records: glucoseRecords(1...5))
        bench.device.change {
            $0.busyAnswers = answers
            $0.busyCode = code
        }
        let summary = try await bench.read()
        guard answers <= 5 else {
            #expect(summary.error == "device_refused" && !summary.isComplete)
            return
        }
        #expect(summary == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(bench.store.readingCount == 5)
    }

    @Test("promise 4: no records is an empty success", arguments: [false, true])
    func empty(countsRefused: Bool) async throws {
        let bench = Bench(records: []) { if countsRefused { $0.refuses = [.count: 2] } }
        let summary = try await bench.read()
        #expect(summary == ContactSummary(isComplete: true, announced: countsRefused ? nil : 0, received: 0))
    }

    @Test("rubbish at the control point is no answer, and the true answer behind it is taken")
    func rubbish() async throws {
        let bench = Bench(records: glucoseRecords(1...3)) {
            $0.rubbish = [.count: [[], [0xFF], [6], [6, 0, 1, 1], [5, 0], [5, 0, 3, 0]]]
        }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 3, received: 3))
    }

    @Test("promise 5: a short frame is kept and stops no transfer", arguments: [0, 1, 2, 3, 9])
    func shortFrame(length: Int) async throws {
        let short = Array(glucoseRecord(3).prefix(length))
        let bench = Bench(records: glucoseRecords(1...2) + [short] + glucoseRecords(4...5))
        let summary = try await bench.read()
        #expect(summary.error == nil && summary.received == 5 && summary.announced == 5)
        #expect(bench.store.readingCount == 4)
        #expect(bench.store.frames.contains { $0.payload == short })
        #expect(bench.reported.malformed == 1)
    }

    @Test("promise 5: a short frame for a newest record leads to reading everything")
    func shortNewest() async throws {
        let bench = Bench(records: glucoseRecords(1...5))
        try await bench.read()
        bench.glucose { $0.records += glucoseRecords(6...6) + [[0x02, 7, 0]] }
        try await bench.read()
        #expect(bench.store.readingCount == 6)
        #expect(bench.store.epoch == 0)
    }

    @Test("promise 5: extra octets and reserved bits are accepted")
    func extraOctets() async throws {
        var record = glucoseRecord(2)
        record[0] |= 0xE0
        let bench = Bench(records: [glucoseRecord(1), record + [1, 2, 3]])
        #expect(try await bench.read().isComplete)
        #expect(bench.store.readingCount == 2 && bench.reported.malformed == 0)
    }

    @Test("a link that goes while the procedure begins is a transfer interrupted")
    func cutAtOnce() async throws {
        let bench = Bench(records: glucoseRecords(1...3))
        bench.device.change { $0.cutAfter = 0 }
        let summary = try await bench.read()
        #expect(summary.error == "transfer_interrupted")
        #expect(bench.log.events.last == .disconnect)
    }

    @Test("frames are numbered by their format, through the whole contact")
    func ordinals() async throws {
        let bench = Bench(records: glucoseRecords(1...4)) { $0.hasContexts = true }
        try await bench.read()
        for format: UInt16 in [0x2A18, 0x2A34] {
            let frames = bench.store.frames.filter { $0.format == FrameFormat(characteristic: format) }
            #expect(frames.map(\.ordinal) == [0, 1, 2, 3])
        }
    }

    @Test("a meter that refuses contexts is read without them; one that refuses its records is not read")
    func refusedNotifications() async throws {
        let bench = Bench(records: glucoseRecords(1...3))
        bench.device.change { $0.refusesToNotify = [0x2A34] }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.readingCount == 3)
        bench.device.change { $0.refusesToNotify = [0x2A52] }
        let summary = try await bench.read()
        #expect(summary.error == "device_refused")
        #expect(bench.log.requests.isEmpty)
        #expect(bench.log.events.contains(.stop(0x2A18)))
    }

    @Test("glucose records without a control point are taken as they come")
    func noControlPoint() async throws {
        let bench = Bench(records: glucoseRecords(1...3)) { $0.hasControlPoint = false }
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 3))
        #expect(bench.store.readingCount == 3)
    }

    @Test("a cuff's records end with silence or with its leaving", arguments: [false, true])
    func cuff(disconnects: Bool) async throws {
        let bench = Bench(cuff: (1...3).map { pressureRecord($0) })
        bench.device.change {
            $0.cuffDisconnects = disconnects
            $0.cuffPressures = [[0, 80, 0, 0xFF, 0x07, 0xFF, 0x07]]
        }
        let summary = try await bench.read()
        #expect(summary == ContactSummary(isComplete: true, received: 3))
        #expect(bench.device.cuffRecords.isEmpty)
        #expect(bench.store.frames.count == 4)
        #expect(bench.device.waited == (disconnects ? .zero : .seconds(2)), "the catalogue's for an Omron")
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 0))
    }

    @Test("a cuff of no listed model is given more time", arguments: [("X", 5), ("BM57", 5), ("BLESmart_1", 2)])
    func gap(name: String, seconds: Int64) async throws {
        let bench = Bench(cuff: [pressureRecord(1)])
        bench.device.change {
            $0.name = name
            $0.cuffDisconnects = false
        }
        #expect(try await bench.read().isComplete)
        #expect(bench.device.waited == .seconds(seconds))
    }

    @Test("promise 1: what a cuff sent before it was stopped is kept, though nobody waited for it any more")
    func sentWhileStopping() async throws {
        let bench = Bench(cuff: [pressureRecord(1)])
        bench.device.change {
            $0.cuffDisconnects = false
            $0.cuffSendsWhenStopped = [pressureRecord(2), pressureRecord(3)]
        }
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 3))
        #expect(bench.store.readingCount == 3)
        #expect(bench.log.events.last == .disconnect)
    }

    @Test("promise 5: a short frame of a cuff is kept and stops no transfer")
    func shortCuffFrame() async throws {
        let bench = Bench(cuff: [pressureRecord(1), [0x1E, 127, 0], pressureRecord(2)])
        #expect(try await bench.read().received == 3)
        #expect(bench.store.readingCount == 2 && bench.reported.malformed == 1)
    }
}

/// A memory that implements what it has to.
private struct PlainMemory: DeviceMemory {
    let store: RecordingStore

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        try await store.beginContact(with: device, at: start, clock: clock, batteryPercent: batteryPercent)
    }

    func lastRecord(of contact: Contact) async throws -> LastRecord? { try await store.lastRecord(of: contact) }
    func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        try await store.beginSequenceEpoch(in: contact)
    }
    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        try await store.endContact(contact, summary)
    }
}
