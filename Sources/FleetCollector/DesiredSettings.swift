import AMQPLink
import FleetDocuments
import FleetStore
import GatewaySettings
import HealthReadings
import Logging
import Yams

/// The settings that an operator wants gateways to have.
package struct DesiredSettings: Sendable, Hashable {
    /// By their names in the gateways' settings files.
    package let settings: [String: FleetConfiguration.Value]

    /// Reads YAML: sections with keys, as in a gateway's own settings file, or whole keys such as `log.level`.
    ///
    /// - Parameter path: the file's name, for errors.
    /// - Throws: `Problem` for a key that a centre cannot set, and for a value that the key cannot have.
    package init(yaml: String, path: String) throws(Problem) {
        func wrong(_ words: String) -> Problem { Problem("settings_invalid", .configuration, "\(path): \(words)") }
        var members: [JSONValue.Member] = []
        do {
            guard let root = try Yams.compose(yaml: yaml)?.mapping else { throw wrong("expected settings") }
            for (name, node) in root {
                let name = name.string ?? ""
                // A map is a section, unless the key is whole.
                if let section = node.mapping, !name.contains(".") {
                    for (key, value) in section {
                        members.append(.init("\(name).\(key.string ?? "")", try Self.value(value)))
                    }
                } else {
                    members.append(.init(name, try Self.value(node)))
                }
            }
        } catch let problem as Problem {
            throw problem
        } catch {
            throw wrong("it is not YAML: \(error)")
        }
        do throws(FleetDocumentError) {
            settings = try FleetConfiguration.settings(JSONValue.object(members).octets)
        } catch {
            throw wrong(error.description)
        }
    }

    private static func value(_ node: Node) throws -> JSONValue {
        if let mapping = node.mapping {
            return .object(try mapping.map { .init($0.key.string ?? "", try value($0.value)) })
        }
        if let sequence = node.sequence { return .array(try sequence.map(value)) }
        let scalar = node.scalar
        let isQuoted = scalar?.style == .singleQuoted || scalar?.style == .doubleQuoted
        if !isQuoted, let number = node.int { return .integer(Int64(number)) }
        if !isQuoted, let flag = node.bool { return .bool(flag) }
        return .string(scalar?.string ?? "")
    }

    /// Keeps them.
    ///
    /// - Parameter gateway: whose they are; `nil`: every gateway's.
    /// - Returns: their version.
    package func keep(
        for gateway: GatewayID?, in store: any CentralStore, at now: Instant
    ) async throws(CentralStoreError) -> Int64 {
        try await store.setConfiguration(
            FleetConfiguration.text(settings), of: gateway?.description, at: now)
    }
}

extension CollectorSettings {
    /// Publishes settings to gateways that are connected to the broker now; the others get them when they say hello.
    ///
    /// - Returns: whether there is a broker, and it took them.
    package func publish(
        _ settings: DesiredSettings, version: Int64, to gateways: [GatewayID], logger: Logger
    ) async throws -> Bool {
        guard let plan = try queuePlan() else { return false }
        for broker in plan.brokers {
            let connection = AMQPConnection(to: broker)
            do {
                try await connection.open()
                for gateway in gateways {
                    let configuration = FleetConfiguration(
                        gateway: gateway, version: version, settings: settings.settings)
                    try await QueueReader.publish(
                        FleetAnswer(gateway: gateway, configuration: configuration), on: connection)
                }
                await connection.close()
                return true
            } catch {
                await connection.close()
                logger.notice(
                    "a node can't be used", metadata: ["broker": "\(broker.host):\(broker.port)", "error": "\(error)"])
            }
        }
        return false
    }
}
