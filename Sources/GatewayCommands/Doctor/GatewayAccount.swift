import Foundation
import HealthReadings
import HelperProcesses

/// The user and the group that the gateway runs as, which are those of its state directory, whoever runs `doctor`.
struct GatewayAccount: Sendable {
    let user: uid_t
    let group: gid_t
    private let directory: String

    /// Looks up the account.
    ///
    /// - Parameter stateDirectory: the state directory; if it does not exist, the account is this process's own.
    init(stateDirectory: String) {
        directory = stateDirectory
        let owner = FileOwner(at: stateDirectory)
        user = owner?.user ?? geteuid()
        group = owner?.group ?? getegid()
    }

    /// Who may use a file with a secret.
    enum Access: Sendable, Hashable {
        /// Its owner alone.
        case closed
        /// Root owns it, and the gateway's group may read it: the gateway has a secret that it cannot change.
        case group
        /// Others too.
        case open
    }

    /// Who may use a file with a secret.
    func access(toMode mode: mode_t, owner: uid_t, group fileGroup: gid_t) -> Access {
        switch mode & 0o077 {
        case 0: .closed
        case 0o040 where owner == 0 && user != 0 && fileGroup == group: .group
        default: .open
        }
    }

    /// The command that closes a file to others and leaves it to the gateway.
    func closing(_ path: String, of owner: uid_t) -> String {
        owner == user ? "chmod 600 \(path)" : "chown \(userName) \(path) && chmod 600 \(path)"
    }

    /// The command that closes a settings file to others. The gateway has to read it, and not to change it.
    func closingSettings(_ path: String, of owner: uid_t) -> String {
        owner == user ? "chmod 600 \(path)" : "chgrp \(groupName) \(path) && chmod 640 \(path)"
    }

    var userName: String {
        let path = URL(fileURLWithPath: directory).resolvingSymlinksInPath().path
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return attributes?[.ownerAccountName] as? String ?? String(user)
    }

    var groupName: String { HelperProgram.group(of: directory) ?? String(group) }
}
