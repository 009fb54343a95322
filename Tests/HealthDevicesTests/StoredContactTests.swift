import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

@Suite struct StoredContactTests {
    @Test("in a store, an older contact that is replayed does not stand for the last one")
    func olderContact() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "contacts-\(ProcessInfo.processInfo.globallyUniqueString)").path
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
        let device = DeviceDescription(address: .device(7), model: "omron_hem7322t", name: "BLESmart_1")
        func contact(_ hour: Int, _ summary: ContactSummary?) async throws -> ContactSummary? {
            let contact = try await store.beginContact(
                with: device, at: Instant(seconds: 1_795_000_000 + Int64(hour) * 3600), clock: nil, batteryPercent: nil)
            let previous = try await store.previousSummary(before: contact)
            if let summary { try await store.endContact(contact, summary) }
            return previous
        }
        let whole = ContactSummary(isComplete: true, announced: 6, received: 6)
        let cut = ContactSummary(
            isComplete: false, error: "transfer_interrupted", received: 4, gaps: [3...3, 7...9])
        #expect(try await contact(1, whole) == nil)
        #expect(try await contact(2, cut) == whole)
        #expect(try await contact(1, whole) == cut)
        #expect(try await contact(3, whole) == nil, "the last one was cut, and an older one was replayed since")
        #expect(try await contact(4, nil) == whole)
        #expect(try await contact(5, whole) == nil)
    }
}
