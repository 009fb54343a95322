import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Changes in order")
struct ChangeTests {
    static func all(
        _ store: ReadingStore, after position: ChangePosition = .beginning, of scope: ChangeScope = .everything,
        limit: Int = 100
    ) async throws -> [ReadingChange] {
        var (found, position): ([ReadingChange], ChangePosition) = ([], position)
        while let page = try await store.changePage(after: position, of: scope, limit: limit) {
            #expect(page.changes.count <= limit)
            found += page.changes
            position = page.position
            if page.isLast { break }
        }
        return found
    }

    static func name(_ change: ReadingChange) -> String {
        switch change.event {
        case .added: "added"
        case .revised: "revised"
        case .left: "left"
        case .pruned: "pruned"
        case .erased: "erased"
        case .unreadable: "unreadable"
        }
    }

    private static func glucose(_ numbers: Range<UInt16>) -> [Frame] {
        numbers.map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) }
    }

    @Test("every reading comes in the order it was stored in, and again at its end when it has changed")
    func order() async throws {
        let harness = try await Harness()
        try await harness.contact(Self.glucose(0..<6))
        let first = try await Self.all(harness.store)
        #expect(first.compactMap(\.reading?.record.sequence) == Array(0..<6))
        #expect(first.allSatisfy { Self.name($0) == "added" && $0.revision == 1 })
        #expect(first.allSatisfy { $0.lastUpdated == Build.instant("2026-11-21T12:00:00Z") })
        #expect(zip(first, first.dropFirst()).allSatisfy { $0.position.number < $1.position.number })
        #expect(first.compactMap(\.reading) == (try await harness.all().reversed()))

        try await harness.contact([Build.context(2, meal: 1)], at: "2026-11-21T10:30:00Z")
        try await harness.contact(
            [Build.context(2, meal: 3)], [Build.glucose(6, "2026-11-21T08:30:00")], at: "2026-11-21T10:40:00Z")
        let end = try #require(first.last?.position)
        let news = try await Self.all(harness.store, after: end)
        #expect(news.map(Self.name) == ["revised", "added"])
        #expect(news.first?.reading?.context?.meal == "fasting" && news.first?.revision == 3)
        let again = try await Self.all(harness.store, limit: 2)
        #expect(again.compactMap(\.reading?.record.sequence) == [0, 1, 3, 4, 5, 2, 6])
        // Reading everything again is a no-op, and no news.
        try await harness.contact(Self.glucose(0..<6), at: "2026-11-21T10:50:00Z")
        #expect(try await Self.all(harness.store, after: #require(news.last?.position)).isEmpty)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a context that comes with its record makes no second change: nobody has seen the record before")
    func sameCommit() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00"), Build.context(1, meal: 1)])
        let changes = try await Self.all(harness.store)
        #expect(changes.map(Self.name) == ["added"] && changes[0].reading?.context?.meal == "preprandial")
    }

    @Test("what was withdrawn, corrected, superseded or excluded since is a change")
    func exclusions() async throws {
        let harness = try await Harness()
        let entry = try EntryTests.entry()
        try await harness.store.enter(entry)
        var position = try await harness.store.newestChange()
        try await harness.store.withdraw(entry.id)
        var news = try await Self.all(harness.store, after: position)
        #expect(news.map(Self.name) == ["revised"] && news[0].reading?.excluded == .withdrawn)
        position = try await harness.store.newestChange()
        try await harness.store.enter(entry)
        try await harness.store.enter(EntryTests.entry("6.1", corrects: entry.id))
        news = try await Self.all(harness.store, after: position)
        #expect(Set(news.compactMap(\.reading?.excluded)) == [.withdrawn])
        #expect(news.map(Self.name).sorted() == ["added", "revised"])

        // A sensor's history takes the place of its trend.
        let scan = { (age: Int) in Build.scan(age: age, at: "2026-11-21T10:\(age):00Z") }
        try await harness.contact([scan(47)], device: Build.sensor, at: "2026-11-21T10:47:00Z")
        position = try await harness.store.newestChange()
        try await harness.contact([scan(59)], device: Build.sensor, at: "2026-11-21T10:59:00Z")
        news = try await Self.all(harness.store, after: position)
        #expect(news.contains { Self.name($0) == "revised" && $0.reading?.excluded == .superseded })
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a position outlives the store's opening; one of another store, or from the future, is refused")
    func positions() async throws {
        let harness = try await Harness()
        try await harness.contact(Self.glucose(0..<5))
        let third = try await Self.all(harness.store)[2].position
        #expect(ChangePosition(third.description) == third)
        for stray in [
            "", "-", "1", "00", "x-1", "0123456789ab", "0123456789ab--1", "0123456789ab-+1", "0123456789AB-1",
        ] {
            #expect(ChangePosition(stray) == nil, "\(stray)")
        }
        try harness.store.close()
        let again = try await Harness(harness.directory)
        #expect(try await Self.all(again.store, after: third).compactMap(\.reading?.record.sequence) == [3, 4])
        for stray in [
            ChangePosition(feed: third.feed, number: 6), ChangePosition(feed: "0123456789ab", number: 1),
        ] {
            await #expect(throws: StoreError.unknownPosition) { try await again.store.changePage(after: stray) }
        }
    }

    @Test("no number is given twice, whatever goes: the newest reading, everybody, everything that was delivered")
    func neverReused() async throws {
        let harness = try await Harness()
        let user = try await harness.store.currentUser().key
        try await harness.contact(Self.glucose(0..<5))
        var last = try await harness.store.newestChange()
        try await PruneTests.deliver(harness.store)
        try await harness.store.prune(olderThan: .zero)
        var news = try await Self.all(harness.store, after: last)
        #expect(news.map(Self.name) == ["pruned"] && news[0].owner == user && news[0].revision == 0)
        #expect(try await harness.store.newestChange().number > last.number)
        last = try await harness.store.newestChange()
        #expect(try await harness.store.verify().isEmpty)

        try await harness.contact([Build.pressure(120, "2026-11-21T09:00:00")], device: Build.device(0xC1))
        try await harness.store.eraseUser(user)
        news = try await Self.all(harness.store, after: last)
        #expect(news.map(Self.name) == ["erased"] && news[0].owner == nil && news[0].reading == nil)
        last = try await harness.store.newestChange()
        try harness.store.close()

        let again = try await Harness(harness.directory)
        try await again.contact([Build.pressure(130, "2026-11-21T09:30:00")], device: Build.device(0xC2))
        news = try await Self.all(again.store, after: last)
        #expect(news.map(Self.name) == ["added"] && news[0].position.number > last.number)
        #expect(try await again.store.verify().isEmpty)
    }

    @Test("no number is given twice when a person goes whose readings were all pruned before")
    func neverReusedAfterPruning() async throws {
        let harness = try await Harness()
        let user = try await harness.store.currentUser().key
        try await harness.contact(Self.glucose(0..<5))
        try await PruneTests.deliver(harness.store)
        try await harness.store.prune(olderThan: .zero)
        let pruned = try await harness.store.newestChange()
        #expect(try await harness.store.eraseUser(user).readings == 0)
        #expect(try await Self.all(harness.store, after: pruned).map(Self.name) == ["erased"])
        let erased = try await harness.store.newestChange()
        #expect(erased.number > pruned.number)

        try await harness.contact([Build.pressure(120, "2026-11-21T09:00:00")], device: Build.device(0xC1))
        let news = try await Self.all(harness.store, after: erased)
        #expect(news.map(Self.name) == ["added"] && news[0].position.number > erased.number)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a person's changes are theirs alone, and end with them; what others have costs no more than a page to pass")
    func persons() async throws {
        let harness = try await Harness()
        let store = harness.store
        let cuff = Build.device(0xC1)
        try await store.setPeople([
            StorePerson(clientUserID: "white_bear", timeZone: "Europe/Berlin", shares: [.init(address: 0xC1, slot: 1)]),
            StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: [.init(address: 0xC1, slot: 2)]),
        ])
        let anna = try #require(try await store.user("anna")).key
        try await harness.contact(
            (0..<30).map { Build.pressure(120 + $0, "2026-11-21T08:\(10 + $0):00", user: UInt8($0 % 3 + 1)) },
            device: cuff)
        let hers = try await Self.all(store, of: ChangeScope(person: anna), limit: 3)
        #expect(hers.count == 10 && hers.allSatisfy { $0.reading?.person == "anna" && $0.owner == anna })
        // A slot that is nobody's is nobody's change but the household's.
        let household = try await Self.all(store)
        #expect(household.count == 30 && household.filter { $0.owner == nil }.count == 10)
        #expect(try await Self.all(store, of: ChangeScope(kinds: [.glucose], person: anna)).isEmpty)
        #expect(try await Self.all(store, of: ChangeScope(kinds: [.bloodPressure])).count == 30)

        let position = try await store.newestChange()
        let pages = store.changes(after: position, of: ChangeScope(person: anna))
        let ended = Task { for try await _ in pages {} }
        try await store.eraseUser(anna)
        try await ended.value
        #expect(try await store.changePage(after: position, of: ChangeScope(person: anna)) == nil)
    }

    @Test("a reading whose row is damaged is told of as unreadable, and keeps nobody from those behind it")
    func damaged() async throws {
        let harness = try await Harness()
        try await harness.contact(Self.glucose(0..<4))
        try await harness.store.write(.setting) { db in
            try db.execute(sql: "UPDATE reading SET base_time = base_time + 1 WHERE sequence = 1")
        }
        #expect(try await Self.all(harness.store).map(Self.name) == ["added", "unreadable", "added", "added"])
    }

    @Test("verification finds an order, and subscribers, that no version writes")
    func verification() async throws {
        let harness = try await Harness()
        try await harness.contact(Self.glucose(0..<4))
        for change in [
            "INSERT INTO change (number, kind, reading, revision) VALUES (9, 9, 1, 1)",
            "INSERT INTO change (number, kind, reading, revision) VALUES (2, 1, 1, 2)",
            "INSERT INTO change (number, kind, reading, revision) VALUES (9, 3, NULL, 1)",
            "INSERT INTO subscriber (name, position, created_at) VALUES ('x', 77, 0)",
        ] {
            try await harness.store.write(.setting) { db in try db.execute(sql: change) }
            #expect(try await harness.store.verify().map(\.problem) == [.changesDamaged], "\(change)")
            try await harness.store.write(.setting) { db in
                try db.execute(sql: "DELETE FROM change; DELETE FROM subscriber")
            }
        }
    }

    @Test("readers beside writers miss nothing and get nothing twice, in order")
    func concurrent() async throws {
        let harness = try await Harness()
        let store = harness.store
        let (meters, each) = (4, 40)
        let reader = Task { () -> [ReadingChange] in
            var found: [ReadingChange] = []
            for try await change in store.changes(after: .beginning) {
                found.append(change)
                if change.reading?.record.sequence == 999 { break }
            }
            return found
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for meter in 0..<meters {
                group.addTask {
                    let contact = try await store.beginContact(
                        with: Build.device(0xC000 + UInt64(meter)), at: Build.instant("2026-11-21T09:59:00Z"),
                        clock: nil,
                        batteryPercent: nil)
                    for number in 0..<each {
                        let frame = Build.glucose(
                            UInt16(number), "2026-11-20T\(10 + meter):\(10 + number):00", UInt16(100 + number))
                        _ = try await store.append([frame], of: contact)
                    }
                }
            }
            try await group.waitForAll()
        }
        try await harness.contact([Build.glucose(999, "2026-11-21T08:00:00")], device: Build.device(0xD))
        let found = try await reader.value
        #expect(found.count == meters * each + 1)
        #expect(Set(found.compactMap(\.reading?.id)).count == found.count)
        #expect(zip(found, found.dropFirst()).allSatisfy { $0.position.number < $1.position.number })
    }

    @Test("a store of an earlier version has its readings in the order it stored them, with the time each came")
    func former() async throws {
        let harness = try await Harness()
        try await harness.contact(Self.glucose(0..<3))
        try await harness.store.write(.setting) { db in try db.execute(sql: "DELETE FROM change_second") }
        let changes = try await Self.all(harness.store)
        #expect(changes.allSatisfy { $0.lastUpdated == Build.instant("2026-11-21T10:00:00Z") })
    }
}

@Suite("Subscribers by name")
struct SubscriberTests {
    private static func fill(_ harness: Harness, _ numbers: Range<UInt16>) async throws {
        try await harness.contact(numbers.map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) })
    }

    /// Takes all that waits, and notes that it has it.
    static func take(_ store: ReadingStore, as name: String) async throws -> [ReadingChange] {
        let subscription = try await store.subscribe(as: name)
        defer { subscription.end() }
        let changes = try await ChangeTests.all(store, after: subscription.start, of: subscription.scope)
        if let last = changes.last { try await subscription.advance(to: last.position) }
        return changes
    }

    @Test("a name goes on where it was, over the store's openings; a new one begins now, or with everything")
    func positions() async throws {
        let harness = try await Harness()
        try await Self.fill(harness, 0..<3)
        try await harness.store.subscribe(as: "all", from: .beginning).end()
        try await harness.store.subscribe(as: "new").end()
        try await Self.fill(harness, 3..<5)
        #expect(try await Self.take(harness.store, as: "all").count == 5)
        #expect(try await Self.take(harness.store, as: "new").count == 2)
        // The start of a name that is known is no start anew.
        try await harness.store.subscribe(as: "all", from: .beginning).end()
        try harness.store.close()
        let again = try await Harness(harness.directory)
        try await Self.fill(again, 5..<6)
        #expect(try await again.store.subscriberList().map(\.waiting) == [1, 1])
        for name in ["all", "new"] {
            #expect(try await Self.take(again.store, as: name).compactMap(\.reading?.record.sequence) == [5])
            #expect(try await Self.take(again.store, as: name).isEmpty)
        }
        #expect(try await again.store.subscriberList().map(\.waiting) == [0, 0])
        #expect(try await again.store.verify().isEmpty)
    }

    @Test("what was read and not noted as taken comes again, with the same ids and revisions")
    func again() async throws {
        let harness = try await Harness()
        let subscription = try await harness.store.subscribe(as: "dashboard", from: .beginning)
        try await Self.fill(harness, 0..<4)
        let first = try await ChangeTests.all(harness.store, after: subscription.start)
        try await subscription.advance(to: first[1].position)
        // It never goes back.
        try await subscription.advance(to: first[0].position)
        subscription.end()
        #expect(try await Self.take(harness.store, as: "dashboard") == Array(first[2...]))
    }

    @Test("one at a time reads under a name; a name has one scope; names are simple")
    func refusals() async throws {
        let harness = try await Harness()
        let store = harness.store
        let subscription = try await store.subscribe(as: "a", to: ChangeScope(kinds: [.glucose]))
        await #expect(throws: SubscriberError.inUse("a")) { try await store.subscribe(as: "a") }
        #expect(try await store.subscriberList().map(\.isAttached) == [true])
        subscription.end()
        await #expect(throws: SubscriberError.otherScope("a")) { try await store.subscribe(as: "a", to: .everything) }
        #expect(try await store.subscribe(as: "a").scope.kinds == [.glucose])
        // The one before went with the last reference to it.
        #expect(try await store.subscribe(as: "a", to: ChangeScope(kinds: [.glucose])).name == "a")
        for name in ["", "A", "ä", "a b", String(repeating: "a", count: 65), "a/b", "a\n"] {
            await #expect(throws: SubscriberError.invalidName(name)) { try await store.subscribe(as: name) }
        }
        let last = try await store.subscribe(as: "b")
        try await store.removeSubscriber("b")
        await #expect(throws: SubscriberError.unknown("b")) { try await last.advance(to: store.newestChange()) }
        await #expect(throws: SubscriberError.unknown("b")) { try await store.removeSubscriber("b") }
    }

    @Test("a person's subscribers go with the person; the household's are told that readings were erased")
    func erased() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await Self.fill(harness, 0..<3)
        let user = try await store.currentUser()
        try await store.subscribe(as: "hers", to: ChangeScope(person: user.key), from: .beginning).end()
        try await store.subscribe(as: "household", from: .beginning).end()
        #expect(try await store.subscriberList().map(\.person) == ["white_bear", nil])
        try await store.eraseUser(user.key)
        #expect(try await store.subscriberList().map(\.name) == ["household"])
        #expect(try await Self.take(store, as: "household").map(ChangeTests.name) == ["erased"])
        #expect(try await store.verify().isEmpty)
    }

    @Test("a subscriber gets the next reading after a person has gone whose readings were all pruned before")
    func erasedAfterPruning() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await store.setPeople([
            StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: [.init(address: 0xC1, slot: nil)])
        ])
        let anna = try #require(try await store.user("anna")).key
        try await store.subscribe(as: "household", from: .beginning).end()
        try await Self.fill(harness, 0..<3)
        try await harness.contact([Build.pressure(120, "2026-11-21T08:00:00")], device: Build.device(0xC1))
        try await PruneTests.deliver(store) { $0.reading.kind == .bloodPressure }
        #expect(try await store.prune(olderThan: .zero).readings == 1)
        #expect(
            try await Self.take(store, as: "household").map(ChangeTests.name) == ["added", "added", "added", "pruned"])

        try await store.eraseUser(anna)
        try await Self.fill(harness, 3..<4)
        #expect(try await store.subscriberList().map(\.waiting) == [2])
        let news = try await Self.take(store, as: "household")
        #expect(news.map(ChangeTests.name) == ["erased", "added"] && news.last?.reading?.record.sequence == 3)
        #expect(try await store.verify().isEmpty)
    }

    @Test("an export has the names and where they are; positions of the exported store are another's there")
    func exported() async throws {
        let source = try await Harness()
        try await Self.fill(source, 0..<4)
        try await source.store.subscribe(as: "dashboard", from: .beginning).end()
        let first = try await ChangeTests.all(source.store)
        let subscription = try await source.store.subscribe(as: "dashboard")
        try await subscription.advance(to: first[2].position)
        let path = source.directory + "/backup"
        var octets: [UInt8] = []
        try await source.store.export(passphrase: "correct horse battery staple") { octets += $0 }
        try Data(octets).write(to: URL(fileURLWithPath: path))
        let directory = Harness.newDirectory()
        try await ReadingStore.importing(
            path, passphrase: "correct horse battery staple", into: directory, decoder: TestDecoder())
        let moved = try await Harness(directory)
        #expect(try await Self.take(moved.store, as: "dashboard").compactMap(\.reading?.record.sequence) == [3])
        await #expect(throws: StoreError.unknownPosition) {
            try await moved.store.changePage(after: first[2].position)
        }
        #expect(try await moved.store.verify().isEmpty)
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        /// Stores readings and changes of them, while a subscriber notes in a file what it was given, and then that it has it.
        static func work(_ directory: String) async throws {
            let store = try await Harness.open(directory)
            let notes = FileHandle(forWritingAtPath: directory + "/given")
            try notes?.seekToEnd()
            let writer = Task {
                let contact = try await store.beginContact(
                    with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
                for number in UInt16(0)..<20 {
                    _ = try await store.append(
                        [Build.glucose(number, "2026-11-21T08:\(10 + number):00", 90 + number)], of: contact)
                    if number % 3 == 2 { _ = try await store.append([Build.context(number - 2, meal: 1)], of: contact) }
                }
                try await store.endContact(contact, ContactSummary(isComplete: true, received: 20))
            }
            try await follow(store, notes, until: 20)
            try await writer.value
            try store.close()
        }

        /// - Parameter count: of readings; it ends once all of them and their contexts were given.
        static func follow(_ store: ReadingStore, _ notes: FileHandle?, until count: Int) async throws {
            let subscription = try await store.subscribe(as: "follower", from: .beginning)
            for try await page in subscription.pages(limit: 3) {
                for change in page.changes {
                    let meal = change.reading?.context?.meal ?? "-"
                    try notes?.write(
                        contentsOf: Data("\(change.reading?.record.sequence ?? 0) \(change.revision) \(meal)\n".utf8))
                }
                try await subscription.advance(to: page.position)
                let newest = try await store.newestChange()
                if page.position == newest, try await store.statistics().readings.values.reduce(0, +) == count,
                    newest.number >= 26
                {
                    return
                }
            }
        }

        @Test(
            "death at any commit loses a subscriber nothing: each state of a reading is given at least once",
            arguments: [
                "journal.before-commit:2", "journal.after-commit:2", "journal.before-commit:9",
                "journal.after-commit:14",
                "subscriber.before-commit", "subscriber.after-commit", "subscriber.before-commit:3",
                "subscriber.after-commit:4", "contact.before-commit:2",
            ])
        func kill(point: String) async throws {
            let directory = Harness.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            _ = FileManager.default.createFile(atPath: directory + "/given", contents: Data())
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await SubscriberTests.work(directory)
                // Where the follower was faster than one of its later points, it ends all the same.
                if point.hasPrefix("subscriber"), point.contains(":") { raise(SIGKILL) }
            }
            try await SubscriberTests.work(directory)
            let lines = try String(contentsOfFile: directory + "/given", encoding: .utf8).split(separator: "\n")
                .map { $0.split(separator: " ").map(String.init) }
            let final = Dictionary(lines.map { ($0[0], $0[2]) }) { _, last in last }
            #expect(final.count == 20)
            for number in 0..<20 {
                let hasContext = number % 3 == 0 && number + 2 < 20
                #expect(final[String(number)] == (hasContext ? "preprandial" : "-"), "\(number)")
            }
            // What came twice is recognised by its revision: it says the same.
            for (_, same) in Dictionary(grouping: lines, by: { $0[0] + " " + $0[1] }) { #expect(Set(same).count == 1) }
            let store = try await Harness.open(directory)
            #expect(try await store.verify().isEmpty)
            #expect(try await store.subscriberList().map(\.waiting) == [0])
        }
    #endif
}
