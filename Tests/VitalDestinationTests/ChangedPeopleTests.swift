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

/// Somebody who can write the database, and has no key, gives people other names and ids.
@Suite("Delivery for people whose rows were changed")
struct ChangedPeopleTests {
    @Test("nothing is delivered for two people whose names were swapped, to no destination; a third one's readings go")
    func names() async throws {
        let script = VitalScript()
        script.change { state in
            for (name, digit) in [("white_bear", "a"), ("brown_bear", "b"), ("green_bear", "c")] {
                state.users[name] = "00000000-0000-4000-8000-00000000000\(digit)"
            }
        }
        try await with(script) { vital, fixture in
            let path = fixture.folder + "/readings.jsonl"
            let file = OutboxWorker(
                store: fixture.store, destination: JSONLinesDestination(name: "file", path: path), clock: .system,
                logger: Fixture.quiet)
            _ = try await file.place()
            // Three kinds of one person: as many targets as a destination may fail in a row.
            for kind in [ReadingKind.glucose, .bloodPressure, .weight] { try await fixture.read(2, kind: kind) }
            try await fixture.store.setCurrentUser("brown_bear", timeZone: "UTC")
            try await fixture.read(3, from: 10)
            try await fixture.store.setCurrentUser("green_bear", timeZone: "UTC")
            try await fixture.read(4, from: 20)
            try await fixture.store.write(.setting) { db in
                try db.execute(
                    sql: """
                        UPDATE user SET client_user_id = 'x' WHERE key = 1;
                        UPDATE user SET client_user_id = 'white_bear' WHERE key = 2;
                        UPDATE user SET client_user_id = 'brown_bear' WHERE key = 1
                        """)
            }
            for worker in [vital, file] {
                for _ in 0..<2 {
                    let report = await worker.syncOnce()
                    #expect(report.failure?.code == "store_corrupt" && report.refused == 0, "\(report)")
                    #expect(report.failure?.message.contains("person 1 was changed") == true)
                }
            }
            #expect(script.now.taken.count == 4)
            let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 4 && lines.allSatisfy { $0.contains(#""person":"green_bear""#) })
            #expect(try await fixture.waiting == 9)
        }
    }

    @Test("nothing is delivered to a server under an id that was another person's, or another server's")
    func ids() async throws {
        let script = VitalScript()
        try await with(script) { vital, fixture in
            try await fixture.read(2)
            #expect(await vital.syncOnce().delivered == 2)
            try await fixture.store.write(.setting) { db in
                try db.execute(sql: "UPDATE destination_user SET id = '00000000-0000-4000-8000-00000000000B'")
            }
            try await fixture.read(3, from: 10)
            let report = await vital.syncOnce()
            #expect(report.delivered == 0 && report.failure?.code == "store_corrupt")
            #expect(script.now.taken.count == 2)
            // The owner has the gateway ask the server again.
            try await fixture.store.setServerUserID(nil, of: UserKey(rawValue: 1))
            #expect(await vital.syncOnce().delivered == 3)
        }
    }

    @Test("a source that was changed in the file is not believed")
    func sources() async throws {
        let script = VitalScript()
        try await with(script) { vital, fixture in
            try await fixture.read(2)
            #expect(await vital.syncOnce().delivered == 2)
            try await fixture.store.write(.setting) { db in
                try db.execute(sql: "UPDATE source SET created_once = 0, status = 'absent'")
            }
            try await fixture.read(3, from: 10)
            try await vital.sources.forget()
            let report = await vital.syncOnce()
            #expect(report.delivered == 0 && report.failure?.code == "store_corrupt")
        }
    }
}
