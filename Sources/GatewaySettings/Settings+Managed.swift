import Crypto
import Foundation
import HealthReadings
import Yams

extension Settings {
    /// The gateway's own settings file; `nil`: these settings were read without one.
    package var managed: ManagedSettings? { sources.managed }

    /// The same settings, read again from their files.
    package func readAgain() throws -> Settings { try Settings(sources, managedText: sources.managed?.text()) }

    /// The same settings, read again if the gateway's own file holds another text than the one they were read from;
    /// `nil` if it doesn't.
    package func readAgainIfChanged() throws -> Settings? {
        guard let managed, try managed.text() != managedText else { return nil }
        return try readAgain()
    }

    /// What names a text of the gateway's own file: SHA-256 in hexadecimal.
    package static func digest(_ text: String?) -> String {
        SHA256.hash(data: Array((text ?? "").utf8)).hexadecimal()
    }

    /// What names the gateway's own file as it is in force.
    package var managedDigest: String { Self.digest(managedText) }

    /// Whether a value comes from the gateway's own file.
    func isManaged(_ origin: Origin) -> Bool {
        if case .file(let path, _) = origin { path == managed?.path } else { false }
    }

    /// Whether a value comes from where the gateway's own file cannot change it.
    func isFixed(_ origin: Origin) -> Bool { origin != .standard && !isManaged(origin) }

    /// The settings after a change, and the secrets that it writes.
    package struct Draft: Sendable {
        package var settings: Settings
        /// The text of the gateway's own file.
        package var text: String
        /// What to write into files, by path.
        package var secrets: [String: String]
    }

    /// Tries a change; nothing is written.
    ///
    /// - Throws: ``Problem``: `setting_unknown`, `setting_fixed` with the place where it is set, `setting_invalid`.
    package func draft(_ change: SettingsChange) throws -> Draft {
        guard let managed else {
            throw Problem(
                "setting_fixed", .configuration, "the settings can only be changed in their file",
                hint: "see `healthrelay config path`")
        }
        let former = try ManagedDocument(managedText, managed.path)
        var document = former
        for text in change.unset {
            let key = try fileKey(SettingKey(secret: text)) ?? SettingKey(text)
            try requireFree(key, text)
            try requireThere(key, text, in: former)
            document.set(key, nil)
        }
        for (text, value) in change.set.sorted(by: { $0.key < $1.key }) {
            let key = try SettingKey(text)
            try requireFree(key, text)
            document.set(key, try node(of: value, for: key, text, change))
        }
        var secrets: [String: String] = [:]
        for (text, secret) in change.secrets.sorted(by: { $0.key < $1.key }) {
            guard !text.hasSuffix("_file"), let key = try fileKey(SettingKey(secret: text), change) else {
                throw Problem("setting_unknown", .usage, "there is no secret '\(text.prefix(80))'")
            }
            try requireFree(key, text)
            try Self.requireUsable(secret, text)
            if text == "backup.passphrase" {
                // Of the lines that end the file none is a part of it.
                let passphrase = secret.trimmingCharacters(in: .newlines)
                try BackupSetting.requirePassphrase(passphrase, text, .usage)
            }
            // Another name each time: the file that is in use stays whole until the settings name the new one.
            let name = text + "-" + String(UUID().uuidString.lowercased().prefix(8))
            guard let path = managed.secret(name) else {
                throw Problem("setting_unknown", .usage, "there is no secret '\(text.prefix(80))'")
            }
            secrets[path] = secret
            document.set(key, .quoted(name))
        }
        let text = try document.text()
        do {
            return Draft(settings: try Settings(sources, managedText: text), text: text, secrets: secrets)
        } catch let problem as Problem {
            throw Self.invalid(problem, managed)
        }
    }

    /// A problem of a draft: its line is one of no file that anybody has seen.
    package static func invalid(_ problem: Problem, _ managed: ManagedSettings) -> Problem {
        guard problem.message.hasPrefix(managed.path + ":") else { return problem }
        var message = problem.message.dropFirst(managed.path.count + 1)
        message = message.drop { $0.isNumber || $0 == ":" || $0 == " " }
        return Problem("setting_invalid", .usage, String(message), hint: problem.hint)
    }

    private static func requireUsable(_ secret: String, _ key: String) throws(Problem) {
        let isPEM = secret.hasPrefix("-----BEGIN ")
        let isWhole = secret.unicodeScalars.allSatisfy {
            $0.properties.generalCategory != .control || isPEM && "\r\n\t".unicodeScalars.contains($0)
        }
        guard isWhole, !isPEM || secret.contains("-----END "), !secret.isEmpty, secret.utf8.count <= 32_768 else {
            throw Problem("setting_invalid", .usage, "\(key): expected one line, or a whole PEM file, of up to 32 KiB")
        }
    }

    /// The key of the file that holds a secret; `nil` if there is none of that name.
    private func fileKey(
        _ key: SettingKey, _ change: SettingsChange = SettingsChange()
    ) throws(Problem) -> SettingKey? {
        switch key {
        case .section(let section, let name, let definition):
            return definition.namesFile ? .section(section, name, definition) : nil
        case .destination(let name, let member?):
            let kind = try kind(of: name, change)
            return kind.settings.contains { $0.key == member + "_file" } ? .destination(name, member + "_file") : nil
        case .destination, .person: return nil
        }
    }

    /// The kind of a destination: the one that it is given now, or the one that it has.
    private func kind(of name: String, _ change: SettingsChange) throws(Problem) -> DestinationKind {
        if case .text(let text)? = change.set["destinations.\(name).kind"] {
            guard let kind = DestinationKind(rawValue: text), !kind.namesPath else {
                let kinds = DestinationKind.allCases.filter { !$0.namesPath }.map(\.name).joined(separator: ", ")
                throw Problem(
                    "setting_invalid", .usage,
                    "destinations.\(name).kind: expected \(kinds), found '\(text.prefix(40))'")
            }
            return kind
        }
        guard let setting = destination(name), isManaged(setting.origin) else {
            if let setting = destination(name), setting.origin != .standard { return setting.kind }
            throw Problem(
                "setting_unknown", .usage, "there is no destination '\(name)'",
                hint: "set destinations.\(name).kind with its first setting")
        }
        return setting.kind
    }

    /// Refuses what is set where it cannot be changed from here.
    private func requireFree(_ key: SettingKey, _ text: String) throws(Problem) {
        var origin = Origin.standard
        switch key {
        case .section(_, _, let definition):
            guard !definition.isAdministrators else {
                throw Problem(
                    "setting_fixed", .configuration, "\(text) can only be set in the administrator's settings file",
                    hint: "see `healthrelay config path`")
            }
            origin = self.origin(of: definition.key)
        case .destination(let name, let member):
            guard let setting = destination(name) else { return }
            origin = setting.origin
            if let member, !isFixed(origin) { origin = setting.origin(of: member) }
        case .person(let id, _):
            guard let person = people.first(where: { $0.clientUserID == id }) else { return }
            origin = person.origin
        }
        guard isFixed(origin) else { return }
        throw Problem(
            "setting_fixed", .configuration,
            "\(text) is set in \(origin == .flag ? "the command line" : Self.place(origin, end: ""))",
            hint: "change it there: what is set there stands above what is set here")
    }

    /// Refuses to unset what does not exist: what was meant would stay in force, as a destination goes on getting readings.
    private func requireThere(_ key: SettingKey, _ text: String, in document: ManagedDocument) throws(Problem) {
        var isThere = document.hasEntry(of: key)
        if case .destination(let name, let member?) = key, member != "kind", let kind = destination(name)?.kind {
            isThere = isThere && kind.settings.contains { $0.key == member }
        }
        guard !isThere else { return }
        throw Problem(
            "setting_unknown", .usage, "there is no setting '\(text.prefix(80))'",
            hint: "`healthrelay settings show` lists what is set")
    }

    /// A value as the file has it.
    private func node(
        of value: SettingsChange.Value, for key: SettingKey, _ text: String, _ change: SettingsChange
    ) throws(Problem) -> Node {
        func refused(_ expected: String) -> Problem {
            Problem("setting_invalid", .usage, "\(text): expected \(expected)")
        }
        var form = SettingDefinition.Form.text
        switch key {
        case .section(_, _, let definition): form = definition.form
        case .destination(_, nil), .person(_, []):
            throw Problem("setting_unknown", .usage, "'\(text)' is no single setting", hint: "set one of its keys")
        case .destination(let name, let member?):
            let kind = try kind(of: name, change)
            guard member != "kind" else { return .quoted(kind.name) }
            guard let definition = kind.settings.first(where: { $0.key == member }) else {
                throw Problem(
                    "setting_unknown", .usage, "a \(kind.name) destination has no setting '\(member.prefix(40))'",
                    hint: "known: " + kind.settings.map(\.key).joined(separator: ", "))
            }
            form = definition.form
        case .person(_, let path): if path == ["devices"] { form = .map }
        }
        if case .section(_, _, let definition) = key, definition.namesFile {
            throw refused("the secret itself as '\(text.dropLast("_file".count))', not the name of a file")
        }
        if case .destination(_, let member?) = key, member.hasSuffix("_file") {
            throw refused("the secret itself as '\(text.dropLast("_file".count))', not the name of a file")
        }
        return try Self.node(of: value, form, refused)
    }

    private static func node(
        of value: SettingsChange.Value, _ form: SettingDefinition.Form, _ refused: (String) -> Problem
    ) throws(Problem) -> Node {
        switch form {
        case .list, .selection:
            guard let entries = value.entries, !entries.isEmpty, entries.allSatisfy(isLine) else {
                throw refused("a list with one entry at least")
            }
            return Node(entries.map(Node.quoted))
        case .map:
            guard let pairs = value.pairs, !pairs.isEmpty, pairs.allSatisfy({ isLine($0) && isLine($1) }) else {
                throw refused("keys with values, as a=b,c=d")
            }
            return Node(pairs.sorted { $0.key < $1.key }.map { (Node.quoted($0.key), Node.quoted($0.value)) })
        case .text, .choice, .whole, .flag:
            guard case .text(let text) = value, isLine(text) else {
                throw refused("a text of one line; to set nothing, unset it")
            }
            return .quoted(text)
        }
    }

    /// Whether a text is one line with something in it.
    private static func isLine(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 4096
            && text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}

extension SettingKey {
    /// The key of a secret, which has no `_file` at its end.
    init(secret text: String) throws(Problem) {
        if let definition = SettingDefinition.all.first(where: { $0.key == text + "_file" }) {
            let parts = definition.key.split(separator: ".").map(String.init)
            self = .section(parts[0], parts[1], definition)
        } else {
            self = try SettingKey(text)
        }
    }
}
