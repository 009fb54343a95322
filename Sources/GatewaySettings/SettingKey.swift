/// The key of a setting that can be set one by one.
enum SettingKey: Sendable {
    /// `sync.mode`
    case section(String, String, SettingDefinition)
    /// `destinations.clinic.url`, or of a whole destination `destinations.clinic`.
    case destination(String, String?)
    /// `users.anna.reports.paper`, or of a whole person `users.anna`.
    case person(String, [String])

    /// Reads a key.
    ///
    /// - Throws: ``Problem`` `setting_unknown`.
    init(_ text: String) throws(Problem) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        if parts[0] == "destinations", (2...3).contains(parts.count), DestinationSetting.isName(parts[1]) {
            self = .destination(parts[1], parts.count == 3 ? parts[2] : nil)
        } else if parts[0] == "users", parts.count > 1, !parts[1].isEmpty {
            // A person's name may have dots in it.
            let name = parts.dropFirst()
            for path in PersonSetting.paths where name.count > path.count && name.suffix(path.count) == path[...] {
                self = .person(name.dropLast(path.count).joined(separator: "."), path)
                return
            }
            self = .person(name.joined(separator: "."), [])
        } else if parts.count == 2, let definition = SettingDefinition.all.first(where: { $0.key == text }) {
            self = .section(parts[0], parts[1], definition)
        } else {
            throw Problem(
                "setting_unknown", .usage, "there is no setting '\(text.prefix(80))'",
                hint: "`healthrelay settings show` lists them; a destination's are destinations.NAME.KEY, "
                    + "a person's users.ID.time_zone, users.ID.devices and users.ID.reports.KEY")
        }
    }
}

extension PersonSetting {
    /// What can be set of a person, by the path within their entry.
    static let paths: [[String]] =
        [["time_zone"], ["devices"]] + ReportSetting.keys.map { ["reports", $0] }
}
