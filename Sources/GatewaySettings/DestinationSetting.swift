import HealthReadings
import Yams

/// One of `destinations`: where readings go.
public struct DestinationSetting: Sendable {
    /// The name, `[a-z0-9_-]`, with a letter or a digit first.
    public let name: String
    package let kind: DestinationKind
    /// Where it was named.
    let origin: Settings.Origin
    /// What its keys are called by in errors: `destinations.clinic`, or `server` where no list names it.
    let title: String
    private var values: [String: Settings.Value] = [:]

    /// The destination that a `server:` section of an older file, `HEALTHRELAY_SERVER_*` and a file that names no
    /// destinations stand for.
    package static let serverName = "vital"
    /// The destination that `run --sandbox` delivers to. The settings cannot name one so.
    package static let sandboxName = "sandbox"
    /// What a `server:` section may set besides its kind.
    static let serverKeys = DestinationKind.vital.own.map(\.key) + ["insecure"]

    package init(name: String, kind: DestinationKind, origin: Settings.Origin = .standard) {
        self.init(name: name, kind: kind, origin: origin, title: "destinations.\(name)")
    }

    private init(name: String, kind: DestinationKind, origin: Settings.Origin, title: String) {
        self.name = name
        self.kind = kind
        self.origin = origin
        self.title = title
    }

    /// Reads an entry of `destinations`.
    ///
    /// - Throws: ``Problem`` with the place and what was expected.
    init(_ node: Node, _ layer: Settings.Layer) throws(Problem) {
        let (line, path) = (node.mark?.line ?? 0, layer.path)
        func wrong(_ expected: String, _ found: Node?) -> Problem {
            Problem.configInvalid(
                "\(path):\(found?.mark?.line ?? line): destinations: expected \(expected), "
                    + "found \(found.map(Settings.words) ?? "nothing")")
        }
        guard let members = node.mapping else { throw wrong("a destination as {name: clinic, kind: vital, …}", node) }
        guard let name = node["name"]?.scalar?.string, Self.isName(name) else {
            throw wrong(
                "a name of the characters a-z, 0-9, _ and - that begins with a letter or a digit", node["name"])
        }
        guard let text = node["kind"]?.scalar?.string,
            let kind = DestinationKind(rawValue: text), layer.managed == nil || !kind.namesPath
        else {
            let kinds = DestinationKind.allCases.filter { layer.managed == nil || !$0.namesPath }
            throw wrong("a kind (there is: \(kinds.map(\.name).joined(separator: ", ")))", node["kind"])
        }
        self.init(name: name, kind: kind, origin: .file(path: path, line: line))
        guard name != Self.sandboxName else {
            throw wrong("another name: `run --sandbox` delivers to the destination \(Self.sandboxName)", node["name"])
        }
        try read(members, layer, besides: ["name", "kind"], allowed: nil)
    }

    /// Reads a `server:` section.
    init(server node: Node, _ members: Node.Mapping, _ path: String) throws(Problem) {
        let line = node.mark?.line ?? 0
        self.init(name: Self.serverName, kind: .vital, origin: .file(path: path, line: line), title: "server")
        if let kind = node["kind"], !Settings.saysNothing(kind),
            kind.scalar?.string != DestinationKind.vital.name
        {
            throw Problem.configInvalid(
                "\(path):\(kind.mark?.line ?? line): server.kind: expected vital, found \(Settings.words(kind))",
                hint: "other kinds of destinations stand under `destinations`")
        }
        try read(members, Settings.Layer(path: path), besides: ["kind"], allowed: Self.serverKeys)
    }

    private mutating func read(
        _ members: Node.Mapping, _ layer: Settings.Layer, besides known: [String], allowed: [String]?
    ) throws(Problem) {
        let path = layer.path
        for (key, node) in members where !known.contains(key.string ?? "") {
            let (key, line) = (key.string ?? "", key.mark?.line ?? 0)
            guard let definition = definition(of: key), allowed?.contains(key) ?? true else {
                let names = known + (allowed ?? kind.settings.map(\.key))
                throw Settings.unknown("\(title).\(key)", path, line, known: Set(names.map { "\(title).\($0)" }))
            }
            let name = "\(title).\(key)"
            if let value = try Settings.value(of: definition, name, node, .file(path: path, line: line)) {
                values[key] = try layer.managed?.resolve(value, of: definition, name) ?? value
            }
        }
    }

    /// Whether a text can be a destination's name.
    package static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            // Commands would take `--json` for an option.
            && text.utf8.first != UInt8(ascii: "-") && text.utf8.first != UInt8(ascii: "_")
            && text.utf8.allSatisfy { octet in
                switch octet {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    func definition(of key: String) -> SettingDefinition? { kind.settings.first { $0.key == key } }

    /// The environment variable of a key: `base_url` of `at-home` is `HEALTHRELAY_DESTINATIONS_AT_HOME_BASE_URL`.
    func variable(of key: String) -> String {
        Self.variablePrefix + "\(name)_\(key)".uppercased().replacing("-", with: "_")
    }

    static let variablePrefix = "HEALTHRELAY_DESTINATIONS_"

    /// Sets a key from the environment or a flag.
    mutating func set(_ definition: SettingDefinition, _ text: String, _ origin: Settings.Origin) throws(Problem) {
        values[definition.key] = try Settings.value(
            of: definition, "\(title).\(definition.key)", text: text, origin)
    }

    /// What a key is called in errors: `destinations.clinic.base_url`.
    package func named(_ key: String) -> String { "\(title).\(key)" }

    /// The problem of a value that is of its setting's form and cannot be used, with the value's place.
    package func unusable(_ key: String, _ message: String) -> Problem {
        Problem.configInvalid("\(Settings.place(origin(of: key)))\(named(key)): \(message)")
    }

    /// The text of a key; `nil` if nobody set it and it has no default.
    public subscript(key: String) -> String? { values[key]?.text ?? definition(of: key)?.standard }

    /// The entries of a list; empty if nobody set it.
    public func list(_ key: String) -> [String] { values[key]?.lines ?? [] }

    /// The keys and texts of a map; empty if nobody set it.
    package func map(_ key: String) -> [String: String] { values[key]?.pairs ?? [:] }

    /// Everything that says how the destination is reached, a key a line: not what is selected for it, and when.
    package var access: String {
        kind.settings.filter { !DestinationKind.live.contains($0.key) && $0.key != "mode" }.map { definition in
            let pairs = map(definition.key).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
            return ([definition.key, self[definition.key] ?? ""] + list(definition.key) + pairs).joined(separator: "\t")
        }.joined(separator: "\n")
    }

    /// The files that it names: keys, passwords, certificates.
    package var files: [String] { fileKeys.compactMap { self[$0] } }

    /// Of those the ones with a secret in them.
    var secretFiles: [String] { fileKeys.filter { !Self.publicFiles.contains($0) }.compactMap { self[$0] } }

    private var fileKeys: [String] { kind.settings.map(\.key).filter { $0.hasSuffix("_file") } }

    /// Certificates, and public keys that readings are sealed to.
    private static let publicFiles: Set<String> = ["ca_file", "certificate_file", "seal_to_file"]

    /// The keys whose values other users of the machine should not see: identifiers of patients, and URLs with a query,
    /// which may be a secret of the receiver's.
    ///
    /// - Parameter file: the settings file that they are set in.
    func confidentialKeys(in file: String) -> [String] {
        kind.settings.filter { definition in
            guard case .file(let path, _) = origin(of: definition.key), path == file else { return false }
            return definition.key == "patients"
                ? !map(definition.key).isEmpty
                : definition.key.hasSuffix("url") && self[definition.key]?.contains("?") == true
        }.map { named($0.key) }
    }

    /// Whether nobody has named it or set anything of it.
    var isImplied: Bool {
        guard case .standard = origin else { return false }
        return values.isEmpty
    }

    /// Whether a flag is set.
    package func isOn(_ key: String) -> Bool { SettingDefinition.isOn(self[key]) }

    /// Where a key's value came from.
    func origin(of key: String) -> Settings.Origin { values[key]?.origin ?? .standard }

    /// Whether a key says the same in both.
    func isSame(_ other: DestinationSetting, _ key: String) -> Bool {
        self[key] == other[key] && list(key) == other.list(key) && map(key) == other.map(key)
    }

    /// `{name, kind, …}` with every key of the kind, as `config show` prints it.
    var document: JSONValue {
        .object(
            [.init("name", .string(name)), .init("kind", .string(kind.name))]
                + kind.settings.map { definition in
                    .init(
                        definition.key,
                        definition.document(
                            text: self[definition.key], lines: values[definition.key]?.lines, pairs: map(definition.key)
                        ))
                })
    }
}
