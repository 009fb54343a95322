import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore

/// The backups that a gateway has made in a directory: exports of its store, each named after the gateway and its time.
package struct BackupFolder: Sendable {
    /// A backup.
    package struct Backup: Sendable, Hashable {
        /// The file's name.
        package var name: String
        /// When it was made.
        package var time: Instant
        /// How many octets it has.
        package var octets: Int64
        /// Whether this gateway made it: not one whose store was made of a backup of this one's, or the other way round, and has the
        /// same id therefore.
        package var isOwn: Bool
    }

    /// What a backup is found to be.
    enum Soundness: Sendable {
        /// What it was when it was made, or whole.
        case sound
        /// Changed or cut off since.
        case damaged
        /// Sealed under another passphrase, or not readable now: nothing is known against it.
        case unknown
    }

    let setting: BackupSetting
    /// The gateway's id: several gateways may share a directory, and each keeps its own backups.
    let gateway: String
    private let stateDirectory: String
    private let records: BackupRecords

    init(setting: BackupSetting, gateway: String, stateDirectory: String) {
        (self.setting, self.gateway, self.stateDirectory) = (setting, gateway, stateDirectory)
        records = BackupRecords(in: stateDirectory)
    }

    private var prefix: String { "healthrelay-\(gateway.prefix(8))-" }
    private static let suffix = ".export"

    /// The backups, the newest first.
    ///
    /// - Throws: `Problem` if the directory cannot be read, or does not answer.
    package func backups() async throws(Problem) -> [Backup] {
        let found = try await DirectoryLook.at(setting.directory) { () -> Result<[Backup], Problem> in
            do throws(Problem) { return .success(try listed()) } catch { return .failure(error) }
        }
        return try found.get()
    }

    private func listed() throws(Problem) -> [Backup] {
        guard access(setting.directory, R_OK | X_OK) == 0,
            let names = try? FileManager.default.contentsOfDirectory(atPath: setting.directory)
        else {
            throw Problem(
                "backup_unreadable", .inputOutput,
                "cannot read backup.to, \(setting.directory): \(String(cString: strerror(errno)))",
                hint: "create the directory, and make the gateway's user its owner")
        }
        let own = records.own
        let found = names.compactMap { name -> Backup? in
            guard let time = time(of: name) else { return nil }
            guard let attributes = try? FileManager.default.attributesOfItem(atPath: path(of: name)),
                attributes[.type] as? FileAttributeType == .typeRegular, let octets = attributes[.size] as? Int
            else { return nil }
            return Backup(name: name, time: time, octets: Int64(octets), isOwn: own.contains(name))
        }.sorted { ($0.time, $0.name) > ($1.time, $1.name) }
        try requireDisk(found)
        return found
    }

    /// Whether the directory is on another disk than the store.
    package var isOnOtherDisk: Bool { !areOnOneFileSystem(setting.directory, stateDirectory) }

    /// Refuses a directory that was on another disk when backups were made in it, and has none of them now and is on the store's own
    /// disk, or on one that is mounted further up: the disk isn't mounted. What was written there would be lost with the store, or with
    /// the system, and hidden once the disk is back.
    private func requireDisk(_ found: [Backup]) throws(Problem) {
        let made = records.made(onOtherDisk: setting.directory)
        guard !made.isEmpty, made.isDisjoint(with: found.map(\.name)), !isOnOtherDisk || isBelowMountPoint else {
            return
        }
        throw Problem(
            "backup_disk_missing", .inputOutput,
            "the disk with the backups is not mounted at backup.to, \(setting.directory): the directory is on "
                + (isOnOtherDisk ? "the disk that it was mounted on" : "the store's own disk"),
            hint: "mount the disk and restart the gateway; to write elsewhere from now on, name another directory")
    }

    /// Whether the directory is on the disk on which that of the backups was mounted. A store on a partition of its own isn't there.
    private var isBelowMountPoint: Bool {
        guard let present = mountPoint(of: setting.directory) else { return false }
        return records.mountPoints(of: setting.directory).contains { former in
            former != present && (present == "/" || former.hasPrefix(present + "/"))
        }
    }

    package func path(of name: String) -> String { setting.directory + "/" + name }

    /// Makes a backup, reads it again, and removes those that are too many.
    ///
    /// The backup has its name only once it was read back whole: nothing older is removed before that. One that was damaged since
    /// takes no place among those that are kept, and goes once it is older than all of them. So does one that another gateway with
    /// the same id has made since this one makes any. One of this gateway's with a later date than the new one came under a wrong
    /// clock, and counts as older than all others.
    ///
    /// - Throws: `Problem`, `ExportError`, `StoreError`; nothing has changed then.
    package func make(
        of store: ReadingStore, at now: Instant, progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> Backup {
        let passphrase = try self.passphrase()
        let known = try await backups()
        clearParts()
        // Of two in one second the later one is a second later.
        var time = now.flooredToSecond
        while known.contains(where: { $0.time == time }) { time = time.advanced(bySeconds: 1) }
        let name = prefix + Self.stamp(time) + Self.suffix
        // The copy that is exported, and the export.
        try DiskSpace.require(await store.usedBytes(), at: store.directory, and: setting.directory)
        do {
            var file = try WholeFile(path(of: name))
            try await store.export(passphrase: passphrase, progress: progress) { try file.write($0) }
            var digest = ""
            try file.check { part in
                try ReadingStore.checkExport(at: part, passphrase: passphrase)
                digest = try BackupRecords.digest(ofFileAt: part)
            }
            let octets = file.count
            let otherDisk = isOnOtherDisk ? setting.directory : nil
            // Before it has its name: one that is not known to be this gateway's would be made again a minute later.
            try records.keep(
                digest, of: name, isOwn: true, otherDisk: otherDisk,
                mountPoint: otherDisk.flatMap { mountPoint(of: $0) }, among: known.map(\.name))
            try file.finish()
            let made = Backup(name: name, time: time, octets: Int64(octets), isOwn: true)
            removeOld(known, beside: made)
            return made
        } catch let error as POSIXError {
            throw Self.problem(error, setting.directory)
        } catch let error as PrivateFile.Failure {
            throw Problem("backup_io", .inputOutput, "cannot write \(error.path): \(error.reason)")
        }
    }

    /// Removes what is too many beside a new one: of those that are not damaged all but the newest, and what is damaged and older.
    private func removeOld(_ known: [Backup], beside made: Backup) {
        // Each was made before the new one, whatever its date says.
        let (dated, ahead) = (known.filter { $0.time < made.time }, known.filter { $0.time > made.time })
        // What there was before this gateway made any is of the gateway that it has taken the place of.
        let beginning = dated.last(where: \.isOwn)?.time ?? made.time
        var kept = 1
        // Another gateway's may have the right date, if this one's clock is behind. The nearest date is the likeliest.
        for backup in dated + ahead.reversed().filter(\.isOwn) {
            // Read only while it may be one of those that stay.
            if kept < setting.count {
                let counts = backup.isOwn || backup.time < beginning
                if counts, soundness(of: backup.name) != .damaged { kept += 1 }
            } else {
                unlink(path(of: backup.name))
            }
        }
    }

    /// Reads a backup whole.
    ///
    /// - Throws: `Problem`, `ExportError`, `StoreError`.
    package func verify(_ name: String) throws {
        try ReadingStore.checkExport(at: path(of: name), passphrase: passphrase())
        // The same octets a moment later, unless somebody writes to them just now.
        guard let digest = try? BackupRecords.digest(ofFileAt: path(of: name)), let names = try? listed().map(\.name)
        else { return }
        try? records.keep(digest, of: name, among: names)
    }

    /// Whether a backup is what it was when it was made: by its digest, or by opening it where none is known.
    ///
    /// - Parameter keeping: whether the digest of one that is opened is kept for the next time.
    func soundness(of name: String, keeping: Bool = true) -> Soundness {
        do {
            if let digest = records.digest(of: name) {
                return try BackupRecords.digest(ofFileAt: path(of: name)) == digest ? .sound : .damaged
            }
            if keeping {
                try verify(name)
            } else {
                try ReadingStore.checkExport(at: path(of: name), passphrase: passphrase())
            }
            return .sound
        } catch let error as ExportError {
            switch error {
            case .damaged, .foreign, .unreasonable: return .damaged
            case .newer, .wrongPassphrase, .passphraseTooShort, .storeNotEmpty: return .unknown
            }
        } catch let error as StoreError {
            if case .corrupt = error { return .damaged }
            return .unknown
        } catch {
            return .unknown
        }
    }

    /// Makes a store of a backup on trial, checks every row of it, and removes it again.
    ///
    /// - Parameter directory: where there is room for it.
    /// - Throws: `Problem`, `ExportError`, `StoreError`.
    func tryRestoring(_ name: String, in directory: String, _ decoder: any FrameDecoding) async throws
        -> StoreStatistics
    {
        try await ReadingStore.trying(path(of: name), passphrase: passphrase(), in: directory, decoder: decoder)
    }

    /// The newest that this gateway has made; not one from a later time than now, which came under a wrong clock.
    package func newest(of backups: [Backup], now: Instant) -> Backup? {
        backups.first { $0.isOwn && $0.time <= now }
    }

    /// When the next one is due; a time that has passed if this gateway has made none, or the newest is from a later time than now,
    /// as after a clock was put right.
    package func due(after backups: [Backup], now: Instant) -> Instant {
        guard let newest = self.newest(of: backups, now: now) else { return now }
        return newest.time.advanced(bySeconds: Int64(setting.interval))
    }

    private func passphrase() throws(Problem) -> String {
        let text = try SecretFile.line(
            in: setting.passphraseFile, of: "the passphrase of backups", called: "passphrase")
        try BackupSetting.requirePassphrase(text, "the passphrase in \(setting.passphraseFile)", .configuration)
        return text
    }

    /// What a gateway that was killed has left.
    private func clearParts() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: setting.directory)) ?? []
        where name.hasSuffix(".part") && time(of: String(name.dropLast(5))) != nil {
            WholeFile.clear(path(of: name))
        }
    }

    private func time(of name: String) -> Instant? {
        guard name.hasPrefix(prefix), name.hasSuffix(Self.suffix) else { return nil }
        let stamp = Array(name.dropFirst(prefix.count).dropLast(Self.suffix.count))
        guard stamp.count == 16 else { return nil }
        // 20261125T011500Z
        func part(_ range: Range<Int>) -> String { String(stamp[range]) }
        let time = Instant(
            rfc3339: "\(part(0..<4))-\(part(4..<6))-\(part(6..<11)):\(part(11..<13)):\(part(13..<16))")
        return time.flatMap { Self.stamp($0) == String(stamp) ? $0 : nil }
    }

    private static func stamp(_ time: Instant) -> String {
        time.description.filter { $0 != "-" && $0 != ":" }
    }

    static func problem(_ error: POSIXError, _ directory: String) -> Problem {
        switch error.code {
        case .ENOSPC, .EDQUOT:
            Problem(
                "disk_full", .inputOutput, "cannot write a backup to \(directory): the disk is full",
                hint: "free space there, or keep fewer backups with backup.keep; the older ones are still there")
        case .EROFS, .EACCES, .EPERM, .ENOENT, .ENOTDIR:
            Problem(
                "backup_cannot_create", .cannotCreate,
                "cannot write a backup to \(directory): \(String(cString: strerror(error.code.rawValue)))",
                hint: "create the directory, make the gateway's user its owner, and let the service write there: see "
                    + "Documentation/storage.md")
        default:
            Problem(
                "backup_io", .inputOutput,
                "cannot write a backup to \(directory): \(String(cString: strerror(error.code.rawValue)))")
        }
    }
}
