import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore
import Synchronization

/// The arguments of `backup`.
public enum BackupOperation: Codable, Sendable, Hashable {
    /// Makes a backup.
    case now
    case list
    /// Reads a backup whole; `nil`: the newest.
    case verify(String?)
}

/// `backup`: the backups that the gateway makes by itself.
struct BackupRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: BackupOperation) async throws {
        let folder = try await gateway.backupFolder()
        switch operation {
        case .now:
            let backup = try await output.following { try await gateway.backUp(progress: $0) }
            try await show(backup, in: folder, as: "verified")
        case .list: try await list(folder)
        case .verify(let name):
            let backups = try await folder.backups()
            let now = await gateway.clock.judgingTime()
            let newest = folder.newest(of: backups, now: now) ?? backups.first
            let wanted = name.map { name in backups.first { $0.name == name } } ?? newest
            guard let wanted else {
                throw Problem(
                    "no_such_backup", .noInput,
                    name.map { "\(folder.setting.directory) has no backup \($0)" }
                        ?? "\(folder.setting.directory) has no backup of this gateway",
                    hint: "`healthrelay backup list` shows the backups")
            }
            try await DirectoryLook.working(in: folder.setting.directory) { try folder.verify(wanted.name) }
            try await show(wanted, in: folder, as: "verified")
        }
    }

    private func list(_ folder: BackupFolder) async throws {
        let backups = try await folder.backups()
        let next = folder.due(after: backups, now: await gateway.clock.judgingTime())
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "directory": .string(folder.setting.directory),
                    "every_seconds": .integer(Int64(folder.setting.interval)),
                    "keep": .integer(Int64(folder.setting.count)), "next": .string(next.description),
                    "backups": .array(backups.map { .object($0.members) }),
                ]).text)
        }
        for backup in backups { try await output.data(backup.line) }
        try await output.note(
            "\(backups.count) backups in \(folder.setting.directory), \(folder.setting.count) are kept; the next is due at \(next)"
        )
    }

    private func show(_ backup: BackupFolder.Backup, in folder: BackupFolder, as outcome: String) async throws {
        let path = folder.path(of: backup.name)
        guard !json else {
            return try await output.data(
                JSONValue.object(
                    [.init("outcome", .string(outcome)), .init("path", .string(path))] + backup.members
                ).text)
        }
        try await output.data("\(path): \(backup.octets >> 10) KiB, \(outcome)")
    }
}

extension BackupFolder.Backup {
    /// `name`, `time`, `octets`.
    fileprivate var members: [JSONValue.Member] {
        [
            .init("name", .string(name)), .init("time", .string(time.description)),
            .init("octets", .integer(octets)),
        ]
    }

    fileprivate var line: String { "\(time)  \(name)  \(octets >> 10) KiB" }
}

extension Gateway {
    /// Where backups are.
    ///
    /// - Throws: `Problem` with status 78 if the settings name no place.
    package func backupFolder() async throws -> BackupFolder {
        guard let setting = settings.backup else {
            throw Problem(
                "no_backups", .configuration, "the settings name no place for backups",
                hint: "set backup.to and backup.passphrase_file; see Documentation/storage.md")
        }
        let (directory, state) = (setting.directory, store.directory)
        let (place, own) = try await DirectoryLook.at(directory) { (directory.resolvingLinks, state.resolvingLinks) }
        guard place != own, !place.utf8.starts(with: (own + "/").utf8) else {
            throw Problem.configInvalid(
                "backup.to: expected a directory outside of the state directory, found \(setting.directory)",
                hint: "what loses the store would lose its backups, too; best is another disk")
        }
        return BackupFolder(
            setting: setting, gateway: try await store.gatewayID(), stateDirectory: store.directory)
    }

    /// The newest backup that this gateway has made; `nil`: there is none.
    ///
    /// - Throws: `Problem` if the settings name no place, or it cannot be read.
    package func newestBackup() async throws -> BackupFolder.Backup? {
        let folder = try await backupFolder()
        return folder.newest(of: try await folder.backups(), now: await clock.judgingTime())
    }

    /// Makes a backup now.
    ///
    /// - Throws: `Problem` with status 75 while another one is made.
    package func backUp(
        progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> BackupFolder.Backup {
        let isFirst = isBackingUp.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard isFirst else {
            throw Problem(
                "backup_running", .tryAgain, "a backup is being made; this one was not begun",
                hint: "`healthrelay backup list` shows it when it is there")
        }
        defer { isBackingUp.withLock { $0 = false } }
        let (folder, now) = (try await backupFolder(), await clock.judgingTime())
        return try await DirectoryLook.working(in: folder.setting.directory) { [store] in
            try await folder.make(of: store, at: now, progress: progress)
        }
    }

    /// Makes a store of a backup on trial, and removes it again.
    ///
    /// - Returns: what it held.
    package func tryRestoring(_ backup: BackupFolder.Backup) async throws -> StoreStatistics {
        let folder = try await backupFolder()
        return try await DirectoryLook.working(in: folder.setting.directory) { [store] in
            try await folder.tryRestoring(backup.name, in: store.directory, Gateway.decoder)
        }
    }
}

extension String {
    fileprivate var resolvingLinks: String { URL(fileURLWithPath: self).resolvingSymlinksInPath().path }
}
