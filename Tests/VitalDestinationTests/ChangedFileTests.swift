import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import TestSupport
import Testing

@testable import ReadingDelivery
@testable import VitalDestination

/// The file of a destination belongs to its owner, who moves, cuts and replaces it while the gateway runs.
@Suite("A file that others change")
struct ChangedFileTests {
    private static func lines(_ path: String) throws -> [(id: String, isRetracted: Bool)] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map { line in
            let document = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            return (try #require(document["id"] as? String), document["retracted"] as? Bool ?? false)
        }
    }

    private static func waiting(_ fixture: Fixture, _ worker: OutboxWorker) async throws -> Int {
        try await fixture.store.groupsWaiting(at: worker.place()).reduce(0) { $0 + $1.count }
    }

    @Test(
        "a file that is moved away or removed is made anew, and what is delivered is in it", arguments: [true, false])
    func moved(isKept: Bool) async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            if isKept {
                try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
            } else {
                try FileManager.default.removeItem(atPath: path)
            }
            try await fixture.read(4, from: 4)
            #expect(await file.syncOnce().delivered == 4)
            #expect(try Self.lines(path).count == 4)
            // The owner asks for all of them once more.
            #expect(try await fixture.store.redeliver(to: "file") == 7)
            #expect(await file.syncOnce().delivered == 7)
            #expect(try Set(Self.lines(path).map(\.id)).count == 7)
        }
    }

    @Test("what a former file has is taken back in the new one: whoever keeps both learns of it")
    func retractedAfterMove() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            let former = try Self.lines(path).map(\.id)
            try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(await file.syncOnce().retracted == 1)
            let lines = try Self.lines(path)
            #expect(lines.map(\.isRetracted) == [true] && former.contains(lines[0].id))
            #expect(await file.syncOnce() == SyncReport())
            #expect(try Self.lines(path).count == 1)
        }
    }

    @Test("a file that is replaced by a copy goes on; what the copy lacks is appended when it is asked for")
    func replaced() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            let text = try String(contentsOfFile: path, encoding: .utf8)
            let rest = text.split(separator: "\n").dropFirst().joined(separator: "\n") + "\n"
            try rest.write(toFile: path, atomically: true, encoding: .utf8)
            try await fixture.read(2, from: 4)
            #expect(await file.syncOnce().delivered == 2)
            #expect(try Self.lines(path).count == 4)
            try await fixture.store.redeliver(to: "file")
            #expect(await file.syncOnce().delivered == 5)
            let ids = try Self.lines(path).map(\.id)
            #expect(ids.count == 5 && Set(ids).count == 5)
        }
    }

    @Test("half a line that somebody appends between two deliveries is not glued to a reading")
    func half() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(2)
            #expect(await file.syncOnce().delivered == 2)
            let handle = try #require(FileHandle(forWritingAtPath: path))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data(#"{"id":"half"#.utf8))
            try handle.close()
            try await fixture.read(2, from: 3)
            #expect(await file.syncOnce().delivered == 2)
            #expect(try Self.lines(path).count == 4)
        }
    }

    @Test(
        "a file that holds something else stays as it is, and readings wait",
        arguments: [
            "the only copy of my secret", "key\n", "SQLite format 3\0more", "{\"name\":\"mine\"}\n", "a: b\nc: d\n",
        ])
    func foreign(_ content: String) async throws {
        try await withServerAndFile { _, file, fixture, path in
            try content.write(toFile: path, atomically: true, encoding: .utf8)
            try await fixture.read(3)
            let failure = try #require(await file.syncOnce().failure)
            #expect(failure.message.contains("holds something else"), "\(failure)")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == content)
            #expect(try await Self.waiting(fixture, file) == 3)
            try FileManager.default.removeItem(atPath: path)
            await file.retryNow()
            #expect(await file.syncOnce().delivered == 3)
        }
    }

    @Test(
        "a file is read from its beginning only for readings that may be in it already", arguments: [true, false])
    func readFromItsBeginning(isOlder: Bool) async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(3)
            #expect(await file.syncOnce().delivered == 3)
            let readings = try await fixture.store.query(ReadingQuery()).readings
            let received = try #require(readings.map(\.receivedAt.seconds).min())
            // It was written to last a minute before they came, or behind them.
            let moment = Date(timeIntervalSince1970: TimeInterval(received + (isOlder ? -60 : 60)))
            try FileManager.default.setAttributes([.modificationDate: moment], ofItemAtPath: path)
            try await fixture.store.redeliver(to: "file")
            let restarted = JSONLinesDestination(name: "file", path: path)
            let worker = fixture.worker(restarted, clock: .system)
            #expect(await worker.syncOnce().delivered == 3)
            #expect(await restarted.knowsAll == !isOlder)
            #expect(try Self.lines(path).count == (isOlder ? 6 : 3))
        }
    }

    @Test("what is no ordinary file is named, before anything waits for it")
    func special() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try #require(mkfifo(path, 0o600) == 0)
            try await fixture.read(1)
            let failure = try #require(await file.syncOnce().failure)
            #expect(failure.message.contains("no ordinary file"), "\(failure)")
            #expect(await JSONLinesDestination(name: "file", path: path).test().contains { $0.isGood == false })
        }
    }
}
