import Foundation
import GRDB
import Logging
import Testing

@testable import LocalAccess

/// Lists of clients that earlier versions wrote: a program for everybody, one for a person, and a read-only link.
@Suite("Clients of earlier versions") struct FormerAccessTests {
    private static let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../Fixtures/access")
    /// What the clients of the fixtures carry; they open nothing but these.
    private static let tokens = [
        "9f11ddcd78edf5e618396cbdae91262c5eaecaaa424128a4d01b78784350fccf",
        "ce42ce718dcc14f3d7248107d247028ee4d4bfeb5bf06a2cc510bd9ef0b04adb",
        "3e7c2a7f8e35799c617352a33c2bc40855ce078bfc566b914df3704d32906376",
    ]

    static let versions =
        ((try? FileManager.default.contentsOfDirectory(atPath: fixtures.path)) ?? [])
        .filter { !$0.hasPrefix(".") }.sorted()

    @Test(
        "every earlier version's clients stay as they were, and a gateway that has some is claimed", arguments: versions
    )
    func opens(_ version: String) async throws {
        let directory = NSTemporaryDirectory() + "former-access-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try FileManager.default.copyItem(
            atPath: Self.fixtures.path + "/\(version)/" + AccessStore.fileName,
            toPath: directory + "/" + AccessStore.fileName)
        let now = Date(timeIntervalSince1970: 1_795_680_000)
        let store = try AccessStore(directory: directory)
        #expect(try await store.isClaimed())
        let clients = try await store.clients().sorted { $0.number < $1.number }
        #expect(clients.map(\.name) == ["phone", "Anna’s tablet", "doctor"])
        #expect(clients.map(\.kind) == [.client, .client, .link] && clients.map(\.days) == [nil, nil, 30])
        #expect(clients.map(\.grant.person) == [nil, "mara", "mara"])
        #expect(clients.map(\.grant.scope) == [.owner, .read, .read])
        for (token, client) in zip(Self.tokens, clients) {
            #expect(try await store.client(with: AccessToken(text: token), now: now)?.number == client.number)
        }
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        #expect(try await log.newest(100).filter { $0.event == "pair" }.count == 2)
        try store.close()
        // It is opened again as one of this version.
        let again = try AccessStore(directory: directory)
        #expect(try await again.clients().count == 3)
        try again.close()
    }

    @Test("there is a list of clients of the version before this one")
    func recent() throws {
        let directory = NSTemporaryDirectory() + "newest-access-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try AccessStore(directory: directory).close()
        let queue = try DatabaseQueue(path: directory + "/" + AccessStore.fileName)
        let migrations = try queue.read { db in try String.fetchAll(db, sql: "SELECT identifier FROM grdb_migrations") }
        try queue.close()
        let newest = migrations.compactMap { $0.split(separator: " ").first.flatMap { Int($0) } }.max()
        #expect(try Self.versions.compactMap { Int($0) }.max() == #require(newest) - 1)
    }
}
