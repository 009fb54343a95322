import Foundation

/// Backups that the gateway makes by itself: the settings `backup.*`.
public struct BackupSetting: Sendable, Hashable {
    /// The directory that they are written to.
    public var directory: String
    /// How old the newest one becomes before the next is made, in seconds: an hour to a year.
    public var interval: Int
    /// How many are kept, 1 … 1000.
    public var count: Int
    /// The file whose first line is the passphrase that they are sealed under.
    public var passphraseFile: String

    /// The fewest characters of a passphrase that a store is exported under.
    package static let leastPassphrase = 8

    /// Refuses a passphrase that no backup could be made with.
    ///
    /// - Throws: ``Problem``.
    package static func requirePassphrase(
        _ text: String, _ name: String, _ status: Problem.ExitStatus
    ) throws(Problem) {
        guard text.count >= leastPassphrase else {
            throw Problem(
                status == .usage ? "setting_invalid" : "config_invalid", status,
                "\(name): expected a passphrase of at least \(leastPassphrase) characters, found \(text.count)",
                hint: "choose several words: anybody who has a backup can try any number of passphrases")
        }
    }
}

extension Settings {
    /// The backups that the gateway makes by itself; `nil`: none.
    package var backup: BackupSetting? {
        guard let directory = self["backup.to"], let file = self["backup.passphrase_file"] else { return nil }
        return BackupSetting(
            directory: directory,
            interval: Self.interval(self["backup.every"] ?? "", in: Self.backupIntervals) ?? 86_400,
            count: Int(self["backup.keep"] ?? "") ?? 14, passphraseFile: file)
    }

    private static let backupIntervals = 3600...366 * 86_400

    /// Refuses settings of backups that no backup could be made by.
    func requireUsableBackup() throws(Problem) {
        if let text = self["backup.every"], Self.interval(text, in: Self.backupIntervals) == nil {
            throw unusable(
                "backup.every", "backup.every: expected 1h to 366d, such as 12h, 1d or 2w, found '\(text)'")
        }
        guard let directory = self["backup.to"] else {
            guard self["backup.passphrase_file"] == nil else {
                throw unusable(
                    "backup.passphrase_file", "backup.passphrase_file: expected backup.to besides, found none")
            }
            return
        }
        guard directory.hasPrefix("/") else {
            throw unusable("backup.to", "backup.to: expected the whole path of a directory, found '\(directory)'")
        }
        guard self["backup.passphrase_file"] != nil else {
            throw unusable("backup.to", "backup.to: expected backup.passphrase_file besides, found none")
        }
    }
}
