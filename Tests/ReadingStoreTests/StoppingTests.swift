import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Stopping work on the whole store")
struct StoppingTests {
    private static let passphrase = "correct horse battery staple"

    /// Work that tells of its progress.
    typealias Work = @Sendable (@escaping StoreProgress.Handler) async throws -> Void

    /// Cancels work when it tells of its progress for the n-th time.
    ///
    /// - Returns: whether it came to that, and the work ended for it.
    private func stopping(at number: Int, _ work: @escaping Work) async throws -> Bool {
        let (gate, open) = AsyncStream<Void>.makeStream()
        let told = Mutex(0)
        let running = Mutex<Task<Void, any Error>?>(nil)
        let task = Task {
            for await _ in gate {}
            try await work { _ in
                let count = told.withLock { told in
                    told += 1
                    return told
                }
                if count == number { running.withLock { $0?.cancel() } }
            }
        }
        running.withLock { $0 = task }
        open.finish()
        do { try await task.value } catch is CancellationError { return true }
        return false
    }

    /// Readings of more than one transaction, all delivered.
    private func filled(_ encryption: StoreEncryption = .on(), count: Int = 600) async throws -> Harness {
        let harness = try await Harness(encryption: encryption)
        let frames = (0..<count).map { number in
            Build.glucose(
                UInt16(number), "2026-11-21T08:\(10 + number / 60):\(10 + number % 50)", 90 + UInt16(number % 60))
        }
        try await harness.contact(frames)
        try await PruneTests.deliver(harness.store)
        return harness
    }

    @Test("statements whose turn comes behind the closing of their connection fail")
    func closedConnection() throws {
        let queue = try DatabaseQueue()
        try queue.close()
        #expect(throws: DatabaseError.self) {
            try queue.inDatabase { db in try StopSwitch().watching(db) { try db.execute(sql: "SELECT 1") } }
        }
    }

    @Test("pruning stops at every step, and goes on where it stopped")
    func pruning() async throws {
        var (number, stops) = (1, 0)
        let harness = try await filled()
        while try await stopping(at: number, { try await harness.store.prune(olderThan: .zero, progress: $0) }) {
            #expect(try await harness.store.verify().isEmpty)
            stops += 1
            // The files are written anew all the same while the store is open.
            let left = try await harness.store.size().readings
            number = left > 0 ? 1 : 100
        }
        #expect(stops >= 2)
        #expect(try await harness.all().isEmpty)
        try await harness.store.finishErasure()
        #expect(
            try await harness.store.read { db in try ReadingStore.lines(db, "erase.unfinished").isEmpty })
    }

    @Test("a change of keys stops at every step; asked again it goes on, without another key")
    func rotation() async throws {
        for number in 1..<20 {
            let harness = try await filled()
            let file = harness.store.keyFile
            let wasStopped = try await stopping(at: number) { try await harness.store.rotateKey(progress: $0) }
            guard wasStopped else { return #expect(number > 4) }
            let key = try #require(try file.read()?.last)
            try harness.store.close()
            let again = try await Harness(harness.directory)
            let change = try await again.store.rotateKey()
            let keys = try #require(try file.read())
            #expect(keys.count == 1)
            // Opening goes on with it, too, and may have come to the end before: then another key was asked for.
            if change.readings < 600 { #expect(keys[0].base64 == key.base64) }
            #expect(again.store.sealing.inUse.count == 1 && !again.store.sealing.hasRetired)
            #expect(try await again.store.size().readings == 600)
            #expect(try await again.store.verify().isEmpty)
            try again.store.close()
        }
        Issue.record("it never ended")
    }

    @Test("a change of keys that its caller gives up goes on in the background")
    func rotationInBackground() async throws {
        let harness = try await filled()
        #expect(try await stopping(at: 2) { try await harness.store.rotateKey(progress: $0) })
        await harness.store.resealing.withLock(\.self)?.value
        #expect(harness.store.sealing.inUse.count == 1 && !harness.store.sealing.hasRetired)
        #expect(try harness.store.keyFile.read()?.count == 1)
    }

    @Test("an export that is stopped leaves no copy, and an import no store")
    func exportAndImport() async throws {
        let harness = try await filled()
        let path = harness.directory + "/backup"
        for number in 1..<4 {
            let wasStopped = try await stopping(at: number) {
                try await harness.store.export(passphrase: Self.passphrase, progress: $0) { _ in }
            }
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: harness.directory).allSatisfy {
                    !$0.contains("export")
                })
            #expect(wasStopped || number > 1)
        }
        let octets = Mutex<[UInt8]>([])
        try await harness.store.export(passphrase: Self.passphrase) { piece in octets.withLock { $0 += piece } }
        try Data(octets.withLock(\.self)).write(to: URL(fileURLWithPath: path))
        for number in 1..<40 {
            let directory = Harness.newDirectory()
            let wasStopped = try await stopping(at: number) {
                try await ReadingStore.importing(
                    path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), progress: $0)
            }
            guard wasStopped else { return #expect(number > 4) }
            #expect(
                try Set(FileManager.default.contentsOfDirectory(atPath: directory)).isSubset(of: [
                    "store.lock", "store.key",
                ]), "\(number)")
        }
        Issue.record("it never ended")
    }

    @Test("verification stops, and tells how many readings of how many it has checked")
    func verification() async throws {
        let harness = try await filled(count: 1200)
        let told = Mutex<[StoreProgress]>([])
        #expect(try await harness.store.verify(atOnce: 500) { step in told.withLock { $0.append(step) } }.isEmpty)
        var steps = told.withLock(\.self)
        #expect(steps.removeFirst() == StoreProgress(.checkingFile))
        // SQLite's own check may take longer than all others.
        while steps.last?.step == .checkingFile { steps.removeLast() }
        try #require(steps.count == 6 && steps.allSatisfy { $0.total == 1200 })
        for (step, part) in [(StoreProgress.Step.checkingQueue, steps[..<3]), (.checkingReadings, steps[3...])] {
            let done = part.map(\.done)
            #expect(part.allSatisfy { $0.step == step } && done == done.sorted() && done.last == 1200)
        }
        for number in 1...7 {
            #expect(try await stopping(at: number) { _ = try await harness.store.verify(atOnce: 500, progress: $0) })
        }
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("readings that are pruned while a store is verified are no damage, and progress ends with what there was")
    func verificationBesidePruning() async throws {
        let harness = try await filled()
        let store = harness.store
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let pruning = Task {
            for await _ in begun {}
            return try await store.prune(olderThan: .zero).readings
        }
        let told = Mutex<[StoreProgress]>([])
        let findings = try await store.verify(atOnce: 1) { step in
            if step.step == .checkingReadings { begin.finish() }
            told.withLock { $0.append(step) }
        }
        #expect(findings.isEmpty)
        #expect(try await pruning.value == 600)
        let readings = told.withLock(\.self).filter { $0.step == .checkingReadings }
        #expect(readings.last?.done == 600 && readings.allSatisfy { $0.total == 600 && $0.done <= 600 })
    }

    @Test("whoever waits for files to be written anew can stop waiting; the files are written")
    func rewriting() async throws {
        let harness = try await filled(.off())
        let user = try await harness.store.currentUser().key
        try await harness.store.eraseUser(user, rewritesFiles: false)
        #expect(try await stopping(at: 1) { try await harness.store.finishErasure(progress: $0) })
        // Another transaction comes after it.
        try await harness.store.write(.setting) { _ in }
        #expect(
            try await harness.store.read { db in try ReadingStore.lines(db, "erase.unfinished").isEmpty })
    }
}
