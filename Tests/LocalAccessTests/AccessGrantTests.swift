import Foundation
import GRDB
import Logging
import Testing

@testable import LocalAccess

@Suite("For whom clients are let in, and for what") struct AccessGrantTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let directory: String
    private let store: AccessStore

    init() throws {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("hr-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        store = try AccessStore(directory: directory)
    }

    private func change(_ sql: String) throws {
        let queue = try DatabaseQueue(path: directory + "/" + AccessStore.fileName)
        try queue.write { db in try db.execute(sql: sql) }
        try queue.close()
    }

    private func grant(_ scope: AccessScope, _ person: String?) throws -> AccessGrant {
        try #require(AccessGrant(scope, person: person))
    }

    @Test("an owner has no person; each scope allows what the one before it does")
    func scopes() throws {
        #expect(AccessGrant(.owner, person: "anna") == nil && AccessGrant(.owner, person: nil) == .owner)
        #expect(AccessScope.allCases.sorted() == [.read, .write, .owner])
    }

    @Test("a client keeps its person and scope over restarts, and so does its entry in the audit log")
    func kept() async throws {
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let grants = [try grant(.read, "anna"), try grant(.write, "ben"), try grant(.read, nil), .owner]
        var tokens: [AccessToken] = []
        for grant in grants {
            let (token, client) = try await store.admit(
                "x", as: .client, for: grant, now: now, expiresAt: now + 100)
            #expect(client.grant == grant)
            tokens.append(token)
            log.note(AuditEntry(at: now, event: "pair", client: client.number))
        }
        await log.flush()
        try store.close()
        let again = try AccessStore(directory: directory)
        for (token, grant) in zip(tokens, grants) {
            #expect(try await again.client(with: token, now: now)?.grant == grant)
        }
        #expect(try await again.clients().map(\.grant) == grants.reversed())
        #expect(try await again.audit(limit: 10).map(\.grant) == grants.reversed())
    }

    @Test("clients of a list from before there were persons keep doing everything")
    func migration() async throws {
        let (token, _) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        let (session, _) = try await store.admit("Page", as: .page, for: .owner, now: now, expiresAt: now + 100)
        try store.close()
        try change(
            """
            ALTER TABLE client DROP COLUMN person; ALTER TABLE client DROP COLUMN scope;
            DELETE FROM grdb_migrations WHERE identifier LIKE '3 %';
            """)
        let again = try AccessStore(directory: directory)
        #expect(try await again.client(with: token, now: now)?.grant == .owner)
        #expect(try await again.client(with: session, now: now)?.grant == .owner)
    }

    @Test(
        "what the list says that this version does not know lets nobody in",
        arguments: ["scope = 'emperor'", "person = 'anna'"])
    func unknown(_ change: String) async throws {
        let (token, client) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        try store.close()
        try self.change("UPDATE client SET " + change)
        let again = try AccessStore(directory: directory)
        #expect(try await again.client(with: token, now: now) == nil)
        #expect(try await !again.isWelcome(client.number, now: now))
    }

    @Test("a person's clients are revoked together, and their names go to the byte; others stay")
    func people() async throws {
        let (hers, _) = try await store.admit(
            "Anna's phone", as: .client, for: grant(.read, "anna-5813"), now: now, expiresAt: now + 100)
        let (his, _) = try await store.admit("x", as: .page, for: grant(.write, "ben"), now: now, expiresAt: now + 100)
        let (all, _) = try await store.admit("x", as: .page, for: .owner, now: now, expiresAt: now + 100)
        var bells = store.departures().makeAsyncIterator()
        #expect(try await store.revoke(people: ["anna-5813", "nobody"], now: now) == [1])
        await bells.next()
        #expect(try await store.client(with: hers, now: now) == nil)
        for token in [his, all] { #expect(try await store.client(with: token, now: now) != nil) }
        try await store.forget(routes: [], people: ["anna-5813"], everybody: false)
        let listed = try #require(try await store.clients().last)
        #expect(listed.name == "removed" && listed.grant.person?.isEmpty == true && listed.revokedAt == now)
        try store.close()
        for file in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let octets = FileManager.default.contents(atPath: directory + "/" + file) ?? Data()
            for name in ["Anna's phone", "anna-5813"] {
                #expect(octets.range(of: Data(name.utf8)) == nil, "\(name) in \(file)")
            }
        }
    }

    @Test("a code carries its person, scope and name, and is void once that person is removed")
    func codes() throws {
        let desk = PairingDesk()
        let guest = PairingDesk.Guest(address: "192.0.2.1", network: "192.0.2.1")
        let first = desk.invite(for: try grant(.write, "anna"), name: "kitchen", now: now)
        let taken = try desk.redeem(first.code, from: guest)
        #expect(try taken.grant == grant(.write, "anna") && taken.name == "kitchen")
        let second = desk.invite(for: try grant(.read, "anna"), now: now)
        desk.withdraw(people: ["ben"])
        desk.withdraw(people: ["anna"])
        #expect(throws: PairingDesk.Refusal.notInvited) { try desk.redeem(second.code, from: guest) }
    }
}
