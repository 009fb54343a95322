import Crypto
import Foundation
import HealthReadings

extension Settings {
    /// How often the centre of a fleet hears how the gateway is.
    package var fleetStatusInterval: Duration {
        .seconds(60 * (self["fleet.status_minutes"].flatMap { Int($0) } ?? 15))
    }

    /// What the gateway's own file says of a setting of a section; `nil`: nothing, or another place stands above it.
    package func ownValue(of key: String) -> SettingsChange.Value? {
        guard isManaged(origin(of: key)) else { return nil }
        let (pairs, lines) = (map(key), list(key))
        if !pairs.isEmpty { return .map(pairs) }
        if !lines.isEmpty { return .list(lines) }
        return self[key].map { .text($0) }
    }

    /// The default of a setting; `nil`: it has none.
    package func standard(of key: String) -> String? { SettingDefinition.all.first { $0.key == key }?.standard }

    /// A fingerprint of everything that is set, apart from people and secrets: it tells whether something was changed, and
    /// not what.
    ///
    /// - Parameter salt: keeps others from finding out values by trying.
    package func fingerprint(salt: String) -> String {
        let rows = rows.filter { !$0.isSecret && !$0.key.hasPrefix("user.") && !$0.key.hasPrefix("users.") }
        let text = ([salt] + rows.map { "\($0.key)=\($0.value.text)" }).joined(separator: "\n")
        return String(SHA256.hash(data: Data(text.utf8)).hexadecimal().prefix(16))
    }
}
