import FleetDocuments
import Foundation
import GatewaySettings

/// What a gateway knows of the settings that its centre wants: kept on disk before anything is changed, so that a gateway
/// that is killed goes on where it was.
struct FleetRecord: Codable, Sendable, Hashable {
    /// What the gateway's own settings file says of a key; `nil`: nothing.
    struct Former: Codable, Sendable, Hashable {
        var value: SettingsChange.Value?
    }

    /// Settings that were applied and have not proven to be good.
    struct Trial: Codable, Sendable, Hashable {
        enum Stage: String, Codable, Sendable {
            /// They are being applied, or wait for the gateway to start anew.
            case applying
            /// They are in effect, and nothing has been delivered with them.
            case trying
            /// The former ones are being put back.
            case returning
        }

        var version: Int64
        var stage: Stage
        /// What is applied; `nil` unsets a key.
        var settings: [String: Former]
        /// What it takes the place of.
        var previous: [String: Former]
        /// The version that was in effect before.
        var previousVersion: Int64?
        /// When it was applied: seconds since 1970.
        var since: Int64
        /// For how many seconds it has been tried.
        var tried: Int64 = 0
        /// Whether the centre has answered since.
        var isAnswered = false
        /// Whether a receipt has come since, perhaps while no meter was read yet; `nil`: none.
        var hasReceipt: Bool?
        /// Why it is being taken back.
        var reason: String?
    }

    /// A setting that was not applied.
    struct Refused: Codable, Sendable, Hashable {
        var key: String
        var reason: String
    }

    /// The destination whose centre it is.
    var destination: String
    /// The version that has come last, also if it was refused.
    var wanted: Int64
    /// The highest version that was not refused; `nil` in a record of a former version of the program.
    var highest: Int64?
    /// What became of it.
    var state = "none"
    var refused: [Refused] = []
    var reason: String?
    /// The version whose settings are in effect.
    var applied: Int64?
    /// Since when they are: seconds since 1970.
    var since: Int64?
    /// What ``applied`` set, by key.
    var set: [String: Former] = [:]
    /// What the owner had before the centre set anything, by key.
    var owners: [String: Former] = [:]
    var trial: Trial?

    /// Whether a version is news. A refused one stops no later version, however high its number was.
    func isNews(_ version: Int64) -> Bool {
        let known = highest ?? (state == "refused" ? max(applied ?? 0, trial?.version ?? 0) : wanted)
        return version > known && version != wanted
    }

    /// The state for the centre.
    func state(hash: String?) -> FleetConfigurationState {
        FleetConfigurationState(
            version: wanted > 0 ? wanted : nil, applied: trial.map(\.version) ?? applied, hash: hash,
            state: FleetConfigurationState.State(rawValue: state) ?? .none,
            refused: refused.map { .init(key: $0.key, reason: $0.reason) }, reason: reason)
    }
}

/// The file of a ``FleetRecord``.
struct FleetRecordFile: Sendable {
    let path: String

    init(directory: String) { path = directory + "/fleet-configuration.json" }

    /// The record; `nil` if there is none, or none that can be read: the centre then sends its settings again.
    func read() -> FleetRecord? {
        guard let octets = OrdinaryFile.contents(path) else { return nil }
        return try? JSONDecoder().decode(FleetRecord.self, from: octets)
    }

    /// Writes a record: whole, or not at all.
    func write(_ record: FleetRecord) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        var file = try WholeFile(path)
        try file.write(Array(try encoder.encode(record)))
        try file.finish(replaces: true)
    }
}
