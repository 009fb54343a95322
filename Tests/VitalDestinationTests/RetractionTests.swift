import DeliveryFixture
import Foundation
import GRDB
import HealthReadings
import ScriptedServer
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import ReadingStore
@testable import VitalDestination

@Suite("What is taken back")
struct RetractionTests {
    /// The lines of a file: each reading's id, and whether it is taken back.
    private static func file(_ path: String) throws -> [(id: String, isRetracted: Bool)] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map { line in
            let document = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            return (try #require(document["id"] as? String), document["retracted"] as? Bool ?? false)
        }
    }

    private static func kept(_ path: String) throws -> Set<String> {
        var kept: Set<String> = []
        for line in try file(path) { if line.isRetracted { kept.remove(line.id) } else { kept.insert(line.id) } }
        return kept
    }

    @Test("a reading that is excluded after it was delivered is taken back where that is possible, and told where not")
    func excluded() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            try await fixture.read(3)
            #expect(await vital.syncOnce().delivered == 3)
            #expect(await file.syncOnce().delivered == 3)
            let ids = try Self.kept(path)
            try await fixture.read(1, from: 2, isFailed: true)
            let events = vital.events()
            #expect(await file.syncOnce().retracted == 1)
            #expect(await vital.syncOnce().retracted == 0)
            var told: [SyncEvent] = []
            for await event in events {
                if event == .syncingCompleted { break }
                told.append(event)
            }
            #expect(told.contains(.leftBehind(count: 1)))
            let place = try await file.place()
            #expect(try await fixture.store.leftBehind(at: .vital) == 1)
            #expect(try await fixture.store.leftBehind(at: place) == 0)
            let left = try await fixture.store.readingsLeftBehind(at: .vital)
            #expect(left.map(\.record.sequence) == [2] && left.map(\.excluded) == [.errorRecord])
            #expect(try await fixture.store.readingsLeftBehind(at: place).isEmpty)
            #expect(try Self.kept(path).count == 2 && Self.kept(path).isSubset(of: ids))
            #expect(try Self.file(path).count == 4)
            // Once is enough, also for a worker that knows nothing of before.
            #expect(await file.syncOnce() == SyncReport())
            #expect(await fixture.lines(at: path).syncOnce() == SyncReport())
            // It counts again: each has it again.
            try await fixture.read(1, from: 2, isCorrected: true)
            #expect(await file.syncOnce().delivered == 1)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(try Self.kept(path) == ids)
            #expect(try await fixture.store.leftBehind(at: .vital) == 0)
            #expect(try await fixture.store.verify().isEmpty)
        }
    }

    /// A glucose that was entered by hand.
    private static func entry(_ value: String, after seconds: Int64 = 0, corrects: ReadingID? = nil) throws
        -> ManualEntry
    {
        let zone = try #require(ZoneRules.named("UTC"))
        let text = EntryText(
            kind: "glucose", value: value, unit: "mmol/L", time: Instant(seconds: Fixture.start + seconds).description)
        var entry = try ManualEntry(
            text, person: Fixture.user, zones: [(Instant(microseconds: .min), zone)], now: .systemClock)
        entry.corrects = corrects
        return entry
    }

    @Test(
        "an entry that was delivered and is corrected or withdrawn is taken back, replaced, or left behind and counted")
    func entries() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            let store = fixture.store
            let first = try Self.entry("5.6")
            try await store.enter(first)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(await file.syncOnce().delivered == 1)
            // Of the same second: the server replaces it, and the file has another id.
            let second = try Self.entry("6.5", corrects: first.id)
            try await store.enter(second)
            #expect(await vital.syncOnce().delivered == 1)
            let report = await file.syncOnce()
            #expect(report.delivered == 1 && report.retracted == 1)
            #expect(try Self.kept(path) == [second.id.description])
            #expect(try await store.leftBehind(at: .vital) == 0)
            // Of another second: the server keeps the former, too.
            let third = try Self.entry("6.5", after: 60, corrects: second.id)
            try await store.enter(third)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(await file.syncOnce().retracted == 1)
            #expect(try Self.kept(path) == [third.id.description])
            #expect(try await store.leftBehind(at: .vital) == 1)
            try await store.withdraw(third.id)
            #expect(await file.syncOnce().retracted == 1)
            #expect(try Self.kept(path).isEmpty)
            #expect(try await store.leftBehind(at: .vital) == 2)
            try await store.enter(third)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(await file.syncOnce().delivered == 1)
            #expect(try Self.kept(path) == [third.id.description])
            #expect(try await store.leftBehind(at: .vital) == 1)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test("an entry that is corrected back has its second again: a server has one sample, and a file one entry")
    func correctedBack() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, path in
            let store = fixture.store
            let first = try Self.entry("5.6")
            let second = try Self.entry("6.5", corrects: first.id)
            let back = try Self.entry("5.6", corrects: second.id)
            #expect(back.id == first.id)
            for entry in [first, second, back] {
                try await store.enter(entry)
                #expect(await vital.syncOnce().delivered == 1)
                #expect(await file.syncOnce().delivered == 1)
                #expect(try Self.kept(path) == [entry.id.description])
            }
            let bodies = script.now.bodies
            let seconds = bodies.flatMap { body in
                body.matches(of: /"start_date":"([^"]+)"/).map { String($0.1) }
            }
            #expect(bodies.count == 3 && Set(seconds).count == 1, "\(seconds)")
            #expect(bodies.last?.contains("5.6") == true)
            #expect(try await store.leftBehind(at: .vital) == 0)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test("an entry that corrects to one that stands leaves that where it is")
    func correctedToAnother() async throws {
        try await withServerAndFile { vital, _, fixture, _ in
            let store = fixture.store
            let first = try Self.entry("5.6")
            let second = try Self.entry("6.5")
            for entry in [first, second] {
                try await store.enter(entry)
                #expect(await vital.syncOnce().delivered == 1)
            }
            try await store.enter(try Self.entry("5.6", corrects: second.id))
            #expect(await vital.syncOnce().delivered == 0)
            // A second later, it is another sample.
            #expect(try await store.leftBehind(at: .vital) == 1)
            #expect(try await store.reading(first.id)?.excluded == nil)
            #expect(try await store.verify().isEmpty)
        }
    }

    /// The second of each post's first sample.
    private static func seconds(_ script: VitalScript) -> [String] {
        script.now.bodies.map { body in
            body.firstMatch(of: /"data":\[\{.*?"start_date":"([^"]+)"/).map { String($0.1) } ?? ""
        }
    }

    @Test("an entry that is given the time of one that was left behind replaces it, and it counts no more")
    func replacesLeftBehind() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, path in
            let store = fixture.store
            let first = try Self.entry("5.6")
            let later = try Self.entry("5.6", after: 3600, corrects: first.id)
            let third = try Self.entry("6.5", corrects: later.id)
            for (entry, left) in [(first, 0), (later, 1), (third, 1)] {
                try await store.enter(entry)
                #expect(await vital.syncOnce().delivered == 1)
                #expect(await file.syncOnce().delivered == 1)
                #expect(try Self.kept(path) == [entry.id.description])
                #expect(try await store.leftBehind(at: .vital) == left)
            }
            // So does one that is entered anew instead of being corrected.
            try await store.withdraw(third.id)
            #expect(try await store.leftBehind(at: .vital) == 2)
            try await store.enter(try Self.entry("7.1"))
            #expect(await vital.syncOnce().delivered == 1)
            #expect(try await store.leftBehind(at: .vital) == 1)
            let seconds = Self.seconds(script)
            #expect(seconds.count == 4 && Set(seconds).count == 2, "\(seconds)")
            #expect(seconds.first == seconds[2] && seconds.first == seconds[3], "\(seconds)")
            // And the first entry once more, which is withdrawn and at the server no longer.
            #expect(try await store.readingsLeftBehind(at: .vital).map(\.id) == [later.id])
            try await store.enter(first)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(Set(Self.seconds(script)).count == 3)
            #expect(try await store.leftBehind(at: .vital) == 1)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test("a correction that is withdrawn or erased before it was delivered leaves behind what it was to replace")
    func undeliveredCorrection() async throws {
        try await withServerAndFile { vital, _, fixture, _ in
            let store = fixture.store
            let first = try Self.entry("5.6")
            let second = try Self.entry("6.5", corrects: first.id)
            try await store.enter(first)
            #expect(await vital.syncOnce().delivered == 1)
            try await store.enter(second)
            #expect(try await store.leftBehind(at: .vital) == 0)
            try await store.withdraw(second.id)
            #expect(await vital.syncOnce().delivered == 0)
            #expect(try await store.leftBehind(at: .vital) == 1)
            try await store.enter(second)
            #expect(try await store.leftBehind(at: .vital) == 0)
            #expect(try await store.verify().isEmpty)
            let erasure = try await store.eraseUser(try await fixture.person.key, retracts: true)
            #expect(erasure.destinations.first { $0.destination == "vital" }?.leftBehind == 1)
        }
    }

    @Test("a value that was on its way, and did not get there, is not left behind by its correction")
    func offeredCorrection() async throws {
        try await withServerAndFile { vital, _, fixture, _ in
            let store = fixture.store
            _ = try await vital.place()
            let first = try Self.entry("5.6")
            let second = try Self.entry("6.5", corrects: first.id)
            try await store.enter(first)
            let group = try #require(try await store.groupsWaiting().first)
            let items = try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10)
            #expect(items.count == 1)
            try await store.noteOffer(items.map(\.id), at: Instant(seconds: 5))
            try await store.enter(second)
            try await store.withdrawOffer(items.map(\.id), at: Instant(seconds: 5))
            try await store.withdraw(second.id)
            #expect(try await store.leftBehind(at: .vital) == 0)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test("a withdrawn value that a server may have stays so where the one in its place is withdrawn, too")
    func offeredAndReplaced() async throws {
        try await withServerAndFile { vital, _, fixture, _ in
            let store = fixture.store
            _ = try await vital.place()
            let (first, second) = (try Self.entry("5.6"), try Self.entry("6.5"))
            try await store.enter(first)
            let group = try #require(try await store.groupsWaiting().first)
            let items = try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10)
            // The process was killed while it sent.
            try await store.noteOffer(items.map(\.id), at: Instant(seconds: 5))
            try await store.withdraw(first.id)
            #expect(try await store.leftBehind(at: .vital) == 1)
            try await store.enter(second)
            #expect(try await store.leftBehind(at: .vital) == 0)
            try await store.withdraw(second.id)
            #expect(try await store.leftBehind(at: .vital) == 1)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test(
        "a correction that nobody can have replaces nothing: the former is left behind until the next one replaces it")
    func implausibleCorrection() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, path in
            let store = fixture.store
            let first = try Self.entry("5.6")
            let slip = try Self.entry("65", corrects: first.id)
            let right = try Self.entry("6.5", corrects: slip.id)
            try await store.enter(first)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(await file.syncOnce().delivered == 1)
            try await store.enter(slip)
            #expect(try await store.reading(slip.id)?.excluded == .implausible)
            #expect(await vital.syncOnce().delivered == 0)
            #expect(await file.syncOnce().retracted == 1)
            #expect(try await store.leftBehind(at: .vital) == 1)
            try await store.enter(right)
            #expect(await vital.syncOnce().delivered == 1)
            #expect(await file.syncOnce().delivered == 1)
            #expect(try await store.leftBehind(at: .vital) == 0)
            #expect(Set(Self.seconds(script)).count == 1)
            #expect(try Self.kept(path) == [right.id.description])
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test("a reading that counts again before it was taken back is not taken back")
    func cancelled() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            let place = try await file.place()
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(try await fixture.store.retractionCount(at: place) == 1)
            try await fixture.read(1, from: 2, isCorrected: true)
            #expect(try await fixture.store.retractionCount(at: place) == 0)
            let report = await file.syncOnce()
            #expect(report.retracted == 0 && report.delivered == 1)
            #expect(try Self.kept(path).count == 3)
        }
    }

    @Test("what was never sent is taken back nowhere")
    func neverSent() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            try await fixture.read(2, isFailed: true)
            #expect(await file.syncOnce() == SyncReport())
            #expect(!FileManager.default.fileExists(atPath: path))
            // It may have been sent by a process that was killed, so the file is asked; it knows that it has none.
            _ = try await file.place()
            try await fixture.read(1, from: 5)
            try await fixture.read(1, from: 5, isFailed: true)
            #expect(await file.syncOnce().retracted == 1)
            #expect(try Self.file(path).isEmpty)
            #expect(await vital.syncOnce() == SyncReport())
            #expect(try await fixture.store.leftBehind(at: .vital) == 0)
        }
    }

    @Test("an erased person's readings are taken back everywhere; what cannot be is counted")
    func erased() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            try await fixture.read(10)
            #expect(await vital.syncOnce().delivered == 10)
            #expect(await file.syncOnce().delivered == 10)
            try await fixture.read(2, from: 20)
            let store = fixture.store
            let erasure = try await store.eraseUser(try await fixture.person.key, retracts: true)
            #expect(
                erasure.destinations == [
                    ErasureAtDestination(destination: "vital", retracting: 0, leftBehind: 10),
                    ErasureAtDestination(destination: "file", retracting: 12, leftBehind: 0),
                ])
            #expect(try await store.statistics().readings.isEmpty)
            #expect(try await store.verify().isEmpty)
            // The key is needed until the last is taken back, and then goes.
            #expect(try await !store.destroyKey())
            #expect(try await store.isKeyToBeDestroyed())
            let key = try String(contentsOfFile: fixture.folder + "/store.key", encoding: .utf8)
            #expect(await file.syncOnce().retracted == 12)
            #expect(try Self.kept(path).isEmpty && Self.file(path).count == 20)
            #expect(try await !store.isKeyToBeDestroyed())
            #expect(try String(contentsOfFile: fixture.folder + "/store.key", encoding: .utf8) != key)
            #expect(try await store.leftBehind(at: .vital) == 10)
        }
    }

    @Test("erased here alone: no destination is asked; removed at a server: nothing is left behind there")
    func local() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            try await fixture.read(3)
            #expect(await vital.syncOnce().delivered == 3)
            #expect(await file.syncOnce().delivered == 3)
            let erasure = try await fixture.store.eraseUser(try await fixture.person.key)
            #expect(erasure.destinations.isEmpty)
            #expect(await file.syncOnce().retracted == 0)
            #expect(try Self.kept(path).count == 3)
            try await fixture.store.setCurrentUser(Fixture.user, timeZone: "UTC")
            try await fixture.read(2, from: 50)
            #expect(await vital.syncOnce().delivered == 2)
            let other = try await fixture.store.eraseUser(
                try await fixture.person.key, retracts: true, except: [.vital])
            #expect(other.destinations.map(\.destination) == ["file"])
            #expect(try await fixture.store.leftBehind(at: .vital) == 0)
        }
    }

    @Test(
        "what cannot be taken back now waits, is asked for with a growing wait, and keeps no other destination waiting")
    func failing() async throws {
        let clock = ManualClock()
        try await withServerAndFile(clock: clock.syncClock) { vital, _, fixture, _ in
            let folder = fixture.folder + "/elsewhere"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let file = fixture.lines(at: folder + "/readings.jsonl", clock: clock.syncClock)
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            try await fixture.read(1, from: 2, isFailed: true)
            // Another worker, so that the file is opened anew, in a folder that is away.
            try FileManager.default.moveItem(atPath: folder, toPath: folder + "-away")
            let next = fixture.lines(at: folder + "/readings.jsonl", clock: clock.syncClock)
            for _ in 0..<2 { #expect(await next.syncOnce().failure?.code == "store_io") }
            #expect(await next.status.failures == 2)
            let place = try await next.place()
            #expect(try await fixture.store.retractions(at: place, limit: 10).map(\.attempts) == [2])
            #expect(await vital.syncOnce().delivered == 2)
            try FileManager.default.moveItem(atPath: folder + "-away", toPath: folder)
            #expect(await next.syncOnce().retracted == 1)
            #expect(await next.status.failures == 0)
            #expect(try Self.kept(folder + "/readings.jsonl").count == 2)
        }
    }

    @Test("a destination that is switched off is asked once it is on again; one that is removed once it is named again")
    func disabled() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            try await fixture.store.setDestinationEnabled(false, "file")
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(await file.syncOnce().retracted == 0)
            #expect(try Self.kept(path).count == 3)
            try await fixture.store.setDestinationEnabled(true, "file")
            #expect(await file.syncOnce().retracted == 1)
            #expect(try Self.kept(path).count == 2)
            try await fixture.read(1, from: 3, isFailed: true)
            let place = try await file.place()
            try await fixture.store.removeDestination("file")
            #expect(try await fixture.store.retractionCount(at: place) == 0)
            #expect(try await fixture.store.leftBehind(at: place) == 1)
            #expect(try Self.kept(path).count == 2)
            let again = fixture.lines()
            #expect(await again.syncOnce().retracted == 1)
            #expect(try await fixture.store.leftBehind(at: place) == 0)
            #expect(try Self.kept(path).count == 1)
        }
    }

    @Test("what was erased while the settings did not name a destination is taken back once they do")
    func erasedWhileRemoved() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            // One that waits there has never been sent.
            let place = try await file.place()
            try await fixture.read(1, from: 9)
            try await fixture.store.removeDestination("file")
            let person = try await fixture.person
            let erasure = try await fixture.store.eraseUser(person.key, retracts: true)
            let told = erasure.destinations.first { $0.destination == "file" }
            #expect(told?.retracting == 0 && told?.leftBehind == 3)
            #expect(try await fixture.store.leftBehind(at: place) == 3)
            #expect(try await fixture.store.verify().isEmpty)
            let again = fixture.lines()
            #expect(await again.syncOnce().retracted == 3)
            #expect(try Self.kept(path).isEmpty)
            #expect(try await fixture.store.leftBehind(at: place) == 0)
        }
    }

    @Test("on the word of a row that was changed nothing is taken back, and readings are delivered all the same")
    func tampered() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            try await fixture.read(2, from: 2, isFailed: true)
            try await fixture.store.write(.setting) { db in
                try db.execute(
                    sql: "UPDATE retraction SET content = (SELECT content FROM retraction WHERE key = 2) WHERE key = 1")
            }
            try await fixture.read(2, from: 20)
            let report = await file.syncOnce()
            // The one behind it is not kept back.
            #expect(report.retracted == 1 && report.delivered == 2 && report.failure?.code == "store_corrupt")
            #expect(try Self.kept(path).count == 4)
            #expect(try await fixture.store.verify().map(\.subject) == ["retraction 1"])
        }
    }

    @Test("a request of an earlier time that is put back takes back nothing that counts")
    func putBack() async throws {
        try await withServerAndFile { _, file, fixture, path in
            let store = fixture.store
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            let place = try await file.place()
            try await fixture.read(1, from: 2, isFailed: true)
            let (former, content) = try await store.read { db in
                (
                    try #require(try Int64.fetchOne(db, sql: "SELECT reading FROM retraction WHERE key = 1")),
                    try #require(try Data.fetchOne(db, sql: "SELECT content FROM retraction WHERE key = 1"))
                )
            }
            #expect(await file.syncOnce().retracted == 1)
            try await fixture.read(1, from: 2, isCorrected: true)
            #expect(await file.syncOnce().delivered == 1)
            for reading in [former, nil] {
                try await store.write(.setting) { db in
                    try db.execute(
                        sql: "INSERT INTO retraction (key, destination, reading, content) VALUES (1, ?, ?, ?)",
                        arguments: [place.rawValue, reading, content])
                }
                #expect(await file.syncOnce() == SyncReport())
                #expect(try Self.kept(path).count == 3)
                #expect(try await store.retractionCount(at: place) == 0)
            }
        }
    }

    @Test("pending retractions are re-encrypted with a new key")
    func resealed() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            try await fixture.read(1, from: 2, isFailed: true)
            _ = try await fixture.store.rotateKey()
            #expect(await file.syncOnce().retracted == 1)
            #expect(try Self.kept(path).count == 2)
        }
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        /// Delivers readings, excludes some and erases the person; each step only if it was not done before.
        private static func work(_ folder: String, unwrittenLimit: Int? = nil) async throws {
            let fixture = try await Fixture.open(folder)
            let store = fixture.store
            let file = fixture.lines(unwrittenLimit: unwrittenLimit)
            func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: folder + "/" + name) }
            func note(_ name: String) { _ = FileManager.default.createFile(atPath: folder + "/" + name, contents: nil) }
            if !exists("erased") {
                if try await store.statistics().readings.isEmpty { try await fixture.read(10) }
                #expect(await file.syncOnce().failure == nil)
                note("delivered")
                try await fixture.read(6, from: 3, isFailed: true)
                #expect(await file.syncOnce().failure == nil)
                note("erased")
            }
            if try await !store.statistics().readings.isEmpty {
                try await store.eraseUser(try await fixture.person.key, retracts: true)
            }
            #expect(await file.syncOnce().failure == nil)
            #expect(try await store.retractionCount(at: file.place()) == 0)
            try store.close()
        }

        @Test(
            "death at any moment leaves nothing at a destination that was excluded or erased",
            arguments: [
                "retract.answered", "retract.answered:3", "retract.before-commit", "retract.after-commit",
                "retract.before-commit:2", "retract.after-commit:3", "jsonl.before:4", "jsonl.after:4", "jsonl.after:5",
                "erase.before-commit", "erase.after-commit", "acknowledge.before-commit:3",
            ])
        func killed(point: String) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "killed-\(UUID().uuidString)").path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [folder = folder as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await RetractionTests.work(folder, unwrittenLimit: Fixture.unwrittenLimit(dyingAt: point))
            }
            try await Self.work(folder)
            let lines = try Self.file(folder + "/readings.jsonl")
            #expect(try Self.kept(folder + "/readings.jsonl").isEmpty)
            #expect(lines.filter { !$0.isRetracted }.count == 10 && lines.count == 20)
        }
    #endif
}
