import Foundation
import HealthReadings

/// The settings file that the gateway itself writes: `settings.yaml` in the state directory.
///
/// It stands below the administrator's file: what that file sets, this one cannot change. It names no path. Where a
/// setting is a file, this one has the name of a file in its directory of secrets, which the gateway has written too.
public struct ManagedSettings: Sendable, Hashable {
    /// The file's whole path.
    public let path: String
    /// The directory of secrets that were typed: a file each, mode 0600.
    package let secrets: String
    /// Where backups go if somebody has chosen a passphrase and no other place.
    package let backups: String

    /// What `backup.to` says in this file.
    static let backupsName = "backups"

    /// Those of a gateway.
    ///
    /// - Parameter stateDirectory: where the gateway keeps its store.
    public init(stateDirectory: String) {
        path = stateDirectory + "/settings.yaml"
        secrets = stateDirectory + "/secrets"
        // Within the state directory, what loses the store would lose its backups too.
        backups = stateDirectory + "-backups"
    }

    /// What the file holds; `nil` if there is none, or if it belongs to a gateway that this process cannot be.
    ///
    /// - Throws: ``Problem`` with status 66 if the file cannot be read.
    package func text() throws(Problem) -> String? {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        // A command of another user reaches the gateway over its socket, and is none of the file's business.
        if access(path, R_OK) != 0, access(parentDirectory(of: path), W_OK) != 0 { return nil }
        do {
            return try OrdinaryFile.text(path)
        } catch {
            throw Problem(
                "config_unreadable", .noInput, "cannot read the settings file \(path): \(error.localizedDescription)",
                hint: "its owner is the gateway's user, its mode 0600")
        }
    }

    /// The path of a secret's file.
    ///
    /// - Returns: `nil` if the name is none that the gateway gives.
    func secret(_ name: String) -> String? {
        let isName =
            !name.isEmpty && name.utf8.count <= 200 && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy { octet in
                switch octet {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
        return isName ? secrets + "/" + name : nil
    }

    /// Turns the name that a setting has in this file into the path that it stands for.
    ///
    /// - Parameter key: the setting's whole key, for errors.
    /// - Throws: ``Problem`` for a setting that only the administrator's file may have, and for what is no such name.
    func resolve(
        _ value: Settings.Value, of definition: SettingDefinition, _ key: String
    ) throws(Problem) -> Settings.Value {
        func refused(_ reason: String, hint: String? = nil) -> Problem {
            Problem.configInvalid("\(Settings.place(value.origin))\(key): \(reason)", hint: hint)
        }
        guard !definition.isAdministrators else {
            throw refused(
                "expected in the administrator's settings file only",
                hint: "move it to /etc/healthrelay/config.yaml, and remove it here")
        }
        var value = value
        if definition.namesFile {
            guard let path = secret(value.text) else {
                throw refused(
                    "expected the name of a file in \(secrets), found '\(value.text.prefix(80))'",
                    hint: "`healthrelay settings set --secret \(key.dropLast("_file".count))` writes one")
            }
            value.text = path
        } else if definition.key == "backup.to" {
            guard value.text == Self.backupsName else {
                throw refused(
                    "expected \(Self.backupsName), found '\(value.text.prefix(80))'",
                    hint: "another directory can be set in the administrator's file")
            }
            value.text = backups
        }
        return value
    }
}

extension SettingDefinition {
    /// Whether it is the path of a file that the gateway reads.
    var namesFile: Bool { key.hasSuffix("_file") }

    /// Whether only the administrator's file, the environment and flags may set it: who may reach the gateway, how its
    /// store is kept, and what names a path on this machine.
    var isAdministrators: Bool {
        key.hasPrefix("http.") || key.hasPrefix("store.") || key == "nfc.reader" || key == "path"
    }
}
