import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Journal")
struct JournalTests {
    @Test("every field of a reading comes back as it was stored")
    func roundTrip() async throws {
        let harness = try await Harness()
        let clock = ClockReading(
            deviceTime: Build.wall("2026-11-21T11:37:20"), readAt: Build.instant("2026-11-21T10:00:00Z"))
        let outcomes = try await harness.contact(
            [
                Build.glucose(5, "2026-11-21T09:30:00", offset: 60, status: 1), Build.context(5, meal: 3, rich: true),
                Build.pressure(127, "2026-11-21T08:00:00", user: 1), Build.glucose(6, nil, nil),
            ], clock: clock)
        #expect(outcomes.map(\.name) == ["new", "revised", "new", "new"])
        let readings = try await harness.all()
        #expect(readings.count == 3)
        let glucose = try #require(readings.first { $0.record.sequence == 5 })
        let read = try #require(await harness.store.reading(glucose.id))
        #expect(read == glucose)
        #expect(outcomes[1].changedReading == glucose)
        #expect(glucose.context?.meal == "fasting")
        #expect(glucose.context?.carbohydrate?.amount.number == .value(ExactDecimal(significand: 25, exponent: -1)))
        #expect(glucose.context?.exercise == .init(seconds: nil, intensityPercent: 40))
        #expect(glucose.context?.hba1c?.unit == .percent)
        #expect(glucose.record.status == .deviceBatteryLow)
        #expect(glucose.time.basis == .corrected)
        #expect(glucose.time.clock?.differenceSeconds == 2240)
        #expect(glucose.time.instant == Build.instant("2026-11-21T08:53:00Z"))
        let pressure = try #require(readings.first { $0.kind == .bloodPressure })
        #expect(pressure == outcomes[2].changedReading)
        #expect(pressure.record.userSlot == 1)
        #expect(pressure.deliveries == [.init(destination: "vital", state: .held(.noSource))])
        let excluded = try #require(readings.first { $0.record.sequence == 6 })
        #expect(excluded.excluded == .notANumber)
        #expect(excluded.deliveries.isEmpty)
        #expect(readings.last == excluded)
    }

    @Test("promise 9: what a reading waits for is told by the rules as they stand, also in the middle of a contact")
    func rulesMeanwhile() async throws {
        let harness = try await Harness()
        let store = harness.store
        let contact = try await store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T10:00:00Z"), clock: nil, batteryPercent: nil)
        func next(_ number: UInt16) async throws -> Hold? {
            let frame = Build.glucose(number, "2026-11-21T08:\(10 + number):00")
            return try await store.append([frame], of: contact).first?.changedReading?.deliveries.first?.hold
        }
        let user = try await store.currentUser().key
        #expect(try await next(1) == .noSource)
        try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: .connected), user: user)
        #expect(try await next(2) == nil)
        try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: .revoked), user: user)
        #expect(try await next(3) == .sourceRevoked)
        try await store.setSyncEnabled(false)
        #expect(try await next(4) == .syncDisabled)
        // Another transaction may have made rows meanwhile.
        _ = try await store.redecode()
        try await store.setSyncEnabled(true)
        #expect(try await next(5) == .sourceRevoked)
        #expect(try await harness.all().count == 5)
        #expect(try await store.verify().isEmpty)
    }

    @Test("promise 2: reading everything again is a no-op")
    func rereading() async throws {
        let harness = try await Harness()
        let frames =
            (0..<20).map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) }
            + [Build.context(3, meal: 1), Build.pressure(127, "2026-11-21T08:00:00"), Build.context(99, meal: 1)]
            + [
                Frame(
                    format: .init(characteristic: 0x2A18), payload: [1, 2], receivedAt: Instant(seconds: 1), ordinal: 9)
            ]
        try await harness.contact(frames)
        let (readings, before) = (try await harness.all(), try await harness.store.statistics())
        for round in 0..<3 {
            let outcomes = try await harness.contact(frames, at: "2026-11-21T1\(round):59:00Z")
            #expect(Set(outcomes.map(\.name)) == ["repeated", "waiting", "malformed"])
        }
        let after = try await harness.store.statistics()
        #expect(try await harness.all() == readings)
        #expect(after.frames == before.frames)
        #expect(after.waiting == before.waiting)
        #expect(after.waitingContexts == 1)
        #expect(after.malformedFrames == 1)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a changed status is a revision: same id, both frames kept, sent again at the same timestamp")
    func revision() async throws {
        let harness = try await Harness()
        let first = try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00")])
        let user = try await harness.store.currentUser().key
        func batch() async throws -> [OutboxItem] {
            try await harness.store.outboxBatch(user: user, resource: .glucose, provider: "accuchek_ble", limit: 10)
        }
        let sent = try await batch()
        try await harness.store.acknowledge(sent.map(\.id), at: Instant(seconds: 1))
        #expect(try await batch().isEmpty)
        let second = try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00", status: 1)])
        #expect(second.map(\.name) == ["revised"])
        #expect(second[0].changedReading?.id == first[0].changedReading?.id)
        let again = try await batch()
        #expect(again.map(\.timestamp) == sent.map(\.timestamp))
        #expect(again[0].reading.record.status == .deviceBatteryLow)
        // An acknowledgement of what was sent before the revision leaves the revision waiting.
        try await harness.store.acknowledge(sent.map(\.id), at: Instant(seconds: 2))
        #expect(try await batch() == again)
        #expect(try await harness.store.statistics().frames == 2)
        // The older frame once more: nothing goes back.
        #expect(try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00")]).map(\.name) == ["repeated"])
        #expect(try await harness.all()[0].record.status == .deviceBatteryLow)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a revision that says the measurement failed withdraws the reading; the reverse queues it")
    func exclusionChanges() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00")])
        #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
        try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00", status: 1 << 10)])
        #expect(try await harness.store.groupsWaiting().isEmpty)
        #expect(try await harness.all()[0].excluded == .errorRecord)
        try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00", status: 1)])
        #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
        try await harness.contact([Build.glucose(6, "2026-11-21T09:31:00", status: 1 << 10)])
        #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
        try await harness.contact([Build.glucose(6, "2026-11-21T09:31:00")])
        #expect(try await harness.store.groupsWaiting().map(\.count) == [2])
    }

    @Test("the same number and base time with another value is a clash: both are kept, and re-read as they are")
    func clash() async throws {
        let harness = try await Harness()
        let frames = [100, 101, 102].map { Build.glucose(5, "2026-11-21T09:30:00", $0) }
        let outcomes = try await harness.contact(frames)
        #expect(outcomes.map(\.name) == ["new", "clash", "clash"])
        guard case .clash(_, with: let other) = outcomes[2] else {
            Issue.record("\(outcomes[2])")
            return
        }
        #expect(other == outcomes[0].changedReading?.id)
        #expect(Set(try await harness.all().map(\.id)).count == 3)
        #expect(try await harness.contact(frames.reversed()).map(\.name) == ["repeated", "repeated", "repeated"])
        let user = try await harness.store.currentUser().key
        let batch = try await harness.store.outboxBatch(
            user: user, resource: .glucose, provider: "accuchek_ble", limit: 10)
        let first = Build.instant("2026-11-21T08:30:00Z")
        #expect(batch.map(\.timestamp) == [first, first.advanced(bySeconds: 1), first.advanced(bySeconds: 2)])
        #expect(batch.map(\.originalTime) == [nil, first, first])
    }

    @Test("what was scanned and what was pricked share a second: to the server they are two, whichever meter says it")
    func interstitialFluid() async throws {
        let harness = try await Harness()
        let time = "2026-11-21T08:00:00"
        try await harness.contact([
            Build.glucose(1, time, 95), Build.glucose(2, time, 96, type: 0x19), Build.glucose(3, time, 97, type: 0x19),
        ])
        let user = try await harness.store.currentUser()
        let batch = try await harness.store.outboxBatch(
            user: user.key, resource: .glucose, provider: "accuchek_ble", limit: 10)
        let seconds = Dictionary(
            uniqueKeysWithValues: batch.map {
                ($0.reading.record.sequence, $0.timestamp.seconds - Build.instant("2026-11-21T07:00:00Z").seconds)
            })
        #expect(seconds == [1: 0, 2: 0, 3: 1])
    }

    @Test("a context joins its record whichever comes first", arguments: [true, false])
    func contextOrder(contextFirst: Bool) async throws {
        let harness = try await Harness()
        let frames = [Build.glucose(5, "2026-11-21T09:30:00"), Build.context(5, meal: 5)]
        let outcomes = try await harness.contact(contextFirst ? frames.reversed() : frames)
        #expect(outcomes.map(\.name) == (contextFirst ? ["waiting", "new"] : ["new", "revised"]))
        #expect(outcomes[1].changedReading?.context?.meal == "bedtime")
        #expect(try await harness.all()[0].context?.meal == "bedtime")
        #expect(try await harness.store.statistics().waitingContexts == 0)
    }

    @Test("a context joins the record of its own contact before another with the same number")
    func contextOfClash() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(5, "2026-11-21T09:30:00", 100), Build.context(5, meal: 1)])
        // Context first, taken for the old record's until its own comes.
        try await harness.contact([Build.context(5, meal: 2), Build.glucose(5, "2026-11-21T09:30:00", 101)])
        let meals = try await harness.all().map {
            "\($0.record.value == Self.value(100) ? 100 : 101) \($0.context?.meal ?? "")"
        }
        #expect(Set(meals) == ["100 preprandial", "101 postprandial"])
    }

    @Test("a contact knows its records still when another has begun, or its device's clock was noted")
    func contextOfClashBesideOthers() async throws {
        let store = try await Harness().store
        let contact = try await store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        _ = try await store.append(
            [Build.glucose(5, "2026-11-21T09:30:00", 100), Build.context(5, meal: 1)], of: contact)
        _ = try await store.beginContact(
            with: Build.device(0xC000_0000_1809), at: Build.instant("2026-11-21T10:00:00Z"), clock: nil,
            batteryPercent: nil)
        // The context is the first record's, and not taken for the other's: the first came here too.
        let clash = try await store.append([Build.glucose(5, "2026-11-21T09:30:00", 101)], of: contact)
        #expect(clash[0].name == "clash" && clash[0].changedReading?.context == nil)
        let clock = ClockReading(
            deviceTime: Build.wall("2026-11-21T11:00:30"), readAt: Build.instant("2026-11-21T10:00:30Z"))
        let noted = try await store.noteClock(clock, in: contact)
        // It came last of the two, though another of its number is newer.
        _ = try await store.append([Build.glucose(5, "2026-11-21T09:30:00", 100)], of: noted)
        _ = try await store.noteClock(clock, in: noted)
        let revised = try await store.append([Build.context(5, meal: 3)], of: noted)
        #expect(revised[0].changedReading?.record.value == Self.value(100))
        #expect(revised[0].changedReading?.context?.meal == "fasting")
        #expect(try await store.verify().isEmpty)
    }

    private static func value(_ number: Int64) -> RecordValue {
        .glucose(
            GlucoseValue(
                concentration: Quantity(ExactDecimal(significand: number), .milligramsPerDecilitre),
                sampleType: .capillaryWholeBlood, sampleLocation: .finger))
    }

    @Test("a new sequence epoch keeps equal numbers apart, and a context stays in its epoch")
    func epochs() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([Build.glucose(5, "2026-11-20T09:30:00", 100), Build.context(5, meal: 1)])
        let contact = try await store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T11:00:00Z"), clock: nil, batteryPercent: nil)
        #expect(
            try await store.lastRecord(of: contact)
                == LastRecord(
                    sequence: 5, baseTime: Build.wall("2026-11-20T09:30:00"),
                    time: Build.instant("2026-11-20T08:30:00Z"), count: 1, followsCompleteTransfer: true))
        let renewed = try await store.beginSequenceEpoch(in: contact)
        #expect(renewed.sequenceEpoch == 1)
        #expect(try await store.lastRecord(of: renewed) == nil)
        let outcomes = try await store.append(
            [Build.context(5, meal: 2), Build.glucose(5, "2026-11-21T08:30:00", 100)], of: renewed)
        #expect(outcomes.map(\.name) == ["waiting", "new"])
        #expect(Set(try await harness.all().map { $0.context?.meal }) == ["preprandial", "postprandial"])
        // An old record read again under the new epoch is the old record.
        #expect(
            try await store.append([Build.glucose(5, "2026-11-20T09:30:00", 100)], of: renewed).map(\.name) == [
                "repeated"
            ])
    }

    @Test("an older contact of a capture begins no sequence epoch, and hides nothing of what a later one left behind")
    func olderContact() async throws {
        let (harness, undisturbed) = (try await Harness(), try await Harness())
        let store = harness.store
        let (early, late) = ("2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z")
        let frames = (1...4).map { Build.glucose(UInt16($0), "2026-11-20T0\($0):30:00", 100) }
        try await undisturbed.contact(Array(frames[..<2]), at: early)
        try await undisturbed.contact(Array(frames[2...]), at: late)

        // The second contact was cut, and both captures are read again.
        try await harness.contact(Array(frames[..<2]), at: early)
        let cut = try await begin(harness, at: late)
        _ = try await store.append([frames[2]], of: cut)
        var older = try await begin(harness, at: early)
        older = try await store.beginSequenceEpoch(in: older)
        #expect(older.sequenceEpoch == 0, "its numbers are lower because they are older")
        #expect(try await store.append(Array(frames[..<2]), of: older).map(\.name) == ["repeated", "repeated"])
        try await store.endContact(older, ContactSummary(isComplete: true, received: 2))
        let again = try await begin(harness, at: late)
        let last = try await store.lastRecord(of: again)
        #expect(last?.sequence == 3 && last?.followsCompleteTransfer == false, "the newest was cut")
        #expect(try await store.append(Array(frames[2...]), of: again).map(\.name) == ["repeated", "new"])
        #expect(try await Set(harness.all().map(\.id)) == Set(undisturbed.all().map(\.id)))
        try await store.endContact(again, ContactSummary(isComplete: true, received: 2))

        // What was cut is complete now, and numbers that are lower in a later contact were begun anew.
        let later = try await begin(harness, at: "2026-11-20T11:00:00Z")
        #expect(try await store.lastRecord(of: later)?.followsCompleteTransfer == true)
        #expect(try await store.beginSequenceEpoch(in: later).sequenceEpoch == 1)
    }

    private func begin(_ harness: Harness, at start: String) async throws -> Contact {
        try await harness.store.beginContact(
            with: Build.device(), at: Build.instant(start), clock: nil, batteryPercent: nil)
    }

    @Test("records without a number are told apart by time, slot and values, without a time by contact and ordinal")
    func cuffs() async throws {
        let harness = try await Harness()
        let timed = [
            Build.pressure(120, "2026-11-21T08:00:00", user: 1), Build.pressure(120, "2026-11-21T08:00:00", user: 2),
        ]
        #expect(try await harness.contact(timed).map(\.name) == ["new", "new"])
        #expect(try await harness.contact(timed, at: "2026-11-22T00:00:00Z").map(\.name) == ["repeated", "repeated"])
        let untimed = [Build.pressure(120, nil, ordinal: 0), Build.pressure(120, nil, ordinal: 1)]
        #expect(try await harness.contact(untimed).map(\.name) == ["new", "new"])
        #expect(try await harness.contact(untimed).map(\.name) == ["repeated", "repeated"])
        #expect(try await harness.contact(untimed, at: "2026-11-22T00:00:00Z").map(\.name) == ["new", "new"])
        let reception = try await harness.all().filter { $0.time.basis == .reception }
        #expect(Set(reception.map(\.time.instant)) == [Build.instant("2026-11-21T10:00:00Z")])
    }

    @Test("promise 6: NaN never becomes a number")
    func notANumber() async throws {
        let harness = try await Harness()
        try await harness.contact([
            Build.glucose(1, "2026-11-21T08:00:00", nil), Build.pressure(120, "2026-11-21T08:00:00"),
        ])
        for reading in try await harness.all() {
            switch reading.record.value {
            case .glucose(let glucose): #expect(glucose.concentration?.number == .notANumber)
            case .bloodPressure(let pressure): #expect(pressure.meanArterial.number == .notANumber)
            case .vital, .kept: Issue.record("none was stored")
            }
        }
        #expect(try await harness.store.groupsWaiting().map(\.resource) == [.bloodPressure])
    }

    @Test("promise 5: one bad frame never stops a transfer, and its octets are kept")
    func malformed() async throws {
        let harness = try await Harness()
        let bad = Frame(
            format: .init(characteristic: 0x2A18), payload: [7, 7, 7, 7], receivedAt: Instant(seconds: 1), ordinal: 1)
        let outcomes = try await harness.contact([
            Build.glucose(1, "2026-11-21T08:00:00"), bad, Build.glucose(2, "2026-11-21T08:01:00"),
        ])
        #expect(outcomes.map(\.name) == ["new", "malformed", "new"])
        #expect(try await harness.store.statistics().malformedFrames == 1)
    }

    @Test("promise 7: a device's time stays as sent, and a reading's time stays when the clock is found wrong later")
    func timeStays() async throws {
        let harness = try await Harness()
        let frame = Build.glucose(5, "2026-11-21T09:30:00")
        try await harness.contact([frame])
        let before = try await harness.all()
        let clock = ClockReading(
            deviceTime: Build.wall("2026-11-21T13:00:00"), readAt: Build.instant("2026-11-21T10:00:00Z"))
        #expect(
            try await harness.contact([frame, Build.glucose(6, "2026-11-21T12:30:00")], clock: clock).map(\.name) == [
                "repeated", "new",
            ])
        let after = try await harness.all()
        #expect(after.contains(before[0]))
        #expect(after.first { $0.record.sequence == 6 }?.time.instant == Build.instant("2026-11-21T09:30:00Z"))
        // The next contact cannot read the clock: the epoch's difference still holds.
        try await harness.contact([Build.glucose(7, "2026-11-21T12:40:00")], at: "2026-11-21T10:30:00Z")
        #expect(
            try await harness.all().first { $0.record.sequence == 7 }?.time.instant
                == Build.instant("2026-11-21T09:40:00Z"))
    }

    @Test("the order of numbers tells the two passes of a repeated hour apart")
    func repeatedHour() async throws {
        let harness = try await Harness()
        try await harness.contact([
            Build.glucose(1, "2026-10-25T02:40:00"), Build.glucose(2, "2026-10-25T02:20:00"),
            Build.glucose(3, "2026-10-25T03:20:00"),
        ])
        #expect(
            try await harness.all().reversed().map { $0.time.instant?.description } == [
                "2026-10-25T00:40:00Z", "2026-10-25T01:20:00Z", "2026-10-25T02:20:00Z",
            ])
    }

    /// Reads a meter at some instants, when its clock is so many hours ahead of UTC (nil: it cannot be read).
    private func times(
        _ contacts: [(at: String, ahead: Int64?, shown: [String])]
    ) async throws -> [String?] {
        let harness = try await Harness()
        var number: UInt16 = 0
        for contact in contacts {
            let readAt = Build.instant(contact.at)
            let clock = contact.ahead.map {
                ClockReading(deviceTime: WallTime(secondsSinceEpoch: readAt.seconds + $0 * 3600), readAt: readAt)
            }
            let frames = contact.shown.map { shown in
                number += 1
                return Build.glucose(number, shown)
            }
            try await harness.contact(frames, at: contact.at, clock: clock)
        }
        return try await harness.all().sorted { ($0.record.sequence ?? 0) < ($1.record.sequence ?? 0) }
            .map { $0.time.uncertaintyMinutes == nil ? $0.time.instant?.description : "in doubt" }
    }

    @Test("promise 7: a meter that is left in winter time is right in the first night of winter, and before it")
    func leftInWinterTime() async throws {
        // In Berlin summer ends at 01:00Z on 25 October.
        #expect(
            try await times([
                ("2026-10-23T07:00:00Z", 1, ["2026-10-23T07:30:00"]), ("2026-10-24T07:00:00Z", 1, []),
                ("2026-10-25T07:00:00Z", 1, ["2026-10-24T20:25:00", "2026-10-25T02:30:00", "2026-10-25T07:00:00"]),
                // One that was not given before.
                ("2026-10-26T07:00:00Z", 1, ["2026-10-23T20:00:00", "2026-10-25T20:00:00"]),
            ]) == [
                "2026-10-23T06:30:00Z", "2026-10-24T19:25:00Z", "2026-10-25T01:30:00Z", "2026-10-25T06:00:00Z",
                "2026-10-23T19:00:00Z", "2026-10-25T19:00:00Z",
            ])
    }

    @Test("a meter that follows the changes of clocks is right between two of them, and where its clock cannot be read")
    func followsChanges() async throws {
        // Read in winter, and again in the next winter.
        #expect(
            try await times([
                ("2026-03-20T07:00:00Z", 1, []), ("2026-11-01T07:00:00Z", 1, ["2026-07-01T12:00:00"]),
            ]) == ["2026-07-01T10:00:00Z"])
        #expect(
            try await times([
                ("2026-01-10T07:00:00Z", 1, []), ("2026-03-28T07:00:00Z", 1, []),
                ("2026-03-30T07:00:00Z", nil, ["2026-03-30T08:00:00"]),
            ]) == ["2026-03-30T06:00:00Z"])
        // It shows half past two twice; read between, it has made this in the first of them, or in the other.
        #expect(
            try await times([
                ("2026-10-24T07:00:00Z", 2, []), ("2026-10-25T01:10:00Z", 1, []),
                ("2026-10-25T07:00:00Z", 1, ["2026-10-25T02:30:00", "2026-10-24T20:00:00"]),
            ]) == ["in doubt", "2026-10-24T18:00:00Z"])
    }

    @Test(
        "promise 7: if a clock was moved between two contacts, a record that either setting may have dated is in doubt")
    func movedBetween() async throws {
        // Set forward by an hour on 3 April.
        #expect(
            try await times([
                ("2026-04-01T07:00:00Z", 1, ["2026-04-01T07:30:00"]),
                ("2026-04-04T07:00:00Z", 2, ["2026-04-02T07:00:00"]),
            ]) == ["2026-04-01T06:30:00Z", "in doubt"])
        // Moved by hand, some days behind the user's own clocks.
        #expect(
            try await times([
                ("2026-10-24T07:00:00Z", 2, ["2026-10-23T09:00:00"]),
                ("2026-10-29T07:00:00Z", 1, ["2026-10-24T20:00:00", "2026-10-26T09:00:00"]),
            ]) == ["2026-10-23T07:00:00Z", "2026-10-24T18:00:00Z", "in doubt"])
        #expect(
            try await times([
                ("2026-03-27T07:00:00Z", 1, []),
                ("2026-04-03T07:00:00Z", 2, ["2026-03-28T08:00:00", "2026-03-31T07:00:00"]),
            ]) == ["2026-03-28T07:00:00Z", "in doubt"])
    }

    @Test("two addresses with one serial number and model are one device, and a re-read under either is a no-op")
    func joinedAddresses() async throws {
        let harness = try await Harness()
        let (first, second) = (Build.device(1, serial: "S1"), Build.device(2, serial: "S1"))
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: first)
        #expect(
            try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: second).map(\.name) == [
                "repeated"
            ])
        // Stored under an address before its serial was known.
        let early = [Build.glucose(2, "2026-11-21T08:01:00"), Build.glucose(3, "2026-11-21T08:02:00")]
        try await harness.contact(early, device: Build.device(3))
        #expect(try await harness.store.devices().count == 2)
        #expect(
            try await harness.contact(early, device: Build.device(3, serial: "S1")).map(\.name) == [
                "repeated", "repeated",
            ])
        let devices = try await harness.store.devices()
        #expect(devices.count == 1)
        #expect(devices[0].readings == 3)
        #expect(devices[0].addresses.count == 3)
        #expect(devices[0].lastSequence == 3)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a device keeps its battery, clock, last record and pairing")
    func deviceList() async throws {
        let harness = try await Harness()
        for (day, difference) in [(1, 300), (11, 309)] {
            let readAt = Build.instant("2026-11-\(day < 10 ? "0" : "")\(day)T09:00:00Z")
            let clock = ClockReading(
                deviceTime: WallTime(secondsSinceEpoch: readAt.seconds + 3600 + Int64(difference)), readAt: readAt)
            try await harness.contact(
                [Build.glucose(UInt16(day), "2026-11-01T08:00:00")], at: readAt.description, clock: clock)
        }
        try await harness.store.notePairing(of: Build.device(), as: .proven)
        let device = try #require(await harness.store.devices().first)
        #expect(device.isPaired && device.isProven)
        #expect(device.batteryPercent == 80)
        #expect(device.clock?.differenceSeconds == 309)
        #expect(abs((device.driftPartsPerMillion ?? 0) - 10.4) < 0.1)
        #expect(device.lastSequence == 11)
    }

    @Test("a bond is remembered with its times, and by itself is no contact")
    func pairing() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await store.notePairing(of: Build.device(), as: .unpaired)
        #expect(try await store.pairings().map(\.state) == [.unpaired])
        #expect(try await store.devices().isEmpty, "a first pairing that came to nothing leaves nothing to show")
        try await store.notePairing(of: Build.device(), as: .paired)
        var pairing = try #require(await store.pairings().first)
        #expect(pairing.state == .paired && pairing.pairedAt != nil && pairing.provenAt == nil)
        #expect(pairing.addresses == [Build.device().address])
        try await store.notePairing(of: Build.device(), as: .proven)
        pairing = try #require(await store.pairings().first)
        #expect(pairing.state == .proven && pairing.provenAt != nil)
        let device = try #require(await store.devices().first)
        #expect(device.isPaired && device.isProven && device.lastSeen == nil)
        try await store.notePairing(of: Build.device(), as: .unpaired)
        pairing = try #require(await store.pairings().first)
        #expect(pairing.state == .unpaired && pairing.pairedAt != nil && pairing.provenAt == nil)
        #expect(try await store.devices().count == 1)
    }

    @Test("what is not known of a bonded device stays as it is remembered, and its readings stay")
    func pairingKeepsHistory() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00"), Build.glucose(2, "2026-11-21T08:01:00")])
        let before = try #require(await harness.store.devices().first)
        let bare = DeviceDescription(address: Build.device().address)
        for state in [PairingState.proven, .unpaired, .paired] {
            try await harness.store.notePairing(of: bare, as: state)
        }
        let after = try #require(await harness.store.devices().first)
        #expect(after.description == before.description && after.lastSeen == before.lastSeen)
        #expect(after.readings == 2 && after.lastSequence == before.lastSequence && after.sequenceEpoch == 0)
        #expect(try await harness.store.pairings().count == 1)
    }

    @Test("a device paired again under another address is joined by its serial number")
    func pairingJoins() async throws {
        let harness = try await Harness()
        var device = Build.device()
        device.serial = "0001"
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: device)
        device.address = DeviceAddress("C0:00:00:00:99:99")
        device.serial = nil
        try await harness.store.notePairing(of: device, as: .paired)
        #expect(try await harness.store.pairings().map(\.state) == [.unpaired, .paired])
        device.serial = "0001"
        try await harness.store.notePairing(of: device, as: .proven)
        let pairing = try #require(await harness.store.pairings().first)
        #expect(try await harness.store.pairings().count == 1)
        #expect(pairing.state == .proven && pairing.addresses.count == 2)
        #expect(try await harness.store.devices().map(\.readings) == [1])
    }

    @Test("devices that the settings give to two people are not joined by a serial number: each stays its owner's")
    func sameSerial() async throws {
        let harness = try await Harness()
        let store = harness.store
        let owners: [(address: UInt64, person: String)] = [(0xC000_0000_1808, "anna"), (0xC000_0000_1809, "bert")]
        func device(_ address: UInt64, serial: String? = "Serial Number") -> DeviceDescription {
            Build.device(address, serial: serial, model: "generic_thermometer", provider: "manual")
        }
        try await store.setPeople(
            owners.map { owner in
                StorePerson(
                    clientUserID: owner.person, timeZone: "Europe/Berlin",
                    shares: [StorePerson.Share(address: owner.address, slot: nil)])
            })
        // As they are paired: the serial number is read when there is a bond.
        for owner in owners {
            try await store.admit(device(owner.address, serial: nil), as: .paired)
            try await store.admit(device(owner.address), as: .proven)
        }
        for owner in owners {
            try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: device(owner.address))
        }
        #expect(try await store.pairings().map(\.addresses.count) == [1, 1])
        let read = try await harness.all().map { "\($0.device.address?.description ?? "") \($0.person ?? "")" }
        #expect(read.sorted() == ["C0:00:00:00:18:08 anna", "C0:00:00:00:18:09 bert"])
        // Nor when one of them is unpaired, nor a third one that is known only as it is admitted.
        try await store.notePairing(of: device(owners[0].address, serial: nil), as: .unpaired)
        try await harness.contact([], device: device(owners[1].address), at: "2026-11-21T10:59:00Z")
        try await store.admit(device(0xC000_0000_180A), as: .proven)
        #expect(try await store.pairings().map(\.addresses.count) == [1, 1, 1])
        #expect(try await store.verify().isEmpty)
    }

    @Test("frames an older decoder could not read are read again")
    func redecoding() async throws {
        let directory = Harness.newDirectory()
        let frames = [
            Build.glucose(1, "2026-11-21T08:00:00"), Build.context(1, meal: 1), Build.glucose(2, "2026-11-21T08:01:00"),
        ]
        do {
            let old = try await Harness.open(directory, decoder: TestDecoder(knowsNothing: true))
            let contact = try await old.beginContact(
                with: Build.device(), at: Instant(seconds: 1_795_000_000), clock: nil, batteryPercent: nil)
            #expect(try await old.append(frames, of: contact).map(\.name) == ["malformed", "malformed", "malformed"])
            try old.close()
        }
        let harness = try await Harness(directory)
        let result = try await harness.store.redecode()
        #expect(result.newReadings == 2)
        #expect(Set(try await harness.all().map { $0.context?.meal }) == ["preprandial", nil])
        #expect(try await harness.store.redecode() == RedecodingResult())
        #expect(try await harness.store.verify().isEmpty)
        #expect(try await harness.store.statistics().frames == 3)
    }

    @Test("listeners hear of readings as they are committed")
    func listening() async throws {
        let harness = try await Harness()
        var heard = harness.store.committedReadings().makeAsyncIterator()
        let outcomes = try await harness.contact([
            Build.glucose(1, "2026-11-21T08:00:00"), Build.glucose(2, "2026-11-21T08:01:00"),
        ])
        #expect(await heard.next() == outcomes.compactMap(\.changedReading))
    }
}
