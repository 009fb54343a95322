import Foundation
import GatewaySettings
import HealthReadings
import ReadingDelivery
import VitalDestination

/// How a destination of one kind is opened.
struct DestinationOpening: Sendable {
    /// What a destination of the kind can express with its settings.
    var rules: @Sendable (DestinationSetting) -> DestinationRules
    /// What of a kind's readings stays here although other values of theirs go, and why; absent for kinds that go whole.
    var partlyKept: @Sendable (DestinationSetting) -> [ReadingKind: String]
    /// Opens a destination; `nil` if it has no credentials yet. Nothing is sent.
    ///
    /// - Throws: `Problem` for settings that cannot be used: delivery there is then paused.
    var open: @Sendable (DestinationSetting, DestinationWorkshop) throws -> OpenDestination?

    init(
        rules: @escaping @Sendable (DestinationSetting) -> DestinationRules,
        partlyKept: @escaping @Sendable (DestinationSetting) -> [ReadingKind: String] = { _ in [:] },
        open: @escaping @Sendable (DestinationSetting, DestinationWorkshop) throws -> OpenDestination?
    ) {
        self.rules = rules
        self.partlyKept = partlyKept
        self.open = open
    }

    /// How a kind is opened of which every destination can express the same.
    init(
        rules: DestinationRules, partlyKept: [ReadingKind: String] = [:],
        open: @escaping @Sendable (DestinationSetting, DestinationWorkshop) throws -> OpenDestination?
    ) {
        self.init(rules: { _ in rules }, partlyKept: { _ in partlyKept }, open: open)
    }
}

extension DestinationKind {
    /// How one of this kind is opened.
    var opening: DestinationOpening {
        switch self {
        case .vital: .vital
        case .file: .file
        case .fleet: .fleet
        case .fhir: .fhir
        case .influxdb: .influxdb
        case .mqtt: .mqtt
        case .nightscout: .nightscout
        case .webhook: .webhook
        }
    }
}

extension DestinationOpening {
    fileprivate static let vital = DestinationOpening(
        rules: VitalDestination.rules,
        partlyKept: [
            .bodyComposition:
                "only fat, lean mass, weight and body mass index are delivered: the server has no place for the rest"
        ],
        open: { setting, workshop in
            try VitalConnection(setting, state: workshop.state).map { workshop.open($0, as: setting.name) }
        })

    fileprivate static let file = DestinationOpening(
        rules: JSONLinesDestination.rules,
        open: { setting, workshop in
            let path = setting["path"] ?? ""
            guard path.hasPrefix("/") else {
                throw Problem.configInvalid(
                    "destinations.\(setting.name).path: expected an absolute path, found '\(path)'")
            }
            let place = Self.place(path)
            let others = workshop.settings.destinations.prefix { $0.name != setting.name }
            if let other = others.first(where: { $0.kind == .file && $0["path"].map(Self.place) == place }) {
                throw Problem.configInvalid(
                    "destinations.\(setting.name).path: \(other.name) already writes to \(path)",
                    hint: "give each destination a file of its own")
            }
            return OpenDestination(
                destination: JSONLinesDestination(name: setting.name, path: path), address: path, vital: nil)
        })

    /// A file's path without what leads to the same place by another way.
    private static func place(_ path: String) -> String {
        URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path
    }
}
