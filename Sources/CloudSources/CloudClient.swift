import AsyncHTTPClient
import HealthReadings
import NIOHTTP1
import OutgoingHTTP

/// Asks a vendor's cloud, through a wear service or the vendor's own API. One request each; nothing is tried again here.
///
/// The routes of a wear service are those that Synheart's SDKs for Swift and Kotlin use; WHOOP's are those of its public API,
/// version 2.
public struct CloudClient: Sendable {
    /// The longest answer, in octets: 32 MiB. A day of a Garmin watch has a heart rate every 15 seconds.
    public static let longestAnswer = 32 << 20
    /// How many records are asked for at once: what WHOOP gives at most, and what the SDKs ask a wear service for.
    static func pageSize(of contract: CloudService.Contract) -> Int { contract == .vendor ? 25 : 100 }
    /// What WHOOP is asked for: reading, and a way to go on when the access token has expired.
    private static let scopes = "offline read:recovery read:sleep read:workout read:cycles"

    /// Whose cloud.
    public let vendor: CloudVendor
    /// Who is asked.
    public let service: CloudService
    private let connections: HTTPConnections

    /// Makes a client; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - vendor: whose cloud.
    ///   - service: who is asked.
    ///   - authorities: a PEM file of the certificates to trust in place of the system's.
    ///   - patience: how long an answer may take.
    public init(
        _ vendor: CloudVendor, _ service: CloudService, authorities: String? = nil, patience: Duration = .seconds(60)
    ) {
        self.vendor = vendor
        self.service = service
        connections = HTTPConnections(
            HTTPLimits(call: patience, responseBytes: Self.longestAnswer), authorities: authorities)
    }

    // MARK: Connecting

    /// The page on which a person connects their account.
    ///
    /// - Parameter attempt: the attempt.
    /// - Throws: ``CloudError``, if a wear service does not give one.
    public func page(of attempt: CloudAuthorization) async throws -> String {
        guard service.isWearService else {
            return service.address.joined(
                "oauth/oauth2/auth",
                [
                    "response_type": "code", "client_id": service.app, "redirect_uri": attempt.redirectURI,
                    "scope": Self.scopes, "state": attempt.state, "code_challenge": attempt.challenge,
                    "code_challenge_method": "S256",
                ])
        }
        let route = "GET \(vendor.rawValue)/oauth/authorize"
        let answer = try await send(
            .GET,
            service.address.joined(
                "v1/\(vendor.rawValue)/oauth/authorize",
                [
                    "redirect_uri": attempt.redirectURI, "state": attempt.state, "app_id": service.app,
                    "code_challenge": attempt.challenge, "code_challenge_method": "S256",
                ]), route)
        let reader = CloudAnswerReader(route: route, secrets: secrets(attempt.state))
        guard answer.status == 200 else { throw reader.error(of: answer, connecting: true) }
        guard let page = try reader.json(answer)["authorization_url"]?.text,
            page.utf8.count <= 8192, page.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let address = try? HTTPAddress(page, allowsQuery: true), !address.isExposed
        else { throw reader.unexpected("authorization_url: expected an https URL", answer) }
        return page
    }

    /// Ends an attempt with the code that the browser brought: the account, not kept yet.
    ///
    /// A code is good once. If the answer doesn't come, the person has to connect again.
    ///
    /// - Parameters:
    ///   - end: how the attempt ended.
    ///   - attempt: the attempt.
    ///   - person: the client's id of the person whose account it is.
    ///   - now: the time.
    /// - Throws: ``CloudError``.
    public func account(
        _ end: CloudAuthorization.End, of attempt: CloudAuthorization, person: String, now: Instant
    ) async throws -> CloudAccount {
        var account = CloudAccount(
            vendor: vendor, contract: service.contract, service: service.url, app: service.app, person: person,
            connectedAt: now.flooredToSecond)
        switch end {
        case .refused(let reason):
            throw CloudError(.authenticationFailed, route: "\(vendor.rawValue)/oauth", detail: reason)
        case .user(let user): account.user = user
        case .code(let code) where service.isWearService: account.user = try await exchange(code, attempt)
        case .code(let code):
            account.tokens = try await tokens(
                [
                    ("grant_type", "authorization_code"), ("code", code.value), ("redirect_uri", attempt.redirectURI),
                    ("code_verifier", attempt.verifier.value),
                ], connecting: true, secrets: [code.value, attempt.verifier.value], now: now)
        }
        return account
    }

    /// Has the wear service exchange a code; it answers with the account's id there, and keeps the tokens.
    private func exchange(_ code: CloudSecret, _ attempt: CloudAuthorization) async throws -> String {
        let route = "POST \(vendor.rawValue)/oauth/callback"
        let body = JSONValue.object([
            "code": .string(code.value), "state": .string(attempt.state), "redirect_uri": .string(attempt.redirectURI),
            "code_verifier": .string(attempt.verifier.value),
        ])
        let answer = try await send(
            .POST, service.address.joined("v1/\(vendor.rawValue)/oauth/callback"), route,
            body: ("application/json", body.text))
        let reader = CloudAnswerReader(route: route, secrets: secrets(code.value, attempt.verifier.value))
        guard (200...201).contains(answer.status) else { throw reader.error(of: answer, connecting: true) }
        guard let user = try reader.json(answer)["user_id"]?.text, CloudAccount.isUser(user) else {
            throw reader.unexpected("user_id is missing or no id", answer)
        }
        return user
    }

    /// Renews the tokens. The old refresh token is worth nothing from then on.
    func renewed(_ refresh: CloudSecret, now: Instant) async throws -> CloudTokens {
        var tokens = try await tokens(
            [("grant_type", "refresh_token"), ("refresh_token", refresh.value), ("scope", "offline")],
            connecting: false, secrets: [refresh.value], now: now)
        // RFC 6749, 6: without a new one the old one stays.
        tokens.refresh = tokens.refresh ?? refresh
        return tokens
    }

    private func tokens(
        _ fields: [(String, String)], connecting: Bool, secrets: [String], now: Instant
    ) async throws -> CloudTokens {
        let route = "POST oauth/oauth2/token"
        let all = fields + [("client_id", service.app)] + (service.secret.map { [("client_secret", $0.value)] } ?? [])
        let body = all.map { "\(HTTPAddress.encoded($0))=\(HTTPAddress.encoded($1))" }.joined(separator: "&")
        let answer = try await send(
            .POST, service.address.joined("oauth/oauth2/token"), route,
            body: ("application/x-www-form-urlencoded", body))
        let reader = CloudAnswerReader(route: route, secrets: secrets + self.secrets())
        guard answer.status == 200 else { throw reader.error(of: answer, connecting: connecting) }
        let root = try reader.json(answer)
        guard let access = root["access_token"]?.text.flatMap({ CloudSecret($0) }) else {
            throw reader.unexpected("access_token is missing or none", answer)
        }
        let seconds = root["expires_in"]?.integer.map { Int64(min(max($0, 0), 366 * 86_400)) }
        return CloudTokens(
            access: access, refresh: root["refresh_token"]?.text.flatMap { CloudSecret($0) },
            expiresAt: seconds.map { now.flooredToSecond.advanced(bySeconds: $0) })
    }

    // MARK: Data

    /// One page of a collection.
    ///
    /// - Parameters:
    ///   - collection: the collection, by the wear service's name.
    ///   - account: whose.
    ///   - range: the time in which records lie, in whole seconds.
    ///   - cursor: where the last page ended; `nil` for the first one.
    func page(
        _ collection: String, of account: CloudAccount, in range: ClosedRange<Instant>, cursor: String?
    ) async throws -> CloudPage {
        let route = "GET \(vendor.rawValue)/\(collection)"
        var query = [
            ("start", range.lowerBound.flooredToSecond.description),
            ("end", range.upperBound.flooredToSecond.description),
        ]
        let path: String
        if service.isWearService {
            path = "v1/\(vendor.rawValue)/data/\(HTTPAddress.encoded(account.user ?? ""))/\(collection)"
            query.insert(("app_id", service.app), at: 0)
        } else {
            path = "developer/v2/" + (Self.whoopPaths[collection] ?? collection)
        }
        // The SDKs ask for Garmin's summaries without a number.
        if vendor == .whoop { query.append(("limit", String(Self.pageSize(of: service.contract)))) }
        if let cursor { query.append((service.isWearService ? "cursor" : "nextToken", cursor)) }
        let url =
            service.address.joined(path) + "?"
            + query.map { "\($0)=\(HTTPAddress.encoded($1))" }.joined(separator: "&")
        let answer = try await send(.GET, url, route, token: account.tokens?.access)
        let reader = CloudAnswerReader(route: route, secrets: secrets(account.tokens?.access.value))
        guard answer.status == 200 else { throw reader.error(of: answer, connecting: false) }
        return try reader.page(answer)
    }

    private static let whoopPaths = [
        "recovery": "recovery", "sleep": "activity/sleep", "workouts": "activity/workout", "cycles": "cycle",
    ]

    // MARK: Disconnecting

    /// Tells the service that an account is disconnected. One that it doesn't know any more is.
    func disconnect(user: String?, token: CloudSecret?) async throws {
        let route = "DELETE \(vendor.rawValue)/oauth/disconnect"
        let url =
            service.isWearService
            ? service.address.joined(
                "v1/\(vendor.rawValue)/oauth/disconnect", ["user_id": user ?? "", "app_id": service.app])
            : service.address.joined("developer/v2/user/access")
        let answer = try await send(.DELETE, url, route, token: token)
        guard ![200, 202, 204, 404, 410].contains(answer.status) else { return }
        throw CloudAnswerReader(route: route, secrets: secrets(token?.value)).error(of: answer, connecting: false)
    }

    // MARK: Exchanges

    private func secrets(_ others: String?...) -> [String] {
        others.compactMap(\.self) + (service.secret.map { [$0.value] } ?? [])
    }

    private func send(
        _ method: HTTPMethod, _ url: String, _ route: String, token: CloudSecret? = nil,
        body: (type: String, text: String)? = nil
    ) async throws -> CloudAnswer {
        var request = HTTPClientRequest(url: url)
        request.method = method
        request.headers.add(name: "accept", value: "application/json")
        request.headers.add(name: "user-agent", value: "HealthRelay")
        if service.isWearService {
            request.headers.add(name: "x-app-id", value: service.app)
            if let key = service.secret { request.headers.add(name: "x-app-key", value: key.value) }
        }
        if let token { request.headers.add(name: "authorization", value: "Bearer " + token.value) }
        if let body {
            request.headers.add(name: "content-type", value: body.type)
            request.body = .bytes(Array(body.text.utf8))
        }
        do {
            let answer = try await connections.answer(to: request)
            return CloudAnswer(status: answer.status, headers: answer.headers, body: answer.body)
        } catch let error as HTTPExchangeError {
            switch error {
            case .timeout, .connectingTimeout: throw CloudError(.timeout, route: route)
            case .noConnection(let words):
                throw CloudError(.noConnection, route: route, detail: CloudText.oneLine(words))
            case .connectionLost(let words):
                throw CloudError(.connectionLost, route: route, detail: CloudText.oneLine(words))
            case .untrustedServer(let words), .refusedIdentity(let words):
                throw CloudError(.untrustedServer, route: route, detail: CloudText.oneLine(words))
            case .answerTooLarge: throw CloudError(.answerTooLarge, route: route)
            }
        }
    }
}
