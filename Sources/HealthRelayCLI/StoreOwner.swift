import GatewaySettings
import Glibc
import HealthReadings
import ReadingStore

/// The user whose store a command opens itself.
///
/// Root may open anybody's. What root makes there would be root's, and the store's owner, such as the service, could not open the
/// store afterwards; a link that the owner has put there could lead root to any file. So root acts as the owner meanwhile.
enum StoreOwner {
    /// The user that the package makes for the service.
    private static let serviceUser = "healthrelay"
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
    /// - Throws: what `body` throws; `Problem` with status 77 if root may not act as the owner, and nothing was done, or if the owner
    ///   may not use its store.
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
        let account = Account(of: owner)
        // The first of each pair makes root the saved user, to come back to; the second also sets what access(2) goes by.
        guard setgroups(account.groups.count, account.groups) == 0,
            setregid(account.group, caller.group) == 0, setegid(account.group) == 0,
            setreuid(account.user, 0) == 0, seteuid(account.user) == 0
        else {
            throw Problem(
                "not_permitted", .notPermitted,
                "\(directory) belongs to another user, and root may not act as that user: "
                    + String(cString: strerror(errno)),
                hint: "run the command as the directory's owner")
        }
        do {
            return try await body()
        } catch StoreError.notPermitted(let path) {
            let (error, name) = (StoreError.notPermitted(path: path), account.name)
            throw Problem(
                error.code, .notPermitted,
                "\(error) for \(name), the owner of \(directory), as whom root acts there",
                hint:
                    "make \(name) the owner of all in it (`chown -R \(name) \(directory)`), and let \(name) enter the "
                    + "directories that it is in")
        }
    }

    private static var currentGroups: [gid_t] {
        var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        return Array(groups.prefix(max(0, Int(count))))
    }

    /// What root becomes: the owner, with the owner's groups and no others. What the process runs is the owner's to control, and gives
    /// the owner whatever groups it has.
    private struct Account {
        let user: uid_t
        /// The name, or the number where there is none.
        let name: String
        let group: gid_t
        let groups: [gid_t]

        init(of owner: FileOwner) {
            user = owner.user
            let readers = StoreOwner.readerGroups.compactMap { getgrnam($0)?.pointee.gr_gid }
            guard let entry = getpwuid(owner.user)?.pointee, let named = entry.pw_name else {
                // In a container nobody has a name, nor groups beyond the directory's.
                name = String(owner.user)
                group = owner.group
                groups = [owner.group] + readers
                return
            }
            name = String(cString: named)
            group = entry.pw_gid
            var all = [gid_t](repeating: group, count: StoreOwner.mostGroups)
            var count = Int32(StoreOwner.mostGroups)
            all = getgrouplist(name, group, &all, &count) >= 0 ? Array(all.prefix(Int(count))) : [group]
            groups = name == StoreOwner.serviceUser ? all + readers : all
        }
    }
}
