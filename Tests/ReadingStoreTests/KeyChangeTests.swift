import Crypto
import Foundation
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Changes of the key beside each other and beside other work", .timeLimit(.minutes(5)))
struct KeyChangeTests {
    /// Enough for eight transactions of frames and eight of readings.
    private static let count = 4000

    /// The directory of a store with readings.
    private static func filled(
        _ count: Int = KeyChangeTests.count, _ encryption: StoreEncryption = .on()
    ) async throws -> String {
        let harness = try await Harness(encryption: encryption)
        let frames = (0..<count).map { number in
            let clock = String(format: "%02d:%02d", number / 60 % 24, number % 60)
            return Build.glucose(
                UInt16(number), "2026-11-\(11 + number / 1440)T\(clock):00", 90 + UInt16(number % 60))
        }
        try await harness.contact(frames)
        try harness.store.close()
        return harness.directory
    }

    /// Expects that every reading is there and sound under the only key, also when the store is opened again.
    static func expectWhole(_ harness: Harness, _ count: Int) async throws {
        try await SealingTests.settle(harness.store)
        #expect(try harness.store.keyFile.read()?.count == 1)
        #expect(try await harness.store.verify().isEmpty)
        try harness.store.close()
        let again = try await Harness(harness.directory)
        #expect(again.store.lockedBecause == nil)
        #expect(try await again.all().count == count)
        #expect(try await again.store.verify().isEmpty)
        try again.store.close()
    }

    /// A task that is begun from a progress handler, once.
    private final class Begun<Value: Sendable>: Sendable {
        private let task = Mutex<Task<Value, any Error>?>(nil)

        func once(_ body: @escaping @Sendable () async throws -> Value) {
            task.withLock { task in
                guard task == nil else { return }
                task = Task { try await body() }
            }
        }

        func value() async throws -> Value? { try await task.withLock(\.self)?.value }
        func cancel() { task.withLock(\.self)?.cancel() }
    }

    private final class Counter: Sendable {
        private let state = Mutex(0)
        var count: Int { state.withLock(\.self) }
        func add() { state.withLock { $0 += 1 } }
    }

    private static func isHalfDone(_ progress: StoreProgress) -> Bool {
        progress.step == .sealing && progress.done * 2 >= progress.total ?? .max
    }

    @Test("a key that is to change again, while rows still go over to the first one, changes once, and no row is lost")
    func overlapping() async throws {
        let harness = try await Harness(Self.filled(Self.count, .off()))
        let store = harness.store
        let told = Counter()
        let second = Begun<KeyChange>()
        let change = try await store.rotateKey { progress in
            guard Self.isHalfDone(progress) else { return }
            second.once { try await store.rotateKey { _ in told.add() } }
        }
        let other = try await second.value()
        #expect(change == KeyChange(readings: Self.count))
        #expect(other == change)
        #expect(told.count > 0)
        try await Self.expectWhole(harness, Self.count)
    }

    @Test("changes of the key that begin at the same moment leave one key, which opens every row")
    func together() async throws {
        let harness = try await Harness(Self.filled(600))
        for _ in 0..<4 {
            async let first = harness.store.rotateKey()
            async let second = harness.store.rotateKey()
            let changes = try await [first, second]
            #expect(changes.allSatisfy { $0.unreadable.isEmpty })
        }
        try await Self.expectWhole(harness, 600)
    }

    @Test("of two who wait for a new key one is stopped: the other gets it")
    func stopped() async throws {
        let harness = try await Harness(Self.filled())
        let store = harness.store
        let (gate, open) = AsyncStream<Void>.makeStream()
        let (running, second) = (Begun<KeyChange>(), Begun<KeyChange>())
        running.once {
            for await _ in gate {}
            // Stops the first as soon as it waits itself.
            return try await store.rotateKey { _ in
                second.once { try await store.rotateKey { _ in running.cancel() } }
            }
        }
        open.finish()
        await #expect(throws: CancellationError.self) { _ = try await running.value() }
        let key = try #require(try store.keyFile.read()?.last)
        let change = try await second.value()
        #expect(change?.unreadable.isEmpty == true)
        let keys = try #require(try store.keyFile.read())
        #expect(keys.map(\.base64) == [key.base64])
        try await Self.expectWhole(harness, Self.count)
    }

    @Test("a key that comes while rows go over to another one leaves none of them under a key that goes")
    func keyMeanwhile() async throws {
        let harness = try await Harness(Self.filled())
        let store = harness.store
        let addKey: @Sendable () async throws -> Void = {
            try store.keyFile.replace(with: (store.keyFile.read() ?? []) + [SymmetricKey(size: .bits256)])
            try await store.takeKeys()
        }
        try await addKey()
        #expect(store.sealing.inUse == [2, 1])
        let adding = Begun<Void>()
        let change = try await store.reseal { progress in
            if Self.isHalfDone(progress) { adding.once(addKey) }
        }
        _ = try await adding.value()
        #expect(change.unreadable.isEmpty)
        #expect(try await store.finishResealing().unreadable.isEmpty)
        #expect(store.sealing.inUse == [3])
        try await Self.expectWhole(harness, Self.count)
    }

    @Test("a key does not change while its file is missing or another's: rows stay under the key that the store knows")
    func fileAway() async throws {
        let harness = try await Harness(Self.filled(600))
        let file = harness.store.keyFile
        let (path, away) = (file.source.path, file.source.path + ".away")
        try await harness.store.checkKeyFile()
        try FileManager.default.moveItem(atPath: path, toPath: away)
        await #expect(throws: StoreError.keyMissing(path: path)) { try await harness.store.rotateKey() }
        await #expect(throws: StoreError.keyMissing(path: path)) { try await harness.store.checkKeyFile() }
        let missing = try file.read()
        #expect(missing == nil)
        try file.replace(with: [SymmetricKey(size: .bits256)])
        await #expect(throws: StoreError.keyWrong(path: path)) { try await harness.store.rotateKey() }
        await #expect(throws: StoreError.keyWrong(path: path)) { try await harness.store.checkKeyFile() }
        #expect(harness.store.lockedBecause == nil)
        #expect(try await harness.all().count == 600)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: away, toPath: path)
        let change = try await harness.store.rotateKey()
        #expect(change == KeyChange(readings: 600))
        try await Self.expectWhole(harness, 600)
    }

    @Test("the file of a key that a symbolic link leads to is replaced where it is, and the link stays")
    func link() async throws {
        let directory = Harness.newDirectory()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let (link, target) = (directory + "/link", directory + "/target")
        let first = SymmetricKey(size: .bits256)
        try KeyFile(source: StoreKeySource(path: target)).replace(with: [first])
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: target)
        let second = SymmetricKey(size: .bits256)
        try KeyFile(source: StoreKeySource(path: link)).replace(with: [first, second])
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == target)
        let keys = try KeyFile(source: StoreKeySource(path: target)).read()
        #expect(keys?.map(\.base64) == [first.base64, second.base64])
    }

    @Test("a reading that is stored while the key is destroyed is there when the store is opened again")
    func storedWhileDestroyed() async throws {
        let harness = try await Harness()
        let store = harness.store
        let contact = try await store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        // The reading's transaction waits for its turn right behind the first of the destruction.
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let goOn = DispatchSemaphore(value: 0)
        let holding = Task {
            try await store.write(.setting) { _ in
                begin.finish()
                goOn.wait()
            }
        }
        for await _ in begun {}
        let destroying = Task { try await store.destroyKey() }
        try await Task.sleep(for: .milliseconds(200))
        let storing = Task { try await store.append([Build.glucose(1, "2026-11-21T08:00:00")], of: contact) }
        try await Task.sleep(for: .milliseconds(200))
        goOn.signal()
        try await holding.value
        #expect(try await storing.value.map(\.name) == ["new"])
        _ = try await destroying.value
        try await Self.expectWhole(harness, 1)
    }
}

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
    @Suite("Death while the key is destroyed")
    struct KeyDestructionCrashTests {
        @Test(
            "killed at any commit of the destruction of a key, the store opens and keeps what comes",
            arguments: (2...6).flatMap { ["setting.before-commit:\($0)", "setting.after-commit:\($0)"] })
        func kill(point: String) async throws {
            let directory = Harness.newDirectory()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                let harness = try await Harness(directory)
                for _ in 0..<6 { try await harness.store.destroyKey() }
            }
            let harness = try await Harness(directory)
            #expect(harness.store.lockedBecause == nil)
            try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
            try await KeyChangeTests.expectWhole(harness, 1)
        }
    }
#endif
