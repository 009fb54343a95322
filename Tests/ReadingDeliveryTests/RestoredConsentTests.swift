import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import ReadingDelivery

/// What a person had withdrawn after a backup was made is granted in it.
@Suite("Deliveries of a store that was made of an export") struct RestoredConsentTests {
    private static let passphrase = "of several words"

    /// A store that is made of an export of this one.
    private static func restored(_ fixture: Fixture, asksConsent: Bool) async throws -> Fixture {
        var octets: [UInt8] = []
        try await fixture.store.export(passphrase: passphrase) { octets += $0 }
        let file = fixture.folder + "/export"
        try Data(octets).write(to: URL(fileURLWithPath: file))
        let folder = fixture.folder + "/restored"
        try await ReadingStore.importing(
            file, passphrase: passphrase, into: folder, decoder: TestDecoder(), asksConsent: asksConsent)
        return try await Fixture.open(folder)
    }

    private static func place(_ fixture: Fixture) async throws -> DestinationKey {
        try #require(try await fixture.store.destinations().first { $0.name == "file" }).key
    }

    @Test(
        "promise 9: nothing is delivered before its person has said again what may be, of each kind; a denial is an answer, too"
    )
    func confirmed() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(3)
            try await fixture.read(2, from: 10, kind: .temperature)
            let person = try await fixture.person.key
            // Said before the export was made: it may have been taken back since.
            try await fixture.store.setConsent(.glucose, granted: true, of: person)
            let other = try await Self.restored(fixture, asksConsent: true)
            let worker = other.lines()
            #expect(await worker.syncOnce().delivered == 0)
            let place = try await Self.place(other)
            let waiting = try await other.store.groupsWaiting(at: place)
            #expect(waiting.reduce(0) { $0 + $1.count } == 5 && waiting.allSatisfy { $0.held == .noConsent })
            #expect(try await other.store.unconfirmedConsents(of: person).isSuperset(of: [.glucose, .temperature]))
            #expect(
                try await other.store.consents(of: person, at: place).allSatisfy { !$0.isGranted && $0.isUnconfirmed })
            #expect(try await other.store.unconfirmedPeople()[place] == [person])
            // What this gateway itself shows is as it was.
            #expect(try await other.store.consents(of: person).allSatisfy { $0.isGranted && !$0.isUnconfirmed })
            // Whoever comes later has withdrawn nothing.
            try await other.store.setCurrentUser("brown_bear", timeZone: "UTC")
            try await other.read(2, from: 20, device: 2)
            #expect(await worker.syncOnce().delivered == 2)

            try await other.store.setConsent(.glucose, granted: true, of: person)
            #expect(await worker.syncOnce().delivered == 3)
            try await other.store.setConsent(.temperature, granted: false, of: person)
            #expect(try await other.store.unconfirmedConsents(of: person).isDisjoint(with: [.glucose, .temperature]))
            #expect(await worker.syncOnce().delivered == 0)
            try await other.store.setConsent(.temperature, granted: true, of: person)
            #expect(await worker.syncOnce().delivered == 2)
            #expect(try await other.store.unconfirmedPeople()[place] == [person])
            let rest = try await other.store.unconfirmedConsents(of: person)
            // What was denied is not to be confirmed.
            try await other.store.setConsents(Array(rest.subtracting([.weight])), granted: false, of: person)
            #expect(try await other.store.unconfirmedPeople()[place] == [person])
            try other.store.close()
            // It is remembered.
            let again = try await Fixture.open(other.folder)
            #expect(try await again.store.unconfirmedConsents(of: person) == [.weight])
            try await again.store.setConsent(.weight, granted: true, of: person)
            #expect(try await again.store.unconfirmedPeople().isEmpty)
            #expect(try await again.store.consents(of: person, at: place).allSatisfy { !$0.isUnconfirmed })
            try again.store.close()
        }
    }

    @Test("an answer about one destination counts there")
    func confirmedForOne() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(3)
            let person = try await fixture.person.key
            let other = try await Self.restored(fixture, asksConsent: true)
            let worker = other.lines()
            #expect(await worker.syncOnce().delivered == 0)
            try await other.store.setConsent(.glucose, granted: true, of: person, at: try await Self.place(other))
            #expect(await worker.syncOnce().delivered == 3)
            try other.store.close()
        }
    }

    @Test("a program that doesn't ask for it has everything delivered that was consented to")
    func notAsked() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(3)
            let person = try await fixture.person.key
            let other = try await Self.restored(fixture, asksConsent: false)
            #expect(try await other.store.unconfirmedConsents(of: person).isEmpty)
            #expect(await other.lines().syncOnce().delivered == 3)
            #expect(try await fixture.store.unconfirmedConsents(of: person).isEmpty)
            try other.store.close()
        }
    }
}
