import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// What quirks, clocks and other vital signs come to in a real store.
@Suite struct QuirkStoreTests {
    private let directory = FileManager.default.temporaryDirectory
        .appending(path: "quirks-\(ProcessInfo.processInfo.globallyUniqueString)").path

    private func open() async throws -> ReadingStore {
        let now = try #require(Instant(rfc3339: "2026-11-22T00:00:00Z"))
        return try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin",
            now: { now })
    }

    private func device(_ model: String?) -> DeviceDescription {
        DeviceDescription(address: .device(3), model: model, serial: "S3", name: model)
    }

    private func frame(_ characteristic: UInt16, _ octets: [UInt8], at received: String = "2026-11-21T10:00:00Z") throws
        -> Frame
    {
        Frame(
            format: FrameFormat(characteristic: characteristic), payload: octets,
            receivedAt: try #require(Instant(rfc3339: received)), ordinal: 0)
    }

    private func glucose(_ sequence: UInt16, _ time: String, hasContext: Bool = false) throws -> [UInt8] {
        GlucoseMeasurement(
            sequenceNumber: sequence, baseTime: DateTime(try #require(WallTime(time))),
            concentration: .init(
                value: MedFloat16(rawValue: 0xB05F), unit: .kilogramsPerLitre, type: .capillaryWholeBlood,
                location: .finger), hasContext: hasContext
        ).encoded
    }

    private func begin(
        _ store: ReadingStore, _ model: String?, at start: String = "2026-11-21T09:59:00Z", clock: ClockReading? = nil
    ) async throws -> Contact {
        try await store.beginContact(
            with: device(model), at: try #require(Instant(rfc3339: start)), clock: clock, batteryPercent: nil)
    }

    @Test(
        "promise 6: a record whose context says ketone is never waiting for delivery, whichever comes first",
        arguments: [false, true])
    func ketone(contextFirst: Bool) async throws {
        let store = try await open()
        let contact = try await begin(store, "caresens")
        let record = try frame(0x2A18, try glucose(1, "2026-11-21T08:00:00", hasContext: true))
        let context = try frame(0x2A34, [0x02, 1, 0, 6])
        var last: FrameOutcome?
        for frame in contextFirst ? [context, record] : [record, context] {
            last = try await store.append([frame], of: contact).last
            #expect(try await store.groupsWaiting().isEmpty)
        }
        #expect(last?.changedReading?.excluded == .ketone, "listeners hear of it")
        #expect(last?.changedReading?.deliveries.isEmpty == true)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
        #expect(try await store.groupsWaiting().isEmpty)
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.map(\.excluded) == [.ketone])
        // Reading everything again is a no-op.
        let again = try await begin(store, "caresens", at: "2026-11-21T11:00:00Z")
        _ = try await store.append([record, context], of: again)
        try await store.endContact(again, ContactSummary(isComplete: true, received: 1))
        #expect(try await store.query(ReadingQuery()).readings.map(\.excluded) == [.ketone])
        #expect(try await store.groupsWaiting().isEmpty)
        #expect(try await store.verify().isEmpty)
        // Nor is one that the meter sends anew with other octets: the battery was low.
        let third = try await begin(store, "caresens", at: "2026-11-21T12:00:00Z")
        var other = record
        other.payload[0] |= 0x08
        other.payload += [0x01, 0x00]
        let outcomes = try await store.append([other], of: third)
        guard case .revised(let revised)? = outcomes.first else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(revised.excluded == .ketone && revised.record.status == .deviceBatteryLow)
        #expect(try await store.groupsWaiting().isEmpty)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a composition does not reveal the weight where its delivery is not consented to", arguments: [true, false])
    func weightWithheld(_ mayWeigh: Bool) async throws {
        let store = try await open()
        let place = try await store.setDestination(
            "lines", kind: "file", kinds: [.bodyComposition], hasUniqueSeconds: false, needsSource: false)
        let user = try await store.currentUser().key
        try await store.setConsent(.weight, granted: mayWeigh, of: user)
        let contact = try await begin(store, "generic_scale")
        // 20.0 % of fat, 2026-11-21T08:00:00, 56 kg without it, 70 kg.
        let octets: [UInt8] = [0x42, 0x04, 0xC8, 0x00, 0xEA, 0x07, 11, 21, 8, 0, 0, 0xC0, 0x2B, 0xB0, 0x36]
        _ = try await store.append([frame(0x2A9C, octets)], of: contact)
        let items = try await store.outboxBatch(
            user: user, resource: .bodyComposition, provider: contact.device.provider, limit: 10, at: place)
        guard case .vital(let value)? = items.first?.reading.record.value else {
            Issue.record("\(items)")
            return
        }
        #expect(value[.bodyFat] == Quantity(ExactDecimal(significand: 200, exponent: -1), .percent))
        #expect((value[.weight] == nil, value[.fatFreeMass] == nil) == (!mayWeigh, !mayWeigh))
        let kept = try #require(try await store.query(ReadingQuery()).readings.first)
        guard case .vital(let whole) = kept.record.value else {
            Issue.record("\(kept.record.value)")
            return
        }
        #expect(whole[.weight] != nil && whole[.fatFreeMass] != nil)
        try store.close()
    }

    @Test("a record waits for the context that may say ketone, and is delivered once that has said otherwise")
    func awaitsContext() async throws {
        let store = try await open()
        _ = try await store.setDestination(
            "lines", kind: "file", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false)
        var contact = try await begin(store, "caresens")
        _ = try await store.append(
            [
                frame(0x2A18, glucose(1, "2026-11-21T08:00:00", hasContext: true)),
                frame(0x2A18, glucose(2, "2026-11-21T08:10:00", hasContext: true)),
                frame(0x2A18, glucose(3, "2026-11-21T08:20:00")),
            ], of: contact)
        #expect(try await store.groupsWaiting().map(\.count) == [1], "the one without a context")
        let awaiting = try await store.groupsAwaitingContext()
        #expect(awaiting.map(\.count) == [2] && awaiting.map(\.held) == [.awaitingContext])
        let states = try await store.query(ReadingQuery()).readings.flatMap(\.deliveries)
            .filter { $0.destination == "lines" }.map(\.state)
        #expect(states.count { $0 == .held(.awaitingContext) } == 2 && states.count == 3)
        _ = try await store.append([frame(0x2A34, [0x02, 1, 0, 1])], of: contact)
        #expect(try await store.groupsWaiting().map(\.count) == [2])
        // Cut: the second's context may still come.
        try await store.endContact(contact, ContactSummary(isComplete: false, error: "x", received: 3))
        #expect(try await store.groupsWaiting().map(\.count) == [2])
        // An older contact, of a capture, brings everything that there was then.
        contact = try await begin(store, "caresens", at: "2026-11-21T07:00:00Z")
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 0))
        #expect(try await store.groupsWaiting().map(\.count) == [2], "the context may still come")
        contact = try await begin(store, "caresens", at: "2026-11-21T11:00:00Z")
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 3))
        #expect(try await store.groupsWaiting().map(\.count) == [3], "everything came: it has none")
        #expect(try await store.groupsAwaitingContext().isEmpty)
        try store.close()
    }

    @Test("promise 2: a meter that numbers by age gives each record once")
    func numbersByAge() async throws {
        let store = try await open()
        for (contact, shift): (String, UInt16) in [("2026-11-21T09:00:00Z", 0), ("2026-11-21T11:00:00Z", 1)] {
            let contact = try await begin(store, "taidoc_fora", at: contact)
            _ = try await store.append(
                [
                    frame(0x2A18, glucose(0 + shift, "2026-11-21T08:10:00")),
                    frame(0x2A18, glucose(1 + shift, "2026-11-21T08:00:00")),
                ], of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 2))
        }
        #expect(try await store.query(ReadingQuery()).readings.count == 2)
        try store.close()
    }

    /// What comes at three visits to a device whose model is known from the second: the readings, the frames of the
    /// second visit, and how many wait for delivery after each.
    private func learnt(
        _ model: String, _ characteristic: UInt16, first: [[UInt8]], then: [[UInt8]]
    ) async throws -> (readings: [Reading], outcomes: [FrameOutcome], waiting: [Int]) {
        let store = try await open()
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        var outcomes: [FrameOutcome] = []
        var waiting: [Int] = []
        for (visit, octets) in [first, then, then].enumerated() {
            let start = "2026-11-21T\(10 + visit):00:00Z"
            let contact = try await begin(store, visit == 0 ? nil : model, at: start)
            let frames = try octets.map { try frame(characteristic, $0, at: start) }
            let came = try await store.append(frames, of: contact)
            let inMemory = try await journal.beginContact(
                with: device(visit == 0 ? nil : model), at: try #require(Instant(rfc3339: start)), clock: nil,
                batteryPercent: nil)
            _ = try await journal.append(frames, of: inMemory)
            if visit == 1 { outcomes = came }
            if visit == 2 {
                #expect(came.allSatisfy { if case .repeated = $0 { true } else { false } }, "\(came)")
            }
            try await store.endContact(contact, ContactSummary(isComplete: true, received: frames.count))
            waiting.append(try await store.groupsWaiting().map(\.count).reduce(0, +))
        }
        let readings = try await store.query(ReadingQuery()).readings
        #expect(try await store.verify().isEmpty)
        #expect(Set(readings.map(\.id)) == Set(journal.readings.map(\.id)))
        #expect(
            Set(readings.map { "\($0.id) \($0.record) \($0.time)" })
                == Set(journal.readings.map { "\($0.id) \($0.record) \($0.time)" }))
        try store.close()
        return (readings, outcomes, waiting)
    }

    @Test("promise 2: records stored before their meter was known to number by age are not stored a second time")
    func numbersByAgeLearnt() async throws {
        let times = ["2026-11-21T08:20:00", "2026-11-21T08:10:00", "2026-11-21T08:00:00"]
        let first = try [glucose(0, times[1]), glucose(1, times[2])]
        let then = try [glucose(0, times[0]), glucose(1, times[1]), glucose(2, times[2])]
        let (readings, _, waiting) = try await learnt("taidoc_fora", 0x2A18, first: first, then: then)
        #expect(Set(readings.compactMap { $0.record.baseTime?.description }) == Set(times) && readings.count == 3)
        #expect(waiting == [2, 3, 3])
    }

    @Test("promise 2: a record without a time gets its time, and is delivered, once its meter's month 13 is understood")
    func monthThirteenLearnt() async throws {
        var odd = try glucose(1, "2026-01-05T08:00:00")
        odd[5] = 13
        let (readings, outcomes, waiting) = try await learnt("caresens", 0x2A18, first: [odd], then: [odd])
        #expect(readings.count == 1 && readings.first?.record.baseTime?.description == "2026-01-05T08:00:00")
        #expect(readings.first?.time.instant?.description == "2026-01-05T07:00:00Z" && readings.first?.excluded == nil)
        #expect(outcomes.first?.changedReading?.id == readings.first?.id && waiting == [0, 1, 1])
    }

    /// A record is mended in its reading, which keeps the id that it got of its former value.
    @Test(
        "promise 2: a record that is read as it was before its model was known is found, and not looked for without end",
        .timeLimit(.minutes(5)), arguments: [nil, "beurer_bm"])
    func modelTakenBack(_ later: String?) async throws {
        let octets: [UInt8] = [
            0x16, 0x7F, 0x00, 0x4F, 0x00, 0x5F, 0x00, 0xEA, 0x07, 11, 21, 7, 30, 0, 0x00, 0x45, 0x01, 0x00, 0x04,
        ]
        let store = try await open()
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        for (visit, model) in [nil, "beurer_bm85", later, "beurer_bm85"].enumerated() {
            let start = "2026-11-21T\(10 + visit):00:00Z"
            let records = [try frame(0x2A35, octets, at: start)]
            let contact = try await begin(store, model, at: start)
            _ = try await store.append(records, of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
            let inMemory = try await journal.beginContact(
                with: device(model), at: try #require(Instant(rfc3339: start)), clock: nil, batteryPercent: nil)
            _ = try await journal.append(records, of: inMemory)
        }
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.count == 1 && readings.map(\.id) == journal.readings.map(\.id))
        #expect(readings.map(\.record) == journal.readings.map(\.record))
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("promise 2: once the model is known, a cuff's pulse is corrected in its reading and delivered again")
    func bigEndianPulseLearnt() async throws {
        let octets: [UInt8] = [
            0x16, 0x7F, 0x00, 0x4F, 0x00, 0x5F, 0x00, 0xEA, 0x07, 11, 21, 7, 30, 0, 0x00, 0x45, 0x01, 0x00, 0x04,
        ]
        let (readings, outcomes, waiting) = try await learnt("beurer_bm85", 0x2A35, first: [octets], then: [octets])
        guard case .bloodPressure(let value)? = readings.first?.record.value, readings.count == 1 else {
            Issue.record("\(readings)")
            return
        }
        #expect(value.pulse == Quantity(ExactDecimal(significand: 69), .beatsPerMinute))
        #expect(readings.first?.record.userSlot == 1 && waiting.last == 1)
        guard case .revised? = outcomes.first else {
            Issue.record("\(outcomes)")
            return
        }
    }

    /// What each reading's context says of its meal, by the reading's time.
    private func meals(_ store: ReadingStore) async throws -> [String: String?] {
        Dictionary(
            uniqueKeysWithValues: try await store.query(ReadingQuery()).readings.map {
                ($0.record.baseTime?.description ?? "-", $0.context?.meal)
            })
    }

    @Test(
        "a context of a meter that numbers by age joins the measurement of its own transfer, whichever comes first",
        arguments: [false, true])
    func contextsByAge(contextsFirst: Bool) async throws {
        let store = try await open()
        let times = (0..<4).map { "2026-11-21T08:\(10 + $0):00" }
        // Meals 1 to 4 of the specification.
        let meals = ["preprandial", "postprandial", "fasting", "casual"]
        var frames = 0
        for (visit, count) in [2, 2, 4, 4].enumerated() {
            let contact = try await begin(store, "taidoc_fora", at: "2026-11-21T\(10 + visit):00:00Z")
            for place in (0..<count).reversed() {
                // The newest is 0: with each measurement every number is another.
                let age = UInt16(count - 1 - place)
                let record = try frame(0x2A18, try glucose(age, times[place], hasContext: true))
                let context = try frame(0x2A34, [0x02, UInt8(age), 0, UInt8(place + 1)])
                for frame in contextsFirst ? [context, record] : [record, context] {
                    _ = try await store.append([frame], of: contact)
                }
            }
            try await store.endContact(contact, ContactSummary(isComplete: true, received: count))
            let expected = Dictionary(uniqueKeysWithValues: zip(times, meals).prefix(count).map { ($0, Optional($1)) })
            #expect(try await self.meals(store) == expected, "visit \(visit)")
            frames = try await store.statistics().frames
        }
        #expect(frames == 8, "promise 2: what was renumbered is not stored again")
        try store.close()
    }

    @Test("a context joins a measurement by its age though another meter's contact has begun between the two")
    func contextByAgeBesideOthers() async throws {
        let store = try await open()
        let contact = try await begin(store, "taidoc_fora")
        _ = try await store.append([frame(0x2A18, glucose(0, "2026-11-21T08:10:00", hasContext: true))], of: contact)
        _ = try await store.beginContact(
            with: DeviceDescription(address: .device(4), model: "accuchek_guide"),
            at: try #require(Instant(rfc3339: "2026-11-21T10:00:00Z")), clock: nil, batteryPercent: nil)
        _ = try await store.append([frame(0x2A34, [0x02, 0, 0, 1])], of: contact)
        #expect(try await meals(store) == ["2026-11-21T08:10:00": "preprandial"])
        try store.close()
    }

    @Test("a measurement whose status has changed keeps the context that came before it")
    func contextBeforeRevision() async throws {
        let store = try await open()
        var record = try frame(0x2A18, glucose(0, "2026-11-21T08:10:00", hasContext: true))
        let first = try await begin(store, "taidoc_fora")
        _ = try await store.append([record], of: first)
        try await store.endContact(first, ContactSummary(isComplete: true, received: 1))
        record.payload[0] |= 0x08
        record.payload += [0x01, 0x00]
        let second = try await begin(store, "taidoc_fora", at: "2026-11-21T10:00:00Z")
        let outcomes = try await store.append([frame(0x2A34, [0x02, 0, 0, 1]), record], of: second)
        let revised = try #require(outcomes.last?.changedReading)
        #expect(revised.context?.meal == "preprandial" && revised.record.status == .deviceBatteryLow)
        #expect(try await meals(store) == ["2026-11-21T08:10:00": "preprandial"])
        try store.close()
    }

    @Test("a context whose record did not come waits for no other's, whatever number that has")
    func lostRecordByAge() async throws {
        let store = try await open()
        let first = try await begin(store, "taidoc_fora", at: "2026-11-21T09:00:00Z")
        _ = try await store.append([frame(0x2A34, [0x02, 0, 0, 1])], of: first)
        try await store.endContact(first, ContactSummary(isComplete: false, received: 0))
        let second = try await begin(store, "taidoc_fora", at: "2026-11-21T10:00:00Z")
        _ = try await store.append([frame(0x2A18, glucose(0, "2026-11-21T09:30:00"))], of: second)
        #expect(try await meals(store) == ["2026-11-21T09:30:00": nil])
        // And none that comes without its record is given to a record of another contact.
        let third = try await begin(store, "taidoc_fora", at: "2026-11-21T11:00:00Z")
        _ = try await store.append([frame(0x2A34, [0x02, 0, 0, 2])], of: third)
        #expect(try await meals(store) == ["2026-11-21T09:30:00": nil])
        try store.close()
    }

    @Test("other vital signs are kept with all they have, shown, and queued where the server has a series for them")
    func vitals() async throws {
        let values: [(UInt16, [UInt8])] = [
            (0x2A1C, [0x04, 0x6E, 0x01, 0x00, 0xFF, 0x03]), (0x2A5E, [0x00, 0x61, 0x00, 0xFF, 0x07]),
            (0x2A9D, [0x0C, 0x14, 0x37, 2, 0xE6, 0x00, 0x2A, 0x07]),
            (0x2A9C, [0x18, 0x04, 0xE1, 0x00, 0x40, 0x1F, 0x58, 0x02, 0xB8, 0x0B]),
        ]
        var store = try await open()
        let contact = try await begin(store, "generic_thermometer")
        for (characteristic, octets) in values {
            _ = try await store.append([frame(characteristic, octets)], of: contact)
        }
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 4))
        let waiting = try await store.groupsWaiting()
        #expect(
            waiting.map(\.resource) == [.spo2, .temperature, .weight, .bodyComposition]
                && waiting.allSatisfy { $0.count == 1 })
        try store.close()
        store = try await open()
        let readings = try await store.query(ReadingQuery()).readings
        #expect(Set(readings.map(\.kind)) == [.temperature, .spo2, .weight, .bodyComposition])
        for (characteristic, octets) in values {
            guard case .record(let record) = ModelFrameDecoder().decode(try frame(characteristic, octets), model: nil),
                let reading = readings.first(where: { $0.kind == record.value.kind })
            else {
                Issue.record("\(characteristic) is no record")
                continue
            }
            #expect(reading.record == record)
            #expect(reading.time.basis == .reception && reading.excluded == nil)
            #expect(
                reading.deliveries.map(\.hold) == (reading.record.isDelivered ? [.noSource] : []),
                "nobody has connected one")
        }
        #expect(try await store.query(ReadingQuery(kinds: [.spo2])).readings.count == 1)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test(
        "promise 7: what was made before a clock was set is placed by the clock as it was, what came after by the new one"
    )
    func clockWasSet() async throws {
        let store = try await open()
        func wall(_ text: String) throws -> WallTime { try #require(WallTime(text)) }
        func instant(_ text: String) throws -> Instant { try #require(Instant(rfc3339: text)) }
        // Ten minutes ahead on Friday; set right on Saturday at 10:00 in Berlin; read on Saturday noon.
        var contact = try await begin(
            store, "accuchek_guide", at: "2026-11-20T09:00:00Z",
            clock: ClockReading(
                deviceTime: try wall("2026-11-20T10:10:00"), readAt: try instant("2026-11-20T09:00:00Z")))
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 0))
        contact = try await begin(
            store, "accuchek_guide", at: "2026-11-21T09:00:00Z",
            clock: ClockReading(
                deviceTime: try wall("2026-11-21T10:10:00"), readAt: try instant("2026-11-21T09:00:00Z")))
        contact = try await store.noteClock(
            ClockReading(deviceTime: try wall("2026-11-21T10:00:01"), readAt: try instant("2026-11-21T09:00:01Z")),
            in: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 0))
        let device = try #require(try await store.devices().first)
        #expect(device.clock?.differenceSeconds == 0)
        contact = try await begin(
            store, "accuchek_guide", at: "2026-11-21T11:00:00Z",
            clock: ClockReading(
                deviceTime: try wall("2026-11-21T12:00:00"), readAt: try instant("2026-11-21T11:00:00Z")))
        _ = try await store.append(
            [
                frame(0x2A18, glucose(1, "2026-11-21T08:10:00"), at: "2026-11-21T11:00:05Z"),
                frame(0x2A18, glucose(2, "2026-11-21T11:00:00"), at: "2026-11-21T11:00:05Z"),
                frame(0x2A18, glucose(3, "2026-11-21T10:05:00"), at: "2026-11-21T11:00:05Z"),
            ], of: contact)
        let readings = try await store.query(ReadingQuery()).readings.sorted {
            ($0.record.sequence ?? 0) < ($1.record.sequence ?? 0)
        }
        #expect(
            readings.map { $0.time.instant?.description } == [
                "2026-11-21T07:00:00Z", "2026-11-21T10:00:00Z", "2026-11-21T09:05:00Z",
            ])
        #expect(readings.map(\.time.uncertaintyMinutes) == [nil, nil, 10], "the ten minutes it has shown twice")
        try store.close()
    }
}
