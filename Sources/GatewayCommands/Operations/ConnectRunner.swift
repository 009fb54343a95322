import GatewaySettings
import HealthReadings
import ReadingStore
import VitalClient

/// The arguments of `connect`.
public struct ConnectOperation: Codable, Sendable, Hashable {
    /// A sign-in token, good for one use.
    public var token: String
    /// The server's name in the settings; nil: the one that is named `vital`.
    public var destination: String?

    /// Makes it.
    public init(token: String, destination: String? = nil) {
        self.token = token
        self.destination = destination
    }
}

/// `connect`: signs the person in at a server with a single-use token.
struct ConnectRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: ConnectOperation) async throws {
        let link = try gateway.destinations.require(operation.destination ?? DestinationSetting.serverName)
        guard link.isServer else {
            throw Problem.usage(
                "\(link.name) is \(link.setting.kind.name): only a Vital-compatible server has sign-in tokens")
        }
        let token: VitalSignInToken
        do throws(VitalSignInToken.Malformed) {
            token = try VitalSignInToken(operation.token)
        } catch {
            throw Problem("invalid_token", .badData, "\(error)", hint: "give the whole token, as the server made it")
        }
        let storage = SessionFile(directory: gateway.store.directory, destination: link.name)
        guard let connection = try VitalConnection(signedInWith: token, link.setting, storage) else {
            throw Problem.configInvalid(
                "the settings of \(link.name) name a key or a sign-in token, which is used in place of any other",
                hint: "remove `api_key_file` and `sign_in_token_file` to sign in with this token")
        }
        let user = try await signIn(with: connection)
        // The exchange has used the token up, so that nothing but the file has the session after a restart.
        guard try storage.load().map({ Secret($0.signInToken) }) == token.secret else {
            throw Problem(
                "store_io", .inputOutput, "the server has taken the token, but the session cannot be kept",
                hint: "free space or check the state directory's owner, and sign in with a new token")
        }
        guard !json else {
            return try await output.data(
                JSONValue.object(["destination": .string(link.name), "user_id": .string(user)]).text)
        }
        try await output.data("signed in at \(connection.server.host) as \(user)")
        if gateway.isService { try await output.note("restart the gateway, so that it delivers with the new session") }
    }

    /// Exchanges the token, and asks for what only the session's own person may see.
    private func signIn(with connection: VitalConnection) async throws -> String {
        let api = VitalAPI(
            server: connection.server, credentials: connection.credentials, authorities: connection.authorities,
            logger: gateway.logger)
        do {
            let user = try await api.signedInUserID() ?? ""
            _ = try await api.connectedSources(of: user)
            return user
        } catch let error as VitalError where [.authenticationFailed, .tokenExpired].contains(error.kind) {
            throw Problem(
                "invalid_token", .notPermitted,
                "the server doesn't take the token\(error.serverSaid.map { ": \($0)" } ?? "")",
                hint: "each token is good once; ask for a new one")
        }
    }
}
