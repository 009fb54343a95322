import Crypto
import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Content at rest")
struct SealingTests {
    /// Of every kind something: records, contexts, cuffs, scans, what is malformed.
    static let groups: [(device: DeviceDescription, frames: [Frame])] = [
        (Build.device(), PruneTests.frames + [ErasureTests.mark(1, filling: 0xA7)]),
        (
            Build.device(0xC000_0000_1810, model: "omron_m4"),
            [
                Build.pressure(127, "2026-11-21T07:00:00", user: 1), Build.pressure(131, nil, ordinal: 1),
            ]
        ),
        (Build.sensor, [Build.scan(age: 600, at: "2026-11-21T10:00:30Z")]),
    ]

    @Test("a code is HMAC-SHA256, whatever its octets")
    func code() {
        let key = SymmetricKey(size: .bits256)
        let code = KeyedCode(key)
        for count in [0, 1, 55, 56, 63, 64, 65, 200] {
            let octets = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) }
            let expected = HMAC<SHA256>.authenticationCode(for: octets, using: key)
            #expect(code.code(of: octets) == Array(expected.prefix(16)), "\(count) octets")
        }
    }

    static func fill(_ harness: Harness) async throws {
        for (device, frames) in groups { try await harness.contact(frames, device: device) }
        // The server's words on one of them.
        let group = try #require(try await harness.store.groupsWaiting().first { $0.resource == .bloodPressure })
        let item = try #require(
            try await harness.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 1
            ).first)
        try await harness.store.reject(item.id, serverSaid: "a pressure of 127 is refused")
    }

    /// What must be in no file where content is sealed: octets of frames, ids, the server's words, what devices are
    /// called.
    static func secrets(_ readings: [Reading]) -> [[UInt8]] {
        groups.flatMap { $0.frames.map(\.payload) }.filter { $0.count > 6 } + readings.map(\.id.octets)
            + ["a pressure of 127", "0M000TEST01", "FreeStyle Libre"].map { Array($0.utf8) }
    }

    /// How many of them are in any file of a store's directory, whether or not the store knows it as its own.
    static func found(_ secrets: [[UInt8]], in directory: String) throws -> Int {
        let files = try FileManager.default.contentsOfDirectory(atPath: directory).map { name in
            try Data(contentsOf: URL(fileURLWithPath: directory + "/" + name))
        }
        return secrets.filter { secret in files.contains { $0.range(of: Data(secret)) != nil } }.count
    }

    /// Waits until every row is sealed with the newest key.
    static func settle(_ store: ReadingStore) async throws {
        while let task = store.resealing.withLock(\.self) { await task.value }
        #expect(store.sealing.inUse.count == 1)
    }

    static func keyPath(_ directory: String) -> String { directory + "/store.key" }

    @Test("sealed content is in no file, under a key that only its owner may read; in the clear it would be")
    func sealed() async throws {
        let clear = try await Harness(encryption: .off())
        try await Self.fill(clear)
        let readings = try await clear.all()
        let secrets = Self.secrets(readings)
        #expect(try Self.found(secrets, in: clear.directory) == secrets.count)
        #expect(!FileManager.default.fileExists(atPath: Self.keyPath(clear.directory)))

        let sealed = try await Harness()
        try await Self.fill(sealed)
        #expect(try await Set(sealed.all()) == Set(readings))
        #expect(try await sealed.store.refused().map(\.serverSaid) == ["a pressure of 127 is refused"])
        #expect(try Self.found(secrets, in: sealed.directory) == 0)
        let attributes = try FileManager.default.attributesOfItem(atPath: Self.keyPath(sealed.directory))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try await sealed.store.verify().isEmpty)
        // Read again, nothing is new: rows are found though their ids stand there as digests.
        for (device, frames) in Self.groups {
            let outcomes = try await sealed.contact(frames, device: device)
            #expect(Set(outcomes.map(\.name)).isSubset(of: ["repeated", "nothing", "malformed"]))
        }
        #expect(try await sealed.all().count == readings.count)
    }

    @Test("every seal has a nonce of its own and holds in its own row only")
    func bound() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00"), Build.glucose(2, "2026-11-21T08:01:00")])
        let blobs = try await harness.store.read { db in
            try Data.fetchAll(db, sql: "SELECT content FROM reading UNION ALL SELECT payload FROM frame")
        }
        #expect(blobs.count == 4 && Set(blobs.map { $0.prefix(13) }).count == 4)
        try await harness.store.write(.setting) { db in
            try db.execute(
                sql: """
                    UPDATE reading SET content = (SELECT content FROM reading WHERE key = 2) WHERE key = 1;
                    UPDATE frame SET payload = (SELECT payload FROM frame WHERE key = 1) WHERE key = 2
                    """)
        }
        #expect(
            try await harness.store.verify() == [
                VerificationFinding(problem: .unreadable, subject: "reading 1"),
                VerificationFinding(problem: .unreadable, subject: "frame 2"),
            ])
        await #expect(throws: StoreError.corrupt(detail: "the seal of reading 1 does not hold")) {
            _ = try await harness.all()
        }
    }

    @Test(
        "without its key, or with another, a store is locked: nothing is read, taken in or overwritten, until it is back",
        arguments: ["missing", "another's", "no key"])
    func locked(_ what: String) async throws {
        let harness = try await Harness()
        try await Self.fill(harness)
        let readings = try await harness.all()
        try harness.store.close()
        let path = Self.keyPath(harness.directory)
        let key = try Data(contentsOf: URL(fileURLWithPath: path))
        let other: Data? =
            switch what {
            case "missing": nil
            case "no key": Data("a password\n".utf8)
            default: Data((Data((0..<32).map { UInt8($0) }).base64EncodedString() + "\n").utf8)
            }
        try FileManager.default.removeItem(atPath: path)
        try other?.write(to: URL(fileURLWithPath: path))
        let expected: StoreError =
            switch what {
            case "missing": .keyMissing(path: path)
            case "no key": .keyUnusable(path: path, reason: "has a line that is not 32 octets in base64")
            default: .keyWrong(path: path)
            }

        let store = try await Harness.open(harness.directory)
        #expect(store.lockedBecause == expected)
        await #expect(throws: expected) { try await store.query(ReadingQuery()) }
        await #expect(throws: expected) { try await store.refused() }
        await #expect(throws: expected) { try await store.verify() }
        await #expect(throws: expected) {
            try await store.beginContact(
                with: Build.device(), at: Build.instant("2026-11-21T11:00:00Z"), clock: nil, batteryPercent: nil)
        }
        await #expect(throws: expected) { try await store.rotateKey() }
        await #expect(throws: expected) { try await store.prune(olderThan: .zero) }
        let groups = try await store.groupsWaiting()
        #expect(!groups.isEmpty && groups.allSatisfy { $0.held == .locked })
        // Devices are known by their addresses; what they are called stays as it is.
        let devices = try await store.devices()
        #expect(devices.count == 3 && devices.allSatisfy { $0.description.name == nil && $0.description.serial == nil })
        try await store.notePairing(of: Build.device(serial: "S9"), as: .proven)
        #expect(try await store.devices().count == 3)
        #expect(try await store.statistics().readings[.glucose] == readings.count { $0.kind == .glucose })
        #expect(try Data?(contentsOf: URL(fileURLWithPath: path), or: nil) == other)

        let changes = store.committedReadings()
        try key.write(to: URL(fileURLWithPath: path))
        #expect(try await store.groupsWaiting().allSatisfy { $0.held != .locked })
        for await change in changes {
            #expect(change.isEmpty)
            break
        }
        #expect(try await Set(store.query(ReadingQuery(limit: 10_000)).readings) == Set(readings))
        #expect(try await store.devices().compactMap(\.description.name).count == 3)
        #expect(try await store.verify().isEmpty)
    }

    @Test("what a device is called and cannot be read any more keeps no reading from being read, and is noted anew")
    func damagedLabel() async throws {
        let harness = try await Harness()
        let device = Build.device(serial: "S1")
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: device)
        try await harness.store.write(.device) { db in
            try db.execute(sql: "UPDATE device SET label = x'0100112233445566778899'")
        }
        #expect(try await harness.all().map(\.device.serial) == [nil])
        #expect(
            try await harness.store.verify() == [VerificationFinding(problem: .unreadable, subject: "device 1")])
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: device)
        #expect(try await harness.all().map(\.device.serial) == ["S1"])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a frame that comes while the store is locked is refused before anything is asked of its device")
    func lockedWhileReading() async throws {
        let harness = try await Harness()
        let contact = try await harness.store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        harness.store.sealing.set(Sealing.State(inUse: [1], refusal: .keyMissing(path: "p")))
        for frame in [Build.glucose(1, "2026-11-21T08:00:00"), ErasureTests.mark(1, filling: 1)] {
            await #expect(throws: StoreError.keyMissing(path: "p")) {
                try await harness.store.append([frame], of: contact)
            }
        }
        #expect(try await harness.store.statistics().frames == 0)
    }

    @Test("a store in the clear is sealed when encryption comes on, and opened when it goes off; no octet stays behind")
    func onAndOff() async throws {
        let harness = try await Harness(encryption: .off())
        try await Self.fill(harness)
        try await PruneTests.deliver(harness.store) { $0.reading.record.sequence == 3 }
        try await harness.store.prune(olderThan: .zero)
        let readings = try await harness.all()
        let secrets = Self.secrets(readings)
        let page = try await harness.store.query(ReadingQuery(limit: 7))
        try harness.store.close()

        let sealed = try await Harness(harness.directory)
        try await Self.settle(sealed.store)
        #expect(try Self.found(secrets, in: harness.directory) == 0)
        #expect(!FileManager.default.fileExists(atPath: harness.directory + "/pruned.key"))
        #expect(try await Set(sealed.all()) == Set(readings))
        #expect(try await sealed.store.verify().isEmpty)
        #expect(try await sealed.contact([PruneTests.frames[9]]).map(\.name) == ["repeated"])
        // Those of the cursor's second may come again; none is passed over.
        let rest = try await sealed.store.query(ReadingQuery(limit: 10_000, cursor: page.cursor)).readings
        #expect(Set(rest + page.readings) == Set(readings))
        try sealed.store.close()

        let clear = try await Harness(harness.directory, encryption: .off())
        try await Self.settle(clear.store)
        #expect(try await clear.all() == readings)
        #expect(try await clear.store.verify().isEmpty)
        #expect(try await clear.contact([PruneTests.frames[9]]).map(\.name) == ["repeated"])
        #expect(!FileManager.default.fileExists(atPath: Self.keyPath(harness.directory)))
        #expect(FileManager.default.fileExists(atPath: harness.directory + "/pruned.key"))
    }

    @Test("a new key takes the place of the one before, which is destroyed")
    func rotation() async throws {
        let harness = try await Harness()
        try await Self.fill(harness)
        try await PruneTests.deliver(harness.store) { $0.reading.record.sequence == 3 }
        try await harness.store.prune(olderThan: .zero)
        let readings = try await harness.all()
        let path = Self.keyPath(harness.directory)
        let (before, copy) = (try String(contentsOfFile: path, encoding: .utf8), path + ".copy")
        try FileManager.default.linkItem(atPath: path, toPath: copy)
        #expect(try await harness.store.rotateKey() == KeyChange(readings: readings.count))
        let after = try String(contentsOfFile: path, encoding: .utf8)
        #expect(after != before && after.split(separator: "\n").count == 1)
        // The octets of the former file are gone too, not its name alone.
        #expect(try !Data(contentsOf: URL(fileURLWithPath: copy)).contains { $0 != 0 })
        #expect(try await Set(harness.all()) == Set(readings))
        #expect(try await harness.store.verify().isEmpty)
        #expect(try await harness.contact([PruneTests.frames[9]]).map(\.name) == ["repeated"])
        try harness.store.close()
        try before.write(toFile: path, atomically: true, encoding: .utf8)
        #expect(try await Harness(harness.directory).store.lockedBecause == .keyWrong(path: path))
    }

    @Test("a new key waits for rows that are still on their way to the one before")
    func rotationMeanwhile() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact((0..<1200).map { Build.glucose($0, "2026-11-21T08:00:00", 60 + $0 % 400) })
        let readings = try await harness.all()
        try harness.store.close()
        let sealed = try await Harness(harness.directory)
        try await sealed.store.rotateKey()
        #expect(sealed.store.sealing.inUse == [2])
        let text = try String(contentsOfFile: Self.keyPath(harness.directory), encoding: .utf8)
        #expect(text.split(separator: "\n").count == 1)
        #expect(try await Set(sealed.all()) == Set(readings))
        #expect(try await sealed.store.verify().isEmpty)
    }

    @Test("a key is not destroyed under a reader: no row looks damaged while keys change")
    func readingWhileKeysChange() async throws {
        let harness = try await Harness()
        try await Self.fill(harness)
        let store = harness.store
        let before = store.sealing.current
        let (begun, beginning) = AsyncStream<Void>.makeStream()
        let reader = Task {
            try await store.read { db in
                // The first query fixes the commit that this reader sees.
                let rows = try Row.fetchAll(db, sql: "SELECT key, label FROM device WHERE label IS NOT NULL")
                beginning.finish()
                while store.sealing.current == before || store.sealing.inUse.count > 1 { usleep(1000) }
                return try rows.map { row in try store.sealing.label(row[1], of: row[0]) }
            }
        }
        for await _ in begun {}
        try await store.rotateKey()
        #expect(try await reader.value.count == 3)
        // No reader can see such a row any more, so the key is forgotten.
        #expect(throws: StoreError.self) { try store.sealing.keys(of: before) }
    }

    @Test("a credential is never written: a key missing there is not made, a new line there becomes the key")
    func credential() async throws {
        let directory = Harness.newDirectory()
        let credential = StoreKeySource(path: directory + "-credential", isWritable: false)
        let key = { (octet: UInt8) in Data(repeating: octet, count: 32).base64EncodedString() }
        var harness = try await Harness(directory, encryption: .on(credential))
        #expect(harness.store.lockedBecause == .keyMissing(path: credential.path))
        try key(1).write(toFile: credential.path, atomically: true, encoding: .utf8)
        try await harness.store.requireKeys()
        try await Self.fill(harness)
        let readings = try await harness.all()
        await #expect(throws: StoreError.self) { try await harness.store.rotateKey() }
        try harness.store.close()

        let both = key(1) + "\n" + key(2)
        try both.write(toFile: credential.path, atomically: true, encoding: .utf8)
        harness = try await Harness(directory, encryption: .on(credential))
        try await Self.settle(harness.store)
        try harness.store.close()
        #expect(try String(contentsOfFile: credential.path, encoding: .utf8) == both)
        try key(2).write(toFile: credential.path, atomically: true, encoding: .utf8)
        harness = try await Harness(directory, encryption: .on(credential))
        #expect(harness.store.lockedBecause == nil)
        #expect(try await Set(harness.all()) == Set(readings))
        #expect(!FileManager.default.fileExists(atPath: Self.keyPath(directory)))
    }

    /// A key, as a credential's file has it.
    private static func key(_ octet: UInt8) -> String { Data(repeating: octet, count: 32).base64EncodedString() }

    /// The directory of a store, and a credential with one key for it.
    private static func credentialOfOne() throws -> (directory: String, credential: StoreKeySource) {
        let directory = Harness.newDirectory()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let credential = StoreKeySource(path: directory + "-credential", isWritable: false)
        try key(1).write(toFile: credential.path, atomically: true, encoding: .utf8)
        return (directory, credential)
    }

    /// Readings of a person who is named only at the next start.
    private static func unnamed(_ readings: [Reading]) -> Set<Reading> {
        Set(
            readings.map { reading in
                var reading = reading
                reading.person = nil
                return reading
            })
    }

    @Test("a credential outlives forgetting everybody: what is stored afterwards is there at the next start")
    func forgettingUnderCredential() async throws {
        let (directory, credential) = try Self.credentialOfOne()
        let key = Self.key
        var harness = try await Harness(directory, encryption: .on(credential))
        try await Self.fill(harness)
        try await harness.store.eraseUser(harness.store.currentUser().key)
        #expect(try await !harness.store.destroyKey())
        try await Self.fill(harness)
        let readings = try await harness.all()
        #expect(readings.allSatisfy { $0.person == nil })
        #expect(!readings.isEmpty)
        try harness.store.close()

        harness = try await Harness(directory, encryption: .on(credential))
        #expect(harness.store.lockedBecause == nil)
        #expect(try await Self.unnamed(harness.all()) == Set(readings))
        #expect(try await harness.store.verify().isEmpty)
        try harness.store.close()

        // The owner replaces it, as the command says.
        try (key(1) + "\n" + key(2)).write(toFile: credential.path, atomically: true, encoding: .utf8)
        harness = try await Harness(directory, encryption: .on(credential))
        try await Self.settle(harness.store)
        try harness.store.close()
        try key(2).write(toFile: credential.path, atomically: true, encoding: .utf8)
        harness = try await Harness(directory, encryption: .on(credential))
        #expect(try await Self.unnamed(harness.all()) == Set(readings))
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a credential that is lost with nothing left under it may be followed by another")
    func lostCredential() async throws {
        let (directory, credential) = try Self.credentialOfOne()
        let key = Self.key
        var harness = try await Harness(directory, encryption: .on(credential))
        try await Self.fill(harness)
        try harness.store.close()
        try FileManager.default.removeItem(atPath: credential.path)

        harness = try await Harness(directory, encryption: .on(credential))
        try await harness.store.eraseUser(harness.store.currentUser().key)
        #expect(try await !harness.store.destroyKey())
        try key(2).write(toFile: credential.path, atomically: true, encoding: .utf8)
        try await harness.store.requireKeys()
        try await Self.fill(harness)
        let readings = try await harness.all()
        try harness.store.close()
        harness = try await Harness(directory, encryption: .on(credential))
        #expect(try await Self.unnamed(harness.all()) == Set(readings))
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("forgetting everybody destroys the key, even that of a store whose key is lost")
    func forgetting() async throws {
        let harness = try await Harness()
        try await Self.fill(harness)
        let path = Self.keyPath(harness.directory)
        let before = try String(contentsOfFile: path, encoding: .utf8)
        #expect(try await !harness.store.destroyKey())
        try await harness.store.eraseUser(harness.store.currentUser().key)
        #expect(try await harness.store.destroyKey())
        #expect(try String(contentsOfFile: path, encoding: .utf8) != before)
        #expect(try await harness.store.verify().isEmpty)
        try await Self.fill(harness)
        try harness.store.close()
        try FileManager.default.removeItem(atPath: path)

        let locked = try await Harness(harness.directory)
        #expect(locked.store.lockedBecause == .keyMissing(path: path))
        // Pruning would leave a key in the clear.
        await #expect(throws: StoreError.keyMissing(path: path)) {
            try await locked.store.prune(olderThan: .seconds(1))
        }
        #expect(!FileManager.default.fileExists(atPath: PruneKey.path(in: locked.store.directory)))
        try await locked.store.eraseUser(locked.store.currentUser().key)
        #expect(try await locked.store.destroyKey())
        #expect(locked.store.lockedBecause == nil)
        try await Self.fill(locked)
        #expect(try await locked.store.verify().isEmpty)
    }
}

extension Data? {
    /// The file's octets, or what stands for a file that is not there.
    fileprivate init(contentsOf url: URL, or missing: Data?) throws {
        self = FileManager.default.fileExists(atPath: url.path) ? try Data(contentsOf: url) : missing
    }
}

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
    /// Rows are re-encrypted in many commits: a death at any of them leaves each readable.
    @Suite("Death while keys change")
    struct SealingCrashTests {
        static let frames = (0..<1200).map { Build.glucose($0, "2026-11-21T08:00:00", 60 + $0 % 400) }

        @Test(
            "promise 10: killed at any commit of a change of keys, every reading can be read, and it goes on",
            arguments: [
                "reseal.before-commit", "reseal.after-commit", "reseal.after-commit:2", "reseal.before-commit:4",
                "reseal.after-commit:6", "reseal.before-commit:9", "reseal.after-commit:9",
            ], [false, true])
        func kill(point: String, wasSealed: Bool) async throws {
            let directory = Harness.newDirectory()
            let first = try await Harness(directory, encryption: wasSealed ? .on() : .off())
            try await first.contact(Self.frames)
            let readings = try await first.all()
            try first.store.close()
            let path = SealingTests.keyPath(directory)
            let former = wasSealed ? try String(contentsOfFile: path, encoding: .utf8) : nil
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String, wasSealed = wasSealed as Bool] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                let harness = try await Harness(directory)
                if wasSealed {
                    try await harness.store.rotateKey()
                } else {
                    try await SealingTests.settle(harness.store)
                }
            }
            let harness = try await Harness(directory)
            #expect(try await Set(harness.all()) == Set(readings))
            #expect(try await harness.contact(Self.frames).allSatisfy { $0.name == "repeated" })
            try await SealingTests.settle(harness.store)
            #expect(try await Set(harness.all()) == Set(readings))
            #expect(try await harness.store.verify().isEmpty)
            #expect(try SealingTests.found(Self.frames.map(\.payload), in: directory) == 0)
            let key = try String(contentsOfFile: path, encoding: .utf8)
            #expect(key.split(separator: "\n").count == 1 && key != former)
            // The former key is destroyed, and the octets that it sealed are under the new one alone.
            try harness.store.close()
            let again = try await Harness(directory)
            #expect(again.store.lockedBecause == nil)
            #expect(try await Set(again.all()) == Set(readings))
        }
    }
#endif
