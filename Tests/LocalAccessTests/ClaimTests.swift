import Foundation
import LocalAccess
import Testing

@Suite("Claiming a gateway") struct ClaimTests {
    private final class Place: Sendable {
        let directory = NSTemporaryDirectory() + "claim-\(UUID().uuidString)"
        init() throws { try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true) }
        deinit { try? FileManager.default.removeItem(atPath: directory) }
    }

    private let now = Date(timeIntervalSince1970: 1_763_000_000)

    private func refusal(_ store: AccessStore, _ token: String, at time: Date) async throws -> AccessStore.ClaimRefusal?
    {
        do {
            _ = try await store.claim(with: token, name: "x", now: time, expiresAt: time + 60)
            return nil
        } catch let refusal as AccessStore.ClaimRefusal {
            return refusal
        }
    }

    @Test("a token is good once, until another is made, for an hour, and over a restart; only its digest is kept")
    func once() async throws {
        let place = try Place()
        var store = try AccessStore(directory: place.directory)
        #expect(try await !store.isClaimed())
        let first = try await store.issueSetupToken(now: now)
        let second = try await store.issueSetupToken(now: now)
        #expect(first.token != second.token && second.expiresAt == now + 3600)
        #expect(try await refusal(store, first.token, at: now) == .wrongToken)
        #expect(try await refusal(store, "", at: now) == .wrongToken)
        #expect(try await refusal(store, second.token, at: now + 3600) == .expired)
        #expect(try await refusal(store, second.token, at: now - 3600) == .expired)
        try store.close()
        for suffix in ["", "-wal"] {
            let file = FileManager.default.contents(atPath: place.directory + "/access.sqlite" + suffix) ?? Data()
            #expect(file.range(of: Data(second.token.utf8)) == nil)
        }
        let attributes = try FileManager.default.attributesOfItem(atPath: place.directory + "/access.sqlite")
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        store = try AccessStore(directory: place.directory)
        #expect(try await refusal(store, second.token, at: now + 60) == nil)
        let clients = try await store.clients()
        #expect(clients.count == 1 && clients[0].kind == .page && clients[0].grant == .owner)
        #expect(try await refusal(store, second.token, at: now + 60) == .claimed)
        await #expect(throws: AccessStore.ClaimRefusal.claimed) { try await store.issueSetupToken(now: now) }
        try store.close()
    }

    @Test("of many browsers that claim at once one becomes the owner")
    func race() async throws {
        let place = try Place()
        let store = try AccessStore(directory: place.directory)
        let token = try await store.issueSetupToken(now: now).token
        let wins = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<16 { group.addTask { try await refusal(store, token, at: now) == nil } }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(wins == 1)
        #expect(try await store.clients().count == 1)
        try store.close()
    }

    @Test("a gateway that has let a client in, or whose owner is written down, stays claimed whatever is erased")
    func stays() async throws {
        let place = try Place()
        let store = try AccessStore(directory: place.directory)
        _ = try await store.issueSetupToken(now: now)
        _ = try await store.admit("x", as: .client, for: .owner, now: now, expiresAt: now + 60)
        #expect(try await store.isClaimed())
        try await store.markClaimed(by: "store", now: now)
        try await store.markClaimed(by: "page", now: now)
        try await store.forget(routes: [], everybody: true)
        #expect(try await store.clients().isEmpty)
        #expect(try await store.isClaimed())
        try store.close()
    }
}
