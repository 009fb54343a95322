import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// An é is one scalar or two: editors and keyboards write either. To Swift the names are equal, and to SQLite they are not.
@Suite("A person's name in another spelling of Unicode")
struct PersonSpellingTests {
    private let composed = "Zo\u{E9}"
    private let decomposed = "Zoe\u{301}"

    @Test("is that of the same person, who stays known by the first")
    func same() async throws {
        let harness = try await Harness()
        let first = try await harness.store.setCurrentUser(composed, timeZone: "Europe/Berlin")
        let again = try await harness.store.setCurrentUser(decomposed, timeZone: "Europe/Paris")
        #expect(again.key == first.key && again.timeZone == "Europe/Paris")
        #expect(again.clientUserID.unicodeScalars.elementsEqual(composed.unicodeScalars))
        #expect(try await harness.store.user(decomposed) == again)
        #expect(try await harness.store.users().map(\.clientUserID) == ["white_bear", composed])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("is not another's where both spellings are known already")
    func both() async throws {
        let harness = try await Harness()
        let first = try await harness.store.setCurrentUser(composed, timeZone: "Europe/Berlin")
        // As earlier versions made them.
        try await harness.store.write(.user) { [decomposed] db in
            try db.execute(
                sql: "INSERT INTO user (key, client_user_id, created_at) VALUES (99, ?, 0)", arguments: [decomposed])
            try PeopleTags(db: db, sealing: harness.store.sealing).sign(person: 99)
        }
        #expect(try await harness.store.user(composed)?.key == first.key)
        #expect(try await harness.store.user(decomposed)?.key == UserKey(rawValue: 99))
    }

    @Test("names them in an entry by hand")
    func entry() async throws {
        let harness = try await Harness()
        try await harness.store.setCurrentUser(composed, timeZone: "Europe/Berlin")
        try await harness.store.enter(EntryTests.entry(person: decomposed))
        let reading = try #require(try await harness.all().first)
        #expect(try #require(reading.person).unicodeScalars.elementsEqual(composed.unicodeScalars))
        #expect(try await harness.store.verify().isEmpty)
    }
}
