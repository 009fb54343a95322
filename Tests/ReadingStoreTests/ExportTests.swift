import Crypto
import Foundation
import GRDB
import HealthReadings
import LogLines
import Logging
import Testing

@testable import ReadingStore

@Suite("Export and import")
struct ExportTests {
    private static let passphrase = "correct horse battery staple"

    private func export(_ store: ReadingStore, to path: String) async throws {
        var octets: [UInt8] = []
        try await store.export(passphrase: Self.passphrase) { octets += $0 }
        try Data(octets).write(to: URL(fileURLWithPath: path))
    }

    private func filled(_ encryption: StoreEncryption) async throws -> Harness {
        let harness = try await Harness(encryption: encryption)
        try await SealingTests.fill(harness)
        try await PruneTests.deliver(harness.store) { ($0.reading.record.sequence ?? 0) % 2 == 1 }
        try await harness.store.prune(olderThan: .zero)
        try await harness.store.notePairing(of: Build.device(), as: .proven)
        return harness
    }

    @Test("nothing takes the place of a store while destinations are still to take back what was erased of it")
    func stillToBeTakenBack() async throws {
        let source = try await filled(.on())
        let path = source.directory + "/backup"
        try await export(source.store, to: path)
        let harness = try await Harness()
        let place = try await harness.store.setDestination(
            "file", kind: "file", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: true)
        try await harness.contact([Build.glucose(1, "2026-11-21T08:10:00", 95)])
        let items = try await DestinationTests.batch(harness.store, at: place)
        try await harness.store.acknowledge(items.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        let user = try await harness.store.currentUser().key
        try await harness.store.eraseUser(user, retracts: true)
        let isAsked = try await harness.store.isAnythingToBeTakenBack()
        #expect(isAsked)
        try harness.store.close()
        await #expect(throws: ExportError.storeNotEmpty(path: harness.directory)) {
            try await ReadingStore.importing(
                path, passphrase: Self.passphrase, into: harness.directory, decoder: TestDecoder())
        }
        // They have.
        let again = try await Harness(harness.directory)
        let retractions = try await again.store.retractions(at: place, limit: 10)
        #expect(retractions.count == 1)
        try await again.store.acknowledgeRetractions(retractions.map(\.key))
        try again.store.close()
        try await ReadingStore.importing(
            path, passphrase: Self.passphrase, into: harness.directory, decoder: TestDecoder())
    }

    @Test("a store made of an export tells receivers nothing under a number that the exported one may have given since")
    func numbers() async throws {
        let source = try await Harness()
        let place = try await source.store.setDestination(
            "study", kind: "webhook", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: true)
        try await source.contact([
            Build.glucose(1, "2026-11-21T08:10:00", 95), Build.glucose(2, "2026-11-21T08:11:00", 96),
        ])
        let items = try await DestinationTests.batch(source.store, at: place)
        try await source.store.acknowledge(items.prefix(1).map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        let path = source.directory + "/backup"
        try await export(source.store, to: path)
        /// What a receiver knows news by: the revisions of what is sent, and the numbers of what is to be taken back.
        func news(of store: ReadingStore) async throws -> (sent: [Int64], taken: [Int64]) {
            _ = try await store.redeliver(to: "study")
            let sent = try await DestinationTests.batch(store, at: place).map(\.id.revision).sorted()
            let user = try await store.currentUser().key
            try await store.eraseUser(user, retracts: true)
            return (sent, try await store.retractions(at: place, limit: 10).map(\.key.rawValue))
        }
        let before = try await news(of: source.store)
        let directory = Harness.newDirectory()
        try await ReadingStore.importing(
            path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder())
        let target = try await Harness(directory)
        let after = try await news(of: target.store)
        // What waited in the export may have come since, and is known by its number.
        #expect(before.sent == [0, 1] && after.sent.count == 2 && after.sent.first == 0)
        #expect((after.sent.last ?? 0) > 1_000_000)
        #expect(!before.taken.isEmpty && before.taken.count == after.taken.count)
        #expect(Set(before.taken).isDisjoint(with: after.taken))
    }

    @Test(
        "what is queued anew in a store made of an export begins behind the numbers that the exported one may have given"
    )
    func queuedAnew() async throws {
        let harness = try await Harness()
        let place = try await harness.store.setDestination(
            "study", kind: "webhook", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: true)
        try await harness.contact([Build.glucose(1, "2026-11-21T08:10:00", 95)])
        let first = try await harness.store.write(.setting) { db in
            try OutboxRevision.skip(db, at: Instant(seconds: 6000))
            try OutboxRevision.leaveBehind(db, "destination = ?", place.rawValue)
            return try Int64.fetchOne(db, sql: "SELECT \(OutboxRevision.first)")
        }
        #expect(first == 101)
    }

    @Test("a new store that finds a key in the file of the settings says that another one may use it; its own it knows")
    func sharedKey() async throws {
        let source = StoreKeySource(path: Harness.newDirectory() + ".key")
        func warnings(_ directory: String, imports path: String? = nil) async throws -> [String] {
            let lines = LogLines()
            if let path {
                try await ReadingStore.importing(
                    path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: .on(source),
                    logger: lines.logger())
            } else {
                let store = try await ReadingStore.open(
                    directory: directory, decoder: TestDecoder(), encryption: .on(source), logger: lines.logger())
                try store.close()
            }
            return lines.lines(from: .warning).filter { $0.contains("was there before this store") }
        }
        let (first, second, third) = (Harness.newDirectory(), Harness.newDirectory(), Harness.newDirectory())
        for _ in 0..<2 {
            let said = try await warnings(first)
            #expect(said.isEmpty, "\(said)")
        }
        let other = try await warnings(second)
        #expect(other.count == 1 && other.first?.contains(source.path) == true)
        let told = try await warnings(second)
        #expect(told.isEmpty, "it was told")
        let exported = try await filled(.on())
        let path = exported.directory + "/backup"
        try await export(exported.store, to: path)
        let imported = try await warnings(third, imports: path)
        #expect(imported.count == 1)
        let opened = try await warnings(third)
        #expect(opened.isEmpty)
    }

    @Test("an export that is cut within its first chunk, or damaged there, is damaged; a wrong passphrase is that")
    func cut() async throws {
        let source = try await filled(.on())
        let path = source.directory + "/backup"
        try await export(source.store, to: path)
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var damaged = whole
        damaged[ExportFormat.headerLength + 40] ^= 1
        let first = ExportFormat.headerLength + ExportFormat.chunk + ExportFormat.tag
        for octets in [
            whole.prefix(64 << 10), whole.prefix(1000), whole.prefix(first), whole.prefix(first + 9), damaged,
        ] {
            try octets.write(to: URL(fileURLWithPath: path))
            let error = await #expect(throws: ExportError.self) {
                try await ReadingStore.importing(
                    path, passphrase: Self.passphrase, into: Harness.newDirectory(), decoder: TestDecoder())
            }
            guard case .damaged = error else {
                Issue.record("\(octets.count): \(String(describing: error))")
                continue
            }
            await #expect(throws: ExportError.wrongPassphrase) {
                try await ReadingStore.importing(
                    path, passphrase: Self.passphrase + "r", into: Harness.newDirectory(), decoder: TestDecoder())
            }
        }
    }

    @Test(
        "a store elsewhere has every reading, frame, person and what waits, sealed under its own key",
        arguments: [(true, true), (true, false), (false, true), (false, false)])
    func elsewhere(wasSealed: Bool, isSealed: Bool) async throws {
        let source = try await filled(wasSealed ? .on() : .off())
        let path = source.directory + "/backup"
        try await export(source.store, to: path)
        let (readings, statistics) = (try await source.all(), try await source.store.statistics())
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: source.directory).allSatisfy {
                !$0.contains("export")
            })

        let directory = Harness.newDirectory()
        let encryption: StoreEncryption = isSealed ? .on() : .off()
        let told = try await ReadingStore.importing(
            path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: encryption)
        #expect(told.readings == statistics.readings && told.waiting == statistics.waiting)
        let target = try await Harness(directory, encryption: encryption)
        #expect(target.store.sealing.inUse.count == 1)
        #expect(try await Set(target.all()) == Set(readings))
        #expect(try await target.store.currentUser().clientUserID == "white_bear")
        #expect(try await target.store.verify().isEmpty)
        // What was pruned is known there too; what was stored is no news; a bond is another machine's.
        let again = try await target.contact(PruneTests.frames)
        #expect(Set(again.map(\.name)).isSubset(of: ["repeated", "nothing"]), "\(Set(again.map(\.name)))")
        #expect(try await target.store.pairings().allSatisfy { !$0.state.isPaired })
        let now = try await target.store.statistics()
        #expect(now.delivered == statistics.delivered && now.refused == 1)
        let left = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(!left.contains("import.new"))
        if isSealed {
            #expect(try SealingTests.found(SealingTests.secrets(readings), in: directory) == 0)
            let keys = [source.directory, directory].map {
                try? String(contentsOfFile: $0 + "/store.key", encoding: .utf8)
            }
            #expect(keys[1] != nil && keys[0] != keys[1])
        }
        await #expect(throws: ExportError.storeNotEmpty(path: directory)) {
            try target.store.close()
            try await ReadingStore.importing(
                path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: encryption)
        }
    }

    @Test(
        "another passphrase, a cut, a changed octet, chunks that changed places: refused, and nothing is in the place")
    func damaged() async throws {
        let source = try await filled(.off())
        // More than two chunks.
        try await source.contact((0..<3000).map { ErasureTests.mark($0, filling: 0x51) })
        let path = source.directory + "/backup"
        try await export(source.store, to: path)
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        let (header, chunk) = (ExportFormat.headerLength, ExportFormat.chunk + ExportFormat.tag)
        #expect(whole.count > header + 3 * chunk)
        let swapped =
            whole[..<header] + whole[(header + chunk)..<(header + 2 * chunk)] + whole[header..<(header + chunk)]
            + whole[(header + 2 * chunk)...]
        func flipped(_ place: Int) -> Data {
            var data = whole
            data[place] ^= 1
            return data
        }
        let cases: [(Data, String, ExportError)] = [
            (whole, "another passphrase", .wrongPassphrase), (flipped(header + 5), Self.passphrase, .wrongPassphrase),
            (flipped(25), Self.passphrase, .wrongPassphrase), (swapped, Self.passphrase, .wrongPassphrase),
            (flipped(header + chunk + 9), Self.passphrase, .damaged(octet: Int64(header + chunk))),
            (whole[..<(header + 2 * chunk)], Self.passphrase, .damaged(octet: Int64(header + chunk))),
            (whole + [0], Self.passphrase, .damaged(octet: Int64(header + (whole.count - header) / chunk * chunk))),
            (whole[..<(header + 3)], Self.passphrase, .damaged(octet: Int64(header))),
            (whole[..<30], Self.passphrase, .damaged(octet: 30)),
            (Data("SQLite format 3\0".utf8), Self.passphrase, .foreign(found: "53514c69746520666f726d6174203300")),
            (Data(), Self.passphrase, .foreign(found: "")),
            (Data("HealthRelay export 7\n".utf8), Self.passphrase, .newer(version: 7)),
            (whole[..<(header - 3)] + [30, 8, 1], Self.passphrase, .unreasonable),
        ]
        for (data, passphrase, error) in cases {
            let copy = source.directory + "/copy"
            try data.write(to: URL(fileURLWithPath: copy))
            let directory = Harness.newDirectory()
            await #expect(throws: error) {
                try await ReadingStore.importing(
                    copy, passphrase: passphrase, into: directory, decoder: TestDecoder())
            }
            #expect(ReadingStore.databaseFiles(in: directory).isEmpty)
            #expect(!FileManager.default.fileExists(atPath: directory + "/import.new"))
        }
        await #expect(throws: ExportError.passphraseTooShort) {
            try await source.store.export(passphrase: "1234567") { _ in }
        }
    }

    /// Where SQLite is made to fill the copy's indexes row by row, it takes three times as long, and pages stay half empty.
    @Test("the copy in an export is as small as SQLite makes one")
    func packed() async throws {
        let harness = try await Harness()
        try await harness.contact((1...2000).map { Build.glucose(UInt16($0), "2026-11-21T09:00:00") })
        let path = harness.directory + "/backup"
        try await export(harness.store, to: path)
        var exported = 0
        _ = try ExportContents.read(path, passphrase: Self.passphrase) { exported += $0.count }
        let copy = harness.directory + "/copy"
        try DatabaseQueue(path: harness.directory + "/" + StoreFiles.databaseName).inDatabase { db in
            try db.execute(sql: "VACUUM INTO ?", arguments: [copy])
        }
        #expect(try exported == Data(contentsOf: URL(fileURLWithPath: copy)).count)
    }

    @Test("keys that change while an export is written: it holds those of its rows, and no other's")
    func changing() async throws {
        let source = try await filled(.on())
        let readings = try await source.all()
        let path = source.directory + "/backup"
        let stranger = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
        let key = SealingTests.keyPath(source.directory)
        try (stranger + String(contentsOfFile: key, encoding: .utf8)).write(
            toFile: key, atomically: true, encoding: .utf8)
        var octets: [UInt8] = []
        try await source.store.export(passphrase: Self.passphrase) { part in
            if octets.isEmpty { try await source.store.rotateKey() }
            octets += part
        }
        try Data(octets).write(to: URL(fileURLWithPath: path))
        var opener = try ExportOpener(
            header: Array(octets.prefix(ExportFormat.headerLength)), passphrase: Self.passphrase)
        let opened = try opener.add(octets.dropFirst(ExportFormat.headerLength)) + opener.end()
        let line = opened.prefix { $0 != UInt8(ascii: "\n") }
        let manifest = try JSONDecoder().decode(ExportManifest.self, from: Data(line))
        #expect(manifest.keys.count == 1 && !stranger.hasPrefix(manifest.keys[0]))
        let directory = Harness.newDirectory()
        try await ReadingStore.importing(
            path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder())
        #expect(try await Set(Harness(directory).all()) == Set(readings))
    }

    @Test(
        "a trial makes the whole store of an export, and leaves nothing; a damaged one fails it",
        arguments: [true, false])
    func trial(isSealed: Bool) async throws {
        let source = try await filled(isSealed ? .on() : .off())
        let path = Harness.newDirectory() + ".export"
        try await export(source.store, to: path)
        defer { unlink(path) }
        let before = try FileManager.default.contentsOfDirectory(atPath: source.directory).sorted()
        let found = try await ReadingStore.trying(
            path, passphrase: Self.passphrase, in: source.directory, decoder: TestDecoder())
        let own = try await source.store.statistics()
        #expect(found.readings == own.readings && found.devices == own.devices)
        #expect(try FileManager.default.contentsOfDirectory(atPath: source.directory).sorted() == before)
        var damaged = try Data(contentsOf: URL(fileURLWithPath: path))
        damaged[damaged.count - 1] ^= 1
        try damaged.write(to: URL(fileURLWithPath: path))
        await #expect(throws: ExportError.self) {
            try await ReadingStore.trying(
                path, passphrase: Self.passphrase, in: source.directory, decoder: TestDecoder())
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: source.directory).sorted() == before)
    }

    @Test(
        "of a store with a damaged row all others are put back; the row stays as it is, and is named",
        arguments: [true, false])
    func damagedRow(isSealed: Bool) async throws {
        let encryption: StoreEncryption = isSealed ? .on() : .off()
        let source = try await Harness(encryption: encryption)
        try await source.contact((UInt16(0)..<10).map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) })
        try source.store.close()
        try TamperingTests.edit(source.directory) { db in
            try db.execute(
                sql: "UPDATE reading SET content = CAST(x'01' || randomblob(60) AS BLOB) WHERE key = 4")
        }
        let damaged = try await Harness(source.directory, encryption: encryption)
        let finding = VerificationFinding(problem: .unreadable, subject: "reading 4")
        #expect(try await damaged.store.verify() == [finding])
        let path = source.directory + "/backup"
        try await export(damaged.store, to: path)

        let (directory, lines) = (Harness.newDirectory(), LogLines())
        try await ReadingStore.importing(
            path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: encryption,
            logger: lines.logger())
        let said = try #require(lines.lines(from: .warning).first { $0.contains("exported store") })
        #expect(said.contains(#""count": 1"#) && said.contains("row_unreadable"), "\(said)")
        #expect(said.contains("reading 4"), "\(said)")
        let target = try await Harness(directory, encryption: encryption)
        let readings = try await ChangeTests.all(target.store).compactMap(\.reading)
        #expect(readings.map(\.record.sequence) == [0, 1, 2, 4, 5, 6, 7, 8, 9])
        #expect(try await target.store.verify() == [finding])
        #expect(target.store.sealing.inUse.count == 1)
    }

    @Test("a store whose pruned.key is gone is put back, and verification names that", arguments: [true, false])
    func lostPruneKey(isSealed: Bool) async throws {
        let source = try await filled(.off())
        let readings = try await source.all()
        try source.store.close()
        try FileManager.default.removeItem(atPath: PruneKey.path(in: source.directory))
        let again = try await Harness(source.directory, encryption: .off())
        let finding = VerificationFinding(problem: .pruneKey, subject: PruneKey.fileName)
        #expect(try await again.store.verify() == [finding])
        let path = source.directory + "/backup"
        try await export(again.store, to: path)

        let (directory, lines) = (Harness.newDirectory(), LogLines())
        let encryption: StoreEncryption = isSealed ? .on() : .off()
        try await ReadingStore.importing(
            path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: encryption,
            logger: lines.logger())
        #expect(lines.lines(from: .warning).contains { $0.contains("prune_key_missing") }, "\(lines.text)")
        let target = try await Harness(directory, encryption: encryption)
        #expect(try await Set(target.all()) == Set(readings))
        #expect(try await target.store.verify() == [finding])
    }

    /// Damages an index of readings in a store that nobody has open.
    private func damageIndex(of directory: String, byPage: Bool) throws {
        let (path, name) = (directory + "/" + StoreFiles.databaseName, "reading_kind_time")
        func open(_ statements: String) throws -> Int? {
            let queue = try DatabaseQueue(path: path)
            defer { try? queue.close() }
            return try queue.writeWithoutTransaction { db in
                try db.execute(sql: statements)
                return try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = ?", arguments: [name])
            }
        }
        if byPage {
            let page = try #require(try open("PRAGMA wal_checkpoint(TRUNCATE)"))
            var octets = try Data(contentsOf: URL(fileURLWithPath: path))
            octets[(page - 1) * 1024] = 0xFF
            return try octets.write(to: URL(fileURLWithPath: path))
        }
        // As one of which entries are missing.
        let (schema, none) = ("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = ", " WHERE kind < 0")
        _ = try open("\(schema) sql || '\(none)' WHERE name = '\(name)'")
        _ = try open("REINDEX \(name)")
        _ = try open("\(schema) replace(sql, '\(none)', '') WHERE name = '\(name)'")
    }

    @Test("a damaged index keeps no reading from being put back", arguments: [true, false])
    func damagedIndex(byPage: Bool) async throws {
        let source = try await Harness(encryption: .off())
        try await source.contact((1...50).map { Build.glucose($0, "2026-11-21T08:00:00") })
        let readings = try await source.all()
        try source.store.close()
        try damageIndex(of: source.directory, byPage: byPage)
        let again = try await Harness(source.directory, encryption: .off())
        // It is told as a finding, or SQLite refuses to go on.
        let findings = try? await again.store.verify()
        #expect(findings?.contains { $0.problem == .database } != false)
        let path = source.directory + "/backup"
        try await export(again.store, to: path)
        for encryption: StoreEncryption in [.off(), .on()] {
            let directory = Harness.newDirectory()
            try await ReadingStore.importing(
                path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: encryption)
            let target = try await Harness(directory, encryption: encryption)
            #expect(try await Set(target.all()) == Set(readings))
            #expect(try await target.store.verify().isEmpty)
        }
    }

    @Test("a database that is damaged itself is refused, and nothing is in the place")
    func damagedDatabase() async throws {
        let source = try await Harness(encryption: .off())
        try await source.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        let path = source.directory + "/backup"
        try await export(source.store, to: path)
        var database: [UInt8] = []
        let manifest = try ExportContents.read(path, passphrase: Self.passphrase) { database += $0 }.manifest
        // The last page is of no kind that there is.
        database[database.count - 1024] = 0xFF
        var sealer = try ExportSealer(passphrase: Self.passphrase)
        let line = Array(try JSONEncoder().encode(manifest)) + [UInt8(ascii: "\n")]
        let sealed = try sealer.header + sealer.add(line) + sealer.add(database) + sealer.end()
        try Data(sealed).write(to: URL(fileURLWithPath: path))
        let directory = Harness.newDirectory()
        let error = await #expect(throws: StoreError.self) {
            try await ReadingStore.importing(
                path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder(), encryption: .off())
        }
        #expect(error?.isCorrupt == true, "\(String(describing: error))")
        #expect(ReadingStore.databaseFiles(in: directory).isEmpty)
        #expect(!FileManager.default.fileExists(atPath: directory + "/import.new"))
    }

    @Test("what an export and an import that were killed have left is gone when the store opens, keys overwritten")
    func leftovers() async throws {
        let harness = try await filled(.on())
        let readings = try await harness.all()
        try harness.store.close()
        let files = FileManager.default
        let copy = StoreExport.newPath(in: harness.directory)
        for suffix in ["", "-journal"] { try Data([1]).write(to: URL(fileURLWithPath: copy + suffix)) }
        // A person's own, whatever it is called, stays.
        let own = harness.directory + "/export-\(UUID().uuidString).sqlite"
        try Data([2]).write(to: URL(fileURLWithPath: own))
        let workshop = harness.directory + "/import.new"
        try files.createDirectory(atPath: workshop, withIntermediateDirectories: false)
        try Data(repeating: 0x41, count: 44).write(to: URL(fileURLWithPath: workshop + "/store.key"))
        try files.linkItem(atPath: workshop + "/store.key", toPath: harness.directory + "/key")
        let again = try await Harness(harness.directory)
        #expect(try await Set(again.all()) == Set(readings))
        for path in [copy, copy + "-journal", workshop] { #expect(!files.fileExists(atPath: path), "\(path)") }
        #expect(files.fileExists(atPath: own))
        #expect(files.contents(atPath: harness.directory + "/key") == Data(count: 44))
    }

    /// The first 32 octets of the keys in section 12.
    @Test(
        "a key is that of RFC 7914",
        arguments: [
            ("password", "NaCl", 10, 8, 16, "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"),
            (
                "pleaseletmein", "SodiumChloride", 14, 8, 1,
                "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
            ),
        ])
    func vector(_ passphrase: String, _ salt: String, _ rounds: Int, _ block: Int, _ lanes: Int, _ key: String) throws {
        let cost = ExportFormat.ScryptCost(
            roundsExponent: UInt8(rounds), blockSize: UInt8(block), parallelism: UInt8(lanes))
        let made = try cost.key(passphrase, salt: Array(salt.utf8)).withUnsafeBytes { Array($0) }
        #expect(made.map { String(UInt16($0) + 256, radix: 16).dropFirst() }.joined() == key)
    }

    @Test("chunks of any size come back, and no octets ever trap")
    func chunks() throws {
        let cost = ExportFormat.ScryptCost(roundsExponent: 10, blockSize: 1, parallelism: 1)
        var random = SystemRandomNumberGenerator()
        for size in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
            let octets = (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
            var sealer = try ExportSealer(passphrase: Self.passphrase, cost: cost)
            var file = sealer.header
            var rest = octets[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...100_000, using: &random)
                file += try sealer.add(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
            file += try sealer.end()
            var opener = try ExportOpener(
                header: Array(file.prefix(ExportFormat.headerLength)), passphrase: Self.passphrase)
            var opened: [UInt8] = []
            var sealed = file.dropFirst(ExportFormat.headerLength)
            while !sealed.isEmpty {
                let count = Int.random(in: 1...100_000, using: &random)
                opened += try opener.add(sealed.prefix(count))
                sealed = sealed.dropFirst(count)
            }
            opened += try opener.end()
            #expect(opened == octets)
            #expect(throws: ExportError.self) {
                var opener = try ExportOpener(
                    header: Array(file.prefix(ExportFormat.headerLength)), passphrase: Self.passphrase)
                _ = try opener.add(file.dropFirst(ExportFormat.headerLength).dropLast())
                _ = try opener.end()
            }
        }
    }
}
