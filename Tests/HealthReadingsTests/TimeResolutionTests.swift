import Foundation
import HealthReadings
import Testing

@Suite("Time resolution")
struct TimeResolutionTests {
    private func wall(_ text: String) throws -> WallTime { try #require(WallTime(text)) }
    private func instant(_ text: String) throws -> Instant { try #require(Instant(rfc3339: text)) }

    private func glucose(_ time: String?, offset: Int16? = nil, unknownOffset: Bool = false) throws -> Record {
        Record(
            value: .glucose(GlucoseValue(concentration: nil)), sequence: 5, baseTime: try time.map(wall),
            timeOffsetMinutes: offset, timeOffsetIsUnknown: unknownOffset)
    }

    private func resolve(
        _ record: Record, in zone: String, clock: ClockComparison? = nil, at received: String = "2026-12-01T00:00:00Z",
        preceding: Instant? = nil
    ) throws -> ResolvedTime {
        let rules = try #require(ZoneRules.named(zone))
        return TimeResolution(zone: rules, clock: clock)
            .resolve(record, receivedAt: try instant(received)) { preceding }
    }

    @Test(
        "a wall time is once, twice or never on a zone's clock",
        arguments: [
            ("Europe/Berlin", "2026-07-01T12:00:00", "2026-07-01T10:00:00Z", "2026-07-01T10:00:00Z"),
            ("Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("Europe/Berlin", "2026-10-25T03:00:00", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z"),
            ("Europe/Berlin", "2026-03-29T02:30:00", "2026-03-29T01:30:00Z", "never"),
            ("America/New_York", "2026-11-01T01:30:00", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
            ("America/New_York", "2026-03-08T02:30:00", "2026-03-08T07:30:00Z", "never"),
            ("Australia/Lord_Howe", "2026-04-05T01:45:00", "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"),
            ("Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:45:00Z", "never"),
            ("Africa/Casablanca", "2024-03-10T02:30:00", "2024-03-10T01:30:00Z", "2024-03-10T02:30:00Z"),
            ("Africa/Casablanca", "2024-04-14T02:30:00", "2024-04-14T02:30:00Z", "never"),
            ("Asia/Kathmandu", "2026-11-20T13:30:00", "2026-11-20T07:45:00Z", "2026-11-20T07:45:00Z"),
            ("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T22:00:00Z", "never"),
            ("Pacific/Apia", "2011-12-29T12:00:00", "2011-12-29T22:00:00Z", "2011-12-29T22:00:00Z"),
        ])
    func moments(zone: String, time: String, earlier: String, later: String) throws {
        let moment = try #require(ZoneRules.named(zone)).moment(try wall(time))
        let first = try instant(earlier)
        switch (later, later == earlier) {
        case ("never", _): #expect(moment == .never(movedForward: first))
        case (_, true): #expect(moment == .once(first))
        default: #expect(moment == .twice(earlier: first, later: try instant(later)))
        }
    }

    @Test("promise 11: the host's zone never matters")
    func hostZone() async {
        // In a process of its own: the environment belongs to every thread.
        await #expect(processExitsWith: .success) {
            let suite = TimeResolutionTests()
            for host in ["Pacific/Kiritimati", "America/St_Johns", "", "EST5EDT"] {
                setenv("TZ", host, 1)
                tzset()
                NSTimeZone.resetSystemTimeZone()
                let time = try suite.resolve(try suite.glucose("2026-07-01T12:00:00"), in: "Europe/Berlin")
                let expected = ResolvedTime(instant: try suite.instant("2026-07-01T10:00:00Z"), basis: .assumedZone)
                guard time == expected else { exit(1) }
            }
        }
    }

    @Test("zones agree with Python's zoneinfo at random times, half of them within hours of a change of clocks")
    func zoneinfo() throws {
        let seed = UInt64.random(in: 0 ... .max)
        let zones = [
            "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu",
            "Pacific/Apia", "America/Caracas", "Asia/Pyongyang",
        ]
        // At random times alone hardly any would be in an hour that is repeated or missing.
        let script = """
            import datetime, random, sys, zoneinfo
            random.seed(int(sys.argv[1]))
            first, last = 1_293_840_000, 1_767_225_600
            for name in sys.argv[2:]:
                zone = zoneinfo.ZoneInfo(name)
                def offset(second):
                    return int(datetime.datetime.fromtimestamp(second, zone).utcoffset().total_seconds())
                changes = []
                for before in range(first, last, 43_200):
                    after = before + 43_200
                    if offset(before) == offset(after):
                        continue
                    while after - before > 1:
                        middle = (before + after) // 2
                        before, after = (middle, after) if offset(middle) == offset(before) else (before, middle)
                    changes.append(after + offset(before))
                for number in range(500):
                    wall = random.randrange(first, last)
                    if changes and number % 2:
                        wall = random.choice(changes) + random.randrange(-10_800, 10_800)
                    wall = wall // 900 * 900
                    shown = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=wall)
                    print(name, wall, *(int(shown.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1)))
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", script, String(seed)] + zones
        let output = FileManager.default.temporaryDirectory.appendingPathComponent("zones-\(UUID())")
        _ = FileManager.default.createFile(atPath: output.path, contents: nil)
        defer { try? FileManager.default.removeItem(at: output) }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: output)
        try process.run()
        process.waitUntilExit()
        let lines = try String(contentsOf: output, encoding: .utf8).split(separator: "\n")
        try #require(lines.count == 500 * zones.count)
        var (repeated, missing) = (0, 0)
        for line in lines {
            let parts = line.split(separator: " ")
            let numbers = parts.dropFirst().compactMap { Int64($0) }
            try #require(parts.count == 4 && numbers.count == 3, "\(line)")
            let (wall, first, second) = (WallTime(secondsSinceEpoch: numbers[0]), numbers[1], numbers[2])
            let moment = try #require(ZoneRules.named(String(parts[0]))).moment(wall)
            let expected: ZoneRules.Moment =
                first == second
                ? .once(Instant(seconds: first))
                : first < second
                    ? .twice(earlier: Instant(seconds: first), later: Instant(seconds: second))
                    : .never(movedForward: Instant(seconds: first))
            #expect(moment == expected, "\(parts[0]) \(wall), seed \(seed)")
            if first < second { repeated += 1 }
            if first > second { missing += 1 }
        }
        #expect(repeated > 30 && missing > 30)
    }

    @Test("without a readable clock a record is in the user's zone, offset included")
    func assumedZone() throws {
        let time = try resolve(try glucose("2026-11-20T12:30:00", offset: 60), in: "Europe/Berlin")
        #expect(time == ResolvedTime(instant: try instant("2026-11-20T12:30:00Z"), basis: .assumedZone))
    }

    @Test("a clock 37 minutes fast is corrected by whole minutes")
    func corrected() throws {
        let clock = ClockComparison(differenceSeconds: 37 * 60 + 12, readAt: try instant("2026-11-20T12:41:07Z"))
        let time = try resolve(try glucose("2026-11-20T13:37:00"), in: "Europe/Berlin", clock: clock)
        #expect(time.instant == (try instant("2026-11-20T12:00:00Z")))
        #expect(time.basis == .corrected)
        #expect(time.clock == clock)
        #expect(time.uncertaintyMinutes == nil)
    }

    @Test("under two minutes of difference counts as none")
    func smallDifference() throws {
        let clock = ClockComparison(differenceSeconds: -119, readAt: try instant("2026-11-20T12:41:07Z"))
        let time = try resolve(try glucose("2026-11-20T13:00:00"), in: "Europe/Berlin", clock: clock)
        #expect(time.instant == (try instant("2026-11-20T12:00:00Z")))
    }

    @Test("a clock reset to another year is corrected on the user's wall, not on the reset one")
    func resetClock() throws {
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        let reading = ClockReading(
            deviceTime: try wall("2019-07-01T01:00:00"), readAt: try instant("2026-11-20T12:00:00Z"))
        let clock = ClockComparison(reading, zone: zone)
        let time = try resolve(try glucose("2019-07-01T00:30:00"), in: "Europe/Berlin", clock: clock)
        #expect(time.instant == (try instant("2026-11-20T11:30:00Z")))
    }

    @Test(
        "a meter that has not followed the change of clocks keeps its summer records where they were, as far as it is right",
        arguments: [0, 3, 29, 31, -31, 60, -60, 119, -119, 150, 300, -300, 590, -590])
    func unchangedClock(error: Int64) throws {
        func times(_ difference: Int64, _ readAt: String) throws -> ClockComparison {
            ClockComparison(differenceSeconds: difference, readAt: try instant(readAt))
        }
        let clock = try times(3600 + error, "2026-11-20T12:00:00Z")
        let summer = try resolve(try glucose("2026-10-01T08:00:00"), in: "Europe/Berlin", clock: clock)
        let expected = try instant("2026-10-01T06:00:00Z").advanced(bySeconds: -error)
        #expect(abs(try #require(summer.instant).seconds - expected.seconds) <= 30)
        #expect(summer.uncertaintyMinutes == (abs(error) <= 120 ? nil : 60))
        let winter = try resolve(try glucose("2026-11-20T08:00:00"), in: "Europe/Berlin", clock: clock)
        #expect(
            winter.instant
                == Instant(
                    seconds: try wall("2026-11-20T07:00:00").secondsSinceEpoch - clock.correctionSeconds))
        #expect(winter.uncertaintyMinutes == nil)
        // Left in winter time, in summer.
        let left = try times(-3600 + error, "2026-07-20T12:00:00Z")
        let former = try resolve(try glucose("2026-03-01T08:00:00"), in: "Europe/Berlin", clock: left)
        let then = try instant("2026-03-01T07:00:00Z").advanced(bySeconds: -error)
        #expect(abs(try #require(former.instant).seconds - then.seconds) <= 30)
        // Half an hour, on Lord Howe: summer time ends on 2026-04-05.
        guard abs(error) <= 60 else { return }
        let island = try times(1800 + error, "2026-06-20T12:00:00Z")
        let warm = try resolve(try glucose("2026-03-20T08:00:00"), in: "Australia/Lord_Howe", clock: island)
        let morning = try instant("2026-03-19T21:00:00Z").advanced(bySeconds: -error)
        #expect(abs(try #require(warm.instant).seconds - morning.seconds) <= 30)
    }

    @Test(
        "a clock that differs by more than a change of clocks and some minutes was set wrong, and moved with the user's"
    )
    func setWrong() throws {
        let clock = ClockComparison(differenceSeconds: 3600 + 1200, readAt: try instant("2026-11-20T12:00:00Z"))
        let summer = try resolve(try glucose("2026-10-01T08:00:00"), in: "Europe/Berlin", clock: clock)
        #expect(summer.instant == (try instant("2026-10-01T04:40:00Z")) && summer.uncertaintyMinutes == nil)
    }

    @Test(
        "promise 7: a clock that was seen not to follow a change of clocks keeps its distance to UTC across it",
        arguments: [
            // Left in winter time: an hour slow in summer, and right again.
            ("2026-10-24T20:25:00", "2026-10-24T19:25:00Z"), ("2026-10-25T01:30:00", "2026-10-25T00:30:00Z"),
            ("2026-10-25T02:30:00", "2026-10-25T01:30:00Z"), ("2026-10-25T06:00:00", "2026-10-25T05:00:00Z"),
            // Outside of the two readings its time is the zone's.
            ("2026-10-19T12:00:00", "2026-10-19T10:00:00Z"), ("2026-10-26T12:00:00", "2026-10-26T11:00:00Z"),
        ])
    func leftInWinterTime(shown: String, expected: String) throws {
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        let clock = ClockComparison(differenceSeconds: 3, readAt: try instant("2026-10-27T07:00:00Z"))
        let times = TimeResolution(
            zone: zone, clock: clock,
            unfollowed: .init(since: try instant("2026-10-20T07:00:00Z"), until: try instant("2026-10-25T07:00:00Z")))
        let time = times.resolve(try glucose(shown), receivedAt: clock.readAt) { nil }
        #expect(time == ResolvedTime(instant: try instant(expected), basis: .corrected, clock: clock))
        // A record that says by its offset that its wall was moved is by that wall.
        guard shown < "2026-10-25" else { return }
        let moved = times.resolve(try glucose(shown, offset: 60), receivedAt: clock.readAt) { nil }
        let unmoved = try resolve(try glucose(shown, offset: 60), in: "Europe/Berlin", clock: clock)
        #expect(moved == unmoved)
    }

    @Test(
        "a repeated hour is the earlier one unless the order of numbers proves the later; a missing one moves forward")
    func changeOfClocks() throws {
        let record = try glucose("2026-10-25T02:30:00")
        let earlier = try resolve(record, in: "Europe/Berlin", preceding: try instant("2026-10-25T00:10:00Z"))
        #expect(earlier.instant == (try instant("2026-10-25T00:30:00Z")))
        #expect(earlier.uncertaintyMinutes == 60)
        let later = try resolve(record, in: "Europe/Berlin", preceding: try instant("2026-10-25T00:50:00Z"))
        #expect(later.instant == (try instant("2026-10-25T01:30:00Z")))
        #expect(later.uncertaintyMinutes == 60)
        let missing = try resolve(try glucose("2026-03-29T02:30:00"), in: "Europe/Berlin")
        #expect(missing.instant == (try instant("2026-03-29T01:30:00Z")))
        #expect(missing.uncertaintyMinutes == 60)
    }

    @Test("promise 7: no instant is invented")
    func noTime() throws {
        for record in [try glucose(nil), try glucose("2026-11-20T12:30:00", unknownOffset: true)] {
            let time = try resolve(record, in: "Europe/Berlin")
            #expect(time == ResolvedTime(instant: nil, basis: .unknown))
            #expect(TimeResolution.exclusion(of: time, receivedAt: Instant(seconds: 1_800_000_000)) == .noTime)
        }
    }

    @Test("a blood pressure without a time was made when it was received")
    func reception() throws {
        let mmHg = Quantity(ExactDecimal(significand: 120), .millimetresOfMercury)
        let record = Record(
            value: .bloodPressure(BloodPressureValue(systolic: mmHg, diastolic: mmHg, meanArterial: mmHg)))
        let time = try resolve(record, in: "Asia/Kathmandu", at: "2026-11-21T10:00:00.75Z")
        #expect(time == ResolvedTime(instant: try instant("2026-11-21T10:00:00Z"), basis: .reception))
    }

    @Test("an instant after its reception or before such devices existed is implausible")
    func implausible() throws {
        let received = try instant("2026-11-21T10:00:00Z")
        func exclusion(_ text: String) throws -> Exclusion? {
            TimeResolution.exclusion(
                of: ResolvedTime(instant: try instant(text), basis: .assumedZone), receivedAt: received)
        }
        #expect(try exclusion("2026-11-22T10:00:00Z") == nil)
        #expect(try exclusion("2026-11-22T10:00:01Z") == .implausibleTime)
        #expect(try exclusion("2009-12-31T23:59:59Z") == .implausibleTime)
        #expect(try exclusion("2010-01-01T00:00:00Z") == nil)
    }
}
