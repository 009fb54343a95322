import Foundation
import Testing

/// `backup`, and the backups that `run` makes by itself.
@Suite("Backups") struct BackupTests {
    private static let passphrase = "correct horse battery staple"

    /// A state directory with readings, and a directory for backups.
    private struct Place {
        let scratch: Scratch
        var state: String { scratch.state }
        var directory: String { scratch.url.appendingPathComponent("backups").path }
        var secret: String { scratch.url.appendingPathComponent("passphrase").path }
        var environment: [String: String] {
            [
                "HEALTHRELAY_BACKUP_TO": directory, "HEALTHRELAY_BACKUP_PASSPHRASE_FILE": secret,
                "HEALTHRELAY_BACKUP_KEEP": "2", "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
            ]
        }

        init(isEmpty: Bool = false) async throws {
            scratch = try Scratch()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            _ = FileManager.default.createFile(
                atPath: secret, contents: Data((BackupTests.passphrase + "\n").utf8),
                attributes: [.posixPermissions: 0o600])
            guard !isEmpty else { return }
            let result = try await run("replay", Tool.fixture("glucose-first-delivery.btsnoop"))
            #expect(result.status == 0, "\(result.errors)")
        }

        func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--json", "--state-dir", state],
                environment: self.environment.merging(environment) { $1 })
        }

        func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: directory).sorted() }

        /// The readings of a store that is made of a backup on another machine.
        func restored(_ name: String) async throws -> [String] {
            let other = scratch.url.appendingPathComponent(UUID().uuidString).path
            let imported = try await Tool.run([
                "store", "import", directory + "/" + name, "--passphrase-file", secret, "--state-dir", other,
            ])
            #expect(imported.status == 0, "\(imported.errors)")
            #expect(try await Tool.run(["store", "verify", "--state-dir", other]).status == 0)
            // Until then what waits has another reason than in the store that was backed up.
            #expect(try await Tool.run(["consent", "grant", "--state-dir", other]).status == 0)
            return try await Self.readings(other)
        }

        static func readings(_ state: String) async throws -> [String] {
            try await Tool.run(["query", "--format", "ndjson", "--state-dir", state]).lines.sorted()
        }
    }

    @Test("backups beside the store are refused: what loses it would lose them")
    func insideOfTheStateDirectory() async throws {
        let place = try await Place()
        for directory in [place.state, place.state + "/backups"] {
            let refused = try await place.run("backup", "now", environment: ["HEALTHRELAY_BACKUP_TO": directory])
            #expect(
                refused.status == 78 && refused.errors.contains("outside of the state directory"), "\(refused.errors)")
        }
    }

    @Test("a backup is made, listed and checked, the oldest goes, and a store can be made of one elsewhere")
    func now() async throws {
        let place = try await Place()
        try Data().write(to: URL(fileURLWithPath: place.directory + "/notes.txt"))
        let made = try await place.run("backup", "now")
        #expect(made.status == 0, "\(made.errors)")
        let first = try #require(try Document(made.output)["name"]?.plain)
        let attributes = try FileManager.default.attributesOfItem(atPath: place.directory + "/" + first)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try await place.restored(first) == Place.readings(place.state))
        // What a gateway that was killed has left goes; what is not ours stays.
        try Data("x".utf8).write(to: URL(fileURLWithPath: place.directory + "/" + first + ".part"))
        for _ in 0..<2 { #expect(try await place.run("backup", "now").status == 0) }
        let names = try place.names()
        #expect(names.count == 3 && !names.contains(first) && names.contains("notes.txt"), "\(names)")
        let listed = try await place.run("backup", "list")
        #expect(
            try Document(listed.output).elements("backups").compactMap { $0["name"]?.plain }
                == names.prefix(2).reversed())
        let forgotten = try await place.run("store", "forget", "--yes")
        #expect(forgotten.status == 0 && forgotten.errors.contains("2 backups in"), "\(forgotten.errors)")
        let verified = try await place.run("backup", "verify", names[0])
        #expect(verified.status == 0, "\(verified.errors)")
        #expect(try await place.run("backup", "verify", "other.export").status == 66)

        let documents = place.scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        for (name, result) in [("backup-1", made), ("backup-2", verified), ("backup_list-1", listed)] {
            try result.output.write(
                to: documents.appendingPathComponent("\(name).json"), atomically: true, encoding: .utf8)
        }
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
    }

    @Test("an erasure tells of backups that cannot be looked at now")
    func away() async throws {
        let place = try await Place()
        #expect(try await place.run("backup", "now").status == 0)
        try FileManager.default.moveItem(atPath: place.directory, toPath: place.directory + ".away")
        let forgotten = try await place.run("store", "forget", "--yes")
        #expect(
            forgotten.status == 0
                && forgotten.errors.contains("backups in \(place.directory), which cannot be read now"),
            "\(forgotten.errors)")
    }

    @Test("a damaged, cut or foreign backup, and another passphrase, are named; nothing older goes for one that fails")
    func damaged() async throws {
        let place = try await Place()
        #expect(try await place.run("backup", "now").status == 0)
        let name = try #require(try place.names().first)
        let file = URL(fileURLWithPath: place.directory + "/" + name)
        let whole = try Data(contentsOf: file)
        func verify(_ data: Data, _ status: Int32, _ code: String) async throws {
            try data.write(to: file)
            let result = try await place.run("backup", "verify")
            #expect(result.status == status && (code.isEmpty || result.errors.contains(code)), "\(result.errors)")
        }
        var changed = whole
        changed[whole.count / 2] ^= 1
        try await verify(changed, 65, "export_damaged")
        try await verify(whole.dropLast(20), 65, "export_damaged")
        try await verify(Data("no backup".utf8), 65, "export_foreign")
        try await verify(whole, 0, "")
        try Data("another passphrase\n".utf8).write(to: URL(fileURLWithPath: place.secret))
        try await verify(whole, 77, "export_wrong_passphrase")
        try Data("short\n".utf8).write(to: URL(fileURLWithPath: place.secret))
        let short = try await place.run("backup", "now")
        #expect(short.status == 78 && short.errors.contains("at least 8 characters, found 5"), "\(short.errors)")
        #expect(try place.names() == [name])
    }

    @Test("doctor sees that the newest was damaged; a damaged one takes no place among those that are kept")
    func damagedLater() async throws {
        let place = try await Place()
        func doctor() async throws -> Document? {
            try Document(try await place.run("doctor").output).elements("checks")
                .first { $0["name"]?.plain == "backup" }
        }
        for _ in 0..<2 { #expect(try await place.run("backup", "now").status == 0) }
        #expect(try await doctor()?["ok"]?.plain == "true")
        let names = try place.names()
        try #require(names.count == 2)
        func flip(_ name: String) throws {
            let file = URL(fileURLWithPath: place.directory + "/" + name)
            var octets = try Data(contentsOf: file)
            octets[octets.count / 2] ^= 1
            try octets.write(to: file)
        }
        try flip(names[1])
        let found = try await doctor()
        #expect(found?["ok"]?.plain == "false" && found?["found"]?.plain.contains("damaged: \(names[1])") == true)
        // Two are kept: the good old one and the new one. The damaged one is newer than what is kept, and stays to be looked at.
        #expect(try await place.run("backup", "now").status == 0)
        let later = try place.names()
        #expect(later.count == 3 && later.starts(with: names), "\(later)")
        #expect(try await doctor()?["ok"]?.plain == "true")
        #expect(try await place.run("backup", "verify", names[0]).status == 0)
        // It goes with those that are too many.
        #expect(try await place.run("backup", "now").status == 0)
        #expect(try place.names().count == 2 && !place.names().contains(names[1]))
        // Without what is known of them, they are another gateway's.
        try FileManager.default.removeItem(atPath: place.state + "/backup-digests.json")
        let unknown = try await doctor()
        #expect(unknown?["ok"]?.plain == "false" && unknown?["found"]?.plain.contains("has made none") == true)
    }

    @Test("a backup from before the clock was put right, and dated later, counts as the oldest: newer ones stay")
    func later() async throws {
        let place = try await Place()
        for _ in 0..<2 { #expect(try await place.run("backup", "now").status == 0) }
        let names = try place.names()
        try #require(names.count == 2)
        // Of two in one second the later one is a second later.
        try await Task.sleep(for: .seconds(2))
        // The first was made when the clock was ahead.
        let ahead = String(names[0].prefix("healthrelay-01234567-".count)) + "20990101T000000Z.export"
        try FileManager.default.moveItem(
            atPath: place.directory + "/" + names[0], toPath: place.directory + "/" + ahead)
        let file = URL(fileURLWithPath: place.state + "/backup-digests.json")
        let known = try String(contentsOf: file, encoding: .utf8)
        try known.replacing(names[0], with: ahead).write(to: file, atomically: true, encoding: .utf8)
        let verified = try await place.run("backup", "verify")
        #expect(verified.status == 0 && verified.output.contains(names[1]), "\(verified.output) \(verified.errors)")
        let made = try await place.run("backup", "now")
        let name = try #require(try Document(made.output)["name"]?.plain)
        let left = try place.names()
        #expect(left == [names[1], name], "\(left)")
    }

    /// Another file system than that of the tests' own directories.
    private static let otherDisk = "/dev/shm"

    private static var hasOtherDisk: Bool {
        var (other, own) = (stat(), stat())
        return stat(otherDisk, &other) == 0 && stat(FileManager.default.temporaryDirectory.path, &own) == 0
            && other.st_dev != own.st_dev && access(otherDisk, W_OK) == 0
    }

    @Test(
        "while the disk with the backups is not mounted, none is written in its place, and all say so",
        .enabled(if: hasOtherDisk, "needs another file system in /dev/shm"))
    func unmounted() async throws {
        let place = try await Place()
        let disk = Self.otherDisk + "/healthrelay-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: disk) }
        try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: false)
        func doctor() async throws -> Document? {
            try Document(try await place.run("doctor").output).elements("checks")
                .first { $0["name"]?.plain == "backup" }
        }
        // As a mount does it: the same path leads to the other disk.
        try FileManager.default.removeItem(atPath: place.directory)
        try FileManager.default.createSymbolicLink(atPath: place.directory, withDestinationPath: disk)
        #expect(try await place.run("backup", "now").status == 0)
        let found = try await doctor()
        #expect(found?["ok"]?.plain == "true" && found?["found"]?.plain.contains("own disk") == false)
        let made = try FileManager.default.contentsOfDirectory(atPath: disk)
        // The directory below the mount point.
        try FileManager.default.removeItem(atPath: place.directory)
        try FileManager.default.createDirectory(atPath: place.directory, withIntermediateDirectories: false)
        for command in ["now", "list", "verify"] {
            let refused = try await place.run("backup", command)
            #expect(refused.status == 74 && refused.errors.contains("backup_disk_missing"), "\(refused.errors)")
        }
        let missing = try await doctor()
        #expect(missing?["ok"]?.plain == "false" && missing?["found"]?.plain.contains("not mounted") == true)
        let written = try place.names()
        #expect(written.isEmpty, "\(written)")
        // Somebody who wants them elsewhere says so.
        let elsewhere = place.scratch.url.appendingPathComponent("elsewhere").path
        try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: false)
        let listed = try await place.run("backup", "list", environment: ["HEALTHRELAY_BACKUP_TO": elsewhere])
        #expect(listed.status == 0, "\(listed.errors)")
        // The disk is back, with this gateway's backups.
        try FileManager.default.removeItem(atPath: place.directory)
        try FileManager.default.createSymbolicLink(atPath: place.directory, withDestinationPath: disk)
        let again = try await doctor()
        #expect(again?["ok"]?.plain == "true" && made.count == 1, "\(again?["found"]?.plain ?? "")")
        #expect(try await place.run("backup", "now").status == 0)
        let both = try FileManager.default.contentsOfDirectory(atPath: disk)
        #expect(both.count == 2)
    }

    @Test("a gateway that was made of another one's backup makes its own, and leaves those that the other makes")
    func sameID() async throws {
        let place = try await Place()
        for _ in 0..<2 { #expect(try await place.run("backup", "now").status == 0) }
        let first = try place.names()
        let other = place.scratch.url.appendingPathComponent("other").path
        let imported = try await Tool.run([
            "store", "import", place.directory + "/\(first[1])", "--passphrase-file", place.secret, "--state-dir",
            other,
        ])
        #expect(imported.status == 0, "\(imported.errors)")
        /// Runs a command of one of the two, and gives what is new in the directory afterwards.
        func run(_ arguments: String..., inOther: Bool) async throws -> (result: Tool.Result, made: Set<String>) {
            let before = Set(try place.names())
            let state = inOther ? other : place.state
            let result = try await Tool.run(
                arguments + ["--json", "--state-dir", state], environment: place.environment)
            return (result, Set(try place.names()).subtracting(before))
        }
        func doctor(inOther: Bool) async throws -> Document? {
            try Document(try await run("doctor", inOther: inOther).result.output).elements("checks")
                .first { $0["name"]?.plain == "backup" }
        }
        // It has none of its own yet, and those of before are the ones it goes on from: two are kept.
        #expect(try await doctor(inOther: true)?["ok"]?.plain == "false")
        let theirs = try await run("backup", "now", inOther: true)
        #expect(theirs.result.status == 0, "\(theirs.result.errors)")
        let names = Set(try place.names())
        #expect(theirs.made.count == 1 && names == theirs.made.union([first[1]]), "\(names)")
        // The first one's window has its own alone.
        let ours = try await run("backup", "now", inOther: false)
        #expect(try ours.result.status == 0 && Set(place.names()) == names.union(ours.made))
        let later = try await run("backup", "now", inOther: true)
        #expect(later.result.status == 0)
        let left = Set(try place.names())
        #expect(left.isSuperset(of: theirs.made.union(ours.made).union(later.made)), "\(left)")
        for isOther in [true, false] {
            let found = try await doctor(inOther: isOther)
            #expect(found?["ok"]?.plain == "true", "\(found?["found"]?.plain ?? "")")
        }
        #expect(try await doctor(inOther: true)?["found"]?.plain.contains("another gateway with the same id") == true)
    }

    @Test("a passphrase that others may read is told, as with every secret")
    func openPassphrase() async throws {
        let place = try await Place()
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: place.secret)
        let checks = try Document(try await place.run("doctor").output).elements("checks")
        let found = checks.first { $0["name"]?.plain == "permissions" }
        #expect(found?["ok"]?.plain == "false" && found?["found"]?.plain.contains(place.secret) == true)
    }

    @Test("`run` makes one when none is there or the newest is too old, and doctor says how old it is")
    func scheduled() async throws {
        let place = try await Place()
        func doctor() async throws -> Document? {
            try Document(try await place.run("doctor").output).elements("checks")
                .first { $0["name"]?.plain == "backup" }
        }
        #expect(try await doctor()?["ok"]?.plain == "false")
        // Two days ago, by its name.
        let id = try #require(try Document(try await place.run("id", "show").output)["gateway_id"]?.plain)
        let old = "healthrelay-\(id.prefix(8))-20260101T000000Z.export"
        try Data("old".utf8).write(to: URL(fileURLWithPath: place.directory + "/" + old))
        #expect(try await doctor()?["ok"]?.plain == "false")
        let gateway = try Tool.Running(
            ["run", "--state-dir", place.state], environment: place.environment, in: place.scratch.url)
        #expect(await gateway.wait { $0.errorText.contains("a backup was made") }, "\(gateway.errorText.suffix(800))")
        let names = try place.names()
        #expect(names.count == 2)
        // Through the gateway that owns the store.
        #expect(try await place.run("backup", "now").status == 0)
        #expect(try await doctor()?["ok"]?.plain == "true")
        gateway.kill(SIGTERM)
        #expect(await gateway.finish().status == 0)
        let newest = try #require(try place.names().last)
        #expect(try !place.names().contains(old))
        #expect(try await place.restored(newest) == Place.readings(place.state))
        #expect(!gateway.errorText.contains(Self.passphrase))
    }

    @Test("simultaneous requests for backups make them one after the other, each whole")
    func concurrent() async throws {
        let place = try await Place()
        let gateway = try Tool.Running(
            ["run", "--state-dir", place.state], environment: place.environment, in: place.scratch.url)
        #expect(await gateway.wait { $0.errorText.contains("a backup was made") }, "\(gateway.errorText.suffix(800))")
        let results = try await withThrowingTaskGroup(of: Tool.Result.self) { group in
            for _ in 0..<4 { group.addTask { try await place.run("backup", "now") } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for result in results {
            #expect(
                result.status == 0 || result.status == 75 && result.errors.contains("backup_running"),
                "\(result.status) \(result.errors)")
        }
        #expect(results.contains { $0.status == 0 })
        for name in try place.names() { #expect(try await place.run("backup", "verify", name).status == 0) }
        gateway.kill(SIGTERM)
        #expect(await gateway.finish().status == 0)
    }

    @Test(
        "settings by which no backup can be made are refused, and a place that cannot be written to is named",
        arguments: [
            (["HEALTHRELAY_BACKUP_TO": "backups"], 78, "backup.to: expected the whole path"),
            (["HEALTHRELAY_BACKUP_PASSPHRASE_FILE": ""], 78, "expected backup.passphrase_file besides"),
            (["HEALTHRELAY_BACKUP_TO": ""], 78, "expected backup.to besides"),
            (["HEALTHRELAY_BACKUP_EVERY": "5m"], 78, "backup.every: expected 1h to 366d"),
            (["HEALTHRELAY_BACKUP_KEEP": "0"], 78, "a whole number from 1 to 1000"),
            (["HEALTHRELAY_BACKUP_TO": "/nowhere/at/all"], 74, "No such file or directory"),
            (["HEALTHRELAY_BACKUP_TO": "", "HEALTHRELAY_BACKUP_PASSPHRASE_FILE": ""], 78, "no_backups"),
            (["HEALTHRELAY_BACKUP_PASSPHRASE_FILE": "/nowhere"], 78, "cannot read the passphrase of backups"),
        ] as [([String: String], Int32, String)])
    func refused(_ environment: [String: String], _ status: Int32, _ words: String) async throws {
        let place = try await Place(isEmpty: true)
        let result = try await place.run("backup", "now", environment: environment)
        #expect(result.status == status && result.errors.contains(words), "\(result.status) \(result.errors)")
        #expect(try place.names().isEmpty)
    }
}
