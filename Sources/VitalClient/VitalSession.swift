import AsyncHTTPClient
import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import Synchronization

/// A sign-in token: what a backend hands to one person's client in place of the team's key.
///
/// `POST /v2/user/{user_id}/sign_in_token` makes one; it is base64 of `{"public_key", "user_token"}`, and the user
/// token's claims name the user (`uid`).
public struct VitalSignInToken: Sendable, Hashable {
    /// The token as it was handed over.
    public let secret: Secret
    /// The server's id of the user it is for.
    public let userID: String

    /// Why a text is no sign-in token, without repeating it.
    public struct Malformed: Error, Sendable, Hashable, CustomStringConvertible {
        /// What was expected.
        public var reason: String
        /// One line for people.
        public var description: String { "not a sign-in token: \(reason)" }
    }

    /// Reads a token; its signature is the server's to check.
    public init(_ text: some StringProtocol) throws(Malformed) {
        secret = Secret(text)
        guard let data = Self.decoded(secret.value), let envelope = try? JSONDecoder().decode(Envelope.self, from: data)
        else { throw Malformed(reason: "expected base64 of a JSON object with user_token") }
        let parts = envelope.user_token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let data = Self.decoded(String(parts[1])),
            let claims = try? JSONDecoder().decode(Claims.self, from: data), !claims.uid.isEmpty
        else { throw Malformed(reason: "expected a user_token of three parts, whose second names the user as uid") }
        userID = claims.uid
    }

    private struct Envelope: Decodable { var user_token: String }
    private struct Claims: Decodable { var uid: String }

    /// Base64 in either alphabet, padded or not (RFC 4648, 4 and 5).
    private static func decoded(_ text: String) -> Data? {
        var plain = text.replacing("-", with: "+").replacing("_", with: "/")
        plain += String(repeating: "=", count: (4 - plain.count % 4) % 4)
        return Data(base64Encoded: plain)
    }
}

/// What a session remembers between two runs; it holds secrets: keep it where only its owner reads it.
public struct VitalSessionRecord: Sendable, Hashable, Codable {
    /// The server's id of the user.
    public var userID: String
    /// The sign-in token the session began with: another one begins another session.
    public var signInToken: String
    /// Proves who sends a request.
    public var accessToken: String
    /// Gets the next access token.
    public var refreshToken: String
    /// When the access token ends, in seconds since 1970.
    public var expiresAt: Int64

    /// Makes a record.
    public init(userID: String, signInToken: String, accessToken: String, refreshToken: String, expiresAt: Int64) {
        self.userID = userID
        self.signInToken = signInToken
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.expiresAt = expiresAt
    }
}

extension VitalSessionRecord: CustomStringConvertible, CustomReflectable {
    /// Shows no token.
    public var description: String { "VitalSessionRecord(****)" }
    /// Shows no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Keeps a session's record.
public protocol VitalSessionStorage: Sendable {
    /// The record of last time; nil where there is none.
    func load() throws -> VitalSessionRecord?
    /// Keeps a record durably: with it gone, somebody has to sign in again.
    func save(_ record: VitalSessionRecord) throws
}

/// One person's session: begun with a sign-in token, kept up with refresh tokens, whoever asks at whatever time.
///
/// The first request exchanges the sign-in token. An access token is renewed a minute before it ends, and when the server
/// does not accept it; those who ask meanwhile wait for the one that renews.
public actor VitalSession {
    private let storage: any VitalSessionStorage
    private let signIn: VitalSignInToken
    private let savingEvery: Duration
    private let now: @Sendable () -> Instant
    private var record: VitalSessionRecord?
    private var isLoaded = false
    private var renewal: Task<Secret, any Error>?
    /// Tries to write what could not be written.
    private var saving: Task<Void, Never>?
    private nonisolated let present = Mutex(Secret(""))

    /// Seconds before its end at which an access token is renewed.
    private static let margin: Int64 = 60
    private static let route = "POST /v1/token"

    /// Makes a session; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - signInToken: the token that the session begins with.
    ///   - storage: keeps the tokens between two runs.
    ///   - savingEvery: how often tokens that could not be written are tried again.
    ///   - now: the clock by which tokens end.
    public init(
        signInToken: VitalSignInToken, storage: any VitalSessionStorage, savingEvery: Duration = .seconds(10),
        now: @escaping @Sendable () -> Instant = { .systemClock }
    ) {
        signIn = signInToken
        self.storage = storage
        self.savingEvery = savingEvery
        self.now = now
    }

    /// The server's id of the person whose session it is.
    public nonisolated var userID: String { signIn.userID }

    nonisolated var presentToken: Secret { present.withLock { $0 } }

    func accessToken(of api: VitalAPI) async throws -> Secret {
        try load()
        if let record, record.expiresAt - Self.margin > now().seconds { return Secret(record.accessToken) }
        return try await renewedToken(of: api, insteadOf: nil)
    }

    /// Gets another access token, unless somebody has since `refused` was had.
    func renewedToken(of api: VitalAPI, insteadOf refused: Secret?) async throws -> Secret {
        if let renewal { return try await renewal.value }
        if let refused, let record, record.accessToken != refused.value { return Secret(record.accessToken) }
        let task = Task { try await self.renew(with: api) }
        renewal = task
        defer { renewal = nil }
        return try await task.value
    }

    private func load() throws {
        guard !isLoaded else { return }
        let stored = try storage.load()
        isLoaded = true
        guard let stored, stored.signInToken == signIn.secret.value else { return }
        keep(stored)
    }

    private func keep(_ record: VitalSessionRecord) {
        self.record = record
        present.withLock { $0 = Secret(record.accessToken) }
    }

    private func renew(with api: VitalAPI) async throws -> Secret {
        let fields: [(String, String)]
        if let record {
            fields = [("grant_type", "refresh_token"), ("refresh_token", record.refreshToken)]
        } else {
            fields = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("subject_token_type", "urn:junction:sign-in-token"), ("subject_token", signIn.secret.value),
            ]
        }
        var request = HTTPClientRequest(url: api.server.authBaseURL + "/v1/token")
        request.method = .POST
        request.headers.add(name: "accept", value: "application/json")
        request.headers.add(name: "user-agent", value: "HealthRelay")
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let form = fields.map { "\($0)=\(HTTPAddress.encoded($1))" }.joined(separator: "&")
        request.body = .bytes(Array(form.utf8))
        let answer = try await api.exchange(request, route: Self.route)
        let reader = AnswerReader(secret: record.map { Secret($0.refreshToken) } ?? signIn.secret)
        guard (200..<300).contains(answer.status) else { throw refusal(reader.error(of: answer)) }
        let tokens = try reader.decode(TokenAnswer.self, from: answer)
        guard !tokens.access_token.isEmpty, let refresh = tokens.refresh_token ?? record?.refreshToken else {
            throw VitalError(
                .unexpectedAnswer, route: Self.route, status: answer.status, serverSaid: "refresh_token is missing")
        }
        let renewed = VitalSessionRecord(
            userID: signIn.userID, signInToken: signIn.secret.value, accessToken: tokens.access_token,
            refreshToken: refresh, expiresAt: now().seconds + min(max(tokens.expires_in ?? 3600, 0), 31_536_000))
        // Kept here first: a refresh token may be good for one use only, and the disk may be full.
        keep(renewed)
        save(logger: api.logger)
        return Secret(renewed.accessToken)
    }

    /// Writes the record, now or as soon as it can be written.
    private func save(logger: Logger) {
        guard let record else { return }
        do {
            try storage.save(record)
            saving?.cancel()
            saving = nil
        } catch {
            guard saving == nil else { return }
            logger.warning(
                "cannot write the renewed session; after a restart, somebody would have to sign in again"
            )
            saving = Task { [weak self, savingEvery] in
                while true {
                    do { try await Task.sleep(for: savingEvery) } catch { return }
                    guard let self, await !self.trySaving(logger: logger) else { return }
                }
            }
        }
    }

    /// Returns whether the record is written now.
    private func trySaving(logger: Logger) -> Bool {
        guard let record, (try? storage.save(record)) != nil else { return record == nil }
        saving = nil
        logger.notice("the renewed session is written")
        return true
    }

    deinit { saving?.cancel() }

    /// What a refusal to renew means: the session is over, or the sign-in token is no good.
    private func refusal(_ error: VitalError) -> VitalError {
        guard !error.isRetryable else { return error }
        var error = error
        error.kind =
            record != nil || error.serverErrorType == "reauthentication_required"
            ? .tokenExpired : .authenticationFailed
        return error
    }
}

extension VitalSession: Hashable {
    /// Whether both are the same session, not only the same person's.
    public static func == (lhs: VitalSession, rhs: VitalSession) -> Bool { lhs === rhs }
    /// Hashes which session it is.
    public nonisolated func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

private struct TokenAnswer: Decodable, Sendable {
    var access_token: String
    var refresh_token: String?
    var expires_in: Int64?

    private enum Key: String, CodingKey { case access_token, refresh_token, expires_in }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        access_token = try container.decode(String.self, forKey: .access_token)
        refresh_token = try container.decodeIfPresent(String.self, forKey: .refresh_token)
        // A number (RFC 6749, 5.1); the identity service that the vendor's clients have used writes a text. One that can't be read must
        // not cost the session: its token is good for one exchange, and an access token that has ended is renewed all the same.
        let text = try? container.decode(String.self, forKey: .expires_in)
        expires_in = (try? container.decode(Int64.self, forKey: .expires_in)) ?? text.flatMap { Int64($0) }
    }
}

extension VitalAPI {
    /// The server's id of the person who is signed in; nil where requests carry a team's key.
    public func signedInUserID() async throws -> String? {
        guard case .session(let session) = credentials else { return nil }
        return session.userID
    }

    /// Makes a sign-in token for a user (`POST /v2/user/{user_id}/sign_in_token`); takes a team's key.
    public func createSignInToken(for userID: String) async throws -> VitalSignInToken {
        struct Answer: Decodable, Sendable { var sign_in_token: String }
        let request = VitalRequest(
            method: .POST,
            path: [.fixed("v2"), .fixed("user"), .value(userID, name: "user_id"), .fixed("sign_in_token")])
        let answer = try await call(request, answers: Answer.self)
        do throws(VitalSignInToken.Malformed) {
            return try VitalSignInToken(answer.sign_in_token)
        } catch {
            throw VitalError(.unexpectedAnswer, route: request.route, serverSaid: error.reason)
        }
    }
}
