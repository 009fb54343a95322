import Foundation

/// The names of the tz database.
///
/// Foundation also takes abbreviations, and offsets that it makes up: it reads `BST` as Bangladesh's zone and `GMT+3` as
/// a zone without a name in any database.
enum ZoneNames {
    /// Where the system's tz database is (tzfile(5)).
    private static let directory = "/usr/share/zoneinfo/"
    /// Files and folders of the directory that the database does not list as zones.
    private static let others: Set<String> = ["posix", "right", "posixrules", "localtime", "Factory"]
    /// Whether this machine has the database. Foundation brings its own copy of the rules.
    private static let isInstalled = isZone("Etc/UTC") || isZone("UTC")

    /// Whether the tz database has a zone or a link of this name.
    static func contain(_ name: String) -> Bool {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(isOfName) }), name.utf8.count < 100,
            !others.contains(String(parts[0]))
        else { return false }
        if isInstalled { return isZone(name) }
        // Without the database, a name with a region is one, and so are these two.
        return parts.count > 1 || name == "UTC" || name == "GMT"
    }

    /// Whether the file of this name holds a zone's rules.
    private static func isZone(_ name: String) -> Bool {
        let descriptor = open(directory + name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var magic = [UInt8](repeating: 0, count: 4)
        return read(descriptor, &magic, magic.count) == magic.count && magic == Array("TZif".utf8)
    }

    private static func isOfName(_ octet: UInt8) -> Bool {
        switch octet {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "+"):
            true
        default: false
        }
    }
}
