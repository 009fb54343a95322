import Foundation
import GatewaySettings
import VitalClient

/// Where readings are delivered, and what proves who delivers them.
public struct VitalConnection: Sendable {
    /// The server.
    public var server: VitalServer
    /// The team's key, or a person's session.
    public var credentials: VitalCredentials
    /// A PEM file of the certificates to trust in place of the system's; `nil`: the system's.
    public var authorities: String?

    /// Makes a connection with a team's key.
    public init(server: VitalServer, key: Secret) {
        self.server = server
        credentials = .apiKey(key)
    }

    /// What a destination's settings say; `nil` if there is neither a key nor a sign-in token, and nobody signed in with `connect`.
    ///
    /// The destination `vital` takes what the service manager hands over (`api-key`, `sign-in-token`) if its settings name
    /// no file. A destination without either goes on with the session that `connect` began.
    ///
    /// - Parameters:
    ///   - settings: the destination's settings.
    ///   - state: the directory in which a session's tokens are kept.
    ///   - environment: the process's environment, which names what the service manager hands over.
    /// - Throws: `Problem` if a file cannot be read or the server's URL cannot be used: `server_insecure` for plain HTTP
    ///   to another machine, unless `insecure` permits it.
    public init?(
        _ settings: DestinationSetting, state: String,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws {
        switch Self.files(settings, environment) {
        case (nil, nil):
            let storage = SessionFile(directory: state, destination: settings.name)
            guard let record = try storage.load(), let token = try? VitalSignInToken(record.signInToken) else {
                return nil
            }
            credentials = .session(VitalSession(signInToken: token, storage: storage))
        case (.some, .some):
            throw Problem.configInvalid(
                "\(settings.named("api_key_file")) and \(settings.named("sign_in_token_file")) are both set: with which "
                    + "should readings be sent?",
                hint: "remove one of them")
        case (let path?, nil): credentials = .apiKey(try Self.secret(in: path, "key"))
        case (nil, let path?):
            let text = try Self.secret(in: path, "sign-in token")
            do throws(VitalSignInToken.Malformed) {
                credentials = .session(
                    VitalSession(
                        signInToken: try text.signInToken(),
                        storage: SessionFile(directory: state, destination: settings.name)))
            } catch {
                throw Problem("key_unreadable", .configuration, "\(path): \(error)")
            }
        }
        (server, authorities) = try Self.place(settings)
    }

    /// A connection with a session that a token begins.
    ///
    /// - Returns: `nil` if the settings name a key or a token, or the service manager hands one over: those come first.
    init?(signedInWith token: VitalSignInToken, _ settings: DestinationSetting, _ storage: SessionFile) throws {
        guard Self.files(settings, ProcessInfo.processInfo.environment) == (nil, nil) else { return nil }
        credentials = .session(VitalSession(signInToken: token, storage: storage))
        (server, authorities) = try Self.place(settings)
    }

    private static func files(
        _ settings: DestinationSetting, _ environment: [String: String]
    ) -> (key: String?, token: String?) {
        let named = (settings["api_key_file"], settings["sign_in_token_file"])
        guard named == (nil, nil), settings.name == DestinationSetting.serverName else { return named }
        let handed = ServiceCredentials(environment)
        return (handed.file("api-key"), handed.file("sign-in-token"))
    }

    private static func place(_ settings: DestinationSetting) throws -> (VitalServer, authorities: String?) {
        let server: VitalServer
        if let url = settings["base_url"] {
            server = try Self.server(url, settings)
            guard settings.isOn("insecure") || !server.isExposed else { throw Self.insecure(settings, server.host) }
        } else {
            server = VitalServer(
                environment: settings["environment"].flatMap(VitalEnvironment.init(rawValue:)) ?? .sandbox,
                region: settings["region"].flatMap(VitalRegion.init(rawValue:)) ?? .us)
        }
        guard let path = settings["ca_file"] else { return (server, nil) }
        try settings.requireCertificates(in: path)
        return (server, path)
    }

    private static func server(_ url: String, _ settings: DestinationSetting) throws(Problem) -> VitalServer {
        do throws(InvalidBaseURL) {
            return try VitalServer(baseURL: url)
        } catch {
            throw Problem.configInvalid(
                "\(settings.named("base_url")) cannot be used: \(error.reason)",
                hint: error == .credentials
                    ? "put the key into a file (mode 0600) and name it: `\(settings.named("api_key_file"))`" : nil)
        }
    }

    private static func insecure(_ settings: DestinationSetting, _ host: String) -> Problem {
        Problem(
            "server_insecure", .configuration,
            "\(settings.named("base_url")) reaches \(host) over plain http, so the key and the readings could be read on "
                + "the way; nothing is sent, readings are kept",
            hint: "use an https URL; `insecure: true` of the destination permits plain http all the same")
    }

    private static func secret(in path: String, _ what: String) throws(Problem) -> Secret {
        Secret(try SecretFile.word(in: path, of: "the server's \(what)", called: what))
    }
}
