import Crypto
import Foundation
import GRDB
import HealthReadings
import Logging

/// Makes a store of what another one exported.
struct StoreImport {
    let directory: String
    let encryption: StoreEncryption
    let decoder: any FrameDecoding
    let asksConsent: Bool
    let logger: Logger
    let progress: StoreProgress.Handler

    /// Where it is made ready: nothing of it is in the store's place before it is whole.
    private var workshop: String { Self.workshop(in: directory) }
    private var database: String { workshop + "/" + StoreFiles.databaseName }

    func run(_ path: String, passphrase: String) async throws -> StoreStatistics {
        try StoreFiles.requireRegular(path)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw StoreFiles.failure(path) }
        defer { close(descriptor) }
        return try await run(descriptor, passphrase: passphrase)
    }

    /// - Parameter descriptor: the export, open for reading.
    func run(_ descriptor: Int32, passphrase: String) async throws -> StoreStatistics {
        try StoreFiles.prepareDirectory(directory)
        let lock = try StoreLock(path: directory + "/" + StoreFiles.lockName)
        defer { lock.release() }
        try requireEmpty()
        try Self.clear(directory)
        // The database, and while its rows are sealed anew a copy of it and its log.
        try DiskSpace.require(3 * Self.length(of: descriptor), at: directory)
        defer { try? Self.clear(directory) }
        try FileManager.default.createDirectory(
            atPath: workshop, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let manifest = try await unpack(descriptor, passphrase)
        let keys = try keySource(manifest)
        let store = try await ReadingStore.open(
            directory: workshop, decoder: decoder, encryption: encryption.isOn ? .on(keys) : .off(keys), logger: logger)
        let statistics: StoreStatistics
        do {
            do { statistics = try await settle(store) } catch let error as StoreError where error.isCorrupt {
                // An export has the indexes as they were in the store: one that is damaged keeps no row from being read.
                try await store.write(.setting) { db in try db.execute(sql: "REINDEX") }
                statistics = try await settle(store)
            }
        } catch {
            try? store.close()
            throw error
        }
        try store.close()
        try moveIn()
        return statistics
    }

    private func requireEmpty() throws {
        let path = directory + "/" + StoreFiles.databaseName
        guard FileManager.default.fileExists(atPath: path) else { return }
        try StoreFiles.prepareDatabase(path)
        do {
            var configuration = Configuration()
            ReadingStore.harden(&configuration)
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? queue.close() }
            let isEmpty = try queue.read { db in
                guard try db.tableExists("reading") else {
                    return try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") == 0
                }
                let holdsNothing = try Bool.fetchOne(
                    db, sql: "SELECT NOT EXISTS (SELECT 1 FROM frame) AND NOT EXISTS (SELECT 1 FROM reading)")
                // Of what was erased, destinations may still be to take readings back: nothing else knows of these.
                return try holdsNothing == true && (!db.tableExists("retraction") || !Retracting.isAnyAsked(db))
            }
            guard isEmpty else { throw ExportError.storeNotEmpty(path: directory) }
        } catch { throw StoreError.mapping(error) }
    }

    /// Writes the database that the file holds into the workshop.
    private func unpack(_ descriptor: Int32, _ passphrase: String) async throws -> ExportManifest {
        try StoreFiles.prepareDatabase(database)
        let target = try FileHandle(forWritingTo: URL(fileURLWithPath: database))
        defer { try? target.close() }
        var told = StoreProgress(.opening, of: Self.length(of: descriptor))
        let export = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
        let manifest = try ExportContents.read(export, passphrase: passphrase) {
            try target.write(contentsOf: $0)
            told.done += Int64($0.count)
            progress(told)
        }.manifest
        try target.synchronize()
        if let key = manifest.pruneKey.flatMap(SymmetricKey.init(base64:)) { try PruneKey.write(key, in: workshop) }
        return manifest
    }

    /// The keys it was sealed under and, behind them, the one it is to be sealed under here.
    private func keySource(_ manifest: ExportManifest) throws -> StoreKeySource {
        var keys = manifest.keys.compactMap(SymmetricKey.init(base64:))
        if encryption.isOn {
            let file = KeyFile(
                source: encryption.key ?? StoreKeySource(path: directory + "/" + StoreEncryption.keyName))
            if let key = try file.read()?.last {
                keys.append(key)
                if encryption.key?.isWritable == true, ReadingStore.databaseFiles(in: directory).isEmpty {
                    logger.warning("\(file.sharingWarning)")
                }
            } else {
                guard file.source.isWritable else { throw StoreError.keyMissing(path: file.source.path) }
                let key = SymmetricKey(size: .bits256)
                try file.replace(with: [key])
                keys.append(key)
            }
        }
        let source = StoreKeySource(path: workshop + "/" + StoreEncryption.keyName)
        try KeyFile(source: source).replace(with: keys)
        return source
    }

    /// Re-encrypts every row that can be read with this place's key, and checks each.
    private func settle(_ store: ReadingStore) async throws -> StoreStatistics {
        try await store.requireKeys()
        try await store.finishResealing(progress: progress)
        // The bonds are another machine's: what the system here has is found when the gateway starts.
        try await store.write(.device) { [asksConsent] db in
            try db.execute(sql: "UPDATE device SET is_paired = 0, is_proven = 0")
            // What people have said is what they had said when the export was made.
            try ReadingStore.noteImport(db, at: store.now(), asksConsent: asksConsent)
            try OutboxRevision.skip(db, at: store.now())
            // The store that was exported goes on, too: a position in its changes says nothing of these.
            try Changes(db: db).renewFeed()
        }
        // The export is sealed, so whatever is wrong with a row was wrong in the store that was exported, and a reading
        // that isn't what this version reads from its frame may have been read otherwise by an earlier version. Neither
        // must keep the owner from the rest of the backup.
        let all = try await store.verify(progress: progress)
        if let damage = all.first(where: { $0.problem == .database }) {
            throw StoreError.corrupt(detail: "the database in the export is damaged: \(damage.subject)")
        }
        let others = all.filter { $0.problem == .differs }
        let findings = all.filter { $0.problem != .differs }
        if !others.isEmpty {
            logger.warning(
                "readings of the export differ from their frames; `store verify` lists them",
                metadata: ["readings": "\(others.count)"])
        }
        if !findings.isEmpty {
            let problems = Set(findings.map(\.problem.rawValue)).sorted().joined(separator: ", ")
            let unreadable = findings.filter { $0.problem == .unreadable }.map(\.subject)
            logger.warning(
                "the exported store had faults, which stay: `healthrelay store verify` names them",
                metadata: [
                    "count": "\(findings.count)", "problems": "\(problems)",
                    "rows": "\(KeyChange.listed(unreadable))",
                ])
        }
        return try await store.statistics()
    }

    private func moveIn() throws {
        let place = directory + "/" + StoreFiles.databaseName
        for suffix in ["-wal", "-shm"] { unlink(place + suffix) }
        // SQLite would fold an old log that a power cut brings back into the new database.
        try StoreFiles.synchronise(directory: directory)
        if !encryption.isOn, FileManager.default.fileExists(atPath: PruneKey.path(in: workshop)) {
            guard rename(PruneKey.path(in: workshop), PruneKey.path(in: directory)) == 0 else {
                throw StoreFiles.failure(PruneKey.path(in: directory))
            }
            try StoreFiles.synchronise(directory: directory)
        }
        guard rename(database, place) == 0 else { throw StoreFiles.failure(place) }
        try StoreFiles.synchronise(directory: directory)
    }

    private static func length(of descriptor: Int32) -> Int64 { FileIdentity(of: descriptor)?.size ?? 0 }

    private static func workshop(in directory: String) -> String { directory + "/import.new" }

    /// Removes what an import has left behind, its keys overwritten.
    static func clear(_ directory: String) throws {
        let workshop = workshop(in: directory)
        guard FileManager.default.fileExists(atPath: workshop) else { return }
        try KeyFile(source: StoreKeySource(path: workshop + "/" + StoreEncryption.keyName)).replace(with: [])
        try FileManager.default.removeItem(atPath: workshop)
    }
}

extension ReadingStore {
    /// Makes a store of what another one exported: with its devices, people, frames and readings, what waits and what
    /// was delivered. Rows are sealed anew under this place's key; devices are to be paired here.
    ///
    /// Nothing is in the store's place before it is whole and every row was checked. An import that is stopped leaves
    /// nothing, and begins anew when it is asked for again.
    ///
    /// Rows that were damaged in the exported store stay as they are, and every other row is taken. The log says how
    /// many faults there are, and ``verify(progress:)`` names them. Only a database that is damaged itself is refused.
    ///
    /// - Parameters:
    ///   - path: the export.
    ///   - passphrase: the one the export was made with.
    ///   - directory: a state directory without readings.
    ///   - decoder: decodes frames; pure.
    ///   - encryption: whether content is sealed here, and where the key is.
    ///   - asksConsent: whether no destination gets anything of the people in it until these have said again what it may get
    ///     (``setConsents(_:granted:of:at:)``): what they have withdrawn since the export was made is granted in it. Until then
    ///     readings wait as `no_consent`, and ``unconfirmedConsents(of:)`` has the kinds.
    ///   - logger: gets what is done.
    ///   - progress: called now and then.
    /// - Returns: what the store holds, rows that can't be read included.
    /// - Throws: ``ExportError``, ``StoreError``, `CancellationError`.
    @discardableResult
    public static func importing(
        _ path: String, passphrase: String, into directory: String, decoder: any FrameDecoding,
        encryption: StoreEncryption = .on(), asksConsent: Bool = false,
        logger: Logger = Logger(label: "healthrelay.store"), progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> StoreStatistics {
        do {
            return try await StoreImport(
                directory: directory, encryption: encryption, decoder: decoder, asksConsent: asksConsent,
                logger: logger, progress: progress
            ).run(path, passphrase: passphrase)
        } catch {
            throw StoreError.mapping(error)
        }
    }

    /// The same of a file that is open: whoever opened it may read more files than whoever owns the directory.
    ///
    /// - Parameter descriptor: an ordinary file, open for reading. It stays open.
    package static func importing(
        from descriptor: Int32, passphrase: String, into directory: String, decoder: any FrameDecoding,
        encryption: StoreEncryption, asksConsent: Bool, logger: Logger, progress: @escaping StoreProgress.Handler
    ) async throws -> StoreStatistics {
        do {
            return try await StoreImport(
                directory: directory, encryption: encryption, decoder: decoder, asksConsent: asksConsent,
                logger: logger, progress: progress
            ).run(descriptor, passphrase: passphrase)
        } catch {
            throw StoreError.mapping(error)
        }
    }
}

extension ExportError {
    /// The error's published name in snake_case.
    public var code: String {
        switch self {
        case .foreign: "export_foreign"
        case .newer: "export_newer"
        case .unreasonable: "export_unreasonable"
        case .wrongPassphrase: "export_wrong_passphrase"
        case .damaged: "export_damaged"
        case .passphraseTooShort: "passphrase_too_short"
        case .storeNotEmpty: "store_not_empty"
        }
    }

    /// What to do next, for people.
    public var hint: String {
        switch self {
        case .foreign, .unreasonable: "Give a file that `store export` wrote."
        case .newer: "Use the newer version of healthrelay that wrote it."
        case .wrongPassphrase: "Try the passphrase again, or another copy of the file."
        case .damaged: "Use another copy of the file."
        case .passphraseTooShort:
            "Choose a longer passphrase of several words: anybody who has the file can try any number of them."
        case .storeNotEmpty: "Choose another directory with --state-dir, or empty this store first."
        }
    }
}

extension ExportError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        switch self {
        case .foreign(let found):
            "the file is not an export: expected 'HealthRelay export 1' at its beginning, found \(found.isEmpty ? "nothing" : found)"
        case .newer(let version): "the export has format \(version), which only a newer version can read"
        case .unreasonable: "the file demands more memory than an export may use"
        case .wrongPassphrase: "the passphrase is wrong, or the beginning of the export is damaged"
        case .damaged(let octet): "the export is damaged, or cut off, at octet \(octet)"
        case .passphraseTooShort: "a passphrase has at least \(ExportFormat.leastPassphrase) characters"
        case .storeNotEmpty(let path):
            "the store in \(path) has readings, or destinations are still to take some back; nothing was imported"
        }
    }
}
