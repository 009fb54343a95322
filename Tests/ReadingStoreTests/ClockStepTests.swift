import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// Readings that came while the machine's clock was three days behind, of a meter whose clock can't be read.
@Suite struct ClockStepTests {
    /// By the wrong clock.
    static let start = "2026-11-18T09:59:00Z"

    /// A frame that was received three hours after the machine had started.
    static func glucose(_ sequence: UInt16, _ time: String, boot: String? = "this", hours: Int64 = 3) -> Frame {
        var frame = Build.glucose(sequence, time, at: "2026-11-18T10:00:00Z")
        frame.bootTime = boot.map { BootTime(boot: $0, microseconds: hours * 3600 * 1_000_000) }
        return frame
    }

    static func judge(_ harness: Harness) async throws -> Int {
        try await harness.store.judgeTimes(
            boot: "this", began: Build.instant("2026-11-21T07:00:00Z"), formerly: Build.instant("2026-11-18T07:00:00Z"))
    }

    private func readings(_ harness: Harness) async throws -> [Reading] {
        try await harness.all().sorted { ($0.record.sequence ?? 0) < ($1.record.sequence ?? 0) }
    }

    @Test("a record that seemed to be of the future counts once the clock is put right, with its id and its time")
    func counts() async throws {
        let harness = try await Harness()
        let frames = [
            Self.glucose(1, "2026-11-20T21:00:00"), Self.glucose(2, "2026-11-19T09:00:00"),
            // More than a day after it was received in truth.
            Self.glucose(3, "2026-11-22T12:30:00"), Self.glucose(4, "2026-12-20T09:00:00"),
        ]
        try await harness.contact(frames, at: Self.start)
        let before = try await readings(harness)
        #expect(before.map(\.excluded) == [.implausibleTime, nil, .implausibleTime, .implausibleTime])
        #expect(try await Self.judge(harness) == 1)
        let after = try await readings(harness)
        #expect(after.map(\.excluded) == [nil, nil, .implausibleTime, .implausibleTime])
        #expect(after.map(\.id) == before.map(\.id) && after.map(\.time) == before.map(\.time))
        #expect(after.first?.deliveries == [.init(destination: "vital", state: .held(.noSource))])
        #expect(try await harness.store.verify().isEmpty)

        #expect(try await Self.judge(harness) == 0)
        let again = try await harness.contact(frames, at: "2026-11-21T10:30:00Z")
        #expect(again.map(\.name) == ["repeated", "repeated", "repeated", "repeated"])
        #expect(try await readings(harness) == after)
    }

    @Test("what was replayed, came in another start, before, or was compared with the wrong clock stays excluded")
    func stays() async throws {
        let harness = try await Harness()
        let time = "2026-11-20T21:00:00"
        try await harness.contact(
            [
                Self.glucose(1, time, boot: nil), Self.glucose(2, time, boot: "another"),
                // The clock was an hour further back than it is known to have been.
                Self.glucose(3, time, hours: 4),
            ], at: Self.start)
        try await harness.contact(
            [Self.glucose(4, time)], device: Build.device(0xC000_0000_1809), at: Self.start,
            clock: ClockReading(deviceTime: Build.wall("2026-11-18T10:59:00"), readAt: Build.instant(Self.start)))
        #expect(try await Self.judge(harness) == 0)
        #expect(
            try await readings(harness).map(\.excluded)
                == [.implausibleTime, .implausibleTime, .implausibleTime, .implausibleTime])
    }

    @Test("a record that was stored anew meanwhile, in a later sequence epoch, does not count twice")
    func storedAnew() async throws {
        let harness = try await Harness()
        let time = "2026-11-20T21:00:00"
        try await harness.contact([Self.glucose(1, time)], at: Self.start)
        let first = try await harness.store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        let contact = try await harness.store.beginSequenceEpoch(in: first)
        let outcomes = try await harness.store.append([Build.glucose(1, time)], of: contact)
        #expect(outcomes.map(\.name) == ["new"])
        try await harness.store.endContact(contact, ContactSummary(isComplete: true, received: 1))
        #expect(try await Self.judge(harness) == 0)
        #expect(try await harness.all().count { $0.excluded == nil } == 1)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a time that was compared before the machine started is judged again, too")
    func comparedBefore() async throws {
        let harness = try await Harness()
        try await harness.contact(
            at: "2026-11-17T09:00:00Z",
            clock: ClockReading(
                deviceTime: Build.wall("2026-11-17T10:30:00"), readAt: Build.instant("2026-11-17T09:00:00Z")))
        try await harness.contact([Self.glucose(1, "2026-11-20T21:00:00")], at: Self.start)
        #expect(try await Self.judge(harness) == 1)
        let reading = try #require(try await readings(harness).first)
        #expect(reading.excluded == nil && reading.time.basis == .corrected)
        #expect(reading.time.instant == Build.instant("2026-11-20T19:30:00Z"))
    }

    @Test("a sample of another program that seemed to be of the future counts once the clock is put right, and once")
    func imported() async throws {
        let directory = Harness.newDirectory()
        let former = try await Harness.open(directory, now: Build.instant("2026-11-18T10:00:00Z"))
        let samples = ([0, 86_400, 3 * 86_400] as [Int64]).map { ImportTests.weight("155.4", at: $0) }
        let unplaced = ImportTests.weight("155.4", at: 60)
        let moment = BootTime(boot: "this", microseconds: 3 * 3600 * 1_000_000)
        let stored = try await former.add(samples, at: moment) + former.add([unplaced])
        #expect(stored == (samples + [unplaced]).map { ImportOutcome.stored($0.id, excluded: .implausibleTime) })
        try former.close()

        let harness = try await Harness(directory)
        #expect(try await Self.judge(harness) == 2)
        let after = try await harness.all()
        let exclusions: [Exclusion?] = [nil, nil, .implausibleTime, .implausibleTime]
        for (sample, exclusion) in zip(samples + [unplaced], exclusions) {
            let reading = try #require(after.first { $0.id == sample.id })
            #expect(reading.excluded == exclusion && reading.time == sample.time.resolved)
        }
        #expect(try await harness.store.groupsWaiting().map(\.count) == [2])
        #expect(try await Self.judge(harness) == 0)
        let again = try await harness.store.add(samples)
        #expect(again == samples.map { ImportOutcome.present($0.id) })
        #expect(try await harness.all().count == 4)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test(
        "how a new meter's clock compared with one that was behind is forgotten: what comes later is placed by the right one"
    )
    func firstComparison() async throws {
        let harness = try await Harness()
        func contact(_ frames: [Frame] = [], at start: String, showing time: String) async throws {
            let clock = ClockReading(deviceTime: Build.wall(time), readAt: Build.instant(start))
            try await harness.contact(frames, at: start, clock: clock)
        }
        // The meter is right, and seems to be three days ahead.
        try await contact(at: Self.start, showing: "2026-11-21T10:59:00")
        #expect(try await Self.judge(harness) == 0)
        // The rest of its memory comes once the clock is right.
        try await contact(
            [Build.glucose(1, "2026-11-10T09:00:00"), Build.glucose(2, "2026-11-21T11:30:00")],
            at: "2026-11-21T11:00:00Z", showing: "2026-11-21T12:00:00")
        let times = try await readings(harness).map(\.time)
        let instants = ["2026-11-10T08:00:00Z", "2026-11-21T10:30:00Z"].map(Build.instant)
        #expect(times.compactMap(\.instant) == instants)
        #expect(times.allSatisfy { $0.basis == .corrected && $0.uncertaintyMinutes == nil })
    }

    @Test("what still comes in the contact in which the clock is put right is not placed by the forgotten comparison")
    func comesMeanwhile() async throws {
        let harness = try await Harness()
        let start = Build.instant(Self.start)
        // The meter is right, and seems to be three days ahead.
        let clock = ClockReading(deviceTime: Build.wall("2026-11-21T10:59:00"), readAt: start)
        let contact = try await harness.store.beginContact(
            with: Build.device(), at: start, clock: clock, batteryPercent: nil)
        let first = Build.glucose(1, "2026-11-10T09:00:00", at: "2026-11-18T10:00:00Z")
        _ = try await harness.store.append([first], of: contact)
        #expect(try await Self.judge(harness) == 0)
        let second = Build.glucose(2, "2026-11-10T10:00:00", at: "2026-11-21T10:00:01Z")
        _ = try await harness.store.append([second], of: contact)
        try await harness.store.endContact(contact, ContactSummary(isComplete: true, received: 2))
        let times = try await readings(harness).map(\.time)
        #expect(times.compactMap(\.instant) == ["2026-11-07T08:00:00Z", "2026-11-10T09:00:00Z"].map(Build.instant))
        #expect(times.map(\.basis) == [.corrected, .assumedZone])
    }

    @Test("a meter whose clock was compared before keeps what is known of it")
    func laterComparison() async throws {
        let harness = try await Harness()
        for (start, time) in [
            ("2026-11-17T09:00:00Z", "2026-11-17T10:30:00"), (Self.start, "2026-11-18T11:29:00"),
        ] {
            let clock = ClockReading(deviceTime: Build.wall(time), readAt: Build.instant(start))
            try await harness.contact(at: start, clock: clock)
        }
        #expect(try await Self.judge(harness) == 0)
        let known = try await harness.store.read { db in
            try Int64.fetchAll(db, sql: "SELECT difference FROM clock_epoch")
        }
        #expect(known == [1800])
    }

    @Test("a record whose context is still to come waits for it")
    func awaitsContext() async throws {
        let harness = try await Harness(decoder: TestDecoder(awaitsSomeContexts: true))
        let frames = [Self.glucose(1, "2026-11-20T21:00:00")]
        try await harness.contact(frames, at: Self.start, isComplete: false)
        #expect(try await Self.judge(harness) == 1)
        #expect(try await harness.store.groupsWaiting().isEmpty)
        #expect(try await harness.store.groupsAwaitingContext().map(\.count) == [1])
        try await harness.contact(frames, at: "2026-11-21T10:30:00Z")
        #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
        #expect(try await harness.store.verify().isEmpty)
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        @Test(
            "promise 1: a kill while times are judged again leaves that to the next start, or done",
            arguments: ["redecode.before-commit", "redecode.after-commit"])
        func kill(point: String) async throws {
            let directory = Harness.newDirectory()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                let harness = try await Harness(directory)
                try await harness.contact(
                    [ClockStepTests.glucose(1, "2026-11-20T21:00:00")], at: ClockStepTests.start)
                _ = try await ClockStepTests.judge(harness)
            }
            let harness = try await Harness(directory)
            let isDone = point == "redecode.after-commit"
            #expect(try await Self.judge(harness) == (isDone ? 0 : 1))
            #expect(try await readings(harness).map(\.excluded) == [nil])
            #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
            #expect(try await harness.store.verify().isEmpty)
        }
    #endif
}
