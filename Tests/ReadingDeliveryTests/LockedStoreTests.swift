import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import ReadingDelivery

@Suite("Delivery from a store whose key comes back")
struct LockedStoreTests {
    @Test("an address that was changed while the key was missing gets nothing before somebody accepts it")
    func address() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "locked-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let former = try await Fixture.open(folder)
        try await former.store.setDestination("file", kind: "file", JSONLinesDestination.rules, address: "old")
        try await former.read(3)
        try former.store.close()
        let key = folder + "/store.key"
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")

        let fixture = try await Fixture.open(folder)
        var options = OutboxWorker.Options()
        options.address = "new"
        let worker = OutboxWorker(
            store: fixture.store, destination: JSONLinesDestination(name: "file", path: fixture.path), options: options,
            logger: Fixture.quiet)
        #expect(await worker.syncOnce().failure?.code == "store_key_missing")
        try FileManager.default.moveItem(atPath: key + ".away", toPath: key)
        let report = await worker.syncOnce()
        #expect(report.delivered == 0 && report.failure == nil && report.held.map(\.hold) == [.otherEndpoint])
        #expect(!FileManager.default.fileExists(atPath: fixture.path))
        try await fixture.store.acceptAddress("new", of: "file")
        #expect(await worker.syncOnce() == SyncReport(delivered: 3))
        try fixture.store.close()
    }
}
