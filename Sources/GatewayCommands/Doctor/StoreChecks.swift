import Foundation
import GatewaySettings
import HealthDevices
import HealthReadings
import LocalAccess
import ReadingStore

extension Doctor {
    /// Whether the store can be written, and whether there is room for more.
    func storeCheck() async -> DoctorCheck {
        switch store {
        case .failure(let problem): return .bad("store", problem)
        case .success(nil):
            let parent = existingAncestor(of: stateDirectory)
            guard access(parent, W_OK | X_OK) == 0 else {
                return .bad(
                    "store", .notPermitted, "there is no store, and this user may not create one in \(parent)",
                    mend: "make this user the directory's owner, or choose another with --state-dir")
            }
            return .good("store", "none yet in \(stateDirectory); `run`, `pair` or `replay` makes it")
        case .success(let store?):
            do {
                try await store.requireKeys()
                do { try await store.checkKeyFile() } catch {
                    let problem = Problem(telling: error)
                    return .bad(
                        "store", problem.status, "it can be read until the gateway stops. Then \(problem.message)",
                        mend:
                            "put the key back before you restart the gateway; if it is lost, save the readings first: "
                            + "`healthrelay query --format csv`")
                }
                let size = try await store.size()
                let space = DiskSpace(at: store.directory)
                let contents =
                    "\(size.readings) readings in \(store.directory), "
                    + "\(size.octetsOnDisk >> 10) KiB; \((space?.free ?? 0) >> 20) MiB are free"
                    + (space.map { " (\($0.percentUsed) % in use)" } ?? "")
                if space?.level == .full {
                    return .bad("store", .inputOutput, contents, mend: "free space on this disk")
                }
                if let fault = store.writingFault {
                    let problem = Problem(telling: fault)
                    return .bad(
                        "store", problem.status, "it can be read, and not written: \(problem.message)",
                        mend: problem.hint)
                }
                guard access(store.directory, W_OK) == 0 else {
                    return .bad("store", .notPermitted, "\(store.directory) cannot be written", mend: nil)
                }
                let isNearlyFull = space?.level == .nearlyFull
                return .good(
                    "store", contents,
                    mend: isNearlyFull
                        ? "the disk is nearly full: free space, or let `store.keep` let go of old readings" : nil)
            } catch {
                return .bad("store", Problem(describing: error) ?? .unexpected(error))
            }
        }
    }

    /// Whether what is secret or personal can be read by its owner only.
    func permissionsCheck() -> DoctorCheck {
        let account = GatewayAccount(stateDirectory: stateDirectory)
        let own =
            ReadingStore.databaseFiles(in: stateDirectory)
            + [CertificateKeeper.fileName, AccessStore.fileName, DeviceSecretFile.fileName].map {
                stateDirectory + "/" + $0
            }
        var shared = 0
        for file in own + settings.secretFiles(in: stateDirectory) {
            guard let mode = permissions(ofFileAt: file), let owner = FileOwner(at: file) else { continue }
            switch account.access(toMode: mode, owner: owner.user, group: owner.group) {
            case .closed: continue
            case .group: shared += 1
            case .open:
                return .bad(
                    "permissions", .notPermitted, "users other than its owner may use \(file)",
                    mend: account.closing(file, of: owner.user))
            }
        }
        var found = "only their owner can use the store and the keys"
        if shared > 0 { found += "; the group \(account.groupName) can read \(shared) of them, which root owns" }
        if geteuid() == 0 { found += "; this runs as root, which is unnecessary" }
        let keys = settings.confidentialKeys
        guard let file = settings.file, let first = keys.first, let owner = FileOwner(at: file),
            permissions(ofFileAt: file).map({ $0 & 0o004 != 0 }) == true
        else { return .good("permissions", found) }
        let others = keys.count > 1 ? " and \(keys.count - 1) more like it" : ""
        return .good(
            "permissions", "\(found); every user of this machine can read \(file), which has \(first)\(others)",
            mend: account.closingSettings(file, of: owner.user))
    }

    /// Whether the user's zone is one.
    func zoneCheck() async -> DoctorCheck {
        var zone = settings["user.time_zone"]
        if zone == nil, case .success(let store?) = store { zone = try? await store.currentUser().timeZone }
        guard let zone else {
            return .good(
                "zone", "none yet; the store will take the system's when it is created: \(TimeZone.current.identifier)")
        }
        guard ZoneRules.named(zone) != nil else {
            return .bad(
                "zone", .configuration, "\(zone) is not a time zone of the tz database",
                mend: "use a name such as Europe/Berlin, or install tzdata-legacy for older ones such as US/Eastern")
        }
        if case .success(let store?) = store, let users = try? await store.users(),
            let lost = users.first(where: { ZoneRules.named($0.timeZone) == nil })
        {
            return .bad(
                "zone", .configuration,
                "\(lost.timeZone), the zone of \(lost.clientUserID), is no time zone of the tz database",
                mend:
                    "install tzdata-legacy, or give them one such as Europe/Berlin: `user.time_zone`, or `time_zone` in `users`"
            )
        }
        return .good("zone", zone)
    }

    /// How full the disk of a path is; one that cannot be asked has room.
    package static func diskLevel(at path: String) -> DiskSpace.Level { DiskSpace(at: path)?.level ?? .roomy }

    private func existingAncestor(of path: String) -> String {
        var path = path
        while path.count > 1, !FileManager.default.fileExists(atPath: path) {
            path = URL(fileURLWithPath: path).deletingLastPathComponent().path
        }
        return path
    }
}
