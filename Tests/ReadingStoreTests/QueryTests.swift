import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Query")
struct QueryTests {
    private func filled(_ encryption: StoreEncryption = .on()) async throws -> Harness {
        let harness = try await Harness(encryption: encryption)
        var frames: [Frame] = []
        for number in 0..<60 {
            let second = number < 10 ? "0\(number)" : "\(number)"
            // Pairs share a minute's time, so that the id decides between them.
            let time = "2026-11-21T08:\(number / 2 < 10 ? "0" : "")\(number / 2):00"
            frames.append(
                number % 3 == 0
                    ? Build.pressure(UInt16(100 + number), time)
                    : Build.glucose(
                        UInt16(number), number % 20 == 1 ? nil : time, 95, at: "2026-11-21T10:00:\(second)Z"))
        }
        try await harness.contact(frames)
        return harness
    }

    private func isOrdered(_ readings: [Reading], byTimeOnly: Bool = false) -> Bool {
        zip(readings, readings.dropFirst()).allSatisfy { lhs, rhs in
            if byTimeOnly, lhs.time.instant == rhs.time.instant { return lhs.id != rhs.id }
            return (lhs.time.instant?.seconds ?? .min, lhs.id) > (rhs.time.instant?.seconds ?? .min, rhs.id)
        }
    }

    @Test("newest first by (time, id), those without a time last", arguments: [true, false])
    func order(isSealed: Bool) async throws {
        let page = try await filled(isSealed ? .on() : .off()).store.query(ReadingQuery())
        #expect(page.readings.count == 60)
        #expect(!page.more)
        // Where ids are sealed, readings of one second are in the order of what stands for them.
        #expect(isOrdered(page.readings, byTimeOnly: isSealed))
        #expect(page.readings.suffix(2).allSatisfy { $0.time.instant == nil && $0.excluded == .noTime })
        #expect(page.readings.prefix(58).allSatisfy { $0.time.instant != nil })
    }

    @Test("a reading names its person, when it is stored and later; nobody where the name was changed by others")
    func person() async throws {
        let store = try await filled().store
        let name = try await store.currentUser().clientUserID
        #expect(!name.isEmpty)
        #expect(try await store.query(ReadingQuery()).readings.allSatisfy { $0.person == name })
        try await store.write(.setting) { db in try db.execute(sql: "UPDATE user SET client_user_id = 'brown_bear'") }
        #expect(try await store.query(ReadingQuery()).readings.allSatisfy { $0.person == nil })
    }

    @Test("promise 11: pages by cursor and by offset give what one page gives", arguments: [1, 7, 20, 57, 59, 60])
    func paging(limit: Int) async throws {
        let store = try await filled().store
        let whole = try await store.query(ReadingQuery()).readings
        var (byCursor, cursor): ([Reading], String?) = ([], nil)
        while true {
            let page = try await store.query(ReadingQuery(limit: limit, cursor: cursor))
            byCursor += page.readings
            cursor = page.cursor
            #expect(page.more == (byCursor.count < whole.count))
            if !page.more { break }
        }
        #expect(byCursor == whole)
        let offset = try await store.query(ReadingQuery(limit: limit, offset: 5))
        #expect(offset.readings == Array(whole.dropFirst(5).prefix(limit)))
    }

    @Test(
        "what is collected is what pages give, without deliveries, wherever a page ends",
        arguments: [1, 7, 20, 57, 58, 59, 60, 61], [true, false])
    func collecting(limit: Int, isSealed: Bool) async throws {
        let store = try await filled(isSealed ? .on() : .off()).store
        func collected(_ query: ReadingQuery) async throws -> [Reading] {
            try await store.collect(query, into: []) { $0.append($1) }
        }
        let bare = { (reading: Reading) in
            var reading = reading
            reading.deliveries = []
            return reading
        }
        let whole = try await store.query(ReadingQuery()).readings
        #expect(try await collected(ReadingQuery(limit: limit)) == whole.map(bare))
        #expect(try await collected(ReadingQuery(limit: limit, offset: 9)) == whole.dropFirst(9).map(bare))
        let pressures = ReadingQuery(
            kinds: [.bloodPressure], from: whole[50].time.instant, to: whole[5].time.instant, limit: limit)
        let some = try await store.query(pressures)
        var rest = some.readings
        if let cursor = some.cursor {
            var query = pressures
            (query.cursor, query.limit) = (cursor, 1000)
            rest += try await store.query(query).readings
        }
        #expect(try await collected(pressures) == rest.map(bare))
        await #expect(throws: StoreError.limitOutOfRange(0)) { try await collected(ReadingQuery(limit: 0)) }
    }

    @Test("a cursor stays where it is when readings are stored before and behind it")
    func cursorStability() async throws {
        let harness = try await filled()
        let store = harness.store
        let whole = try await store.query(ReadingQuery()).readings
        let first = try await store.query(ReadingQuery(limit: 20))
        try await harness.contact([
            Build.glucose(500, "2026-11-21T09:59:00"), Build.glucose(501, "2026-11-21T07:00:00"),
        ])
        let second = try await store.query(ReadingQuery(limit: 1000, cursor: first.cursor))
        let old = second.readings.filter { $0.record.sequence != 501 }
        #expect(first.readings + old == whole)
        #expect(second.readings.count == old.count + 1)
    }

    @Test("kinds, inclusive ranges and the newest of each kind")
    func filters() async throws {
        let store = try await filled().store
        let pressures = try await store.query(ReadingQuery(kinds: [.bloodPressure])).readings
        #expect(pressures.count == 20)
        #expect(isOrdered(pressures))
        let (from, to) = (Build.instant("2026-11-21T07:05:00Z"), Build.instant("2026-11-21T07:07:00Z"))
        let range = try await store.query(ReadingQuery(from: from, to: to)).readings
        #expect(range.count == 6)
        #expect(range.allSatisfy { ($0.time.instant ?? from) >= from && ($0.time.instant ?? to) <= to })
        let later = try await store.query(ReadingQuery(from: Instant(microseconds: from.microseconds + 1), to: to))
            .readings
        #expect(later.count == 4)
        let none = try await store.query(ReadingQuery(from: to, to: from))
        #expect(none == ReadingPage(readings: [], more: false, cursor: nil))
        let latest = try await store.query(ReadingQuery(latest: true)).readings
        #expect(Set(latest.map(\.kind)) == [.glucose, .bloodPressure])
        #expect(latest.count == 2)
        #expect(latest.contains(pressures[0]))
        // No cursor leads on from there, so nothing says that there is more.
        let fewer = try await store.query(ReadingQuery(limit: 1, latest: true))
        #expect(fewer.readings.count == 1 && !fewer.more && fewer.cursor == nil)
        #expect(try await store.query(ReadingQuery(kinds: [])).readings.isEmpty)
    }

    @Test("what cannot be asked for is refused by name")
    func refusals() async throws {
        let store = try await filled().store
        for limit in [0, -1, 10_001] {
            await #expect(throws: StoreError.limitOutOfRange(limit)) {
                try await store.query(ReadingQuery(limit: limit))
            }
        }
        await #expect(throws: StoreError.offsetOutOfRange(-1)) { try await store.query(ReadingQuery(offset: -1)) }
        for cursor in [
            "", "x", String(repeating: "A", count: 35), String(repeating: "_", count: 35),
            "ä" + String(repeating: "A", count: 33),
        ] {
            await #expect(throws: StoreError.invalidCursor(cursor)) {
                try await store.query(ReadingQuery(cursor: cursor))
            }
        }
    }

    @Test("any cursor comes back from its text")
    func cursorText() throws {
        for seconds in [nil, 0, -1, Int64.min, .max, 1_795_000_000] {
            let cursor = PageCursor(seconds: seconds, id: ReadingID(high: .max, low: 1))
            #expect(try PageCursor(text: cursor.text) == cursor)
        }
    }

    @Test("a reading is held for the first reason that applies now, and one that is excluded has no delivery")
    func deliveries() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([
            Build.glucose(1, "2026-11-21T08:00:00"), Build.glucose(2, "2026-11-21T08:01:00", nil),
        ])
        let user = try await store.currentUser().key
        func states() async throws -> [[DeliveryState]] {
            let deliveries = try await store.query(ReadingQuery()).readings.map(\.deliveries)
            #expect(deliveries.joined().allSatisfy { $0.destination == "vital" })
            return deliveries.map { $0.map(\.state) }
        }
        #expect(try await states() == [[], [.held(.noSource)]])
        let expected: [(ConnectedSource.Status, Hold?)] = [
            (.connected, nil), (.paused, .sourcePaused), (.error, .sourceError), (.revoked, .sourceRevoked),
            (.absent, .noSource),
        ]
        for (status, hold) in expected {
            try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: status), user: user)
            #expect(try await states() == [[], [hold.map { .held($0) } ?? .waiting]])
            #expect(try await store.groupsWaiting().map(\.held) == [hold])
        }
        try await store.setSyncEnabled(false)
        #expect(try await states() == [[], [.held(.syncDisabled)]])
        try await store.setSyncEnabled(true)
        try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: .connected), user: user)
        let batch = try await store.outboxBatch(user: user, resource: .glucose, provider: "accuchek_ble", limit: 10)
        try await store.reject(batch[0].id, serverSaid: "value too odd")
        #expect(try await states() == [[], [.refused(words: "value too odd")]])
        #expect(try await store.refused() == [RefusedReading(id: batch[0].reading.id, serverSaid: "value too odd")])
        // Offered once more: this one, all, and nothing where one of them was not refused.
        let refused = batch[0].reading.id
        let unknown = ReadingID(high: 1, low: 2)
        await #expect(throws: StoreError.notRefused(unknown)) { try await store.retryRefused([refused, unknown]) }
        #expect(try await store.refused().count == 1)
        #expect(try await store.retryRefused([refused, refused]) == 1)
        #expect(try await store.refused().isEmpty)
        try await store.reject(batch[0].id, serverSaid: "still odd")
        #expect(try await store.retryRefused() == 1)
        #expect(try await store.retryRefused() == 0)
        let again = try await store.outboxBatch(user: user, resource: .glucose, provider: "accuchek_ble", limit: 10)
        try await store.acknowledge(again.map(\.id), at: Instant(seconds: 7))
        try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: .revoked), user: user)
        #expect(try await states() == [[], [.delivered]])
        #expect(try await store.statistics().lastDelivery == Instant(seconds: 7))
    }

    @Test("a source is created once, and a zone change moves nothing stored")
    func usersAndSources() async throws {
        let harness = try await Harness()
        let store = harness.store
        let user = try await store.currentUser()
        #expect(try await store.markCreatedOnce(user: user.key, provider: "omron_ble"))
        #expect(try await !store.markCreatedOnce(user: user.key, provider: "omron_ble"))
        let source = try #require(await store.source(user: user.key, provider: "omron_ble"))
        #expect(source == ConnectedSource(provider: "omron_ble", status: .absent, wasCreatedOnce: true))
        try await store.setSource(ConnectedSource(provider: "omron_ble", status: .connected), user: user.key)
        #expect(try await store.sources(user: user.key).map(\.wasCreatedOnce) == [true])
        try await store.setServerUserID("U-1", of: user.key)
        #expect(try await store.user("white_bear")?.serverUserID == "U-1")

        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try await store.setCurrentUser("white_bear", timeZone: "Asia/Kathmandu")
        try await harness.contact([Build.glucose(2, "2026-11-21T08:00:00")], at: "2026-11-21T11:59:00Z")
        try await harness.contact(
            [Build.glucose(3, "2026-11-22T08:00:00", at: "2026-11-22T08:00:00Z")], at: "2026-11-22T11:59:00Z")
        let times = try await harness.all().map { "\($0.record.sequence ?? 0) \($0.time.instant?.description ?? "")" }
        // The harness's now is 12:00: the second contact began in the old zone.
        #expect(
            times == ["3 2026-11-22T02:15:00Z", "2 2026-11-21T07:00:00Z", "1 2026-11-21T07:00:00Z"]
                || times == ["3 2026-11-22T02:15:00Z", "1 2026-11-21T07:00:00Z", "2 2026-11-21T07:00:00Z"])
        await #expect(throws: StoreError.unknownTimeZone("Mars/Olympus")) {
            try await store.setCurrentUser("white_bear", timeZone: "Mars/Olympus")
        }
        let other = try await store.setCurrentUser("brown_bear", timeZone: "Europe/Berlin")
        try await harness.contact([Build.glucose(4, "2026-11-21T08:00:00")])
        #expect(try await store.query(ReadingQuery(user: other.key)).readings.map(\.record.sequence) == [4])
        #expect(try await store.users().count == 2)
    }
}
