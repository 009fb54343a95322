import Yams

/// What a file says about destinations, before the environment and flags.
struct DestinationSection {
    /// The entries of `destinations`; `nil` if the file has no such section.
    var listed: [DestinationSetting]?
    /// The `server:` section.
    var server: DestinationSetting?
    /// The entries of the gateway's own file.
    var managed: [DestinationSetting] = []

    mutating func read(destinations body: Node, _ layer: Settings.Layer) throws(Problem) {
        let path = layer.path
        if body.null != nil || body.scalar?.string.isEmpty == true { return }
        guard let nodes = body.sequence else {
            throw Problem.configInvalid(
                "\(path):\(body.mark?.line ?? 0): destinations: expected a list of destinations, "
                    + "found \(Settings.words(body))")
        }
        var destinations: [DestinationSetting] = []
        for node in nodes {
            let destination = try DestinationSetting(node, layer)
            guard !destinations.contains(where: { $0.name == destination.name }) else {
                throw Problem.configInvalid(
                    "\(path):\(node.mark?.line ?? 0): destinations: there are two named \(destination.name)")
            }
            destinations.append(destination)
        }
        if layer.managed == nil { listed = destinations } else { managed = destinations }
    }

    /// What the file names: `destinations`, and the `server:` section as the destination `vital`.
    ///
    /// A file that says nothing of either stands for one destination named `vital`, which delivers once it has a key.
    ///
    /// - Parameter override: the first key of `server` that the environment or a flag sets; `nil` if they set none.
    /// - Throws: ``Problem`` if both forms name the same destination, or `override` belongs to none that the file names.
    func destinations(override: Settings.ServerOverride?) throws(Problem) -> [DestinationSetting] {
        let hasVital = managed.contains { $0.name == DestinationSetting.serverName }
        // What the administrator's file says nothing of, the gateway's own may: then nothing is implied.
        if listed == nil, server == nil, !managed.isEmpty, override == nil || hasVital { return managed }
        let stated = try destinationsOfAdministrator(override: hasVital ? nil : override)
        return stated + managed.filter { other in !stated.contains { $0.name == other.name } }
    }

    private func destinationsOfAdministrator(
        override: Settings.ServerOverride?
    ) throws(Problem) -> [DestinationSetting] {
        let named = listed?.first { $0.name == DestinationSetting.serverName }
        guard let server else {
            let implied = DestinationSetting(name: DestinationSetting.serverName, kind: .vital)
            guard let listed else { return [implied] }
            guard let override, named == nil else { return listed }
            // Readings must not go to one more place because of a variable that was left over.
            guard listed.isEmpty else { throw Self.stray(override, besides: listed) }
            return [implied]
        }
        if let named {
            throw Problem.configInvalid(
                "\(Settings.place(server.origin))a `server:` section is the destination named "
                    + "\(DestinationSetting.serverName), and `destinations` names one too "
                    + "(\(Settings.place(named.origin, end: "")))",
                hint: "move what the section says into the destination, and take the section out")
        }
        return [server] + (listed ?? [])
    }

    private static func stray(_ override: Settings.ServerOverride, besides listed: [DestinationSetting]) -> Problem {
        let name = DestinationSetting.serverName
        return Problem.configInvalid(
            "\(override.source) sets `\(override.key)` of the destination \(name), and the settings name only: "
                + listed.map(\.name).joined(separator: ", "),
            hint: "name a destination `\(name)`, or unset \(override.source)"
                + "; HEALTHRELAY_DESTINATIONS_<NAME>_<KEY> sets a key of any destination")
    }
}

extension Settings {
    /// The destination of this name.
    public func destination(_ name: String) -> DestinationSetting? { destinations.first { $0.name == name } }

    /// Lets the environment and flags say what the file does not: `HEALTHRELAY_DESTINATIONS_<NAME>_<KEY>` and
    /// `HEALTHRELAY_SERVER_<KEY>`.
    ///
    /// - Throws: ``Problem`` if two names share a variable, or a variable sets what no destination has.
    static func overlay(
        _ destinations: inout [DestinationSetting], _ environment: [String: String], flags: [String: String]
    ) throws(Problem) {
        try refuseStrayVariables(environment)
        var places: [String: (index: Int, definition: SettingDefinition)] = [:]
        for (index, destination) in destinations.enumerated() {
            for definition in destination.kind.settings {
                let variable = destination.variable(of: definition.key)
                if let other = places.updateValue((index, definition), forKey: variable) {
                    throw Problem.configInvalid(
                        "destinations: \(destinations[other.index].name) and \(destination.name) share the environment "
                            + "variable \(variable)", hint: "give one of them another name")
                }
            }
        }
        for (variable, text) in environment.sorted(by: { $0.key < $1.key })
        where variable.hasPrefix(DestinationSetting.variablePrefix) && !text.isEmpty {
            guard let place = places[variable] else {
                throw Problem.configInvalid(
                    "\(variable): there is no destination with such a setting",
                    hint: "the environment overrides settings of destinations that the settings file names: "
                        + destinations.map(\.name).joined(separator: ", "))
            }
            try destinations[place.index].set(place.definition, text, .environment(variable: variable))
        }
        for (key, text) in flags.sorted(by: { $0.key < $1.key }) {
            guard let index = destinations.firstIndex(where: { key.hasPrefix("destinations.\($0.name).") }),
                let definition = destinations[index].definition(of: String(key.split(separator: ".").last ?? ""))
            else { continue }
            try destinations[index].set(definition, text, .flag)
        }
        try overlayServer(&destinations, environment, flags: flags)
    }

    /// Refuses variables that look as if they set something of a destination, and that nothing reads.
    private static func refuseStrayVariables(_ environment: [String: String]) throws(Problem) {
        let prefix = serverVariable("")
        let known = (DestinationSetting.serverKeys + ["kind"]).map(serverVariable)
        for (variable, text) in environment.sorted(by: { $0.key < $1.key }) where !text.isEmpty {
            if variable == String(DestinationSetting.variablePrefix.dropLast()) {
                throw Problem.configInvalid(
                    "\(variable): destinations cannot be set by one variable",
                    hint:
                        "name them in the settings file; \(DestinationSetting.variablePrefix)<NAME>_<KEY> sets a key of one"
                )
            }
            if variable == String(prefix.dropLast()) || variable.hasPrefix(prefix) && !known.contains(variable) {
                throw Problem.configInvalid(
                    "\(variable): there is no such setting", hint: "known: " + known.joined(separator: ", "))
            }
        }
    }

    /// What of `server` the environment and flags set, by key.
    static func serverOverrides(_ environment: [String: String], flags: [String: String]) -> [ServerOverride] {
        var overrides: [ServerOverride] = []
        for key in DestinationSetting.serverKeys {
            let variable = serverVariable(key)
            if let text = environment[variable], !text.isEmpty {
                overrides.append(ServerOverride(key: key, text: text, origin: .environment(variable: variable)))
            }
            if let text = flags["server." + key] {
                overrides.append(ServerOverride(key: key, text: text, origin: .flag))
            }
        }
        return overrides
    }

    /// A key of `server` that the environment or a flag sets.
    struct ServerOverride {
        var key: String
        var text: String
        var origin: Origin

        /// The variable or the flag, for errors.
        var source: String {
            if case .environment(let variable) = origin { variable } else { "server.\(key)" }
        }
    }

    private static func serverVariable(_ key: String) -> String { "HEALTHRELAY_SERVER_" + key.uppercased() }

    private static func overlayServer(
        _ destinations: inout [DestinationSetting], _ environment: [String: String], flags: [String: String]
    ) throws(Problem) {
        if let kind = environment[serverVariable("kind")], !kind.isEmpty, kind != DestinationKind.vital.name {
            throw Problem.configInvalid("\(serverVariable("kind")): server.kind: expected vital, found '\(kind)'")
        }
        for override in serverOverrides(environment, flags: flags) {
            let (key, origin) = (override.key, override.origin)
            guard let index = destinations.firstIndex(where: { $0.name == DestinationSetting.serverName }),
                let definition = destinations[index].definition(of: key)
            else {
                throw Problem.configInvalid("\(place(origin))the destination vital has no setting `\(key)`")
            }
            if case .environment(let variable) = origin,
                case .environment(let other) = destinations[index].origin(of: key)
            {
                throw Problem.configInvalid("\(variable) and \(other) set the same setting")
            }
            try destinations[index].set(definition, override.text, origin)
        }
    }
}
