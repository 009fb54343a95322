import HealthReadings
import Testing

/// Clocks that were reset, set, or lost their battery between two contacts: never silently bridged.
@Suite struct EarlierClockTests {
    private let berlin = ZoneRules.named("Europe/Berlin")

    private func instant(_ text: String) throws -> Instant { try #require(Instant(rfc3339: text)) }

    private func resolve(
        _ deviceTime: String, now difference: Int64, readAt: String, before: Int64, lastReadAt: String,
        offset: Int16? = nil, byBaseTime: Bool = false
    ) throws -> ResolvedTime {
        let zone = try #require(berlin)
        let times = TimeResolution(
            zone: zone,
            clock: ClockComparison(differenceSeconds: difference, readAt: try instant(readAt)),
            earlier: [
                .init(
                    ClockComparison(differenceSeconds: before, readAt: try instant(lastReadAt)),
                    changedBy: try instant(readAt))
            ])
        let record = Record(
            value: .glucose(GlucoseValue(concentration: nil)), sequence: 1, baseTime: WallTime(deviceTime),
            timeOffsetMinutes: offset)
        return times.resolve(record, receivedAt: try instant(readAt), byBaseTime: byBaseTime) { nil }
    }

    private let monday = "2026-11-16T09:00:00Z"
    private let thursday = "2026-11-19T09:00:00Z"
    /// 2010-01-01T00:30 on the device's wall when Berlin's shows 2026-11-19T10:00.
    private let reset: Int64 = -532_776_600

    @Test("promise 7: records before a battery change are placed by the clock before it, those after by the new one")
    func batteryChange() throws {
        let before = try resolve("2026-11-17T08:00:00", now: reset, readAt: thursday, before: 0, lastReadAt: monday)
        #expect(before.instant == (try instant("2026-11-17T07:00:00Z")) && before.basis == .corrected)
        #expect(before.clock?.differenceSeconds == 0 && before.uncertaintyMinutes == nil)
        let after = try resolve("2010-01-01T00:20:00", now: reset, readAt: thursday, before: 0, lastReadAt: monday)
        #expect(after.instant == (try instant("2026-11-19T08:50:00Z")) && after.uncertaintyMinutes == nil)
        #expect(after.clock?.differenceSeconds == reset)
    }

    @Test("a clock that was set back has shown an hour twice: what falls into it says how uncertain it is")
    func setBack() throws {
        let doubtful = try resolve("2026-11-18T08:00:00", now: 0, readAt: thursday, before: 3600, lastReadAt: monday)
        #expect(doubtful.instant == (try instant("2026-11-18T07:00:00Z")) && doubtful.uncertaintyMinutes == 60)
        // By the old clock it lies behind the change: it was made by the new one.
        let late = try resolve("2026-11-19T10:30:00", now: 3600, readAt: thursday, before: 0, lastReadAt: monday)
        #expect(late.instant == (try instant("2026-11-19T08:30:00Z")) && late.uncertaintyMinutes == nil)
        // By the new clock it was made before the last contact: it was made by the old one.
        let old = try resolve("2026-11-16T09:30:00", now: 0, readAt: thursday, before: -7200, lastReadAt: monday)
        #expect(old.instant == (try instant("2026-11-16T10:30:00Z")) && old.uncertaintyMinutes == nil)
    }

    @Test("a clock that was set forward is placed by the newer comparison; when it was set nobody knows")
    func setForward() throws {
        let time = try resolve("2026-11-18T08:37:00", now: 2220, readAt: thursday, before: 0, lastReadAt: monday)
        #expect(time.instant == (try instant("2026-11-18T07:00:00Z")) && time.uncertaintyMinutes == 37)
        // By the old clock it lies before the contact that read that one, and still may have been made by it.
        let old = try resolve("2026-11-16T10:20:00", now: 2220, readAt: thursday, before: 0, lastReadAt: monday)
        #expect(old.instant == (try instant("2026-11-16T09:20:00Z")) && old.uncertaintyMinutes == nil)
    }

    @Test(
        "promise 7: a clock that was right before a change of clocks and is after it says nothing of the days between",
        arguments: [
            // Contacts on 24 and 29 October; the change was on the 25th.
            ("2026-10-24T12:00:00", "2026-10-24T10:00:00Z", nil as Int?),
            ("2026-10-26T09:00:00", "2026-10-26T08:00:00Z", 60), ("2026-10-29T10:00:00", "2026-10-29T09:00:00Z", 60),
        ])
    func movedByHand(shown: String, expected: String, uncertainty: Int?) throws {
        let time = try resolve(
            shown, now: 0, readAt: "2026-10-29T09:30:00Z", before: 0, lastReadAt: "2026-10-24T09:00:00Z")
        #expect(time.instant == (try instant(expected)) && time.uncertaintyMinutes == uncertainty)
    }

    @Test("a record is placed by whichever of several clocks can have made it, the newest first")
    func severalClocks() throws {
        let zone = try #require(berlin)
        let (wednesday, tuesday) = ("2026-11-18T09:00:00Z", "2026-11-17T18:00:00Z")
        func times(now: Int64, _ between: Int64, first: Int64) throws -> TimeResolution {
            TimeResolution(
                zone: zone, clock: ClockComparison(differenceSeconds: now, readAt: try instant(thursday)),
                earlier: [
                    .init(
                        ClockComparison(differenceSeconds: between, readAt: try instant(wednesday)),
                        changedBy: try instant(thursday)),
                    .init(
                        ClockComparison(differenceSeconds: first, readAt: try instant(monday)),
                        changedBy: try instant(wednesday)),
                ])
        }
        func time(_ shown: String, _ times: TimeResolution) throws -> ResolvedTime {
            let record = Record(
                value: .glucose(GlucoseValue(concentration: nil)), sequence: 1, baseTime: WallTime(shown))
            return times.resolve(record, receivedAt: try instant(thursday)) { nil }
        }
        // Its battery was put in twice: both resets are in the past of no record.
        let twice = try time("2026-11-17T08:00:00", times(now: reset - 90_000, reset, first: 0))
        #expect(twice.instant == (try instant("2026-11-17T07:00:00Z")) && twice.uncertaintyMinutes == nil)
        // It was 37 minutes fast, lost its time, and was set right in the contact that saw that.
        let set = try times(now: 0, reset, first: 2220)
        let old = try time("2026-11-17T19:37:00", set)
        #expect(old.instant == (try instant(tuesday)) && old.uncertaintyMinutes == nil)
        #expect(try time("2026-11-18T20:00:00", set).instant == (try instant("2026-11-18T19:00:00Z")))
        // None of them can have made it.
        let never = try time("2028-01-01T00:00:00", set)
        #expect(never.instant == (try instant("2027-12-31T23:00:00Z")) && never.uncertaintyMinutes == nil)
    }

    @Test("a clock that ran on while its user's zone changed was not changed")
    func zoneChange() throws {
        // Berlin leaves summer time on 2026-10-25; the device does not.
        let before = try resolve(
            "2026-10-24T12:00:00", now: 3600, readAt: "2026-10-26T09:00:00Z", before: 0,
            lastReadAt: "2026-10-23T09:00:00Z")
        #expect(before.instant == (try instant("2026-10-24T10:00:00Z")) && before.uncertaintyMinutes == nil)
        let after = try resolve(
            "2026-10-26T08:00:00", now: 3600, readAt: "2026-10-26T09:00:00Z", before: 0,
            lastReadAt: "2026-10-23T09:00:00Z")
        #expect(after.instant == (try instant("2026-10-26T06:00:00Z")) && after.uncertaintyMinutes == nil)
    }

    @Test("a clock that shows base time corrects the base time, whatever the user has moved it by")
    func baseTime() throws {
        let time = try resolve(
            "2026-11-18T08:00:00", now: 600, readAt: thursday, before: 600, lastReadAt: monday, offset: 120,
            byBaseTime: true)
        #expect(time.instant == (try instant("2026-11-18T06:50:00Z")))
        let shown = try resolve(
            "2026-11-18T08:00:00", now: 600, readAt: thursday, before: 600, lastReadAt: monday, offset: 120)
        #expect(shown.instant == (try instant("2026-11-18T08:50:00Z")))
    }

    @Test(
        "two gateways that read one meter give the same times, as long as they see its clock within a minute's rounding"
    )
    func twoGateways() throws {
        let zone = try #require(berlin)
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            // At two minutes, from where on a difference counts, one second more or less decides.
            let minutes =
                ([-2000 ... -3, -1...1, 3...2000].randomElement(using: &generator) ?? -1...1)
                .randomElement(using: &generator) ?? 0
            // Each reads at another time, sees the clock to the second, and the clock drifts between.
            let seen = (0..<2).map { _ in Int64(minutes) * 60 + Int64.random(in: -25...25, using: &generator) }
            let wall = WallTime(secondsSinceEpoch: 1_795_000_000 - Int64.random(in: 0...4_000_000, using: &generator))
            let record = Record(
                value: .glucose(GlucoseValue(concentration: nil)), sequence: 1, baseTime: wall)
            let times = seen.enumerated().map { number, difference in
                TimeResolution(
                    zone: zone,
                    clock: ClockComparison(
                        differenceSeconds: difference, readAt: Instant(seconds: 1_795_000_000 + Int64(number) * 7000))
                ).resolve(record, receivedAt: Instant(seconds: 1_795_010_000)) { nil }.instant
            }
            #expect(times[0] == times[1], "\(seen)")
        }
    }
}
