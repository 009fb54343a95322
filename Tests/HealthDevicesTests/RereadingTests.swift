import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Promise 2 and sequence epochs: reading a meter that was read before.
@Suite struct RereadingTests {
    private static let askForLast: [UInt8] = [1, 6]
    private static let askForAll: [UInt8] = [1, 1]
    private static let countAll: [UInt8] = [4, 1]

    private func numbers(_ sequences: ClosedRange<UInt16>, since start: WallTime = .spring) -> Set<NumberedRecord> {
        Set(sequences.map { NumberedRecord(sequence: $0, baseTime: start.advanced(byMinutes: Int($0))) })
    }

    @Test("promise 2: a meter with nothing new is asked for its last record, and nothing is new")
    func nothingNew() async throws {
        let bench = Bench(records: glucoseRecords(1...10))
        try await bench.read()
        #expect(bench.reported.new == 10)
        let second = try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
        #expect(bench.reported.new == 10)
        #expect(second.isComplete && second.error == nil)
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
    }

    @Test("promise 2: where there is news, only records from the newest stored one on come", arguments: [false, true])
    func news(isDescending: Bool) async throws {
        let bench = Bench(records: glucoseRecords(1...10)) { $0.isDescending = isDescending }
        try await bench.read()
        bench.glucose { $0.records += glucoseRecords(11...13) }
        let second = try await bench.read()
        #expect(bench.log.requests == [Self.askForLast, [4, 3, 1, 10, 0], [1, 3, 1, 10, 0]])
        #expect(second == ContactSummary(isComplete: true, announced: 4, received: 4))
        #expect(bench.store.numbered == numbers(1...13))
        #expect(bench.store.epoch == 0)
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
        #expect(bench.reported.new == 13)
    }

    @Test(
        "a meter that refuses >= is read from its first record, whatever the code",
        arguments: [2, 3, 4, 5, 6, 7, 8, 9, 0, 200])
    func refusedAtLeast(code: UInt8) async throws {
        let bench = Bench(records: glucoseRecords(1...10)) { $0.refuses = [.atLeast: code] }
        try await bench.read()
        bench.glucose { $0.records += glucoseRecords(11...13) }
        let second = try await bench.read()
        #expect(bench.log.requests.last == Self.askForAll)
        #expect(second == ContactSummary(isComplete: true, announced: 13, received: 13))
        #expect(bench.store.numbered == numbers(1...13))
        #expect(bench.reported.new == 13)
    }

    @Test("a meter that refuses 'last' or counts is read all the same", arguments: [2, 3, 4, 5, 6, 7, 8, 9, 0, 200])
    func refusedQuestions(code: UInt8) async throws {
        let bench = Bench(records: glucoseRecords(1...10)) { $0.refuses = [.last: code, .count: code == 6 ? 2 : code] }
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 10))
        bench.glucose { $0.records += glucoseRecords(11...13) }
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 13))
        #expect(bench.store.numbered == numbers(1...13))
        #expect(bench.reported.new == 13)
        #expect(bench.store.epoch == 0)
    }

    @Test("a restart with lower numbers begins an epoch before its record is stored, and all is read")
    func restartedLower() async throws {
        let bench = Bench(records: glucoseRecords(1...10))
        try await bench.read()
        bench.glucose { $0.records = glucoseRecords(1...4, since: .summer) }
        let second = try await bench.read()
        let events = bench.log.events
        let epoch = try #require(events.firstIndex(of: .epoch(1)))
        let append = try #require(events.firstIndex { if case .append = $0 { true } else { false } })
        #expect(epoch < append)
        #expect(second == ContactSummary(isComplete: true, announced: 4, received: 4))
        #expect(bench.store.numbered == numbers(1...10).union(numbers(1...4, since: .summer)))
        #expect(bench.reported.new == 14)
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
        #expect(bench.store.epoch == 1)
    }

    @Test("a restart up to the same number is known by the base time")
    func restartedSame() async throws {
        let bench = Bench(records: glucoseRecords(1...10))
        try await bench.read()
        bench.glucose { $0.records = glucoseRecords(1...10, since: .summer) }
        try await bench.read()
        #expect(bench.store.epoch == 1)
        let events = bench.log.events
        let epoch = try #require(events.firstIndex(of: .epoch(1)))
        let append = try #require(events.firstIndex { if case .append = $0 { true } else { false } })
        #expect(epoch < append)
        #expect(bench.store.readingCount == 20)
        #expect(bench.reported.new == 20)
    }

    @Test("a restart that has overtaken our numbers hides no record", arguments: [false, true])
    func overtaken(isDescending: Bool) async throws {
        let bench = Bench(records: glucoseRecords(1...10)) { $0.isDescending = isDescending }
        try await bench.read()
        bench.glucose { $0.records = glucoseRecords(1...15, since: .summer) }
        try await bench.read()
        #expect(bench.store.numbered == numbers(1...10).union(numbers(1...15, since: .summer)))
        #expect(bench.reported.new == 25)
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
        #expect(bench.reported.new == 25)
    }

    @Test("numbers that wrap at 65535 begin an epoch, lose nothing and double nothing")
    func wrap() async throws {
        let before = glucoseRecords(65530...65535)
        let bench = Bench(records: before)
        try await bench.read()
        #expect(try await bench.read().isComplete)
        #expect(bench.log.requests == [Self.askForLast])
        bench.glucose { $0.records = before + glucoseRecords(0...2, since: .summer) }
        let summary = try await bench.read()
        #expect(summary == ContactSummary(isComplete: true, announced: 9, received: 9))
        #expect(bench.store.epoch == 1)
        #expect(bench.reported.new == 9)
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
    }

    @Test("the newest record deleted at the meter doubles nothing")
    func deletedNewest() async throws {
        let bench = Bench(records: glucoseRecords(1...10))
        try await bench.read()
        bench.glucose { $0.records.removeLast() }
        try await bench.read()
        #expect(bench.reported.new == 10)
        bench.glucose { $0.records += glucoseRecords(10...12, since: .summer) }
        try await bench.read()
        #expect(bench.reported.new == 13)
    }

    @Test("a meter that sends everything when asked for its last record begins no epoch", arguments: [2, 100])
    func dump(burst: Int) async throws {
        let bench = Bench(records: glucoseRecords(1...10), burst: burst) { $0.dumpsOnLast = true }
        try await bench.read()
        bench.glucose { $0.records += glucoseRecords(11...12) }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.epoch == 0)
        #expect(bench.store.numbered == numbers(1...12))
    }

    @Test("a meter whose clock was never set is read from its first record each time")
    func unsetClock() async throws {
        @Sendable func record(_ sequence: UInt16) -> [UInt8] {
            var octets = glucoseRecord(sequence)
            octets.replaceSubrange(3..<10, with: Array(repeating: 0, count: 7))
            return octets
        }
        let bench = Bench(records: (1...5).map(record))
        try await bench.read()
        bench.glucose { $0.records += [record(6)] }
        #expect(try await bench.read().received == 6)
        try await bench.read()
        #expect(bench.log.requests.last == Self.askForAll)
        #expect(bench.store.epoch == 0)
        #expect(bench.reported.new == 6)
    }

    @Test(
        "promise 3: a transfer that was cut is resumed, also where the newest records came first",
        arguments: [false, true], [1, 4, 9])
    func cutTransfer(isDescending: Bool, after: Int) async throws {
        let bench = Bench(records: glucoseRecords(1...10), burst: 1) { $0.isDescending = isDescending }
        // The answer to the count is one of the values.
        bench.device.change { $0.cutAfter = after + 1 }
        let first = try await bench.read()
        #expect(first.error == "transfer_interrupted")
        #expect(!first.isComplete && first.received == after && first.announced == 10)
        #expect(bench.store.readingCount == after)
        bench.device.change { $0.cutAfter = nil }
        let second = try await bench.read()
        #expect(second.isComplete && second.received == 10)
        #expect(bench.store.numbered == numbers(1...10))
        #expect(bench.reported.new == 10)
        #expect(bench.store.epoch == 0)
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast])
    }

    @Test("news that were cut are resumed", arguments: [false, true], 1...6)
    func cutNews(isDescending: Bool, after: Int) async throws {
        let bench = Bench(records: glucoseRecords(1...10), burst: 1) { $0.isDescending = isDescending }
        try await bench.read()
        bench.glucose { $0.records += glucoseRecords(11...15) }
        bench.device.change { $0.cutAfter = after }
        #expect(try await bench.read().error == "transfer_interrupted")
        bench.device.change { $0.cutAfter = nil }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.numbered == numbers(1...15))
        #expect(bench.reported.new == 15)
    }

    @Test("a contact the program did not live to end is resumed")
    func crashed() async throws {
        let bench = Bench(records: glucoseRecords(6...10))
        try await bench.read()
        bench.store.forgetLastEnd()
        bench.glucose { $0.records = glucoseRecords(1...10) }
        try await bench.read()
        #expect(bench.log.requests == [Self.askForLast, Self.countAll, Self.askForAll])
        #expect(bench.store.numbered == numbers(1...10))
    }
}
