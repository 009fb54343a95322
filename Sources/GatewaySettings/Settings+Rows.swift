import HealthReadings

/// A setting with where it is set, as `settings show` prints it.
package struct SettingRow: Sendable {
    /// The whole key: `destinations.clinic.url`.
    package let key: String
    /// The value; of a file that the gateway has written itself, nothing.
    package let value: JSONValue
    /// The value for people.
    package let text: String
    package let origin: Settings.Origin
    /// `default`, `settings`, `file`, `environment` or `flag`.
    package let setBy: String
    /// Whether it cannot be changed from here: it is set elsewhere, or may be set only there.
    package let isFixed: Bool
    /// Whether a change counts at once; else after a restart.
    package let isLive: Bool
    /// Whether it is a secret that the gateway has written into a file.
    package let isSecret: Bool

    /// The file and line, or the variable.
    package var place: String? {
        let place = Settings.place(origin, end: "")
        return place.nonEmpty
    }
}

extension Settings {
    /// Every setting that there is or that somebody has set, in the order in which they are shown.
    package var rows: [SettingRow] {
        let sections = SettingDefinition.all.map { definition in
            row(
                definition.key, definition, origin(of: definition.key), isFixed: definition.isAdministrators,
                isLive: definition.isLive,
                definition.document(
                    text: self[definition.key], lines: list(definition.key), pairs: map(definition.key)))
        }
        return sections + destinations.flatMap(rows) + people.flatMap(rows)
    }

    private func rows(_ destination: DestinationSetting) -> [SettingRow] {
        guard case .object(let members) = destination.document else { return [] }
        let isFixed = isFixed(destination.origin)
        return members.compactMap { member in
            guard member.key != "name" else { return nil }
            let definition = destination.definition(of: member.key) ?? SettingDefinition(member.key, .text)
            let origin = member.key == "kind" ? destination.origin : destination.origin(of: member.key)
            return row(
                "destinations.\(destination.name).\(member.key)", definition, origin,
                isFixed: isFixed || definition.isAdministrators,
                isLive: DestinationKind.live.contains(member.key), member.value)
        }
    }

    private func rows(_ person: PersonSetting) -> [SettingRow] {
        guard case .object(let members) = person.document else { return [] }
        var values: [(String, JSONValue)] = []
        for member in members where member.key != "client_user_id" {
            if member.key == "reports", case .object(let reports) = member.value {
                values += reports.map { ("reports.\($0.key)", $0.value) }
            } else if member.key != "reports" {
                values.append((member.key, member.value))
            }
        }
        return values.map { key, value in
            row(
                "users.\(person.clientUserID).\(key)", SettingDefinition(key, .text), person.origin, isFixed: false,
                isLive: true, value)
        }
    }

    private func row(
        _ key: String, _ definition: SettingDefinition, _ origin: Origin, isFixed: Bool, isLive: Bool,
        _ value: JSONValue
    ) -> SettingRow {
        let isSecret = definition.namesFile && isManaged(origin)
        let setBy =
            switch origin {
            case .standard: "default"
            case .file: isManaged(origin) ? "settings" : "file"
            case .environment: "environment"
            case .flag: "flag"
            }
        let text = if case .string(let text) = value { text } else { value.text }
        return SettingRow(
            key: key, value: isSecret ? .null : value, text: isSecret ? "a secret that was typed" : text,
            origin: origin, setBy: setBy, isFixed: isFixed || self.isFixed(origin), isLive: isLive, isSecret: isSecret)
    }
}
