import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery

/// Keeps the token that requests to a FHIR server carry, and asks for a new one before it expires.
actor FHIRTokens {
    /// A token with what is known of it.
    struct Token: Sendable {
        var value: Masked
        /// What the token permits, in the words of its issuer; `nil` if that is not known.
        var scope: String?
    }

    private enum State {
        case none
        /// Until when the token is used, on a clock that is never set.
        case granted(Token, until: Duration)
    }

    private let credential: FHIRDestination.Credential
    private let server: WebServer
    private let clock: SyncClock
    private let logger: Logger
    private let connections: HTTPConnections
    private var state = State.none
    private var discovered: WebServer?

    init(
        _ credential: FHIRDestination.Credential, at server: WebServer, limits: HTTPLimits, clock: SyncClock,
        logger: Logger
    ) {
        self.credential = credential
        self.server = server
        self.clock = clock
        self.logger = logger
        connections = HTTPConnections(limits, authorities: server.authorities)
    }

    /// The token to send; `nil` if the server asks for none.
    func current() async throws(DeliveryFailure) -> Token? {
        switch credential.kind {
        case .none: return nil
        case .token(let token): return Token(value: token)
        case .service(let service):
            if case .granted(let token, let end) = state, clock.uptime() < end { return token }
            return try await request(service)
        }
    }

    /// A new token in place of one that the server has refused; `nil` if there can be none.
    func renewed(after refused: Token) async throws(DeliveryFailure) -> Token? {
        guard case .service(let service) = credential.kind else { return nil }
        // Another request may have been faster.
        if case .granted(let token, let end) = state, token.value != refused.value, clock.uptime() < end {
            return token
        }
        state = .none
        return try await request(service)
    }

    private func request(_ service: FHIRDestination.Credential.Service) async throws(DeliveryFailure) -> Token {
        let endpoint = try await endpoint(of: service)
        let assertion: Masked
        do {
            assertion = try service.key.assertion(client: service.client, endpoint: endpoint.url, at: clock.now())
        } catch {
            throw DeliveryFailure(
                .destination, code: "key_unusable", message: "the private key cannot sign", needsPerson: true)
        }
        let fields: KeyValuePairs = [
            "grant_type": "client_credentials", "scope": service.scope,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion.value,
        ]
        var request = WebRequest(url: endpoint.url, route: "POST token endpoint")
        request.headers = [
            ("content-type", Masked("application/x-www-form-urlencoded")), ("accept", Masked("application/json")),
        ]
        request.body = Array(
            fields.map { "\($0.key)=\(HTTPAddress.encoded($0.value))" }.joined(separator: "&").utf8)
        let client = WebClient(endpoint, secrets: [assertion], connections: connections, logger: logger)
        let begin = clock.uptime()
        let answer = try await client.send(request)
        guard answer.isGood, !answer.isPage else {
            // The endpoint may have moved: the server is asked again where it is.
            discovered = nil
            var failure = client.failure(of: answer, request.route)
            if failure.scope == .items || answer.status == 401 {
                failure.scope = .destination
                failure.code = "authentication_failed"
                failure.message = "\(request.route): the client or its key is not accepted (status \(answer.status))"
                failure.needsPerson = true
            }
            throw failure
        }
        guard let json = answer.json, let value = json["access_token"]?.text, Self.isToken(value),
            json["token_type"]?.text?.lowercased() == "bearer"
        else {
            // What the endpoint said may hold a token.
            throw DeliveryFailure(
                .destination, code: "unexpected_answer", message: "\(request.route): the answer holds no bearer token")
        }
        var seconds = 300.0
        if case .number(let number)? = json["expires_in"], number.isFinite { seconds = min(max(number, 0), 86_400) }
        let token = Token(value: Masked(value), scope: json["scope"]?.text)
        // Renewed before it ends, so that no bundle is sent with a token that ends on the way.
        state = .granted(token, until: begin + .seconds(max(seconds - 60, seconds / 2)))
        return token
    }

    /// A token of which nothing can end the header's line.
    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// The endpoint of the settings, or the one that the server names, which has to be on the server's own host.
    private func endpoint(of service: FHIRDestination.Credential.Service) async throws(DeliveryFailure) -> WebServer {
        if let endpoint = service.endpoint ?? discovered { return endpoint }
        let route = "GET /.well-known/smart-configuration"
        let client = WebClient(server, secrets: [], connections: connections, logger: logger)
        var request = WebRequest(
            method: .GET, url: server.address.joined(".well-known/smart-configuration"), route: route)
        request.headers = [("accept", Masked("application/json"))]
        let answer = try await client.send(request)
        guard answer.isGood, !answer.isPage, let json = answer.json else { throw client.failure(of: answer, route) }
        let endpoint = try own(json["token_endpoint"]?.text ?? "", route, client)
        discovered = endpoint
        return endpoint
    }

    /// The endpoint that the server names, if it may choose it by itself. Whoever gets an assertion can pass it on to the
    /// endpoint that it was made for: a server that named another server's would get tokens for what is there.
    ///
    /// - Throws: a failure that says what to set.
    private func own(_ url: String, _ route: String, _ client: WebClient) throws(DeliveryFailure) -> WebServer {
        func refusal(_ words: String) -> DeliveryFailure {
            DeliveryFailure(
                .destination, code: "no_token_endpoint", message: "\(route): the server names \(words)",
                needsPerson: true)
        }
        guard !url.isEmpty else { throw refusal("no token endpoint; set `token_url`") }
        let endpoint: WebServer
        do throws(InvalidWebServer) {
            endpoint = try WebServer(
                url: url, authorities: server.authorities, permitsExposed: server.address.isExposed)
        } catch {
            let reason = client.oneLine(error.description) ?? "it is no URL"
            throw refusal("a token endpoint that cannot be used: \(reason); set `token_url`")
        }
        let shown = client.oneLine(endpoint.url) ?? endpoint.host
        guard endpoint.host.lowercased() == server.host.lowercased() else {
            throw refusal(
                "a token endpoint on another host, \(shown); if the server's owner confirms it, set `token_url` to it")
        }
        guard endpoint.address.isSecure || !server.address.isSecure else {
            throw refusal("a token endpoint without TLS, \(shown); set `token_url` to one with https")
        }
        return endpoint
    }
}
