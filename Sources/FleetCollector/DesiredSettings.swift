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
        guard yaml.utf8.count <= FleetConfiguration.mostBytes else {
            throw wrong("expected \(FleetConfiguration.mostBytes) bytes at most")
        }
        if let line = Self.aliasLine(in: yaml) { throw wrong("line \(line): an alias can't be used here") }
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
            throw Problem("settings_invalid", .configuration, YAMLFault(error).message(path))
        }
        do throws(FleetDocumentError) {
            settings = try FleetConfiguration.settings(JSONValue.object(members).octets)
        } catch {
            throw wrong(error.description)
        }
        for (key, value) in settings.sorted(by: { $0.key < $1.key }) {
            // What no gateway takes, or can use, is told here.
            switch value {
            case .text(let text):
                guard let expected = Settings.expectation(of: key, notMetBy: text) else { continue }
                throw wrong("\(key): expected \(expected)")
            case .map(let pairs):
                let names = pairs.filter { !Self.isWord($0.key) || !Self.isWord($0.value) }.keys.sorted()
                guard let name = names.first else { continue }
                throw wrong(
                    "\(key).\(PrintableText.escaped(name)): expected a model and a provider of the characters "
                        + "A-Z, a-z, 0-9, _, - and .")
            case .whole, .flag: continue
            }
        }
    }

    /// Whether a text may name a model or a provider.
    private static func isWord(_ text: String) -> Bool {
        text.utf8.allSatisfy { octet in
            switch octet {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
                true
            default: false
            }
        }
    }

    /// The line of the first alias; `nil`: there is none. To expand aliases of aliases takes time without end.
    private static func aliasLine(in yaml: String) -> Int? {
        for (index, line) in yaml.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            var (quote, before): (Character?, Character) = (nil, " ")
            for character in line {
                let begins = before.isWhitespace || "[{,:?-".contains(before)
                if quote != nil {
                    if character == quote { quote = nil }
                } else if character == "#", before.isWhitespace {
                    break
                } else if character == "*", begins {
                    return index + 1
                } else if character == "'" || character == "\"", begins {
                    quote = character
                }
                before = character
            }
        }
        return nil
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
