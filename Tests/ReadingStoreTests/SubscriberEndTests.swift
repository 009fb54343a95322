import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Subscribers of people who are erased") struct SubscriberEndTests {
    @Test("a name that was for an erased person never gets other people's changes, unless it is freed")
    func ended() async throws {
        let harness = try await Harness()
        try await harness.store.setPeople([StorePerson(clientUserID: "kid", timeZone: "Europe/Berlin", shares: [])])
        let kid = try #require(try await harness.store.user("kid"))
        let scope = ChangeScope(person: kid.key)
        try await harness.store.subscribe(as: "tool", to: scope, from: .beginning).end()
        try await harness.store.eraseUser(kid.key)
        await #expect(throws: SubscriberError.ended("tool")) { try await harness.store.subscribe(as: "tool") }
        await #expect(throws: SubscriberError.ended("tool")) {
            try await harness.store.subscribe(as: "tool", from: .beginning)
        }
        // Nothing of the name itself is left.
        let settings = try await harness.store.read { db in
            try String.fetchAll(db, sql: "SELECT value FROM setting").joined()
        }
        #expect(!settings.contains("tool"))
        try await harness.store.removeSubscriber("tool")
        try await harness.store.subscribe(as: "tool").end()
    }
}
