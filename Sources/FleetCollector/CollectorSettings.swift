import Foundation
import GatewaySettings
import HealthReadings
import Yams

/// The collector's settings: a YAML file, of which every key has a default.
///
/// A key that no setting has is an error that names its line: a misspelt `postgresql` must not keep readings in a file of
/// this machine in silence.
package struct CollectorSettings: Sendable, Hashable {
    /// Where the ingest listens.
    package var listen = ListenAddress(host: "127.0.0.1", port: 8490)
    /// The names that the ingest's certificate is for, besides the machine's own.
    package var names: [String] = []
    /// A certificate of the owner's, with its chain; `nil`: the collector makes one.
    package var certificateFile: String?
    package var privateKeyFile: String?
    /// The authorities that vouch for gateways' certificates; `nil`: gateways come with tokens.
    package var gatewayAuthorityFile: String?
    /// The list of certificates that those authorities have revoked; `nil`: none is looked at.
    package var revocationListFile: String?

    /// libpq's address of a database; `nil`: a SQLite file in the state directory.
    package var postgreSQL: String?
    package var postgreSQLPasswordFile: String?

    /// The broker's nodes, `amqp://` or `amqps://`; empty: there is no broker.
    package var brokers: [String] = []
    package var virtualHost = "/"
    package var brokerUser: String?
    package var brokerPasswordFile: String?
    package var brokerAuthorityFile: String?
    package var brokerCertificateFile: String?
    package var brokerPrivateKeyFile: String?
    /// The names of the two queues.
    package var readingsQueue = "readings"
    package var statusQueue = "status"
    /// On how many nodes the queues are kept.
    package var groupSize = 3
    /// How many messages may be on their way and not acknowledged.
    package var prefetch = 200

    /// The private key that opens sealed batches.
    package var sealKeyFile: String?
    /// The token that shows the page from other machines; `nil`: it is shown on this machine alone.
    package var pageTokenFile: String?
    /// After how many minutes a gateway that wasn't heard of counts as silent.
    package var silentAfterMinutes = 45
    package var logLevel = "info"
    /// The fleet's own authority, which `healthrelay-collector ca` is.
    package var authority = AuthoritySettings()

    /// The defaults.
    package init() {}

    /// Reads a file.
    ///
    /// - Throws: `Problem` with status 66 for a file that can't be read, and 78 for one that says what it can't.
    package init(file path: String) throws(Problem) {
        let text: String
        do { text = try OrdinaryFile.text(path) } catch {
            throw Problem(
                "settings_unreadable", .noInput, "cannot read the settings file \(path): \(error.localizedDescription)")
        }
        try self.init(text: text, path: path)
    }

    /// Reads a file's text.
    package init(text: String, path: String) throws(Problem) {
        let root: Node?
        do { root = try Yams.compose(yaml: text) } catch {
            throw Problem("settings_invalid", .configuration, YAMLFault(error).message(path))
        }
        guard let root, root != Node("") else { return }
        guard let sections = root.mapping else {
            throw Problem(
                "settings_invalid", .configuration, "\(path): expected sections such as `store:`")
        }
        for (name, body) in sections {
            let (section, line) = (name.string ?? "", name.mark?.line ?? 0)
            guard let keys = Self.keys[section] else {
                throw Self.unknown(section, path, line, known: Self.keys.keys)
            }
            guard let members = body.mapping else {
                if Self.saysNothing(body) { continue }
                throw Self.invalid(section, path, line, "keys with values")
            }
            for (key, node) in members {
                let (key, line) = (key.string ?? "", key.mark?.line ?? line)
                guard let set = keys[key] else {
                    throw Self.unknown("\(section).\(key)", path, line, known: keys.keys)
                }
                if Self.saysNothing(node) { continue }
                if let expected = set(&self, node) { throw Self.invalid("\(section).\(key)", path, line, expected) }
            }
        }
        try check(path)
    }

    private func check(_ path: String) throws(Problem) {
        func incomplete(_ words: String) -> Problem {
            Problem("settings_invalid", .configuration, "\(path): \(words)")
        }
        guard (certificateFile == nil) == (privateKeyFile == nil) else {
            throw incomplete("ingest: expected both certificate_file and private_key_file, or neither")
        }
        guard (brokerCertificateFile == nil) == (brokerPrivateKeyFile == nil) else {
            throw incomplete("queue: expected both certificate_file and private_key_file, or neither")
        }
        for broker in brokers {
            guard let address = BrokerAddress(broker) else {
                throw incomplete("queue.hosts: expected amqps://HOST:PORT, found '\(broker)'")
            }
            if address.isSecure, brokerAuthorityFile == nil {
                throw incomplete("queue: \(broker) needs ca_file, the authority of the broker's certificate")
            }
            if !address.isSecure, !ListenAddress(host: address.host, port: 0).isLoopback {
                throw incomplete("queue.hosts: \(broker) is not on this machine and needs amqps://")
            }
        }
        if revocationListFile != nil, gatewayAuthorityFile == nil {
            throw incomplete("ingest: revocation_list_file needs gateway_ca_file, the authority that signs the list")
        }
        if let words = authority.problem { throw incomplete(words) }
        if !brokers.isEmpty, brokerUser == nil, brokerCertificateFile == nil {
            throw incomplete("queue: expected username and password_file, or certificate_file and private_key_file")
        }
    }

    // MARK: Keys

    /// Sets a value.
    ///
    /// - Returns: what was expected, where the value isn't it.
    private typealias Setter = @Sendable (inout CollectorSettings, Node) -> String?

    private static let keys: [String: [String: Setter]] = [
        "ingest": [
            "listen": { settings, node in
                guard let text = node.string, let address = try? ListenAddress(text) else {
                    return "HOST:PORT such as 127.0.0.1:8490"
                }
                settings.listen = address
                return nil
            },
            "names": list(\.names), "certificate_file": text(\.certificateFile),
            "private_key_file": text(\.privateKeyFile), "gateway_ca_file": text(\.gatewayAuthorityFile),
            "revocation_list_file": text(\.revocationListFile),
        ],
        "store": ["postgresql": text(\.postgreSQL), "password_file": text(\.postgreSQLPasswordFile)],
        "queue": [
            "hosts": list(\.brokers), "virtual_host": required(\.virtualHost), "username": text(\.brokerUser),
            "password_file": text(\.brokerPasswordFile), "ca_file": text(\.brokerAuthorityFile),
            "certificate_file": text(\.brokerCertificateFile), "private_key_file": text(\.brokerPrivateKeyFile),
            "readings": required(\.readingsQueue), "status": required(\.statusQueue),
            "group_size": whole(\.groupSize, 1...9), "prefetch": whole(\.prefetch, 1...10_000),
        ],
        "ca": [
            "listen": { settings, node in
                guard let text = node.string, let address = try? ListenAddress(text) else {
                    return "HOST:PORT such as 0.0.0.0:8491"
                }
                settings.authority.listen = address
                return nil
            },
            "names": list(\.authority.names), "url": text(\.authority.url),
            "certificate_days": whole(\.authority.days, 1...397),
            "also_trust_file": text(\.authority.alsoTrustFile),
            "revocation_list_file": text(\.authority.listFile),
        ],
        "broker": [
            "url": text(\.authority.broker), "username": text(\.authority.brokerUser),
            "password_file": text(\.authority.brokerPasswordFile), "ca_file": text(\.authority.brokerAuthorityFile),
            "virtual_host": required(\.authority.brokerVirtualHost),
        ],
        "seal": ["private_key_file": text(\.sealKeyFile)],
        "fleet": ["silent_after_minutes": whole(\.silentAfterMinutes, 1...10_080)],
        "page": ["token_file": text(\.pageTokenFile)],
        "log": [
            "level": { settings, node in
                let levels = ["trace", "debug", "info", "notice", "warning", "error", "critical"]
                guard let text = node.string, levels.contains(text) else { return levels.joined(separator: ", ") }
                settings.logLevel = text
                return nil
            }
        ],
    ]

    private static func text(_ path: any WritableKeyPath<CollectorSettings, String?> & Sendable) -> Setter {
        { settings, node in
            guard let text = node.string else { return "text" }
            settings[keyPath: path] = text
            return nil
        }
    }

    private static func required(_ path: any WritableKeyPath<CollectorSettings, String> & Sendable) -> Setter {
        { settings, node in
            guard let text = node.string else { return "text" }
            settings[keyPath: path] = text
            return nil
        }
    }

    private static func list(_ path: any WritableKeyPath<CollectorSettings, [String]> & Sendable) -> Setter {
        { settings, node in
            guard let nodes = node.sequence else { return "a list" }
            let texts = nodes.compactMap(\.string)
            guard texts.count == nodes.count else { return "a list of texts" }
            settings[keyPath: path] = texts
            return nil
        }
    }

    private static func whole(
        _ path: any WritableKeyPath<CollectorSettings, Int> & Sendable, _ range: ClosedRange<Int>
    ) -> Setter {
        { settings, node in
            guard let number = node.string.flatMap(Int.init), range.contains(number) else {
                return "a whole number from \(range.lowerBound) to \(range.upperBound)"
            }
            settings[keyPath: path] = number
            return nil
        }
    }

    private static func saysNothing(_ node: Node) -> Bool {
        guard let scalar = node.scalar else { return false }
        let isQuoted = scalar.style == .singleQuoted || scalar.style == .doubleQuoted
        return !isQuoted && (scalar.string.isEmpty || node.null != nil)
    }

    private static func unknown(
        _ key: String, _ path: String, _ line: Int, known: some Collection<String>
    ) -> Problem {
        Problem(
            "settings_invalid", .configuration, "\(path):\(line): there is no setting `\(key)`",
            hint: "known here: \(known.sorted().joined(separator: ", "))")
    }

    private static func invalid(_ key: String, _ path: String, _ line: Int, _ expected: String) -> Problem {
        Problem("settings_invalid", .configuration, "\(path):\(line): \(key): expected \(expected)")
    }

    /// The one line of a file that holds a secret.
    package static func secret(_ path: String) throws(Problem) -> String {
        guard !isOpenToOthers(fileAt: path) else {
            throw Problem(
                "secret_open", .configuration, "others may read \(path)", hint: "give it mode 0600")
        }
        guard let octets = PrivateFile.read(path, upTo: 4096) else {
            throw Problem("secret_unreadable", .configuration, "cannot read \(path)")
        }
        return String(decoding: octets, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

/// A broker's node: `amqps://node1.example:5671`.
package struct BrokerAddress: Sendable, Hashable {
    package var host: String
    package var port: Int
    package var isSecure: Bool

    package init?(_ text: String) {
        guard let parts = URLComponents(string: text), let host = parts.host, !host.isEmpty, parts.user == nil,
            parts.password == nil, parts.query == nil, ["", "/"].contains(parts.path)
        else { return nil }
        switch parts.scheme {
        case "amqps": (isSecure, port) = (true, parts.port ?? 5671)
        case "amqp": (isSecure, port) = (false, parts.port ?? 5672)
        default: return nil
        }
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    }
}
