import Foundation
import HealthReadings
import Yams

/// The effective settings: flag over environment over the administrator's file over the gateway's own file
/// (``ManagedSettings``) over the default.
///
/// A key that no setting has, and a value that is none of what the setting may be, are errors that name the place:
/// a misspelt `base_url` must not send readings somewhere else in silence.
public struct Settings: Sendable {
    /// Where a value came from.
    public enum Origin: Sendable, Hashable {
        case standard
        case file(path: String, line: Int)
        case environment(variable: String)
        case flag
    }

    /// A value with its origin; lists and maps are kept as lines of text.
    struct Value: Sendable {
        var text: String
        var lines: [String] = []
        var pairs: [String: String] = [:]
        var origin: Origin
    }

    private var values: [String: Value] = [:]
    /// Where readings go.
    public private(set) var destinations: [DestinationSetting] = []
    /// The people besides `user.client_user_id`, and their shares of devices.
    public private(set) var people: [PersonSetting] = []
    /// The file that was read; nil where there is none.
    public private(set) var file: String?

    /// What the settings are made of, so that they can be read again.
    struct Sources: Sendable {
        var named: String?
        var environment: [String: String]
        var flags: [String: String]
        /// The gateway's own file; nil: none is read.
        var managed: ManagedSettings?
        /// The usual place in which a file was found.
        var found: String?
    }

    /// A settings file that is being read.
    struct Layer {
        let path: String
        /// The gateway's own file, where this is it.
        var managed: ManagedSettings?
    }

    let sources: Sources
    /// What the gateway's own file held; `nil`: there was none.
    package private(set) var managedText: String?

    /// Reads settings.
    ///
    /// - Parameters:
    ///   - named: the administrator's file; `nil`: the first of the usual places that exists.
    ///   - environment: the environment, whose variables go before both files.
    ///   - flags: what the command line says by key, which goes before everything.
    ///   - managed: the gateway's own file, below the other one; `nil`: none.
    /// - Throws: ``Problem`` with status 78, or 66 where a file that has to be there cannot be read.
    public init(
        file named: String? = nil, environment: [String: String] = ProcessInfo.processInfo.environment,
        flags: [String: String] = [:], managed: ManagedSettings? = nil
    ) throws {
        try self.init(
            Sources(named: named, environment: environment, flags: flags, managed: managed),
            managedText: try managed?.text())
    }

    /// Settings with another text in place of what the gateway's own file holds.
    init(_ sources: Sources, managedText: String?) throws {
        var sources = sources
        let (environment, flags) = (sources.environment, sources.flags)
        let named = sources.named ?? environment["HEALTHRELAY_CONFIG"].flatMap(\.nonEmpty)
        let path = named ?? Self.file(among: Self.usualPaths(environment), known: sources.found)
        sources.found = named == nil ? path : nil
        // A file that the administrator names is the administrator's, wherever it lies.
        if let path, path == sources.managed?.path { sources.managed = nil }
        self.sources = sources
        var section = DestinationSection()
        if let managed = sources.managed, let managedText {
            self.managedText = managedText
            try read(managedText, Layer(path: managed.path, managed: managed), &section)
        }
        if let path {
            try read(try Self.text(path), Layer(path: path), &section)
            file = path
        }
        try PersonSetting.checkShares(of: people)
        destinations = try section.destinations(
            override: Self.serverOverrides(environment, flags: flags).first)
        try Self.overlay(&destinations, environment, flags: flags)
        for definition in SettingDefinition.all {
            if let text = environment[definition.variable], !text.isEmpty {
                try set(definition, text, .environment(variable: definition.variable))
            }
            if let text = flags[definition.key] { try set(definition, text, .flag) }
        }
        completeBackup()
        try requireUsable()
    }

    /// Whoever has typed a passphrase for backups and named no place wants them in the state directory.
    private mutating func completeBackup() {
        guard let managed = sources.managed, values["backup.to"] == nil, let file = values["backup.passphrase_file"],
            isManaged(file.origin)
        else { return }
        values["backup.to"] = Value(text: managed.backups, origin: file.origin)
    }

    /// Where settings are looked for when no file is named. An empty variable counts as not set.
    public static func usualPaths(_ environment: [String: String]) -> [String] {
        let environment = environment.filter { !$0.value.isEmpty }
        let home = environment["XDG_CONFIG_HOME"] ?? environment["HOME"].map { $0 + "/.config" }
        return ["/etc/healthrelay/config.yaml"] + (home.map { [$0 + "/healthrelay/config.yaml"] } ?? [])
    }

    /// The first of these paths that has a file, or a link that leads nowhere.
    ///
    /// The first one, the administrator's, also counts if it can't be looked at: a program that ignored it would deliver
    /// what it forbids, or to other places. So does the one that was found before, which may be root's: a command of root's that
    /// acts as another user would go on without it.
    static func file(among paths: [String], known: String? = nil) -> String? {
        paths.first { path in
            let error = lookupError(at: path)
            return error == 0 || (path == paths.first || path == known) && error != ENOENT && error != ENOTDIR
        }
    }

    private static func text(_ path: String) throws(Problem) -> String {
        do {
            return try OrdinaryFile.text(path)
        } catch {
            throw Problem(
                "config_unreadable", .noInput, "cannot read the settings file \(path): \(error.localizedDescription)",
                hint: "name another with --config, or see `healthrelay config path`")
        }
    }

    private mutating func read(_ text: String, _ layer: Layer, _ destinations: inout DestinationSection) throws {
        let path = layer.path
        let root: Node?
        do {
            root = try Yams.compose(yaml: text)
        } catch {
            throw Problem.configInvalid(YAMLFault(error).message(path))
        }
        guard let root, root != Node("") else { return }
        guard let sections = root.mapping else {
            throw Problem.configInvalid(
                // Not what was found: a file that was named by mistake may hold a secret.
                "\(path): expected sections such as `user:`, found \(root.sequence == nil ? "a text" : "a list")")
        }
        for (name, body) in sections {
            switch name.string ?? "" {
            case "users": try readUsers(body, path)
            case "destinations": try destinations.read(destinations: body, layer)
            case let section: try read(section: section, at: name.mark?.line ?? 0, body, layer, &destinations)
            }
        }
    }

    private mutating func read(
        section: String, at line: Int, _ body: Node, _ layer: Layer, _ destinations: inout DestinationSection
    ) throws {
        let path = layer.path
        let isServer = section == "server" && layer.managed == nil
        guard isServer || SettingDefinition.all.contains(where: { $0.key.hasPrefix(section + ".") }) else {
            throw Self.unknown(
                section, path, line,
                known: Set(
                    SettingDefinition.all.map { String($0.key.prefix { $0 != "." }) } + ["destinations", "users"]))
        }
        guard let members = body.mapping else {
            if body.scalar?.string.isEmpty == true || body.null != nil { return }
            throw Problem.configInvalid(
                "\(path):\(line): expected settings under `\(section)`, found \(Self.words(body))")
        }
        if isServer {
            destinations.server = try DestinationSetting(server: body, members, path)
            return
        }
        for (name, node) in members {
            let key = section + "." + (name.string ?? "")
            let place = Origin.file(path: path, line: name.mark?.line ?? line)
            guard let definition = SettingDefinition.all.first(where: { $0.key == key }) else {
                throw Self.unknown(key, path, name.mark?.line ?? line, known: Set(SettingDefinition.all.map(\.key)))
            }
            if let value = try Self.value(of: definition, key, node, place) {
                values[key] = try layer.managed?.resolve(value, of: definition, key) ?? value
            }
        }
    }

    /// Whether a node of the file leaves its setting as it is: `null` in quotes is a text.
    static func saysNothing(_ node: Node) -> Bool {
        guard let scalar = node.scalar else { return false }
        let isQuoted = scalar.style == .singleQuoted || scalar.style == .doubleQuoted
        return scalar.string.isEmpty || !isQuoted && (node.null != nil || scalar.string == "null")
    }

    /// What a node of the file says of a setting; `nil` if it says nothing.
    ///
    /// - Parameter key: the setting's whole key, for errors.
    static func value(
        of definition: SettingDefinition, _ key: String, _ node: Node, _ place: Origin
    ) throws(Problem) -> Value? {
        if saysNothing(node) { return nil }
        switch (definition.form, node) {
        case (.list, .sequence(let items)) where items.isEmpty: return nil
        case (.map, .mapping(let pairs)) where pairs.isEmpty: return nil
        case (.list, .sequence(let items)) where items.allSatisfy { $0.scalar != nil }:
            return Value(text: "", lines: items.compactMap(\.string), origin: place)
        case (.selection, .sequence(let items))
        where items.allSatisfy { $0.scalar != nil } && definition.accepts(entries: items.compactMap(\.string)):
            return Value(text: "", lines: items.compactMap(\.string), origin: place)
        case (.map, .mapping(let pairs))
        where pairs.allSatisfy { $0.scalar != nil && $1.scalar != nil && !saysNothing($0) && !saysNothing($1) }:
            let entries = pairs.compactMap { key, value in key.string.flatMap { k in value.string.map { (k, $0) } } }
            return Value(text: "", pairs: Dictionary(entries) { $1 }, origin: place)
        case (.selection, _): break
        case (_, .scalar(let scalar)): return try value(of: definition, key, text: scalar.string, place)
        default: break
        }
        throw Problem.configInvalid(
            "\(Self.place(place))\(key): expected \(definition.expectation), found \(words(node))")
    }

    /// What a text says of a setting.
    static func value(
        of definition: SettingDefinition, _ key: String, text: String, _ origin: Origin
    ) throws(Problem) -> Value {
        var value = Value(text: text, origin: origin)
        var areWhole = true
        switch definition.form {
        case .list, .selection:
            value.lines = text.split(separator: ",").map { $0.trimming(" ") }
            if case .selection = definition.form { value.text = "" }
        case .map:
            let pairs = text.split(separator: ",").map { pair in
                pair.split(separator: "=", maxSplits: 1).map { $0.trimming(" ") }
            }
            areWhole = pairs.allSatisfy { $0.count == 2 && !$0.contains("") }
            value.pairs = Dictionary(pairs.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { $1 }
        case .text, .choice, .whole, .flag: break
        }
        let isAccepted =
            if case .selection = definition.form {
                definition.accepts(entries: value.lines)
            } else {
                definition.accepts(text)
            }
        guard isAccepted, areWhole else {
            // A flag is a part of the command line.
            let isFlag = origin == .flag
            throw Problem(
                isFlag ? "usage" : "config_invalid", isFlag ? .usage : .configuration,
                "\(place(origin))\(key): expected \(definition.expectation), found '\(text)'")
        }
        return value
    }

    /// What stands in the file, for errors.
    static func words(_ node: Node) -> String {
        switch node {
        case .scalar(let scalar): "'\(scalar.string)'"
        case .sequence(let items) where items.isEmpty: "an empty list"
        case .sequence(let items):
            items.allSatisfy { $0.scalar != nil }
                ? "a list of \(items.compactMap(\.string).joined(separator: ", "))"
                : "a list with more than texts in it"
        case .mapping(let pairs) where !pairs.allSatisfy { $1.scalar != nil }: "keys with more than a value each"
        case .mapping(let pairs):
            pairs.contains { saysNothing($0) || saysNothing($1) } ? "a key without a value" : "keys with values"
        case .alias: "an alias"
        }
    }

    private mutating func readUsers(_ body: Node, _ path: String) throws {
        if body.null != nil || body.scalar?.string.isEmpty == true { return }
        guard let nodes = body.sequence else {
            throw Problem.configInvalid(
                "\(path):\(body.mark?.line ?? 0): users: expected a list of people, found \(Self.words(body))")
        }
        var read: [PersonSetting] = []
        for node in nodes {
            let person = try PersonSetting(node, path)
            guard let former = read.firstIndex(where: { $0.clientUserID == person.clientUserID }) else {
                read.append(person)
                continue
            }
            // Which of two entries counts must not depend on their order.
            guard let joined = read[former].joined(with: person) else {
                throw Problem.configInvalid(
                    "\(path):\(node.mark?.line ?? 0): users: two entries of \(person.clientUserID) contradict each other",
                    hint: "put everything about one person into one entry")
            }
            read[former] = joined
        }
        // The administrator's file is read later, and its entry of a person stands above the other one.
        people = read + people.filter { other in !read.contains { $0.clientUserID == other.clientUserID } }
    }

    /// Where a value came from, for errors, with what separates it from them.
    static func place(_ origin: Origin, end: String = ": ") -> String {
        switch origin {
        case .standard, .flag: ""
        case .file(let path, let line): "\(path):\(line)\(end)"
        case .environment(let variable): "\(variable)\(end)"
        }
    }

    private mutating func set(_ definition: SettingDefinition, _ text: String, _ origin: Origin) throws {
        values[definition.key] = try Self.value(of: definition, definition.key, text: text, origin)
    }

    static func unknown(_ key: String, _ path: String, _ line: Int, known: Set<String>) -> Problem {
        Problem.configInvalid(
            "\(path):\(line): there is no setting `\(key)`", hint: "known: " + known.sorted().joined(separator: ", "))
    }

    /// The text of a setting; nil where nobody set it and it has no standard.
    public subscript(key: String) -> String? {
        values[key]?.text ?? SettingDefinition.all.first { $0.key == key }?.standard
    }

    /// Whether a setting says the same in both.
    func isSame(_ other: Settings, _ key: String) -> Bool {
        self[key] == other[key] && list(key) == other.list(key) && map(key) == other.map(key)
    }

    /// Where a setting's value came from.
    public func origin(of key: String) -> Origin { values[key]?.origin ?? .standard }

    /// A list's entries.
    public func list(_ key: String) -> [String] { values[key]?.lines ?? [] }

    /// A map's entries.
    public func map(_ key: String) -> [String: String] { values[key]?.pairs ?? [:] }

    /// The effective settings as `config show` prints them. Secrets live in files; only their paths appear.
    public var document: JSONValue {
        let users = people.isEmpty ? [] : [JSONValue.Member("users", .array(people.map(\.document)))]
        return .object(
            [.init("destinations", .array(destinations.map(\.document)))]
                + SettingDefinition.all.map { definition in
                    .init(
                        definition.key,
                        definition.document(
                            text: self[definition.key], lines: list(definition.key), pairs: map(definition.key)))
                } + users)
    }
}

extension SettingDefinition {
    /// A value as `config show` prints it.
    func document(text: String?, lines: [String]?, pairs: [String: String]) -> JSONValue {
        switch form {
        case .list: .array((lines ?? []).map(JSONValue.string))
        case .selection: lines.map { .array($0.map(JSONValue.string)) } ?? .null
        case .map: .object(pairs.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) })
        case .whole: .optional(text.flatMap(Int.init))
        case .flag: .bool(Self.isOn(text))
        case .text, .choice: .optional(text.map(Self.masked))
        }
    }

    /// A URL's password is a secret too, and so may be its query, and a name without a password.
    private static func masked(_ text: String) -> String {
        guard let url = URLComponents(string: text) else {
            // A password may be what makes it no URL.
            let mark = text.unicodeScalars.split(separator: "://".unicodeScalars, maxSplits: 1).dropFirst().first
            return mark.map { $0.contains("@") || $0.contains("?") } == true ? "***" : text
        }
        guard url.scheme != nil, url.user != nil || url.query != nil else { return text }
        var shown = url
        if url.password != nil { shown.password = "***" } else if url.user != nil { shown.user = "***" }
        if url.query != nil { shown.query = "***" }
        return shown.string ?? "***"
    }
}
