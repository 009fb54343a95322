import Yams

/// The text of the gateway's own settings file while it is being changed.
struct ManagedDocument {
    private var root: Node.Mapping

    /// What stands at its beginning.
    static let header =
        "# Written by HealthRelay: the page, `healthrelay settings set`. Comments are not kept.\n"
        + "# What the administrator's settings file sets stands above this one.\n"

    /// - Parameter text: the file; `nil`: an empty one.
    /// - Throws: ``Problem`` for what is no YAML with sections.
    init(_ text: String?, _ path: String) throws(Problem) {
        let node: Node?
        do {
            node = try text.flatMap { try Yams.compose(yaml: $0) }
        } catch {
            throw Problem.configInvalid(YAMLFault(error).message(path))
        }
        root = node?.mapping ?? Node.Mapping([])
    }

    /// The file's new text.
    ///
    /// - Throws: ``Problem`` if it cannot be written as YAML.
    func text() throws(Problem) -> String {
        guard !root.isEmpty else { return Self.header }
        do {
            return Self.header + (try Yams.serialize(node: .mapping(root), width: -1, allowUnicode: true))
        } catch {
            throw Problem("unexpected", .ourFault, "the settings cannot be written as YAML")
        }
    }

    /// Whether the destination or the person of a key is in the file; a key of a section needs no entry.
    func hasEntry(of key: SettingKey) -> Bool {
        func has(_ section: String, _ nameKey: String, _ name: String) -> Bool {
            root[section]?.sequence?.contains { $0[nameKey]?.scalar?.string == name } ?? false
        }
        return switch key {
        case .section: true
        case .destination(let name, _): has("destinations", "name", name)
        case .person(let id, _): has("users", "client_user_id", id)
        }
    }

    /// Gives a setting a value; `nil`: it is as if nobody had set it here.
    mutating func set(_ key: SettingKey, _ value: Node?) {
        switch key {
        case .section(let section, let name, _):
            var members = root[section]?.mapping ?? Node.Mapping([])
            members[name] = value
            root[section] = members.isEmpty ? nil : .mapping(members)
        case .destination(let name, let path): change("destinations", "name", name, path.map { [$0] } ?? [], value)
        case .person(let id, let path): change("users", "client_user_id", id, path, value)
        }
    }

    /// Changes an entry of a list, or adds or removes it.
    private mutating func change(_ section: String, _ nameKey: String, _ name: String, _ path: [String], _ value: Node?)
    {
        var entries = root[section]?.sequence.map(Array.init) ?? []
        let place = entries.firstIndex { $0[nameKey]?.scalar?.string == name }
        guard let first = path.first else {
            // Of a whole entry only its end can be said.
            if value == nil, let place { entries.remove(at: place) }
            root[section] = entries.isEmpty ? nil : Node(entries)
            return
        }
        var entry = place.flatMap { entries[$0].mapping } ?? Node.Mapping([(Node(nameKey), .quoted(name))])
        if path.count == 2 {
            var members = entry[first]?.mapping ?? Node.Mapping([])
            members[path[1]] = value
            entry[first] = members.isEmpty ? nil : .mapping(members)
        } else {
            entry[first] = value
        }
        if let place {
            entries[place] = .mapping(entry)
        } else if value != nil {
            entries.append(.mapping(entry))
        }
        root[section] = entries.isEmpty ? nil : Node(entries)
    }
}

extension Node {
    /// A text that is one whatever stands in it.
    static func quoted(_ text: String) -> Node { Node(text, Tag(.str), .doubleQuoted) }
}
