import Foundation
import VitalClient

/// Where readings are delivered, and the key that proves who delivers them.
public struct VitalConnection: Sendable {
    /// The server.
    public var server: VitalServer
    /// The team's key.
    public var key: Secret

    /// Makes a connection.
    public init(server: VitalServer, key: Secret) {
        self.server = server
        self.key = key
    }

    /// What the settings say; nil where they name no key.
    /// - Throws: ``Problem`` where the key's file cannot be read or the server's URL cannot be used.
    public init?(_ settings: Settings) throws {
        guard let path = settings["server.api_key_file"] else { return nil }
        do {
            key = Secret(try String(contentsOfFile: path, encoding: .utf8))
        } catch {
            throw Problem(
                "key_unreadable", .configuration,
                "cannot read the server's key in \(path): \(error.localizedDescription)",
                hint: "the file holds the key alone; its owner is the gateway's user, its mode 0600")
        }
        guard !key.isEmpty else { throw Problem("key_unreadable", .configuration, "the file \(path) holds no key") }
        if let url = settings["server.base_url"] {
            server = try VitalServer(baseURL: url)
        } else {
            server = VitalServer(
                environment: settings["server.environment"].flatMap(VitalEnvironment.init(rawValue:)) ?? .sandbox,
                region: settings["server.region"].flatMap(VitalRegion.init(rawValue:)) ?? .us)
        }
    }
}
