import GatewaySettings
import Glibc
import HealthReadings

/// The user whose store a command opens itself.
///
/// Root may open anybody's. What root makes there would be root's, and the store's owner, such as the service, could not open the
/// store afterwards; a link that the owner has put there could lead root to any file. So root acts as the owner meanwhile.
enum StoreOwner {
    /// The groups that the service's unit adds to its own, for NFC readers.
    private static let readerGroups = ["dialout", "plugdev"]
    private static let mostGroups = 256

    /// Does something to a store: as the owner of its directory if root asks for it.
    ///
    /// Afterwards the process is root's again: files that the person named, such as an export, are finished as root. A program that is
    /// run meanwhile is the owner's for good.
    ///
    /// - Parameters:
    ///   - directory: the state directory. Whoever asks makes it where it is missing, and owns it.
    ///   - body: does it.
    /// - Throws: what `body` throws; `Problem` with status 77 if root may not act as the owner, and nothing was done.
    static func acting<Outcome>(
        at directory: String, isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Outcome
    ) async throws -> Outcome {
        guard geteuid() == 0, let owner = FileOwner(at: directory), owner.user != 0 else { return try await body() }
        let caller = (group: getegid(), groups: currentGroups)
        defer {
            _ = seteuid(0)
            _ = setreuid(0, 0)
            _ = setregid(caller.group, caller.group)
            _ = setgroups(caller.groups.count, caller.groups)
        }
        let groups = groups(of: owner)
        // The first of each pair makes root the saved user, to come back to; the second also sets what access(2) goes by.
        guard setgroups(groups.count, groups) == 0, setregid(owner.group, caller.group) == 0, setegid(owner.group) == 0,
            setreuid(owner.user, 0) == 0, seteuid(owner.user) == 0
        else {
            throw Problem(
                "not_permitted", .notPermitted,
                "\(directory) belongs to another user, and root may not act as that user: "
                    + String(cString: strerror(errno)),
                hint: "run the command as the directory's owner")
        }
        return try await body()
    }

    private static var currentGroups: [gid_t] {
        var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        return Array(groups.prefix(max(0, Int(count))))
    }

    private static func groups(of owner: FileOwner) -> [gid_t] {
        var groups = [gid_t](repeating: owner.group, count: mostGroups)
        var count = Int32(mostGroups)
        // An owner without a name, as in a container, is in the directory's group alone.
        if let name = getpwuid(owner.user)?.pointee.pw_name, getgrouplist(name, owner.group, &groups, &count) >= 0 {
            groups = Array(groups.prefix(Int(count)))
        } else {
            groups = [owner.group]
        }
        return groups + readerGroups.compactMap { getgrnam($0)?.pointee.gr_gid }
    }
}
