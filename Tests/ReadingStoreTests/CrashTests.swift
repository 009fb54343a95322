import Foundation
import HealthReadings
import Testing

@testable import ReadingStore

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
    /// A child process dies by SIGKILL at a named point; what it had been told was durable is there afterwards, whole.
    @Suite("Death at any commit")
    struct CrashTests {
        static let frames = (0..<20).map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) }

        /// Appends five groups of four frames, notes each that is durable, and delivers what waits.
        static func work(_ directory: String) async throws {
            let store = try await Harness.open(directory)
            let contact = try await store.beginContact(
                with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
            let notes = FileHandle(forWritingAtPath: directory + "/durable")
            for group in 0..<5 {
                let outcomes = try await store.append(Array(frames[(group * 4)..<(group * 4 + 4)]), of: contact)
                try notes?.write(contentsOf: Data("\(outcomes.count)\n".utf8))
            }
            let user = try await store.currentUser().key
            let batch = try await store.outboxBatch(
                user: user, resource: .glucose, provider: "accuchek_ble", limit: 100)
            try await store.acknowledge(batch.map(\.id), at: Instant(seconds: 1))
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 20))
        }

        @Test(
            "promise 1: what append returned survives a kill, in whole commits, and a re-read makes it complete",
            arguments: [
                "migrate.before-commit", "migrate.after-commit", "user.before-commit", "user.after-commit",
                "contact.before-commit", "contact.after-commit", "contact.before-commit:2", "journal.before-commit",
                "journal.after-commit", "journal.before-commit:3", "journal.after-commit:5",
                "acknowledge.before-commit", "acknowledge.after-commit",
            ])
        func kill(point: String) async throws {
            let directory = Harness.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            _ = FileManager.default.createFile(atPath: directory + "/durable", contents: Data())
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await CrashTests.work(directory)
            }
            let durable =
                try String(contentsOfFile: directory + "/durable", encoding: .utf8).split(separator: "\n").count * 4
            let harness = try await Harness(directory)
            let survived = try await harness.all().count
            #expect(survived % 4 == 0)
            #expect(survived >= durable && survived <= durable + 4)
            #expect(try await harness.store.verify().isEmpty)
            let user = try await harness.store.currentUser().key
            let waiting = try await harness.store.outboxBatch(
                user: user, resource: .glucose, provider: "accuchek_ble", limit: 100)
            let delivered = try await harness.store.statistics().delivered
            #expect(waiting.count + delivered == survived)
            #expect(delivered == (point == "acknowledge.after-commit" || point == "contact.before-commit:2" ? 20 : 0))
            try await harness.contact(CrashTests.frames)
            #expect(try await harness.all().count == 20)
            #expect(try await harness.store.verify().isEmpty)
        }
    }
#endif
