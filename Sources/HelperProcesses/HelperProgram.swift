import Glibc

/// Where a program that was installed with this one is.
public enum HelperProgram: Sendable, Hashable {
    /// It can be run.
    case found(String)
    /// It is there and not for this user: the group that may run it, where that has a name.
    case notPermitted(String, group: String?)
    /// It is nowhere; where it belongs, beside this program's own folder.
    case missing(expected: String?)

    /// Looks beside this program, in the libexec folder of its installation, and in PATH.
    public static func find(_ name: String) -> HelperProgram {
        let own = folder
        let near = own.map { [$0, parent($0) + "/libexec/healthrelay"] } ?? []
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        let named = path.split(separator: ":").filter { $0.hasPrefix("/") }.map(String.init)
        let places = (near + named).map { "\($0)/\(name)" }
        if let found = places.first(where: { access($0, X_OK) == 0 && !isFolder($0) }) { return .found(found) }
        if let closed = places.first(where: { access($0, F_OK) == 0 && !isFolder($0) }) {
            return .notPermitted(closed, group: group(of: closed))
        }
        return .missing(expected: near.last)
    }

    /// The group a file belongs to.
    public static func group(of path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        var (entry, found) = (Glibc.group(), UnsafeMutablePointer<Glibc.group>?.none)
        var room = [CChar](repeating: 0, count: 4096)
        guard getgrgid_r(status.st_gid, &entry, &room, room.count, &found) == 0, let found else { return nil }
        return String(cString: found.pointee.gr_name)
    }

    /// The folder this program is in.
    private static var folder: String? {
        var octets = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &octets, octets.count)
        guard count > 0 else { return nil }
        return parent(String(decoding: octets.prefix(count).map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self))
    }

    private static func parent(_ path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    }

    private static func isFolder(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}
