import Glibc

/// What the kernel's radio switches say of adapters (`/sys/class/rfkill`, Linux `Documentation/driver-api/rfkill.rst`).
struct RFKill: Sendable {
    enum Block: Sendable, Hashable {
        case soft, hard
    }

    /// The folder with one folder for each switch.
    let folder: String

    static let system = RFKill(folder: "/sys/class/rfkill")

    /// How an adapter is blocked; nil where it is not, or where the system has no such switches.
    func block(of adapter: String) -> Block? {
        for one in switches where read("\(one)/type") == "bluetooth" && read("\(one)/name") == adapter {
            if read("\(one)/hard") == "1" { return .hard }
            if read("\(one)/soft") == "1" { return .soft }
        }
        return nil
    }

    private var switches: [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    /// A file's first line.
    private func read(_ file: String) -> String? {
        let descriptor = open("\(folder)/\(file)", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var octets = [UInt8](repeating: 0, count: 128)
        let count = Glibc.read(descriptor, &octets, octets.count)
        guard count >= 0 else { return nil }
        return String(decoding: octets[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
