import Foundation
import GatewaySettings
import HealthReadings
import Logging

/// Shows and changes the settings of a gateway: one change after the other, whoever asks.
package struct SettingsDesk: Sendable {
    private let gateway: Gateway

    package init(_ gateway: Gateway) { self.gateway = gateway }

    /// What a change has come to.
    package struct Outcome: Sendable {
        /// What names the gateway's own file now.
        package var digest: String
        /// The keys that count only after a restart.
        package var afterRestart: [String]

        /// `{digest, after_restart}`.
        package var document: JSONValue {
            .object([
                "digest": .string(digest), "after_restart": .array(afterRestart.map(JSONValue.string)),
            ])
        }
    }

    /// `{file, administrator_file, digest, edited, after_restart, settings}`.
    package func document() throws -> JSONValue {
        let settings = gateway.settings
        return .object([
            "file": .optional(settings.managed?.path), "administrator_file": .optional(settings.file),
            "digest": .string(settings.managedDigest), "edited": .bool(try isEdited(settings)),
            "after_restart": .array(gateway.keysThatNeedRestart(settings).map(JSONValue.string)),
            "settings": .array(
                settings.rows.map { row in
                    .object([
                        "key": .string(row.key), "value": row.value, "secret": .bool(row.isSecret),
                        "set_by": .string(row.setBy), "place": .optional(row.place), "fixed": .bool(row.isFixed),
                        "live": .bool(row.isLive),
                    ])
                }),
        ])
    }

    /// A line for each setting that somebody has set, or all.
    package func lines() throws -> [String] {
        let settings = gateway.settings
        return settings.rows.map { row in
            let place = row.place.map { "   (\($0))" } ?? (row.setBy == "flag" ? "   (flag)" : "")
            return "\(row.key): \(row.text)\(place)" + (row.isFixed && row.setBy != "default" ? "   fixed" : "")
        }
    }

    /// Whether the gateway's own file is another one than the settings in force were read from.
    package func isEdited(_ settings: Settings) throws -> Bool {
        guard let managed = settings.managed else { return false }
        return Settings.digest(try managed.text()) != settings.managedDigest
    }

    /// Changes settings: they are tried, put in force and written, in this order, or nothing is changed.
    ///
    /// - Throws: `Problem`: `settings_changed` if the gateway's own file was edited meanwhile, or the change was made for
    ///   other settings than those in force; those of ``GatewaySettings/Settings/draft(_:)``.
    package func change(_ change: SettingsChange) async throws -> Outcome {
        try await gateway.settingsChanges.run { try await apply(change) }
    }

    /// Reads the files of settings again, and puts them in force.
    ///
    /// - Parameter fresh: settings that were read just now, from the files that count from now on; `nil`: from the same.
    package func reload(_ fresh: Settings? = nil) async throws -> Outcome {
        try await gateway.settingsChanges.run {
            let settings = fresh ?? gateway.settings
            // A change may have been written between the reading and now.
            let read = settings.managed == nil ? settings : try settings.readAgain()
            let later = try await gateway.reload(read)
            gateway.removeStraySecrets()
            return Outcome(digest: read.managedDigest, afterRestart: later)
        }
    }

    private func apply(_ change: SettingsChange) async throws -> Outcome {
        let old = gateway.settings
        if let digest = change.digest, digest != old.managedDigest {
            throw Problem(
                "settings_changed", .configuration, "the settings have been changed meanwhile; nothing was changed now",
                hint: "look at them again, and repeat the change if it is still wanted")
        }
        guard let managed = old.managed else {
            _ = try old.draft(change)
            return Outcome(digest: old.managedDigest, afterRestart: [])
        }
        try requireUnedited(old, managed)
        let draft = try old.draft(change)
        try ManagedFiles.write(draft.secrets, in: managed)
        if draft.settings.backup?.directory == managed.backups { try ManagedFiles.makeDirectory(managed.backups) }
        do {
            let later: [String]
            do { later = try await gateway.reload(draft.settings) } catch let problem as Problem {
                throw Settings.invalid(problem, managed)
            }
            let isDurable: Bool
            do {
                try requireUnedited(old, managed)
                isDurable = try ManagedFiles.write(draft.text, to: managed)
            } catch {
                _ = try? await gateway.reload(old)
                throw error
            }
            // Not before: until now the file on the disk named the former secrets.
            if isDurable { gateway.removeStraySecrets() }
            gateway.logger.notice("the settings were changed", metadata: ["keys": "\(change.keys.count)"])
            return Outcome(digest: draft.settings.managedDigest, afterRestart: later)
        } catch {
            for path in draft.secrets.keys { unlink(path) }
            throw error
        }
    }

    private func requireUnedited(_ settings: Settings, _ managed: ManagedSettings) throws {
        guard try isEdited(settings) else { return }
        throw Problem(
            "settings_changed", .configuration,
            "\(managed.path) was edited since the gateway read it; nothing was changed",
            hint: "`healthrelay settings reload` takes the edited file in force; then repeat the change")
    }
}

/// Writes the gateway's own settings and secrets.
enum ManagedFiles {
    static func write(_ secrets: [String: String], in managed: ManagedSettings) throws(Problem) {
        guard !secrets.isEmpty else { return }
        try makeDirectory(managed.secrets)
        for (path, secret) in secrets { try write(secret + (secret.hasSuffix("\n") ? "" : "\n"), path) }
    }

    static func makeDirectory(_ path: String) throws(Problem) {
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw refused(path, errno) }
        // A power cut must not keep settings that name a file in it, and lose the directory.
        guard synchronizeDirectory(parentDirectory(of: path)) else { throw refused(path, errno) }
    }

    /// - Returns: whether it survives a power cut.
    static func write(_ text: String, to managed: ManagedSettings) throws(Problem) -> Bool {
        // The name of a link or of a directory would not be that any more.
        let type = (try? FileManager.default.attributesOfItem(atPath: managed.path))?[.type] as? FileAttributeType
        guard type == nil || type == .typeRegular else {
            throw Problem(
                "settings_not_writable", .cannotCreate, "\(managed.path) is no ordinary file, so it was left alone")
        }
        return try write(text, managed.path, replaces: true)
    }

    /// Removes secrets that settings do not name any more.
    ///
    /// - Parameter settings: those in force first. Nothing is removed unless the file holds what they were read from: a secret
    ///   that they don't know may be named there.
    static func removeStrays(_ settings: [Settings]) {
        guard let managed = settings.first?.managed, let text = settings.first?.managedText,
            (try? managed.text()) == text,
            let names = try? FileManager.default.contentsOfDirectory(atPath: managed.secrets)
        else { return }
        // Also what the administrator's file stands above now may count again.
        let texts = settings.compactMap(\.managedText)
        for name in names where !texts.contains(where: { $0.contains(name) }) { unlink(managed.secrets + "/" + name) }
    }

    @discardableResult
    private static func write(_ text: String, _ path: String, replaces: Bool = false) throws(Problem) -> Bool {
        do throws(POSIXError) {
            var file = try WholeFile(path)
            try file.write(Array(text.utf8))
            return try file.finish(replaces: replaces)
        } catch {
            throw refused(path, error.code.rawValue)
        }
    }

    private static func refused(_ path: String, _ code: Int32) -> Problem {
        Problem(
            "settings_not_writable", .cannotCreate,
            "cannot write \(path): \(String(cString: strerror(code))); nothing was changed")
    }
}
