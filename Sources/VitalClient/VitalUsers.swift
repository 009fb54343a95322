import Foundation
import HealthReadings
import NIOHTTP1

/// A user as the server knows it.
public struct VitalUser: Sendable, Hashable {
    /// The server's id, part of every other call's path.
    public var userID: String
    /// Our id of the user.
    public var clientUserID: String
    /// Slugs of the providers that are connected sources of this user.
    public var connectedProviders: [String]
    /// Whether this call made the user; false where it existed and was adopted or found.
    public var isNew: Bool
    /// The first day whose data the server keeps, `2026-01-01`; `nil`: it has no such bound, or was not asked.
    public var ingestionStart: String?
    /// The first day whose data the server keeps no more; `nil`: it has no such bound, or was not asked.
    public var ingestionEnd: String?

    /// Makes a user.
    public init(
        userID: String, clientUserID: String, connectedProviders: [String] = [], isNew: Bool = false,
        ingestionStart: String? = nil, ingestionEnd: String? = nil
    ) {
        self.userID = userID
        self.clientUserID = clientUserID
        self.connectedProviders = connectedProviders
        self.isNew = isNew
        self.ingestionStart = ingestionStart
        self.ingestionEnd = ingestionEnd
    }
}

extension VitalAPI {
    /// Creates a user, or adopts the one that has this id already (`POST /v2/user`).
    ///
    /// - Parameters:
    ///   - clientUserID: our id of the user, unique in the team.
    ///   - fallbackTimeZone: the IANA id of the zone that the server assumes where a source names none.
    /// - Throws: ``VitalError/Kind/unexpectedAnswer`` where the answer is about another user, or names no id.
    public func createUser(clientUserID: String, fallbackTimeZone: String? = nil) async throws -> VitalUser {
        var members: [JSONValue.Member] = [.init("client_user_id", .string(clientUserID))]
        if let fallbackTimeZone { members.append(.init("fallback_time_zone", .string(fallbackTimeZone))) }
        let request = VitalRequest(method: .POST, path: [.fixed("v2"), .fixed("user")], body: .object(members))
        let outcome = try await call(request, adopting: clientUserID)
        // A duplicate that does not say whose it is can still be looked up by our id.
        if let outcome { return try outcome.checked(clientUserID, route: request.route) }
        return try await resolveUser(clientUserID: clientUserID)
    }

    /// The user that has this id of ours (`GET /v2/user/resolve/{client_user_id}`).
    ///
    /// - Throws: ``VitalError/Kind/notFound`` where there is none; ``VitalError/Kind/unexpectedAnswer`` where the answer is
    ///   about another user.
    public func resolveUser(clientUserID: String) async throws -> VitalUser {
        let request = Self.resolving(clientUserID)
        return try await call(request, answers: UserAnswer.self).user(isNew: false)
            .checked(clientUserID, route: request.route)
    }

    /// Whether the server refuses (401, 403) to look up a user for a key that nobody has.
    ///
    /// A server of this API does. One that answers the right key and this one alike has not looked at the key: its 404
    /// says nothing of it.
    ///
    /// - Throws: ``VitalError`` if the server does not answer, or asks to come back later.
    public func refusesUnknownKey(lookingUp clientUserID: String) async throws -> Bool {
        let answer = try await send(
            Self.resolving(clientUserID), authorization: ("x-vital-api-key", "healthrelay-test-with-an-unknown-key"))
        switch answer.status {
        case 401, 403: return true
        case 408, 429, 500...: throw AnswerReader(secret: credentials.secret).error(of: answer)
        default: return false
        }
    }

    private static func resolving(_ clientUserID: String) -> VitalRequest {
        VitalRequest(
            method: .GET,
            path: [.fixed("v2"), .fixed("user"), .fixed("resolve"), .value(clientUserID, name: "client_user_id")])
    }

    /// The user with this id of the server (`GET /v2/user/{user_id}`).
    ///
    /// - Throws: ``VitalError/Kind/notFound`` where there is none; ``VitalError/Kind/unexpectedAnswer`` where the answer is
    ///   about another user, or names no client's id.
    public func user(_ userID: String) async throws -> VitalUser {
        let request = VitalRequest(
            method: .GET, path: [.fixed("v2"), .fixed("user"), .value(userID, name: "user_id")])
        let user = try await call(request, answers: UserAnswer.self).user(isNew: false)
        // A UUID is the same in capitals.
        guard let id = UUID(uuidString: user.userID), !user.clientUserID.isEmpty,
            UUID(uuidString: userID).map({ $0 == id }) ?? (user.userID == userID)
        else {
            throw VitalError(.unexpectedAnswer, route: request.route, serverSaid: "user_id is another user's")
        }
        return user
    }

    /// Changes what is named of a user and leaves the rest (`PATCH /v2/user/{user_id}`).
    ///
    /// - Throws: ``VitalError/Kind/notFound`` where there is none.
    public func updateUser(
        _ userID: String, clientUserID: String? = nil, fallbackTimeZone: String? = nil
    ) async throws {
        var members: [JSONValue.Member] = []
        if let clientUserID { members.append(.init("client_user_id", .string(clientUserID))) }
        if let fallbackTimeZone { members.append(.init("fallback_time_zone", .string(fallbackTimeZone))) }
        try await call(
            VitalRequest(
                method: .PATCH, path: [.fixed("v2"), .fixed("user"), .value(userID, name: "user_id")],
                body: .object(members)))
    }

    /// Removes a user with everything the server holds of them (`DELETE /v2/user/{user_id}`).
    ///
    /// - Returns: whether there was one; false for 404.
    @discardableResult
    public func deleteUser(_ userID: String) async throws -> Bool {
        do {
            try await call(
                VitalRequest(
                    method: .DELETE, path: [.fixed("v2"), .fixed("user"), .value(userID, name: "user_id")]))
            return true
        } catch let error as VitalError where error.kind == .notFound {
            return false
        }
    }

    /// Creates a user; a duplicate's 400 names the user that exists. Nil where it is a duplicate without a name.
    private func call(_ request: VitalRequest, adopting clientUserID: String) async throws -> VitalUser? {
        let answer = try await send(request)
        let reader = AnswerReader(secret: credentials.secret)
        if (200..<300).contains(answer.status) {
            return try reader.decode(UserAnswer.self, from: answer).user(isNew: true)
        }
        let error = reader.error(of: answer)
        guard answer.status == 400 || answer.status == 409,
            let refusal = try? JSONDecoder().decode(Refusal.self, from: Data(answer.body))
        else { throw error }
        if let userID = refusal.userID, !userID.isEmpty {
            return VitalUser(userID: userID, clientUserID: clientUserID)
        }
        guard answer.status == 409 || refusal.words?.contains("already exists") == true else { throw error }
        return nil
    }
}

/// A user as the server writes it; what is not needed is not read.
private struct UserAnswer: Decodable, Sendable {
    struct Source: Decodable, Sendable {
        struct Provider: Decodable, Sendable { var slug: String? }
        var provider: Provider?
    }

    var user_id: String
    var client_user_id: String
    var connected_sources: [Source]?
    var ingestion_start: String?
    var ingestion_end: String?

    func user(isNew: Bool) -> VitalUser {
        VitalUser(
            userID: user_id, clientUserID: client_user_id,
            connectedProviders: (connected_sources ?? []).compactMap(\.provider?.slug), isNew: isNew,
            ingestionStart: ingestion_start.flatMap(Self.day), ingestionEnd: ingestion_end.flatMap(Self.day))
    }

    /// A day, whether a time stands behind it or not; `nil` for anything else.
    private static func day(_ text: String) -> String? {
        let day = String(text.prefix(10))
        return WallTime("\(day)T00:00:00") == nil ? nil : day
    }
}

extension VitalUser {
    /// Checks that the answer is about the user who was asked for: a cache between here and the server can mix up answers,
    /// and readings would then go to another person's account.
    fileprivate func checked(_ clientUserID: String, route: String) throws(VitalError) -> VitalUser {
        guard self.clientUserID == clientUserID else {
            throw VitalError(.unexpectedAnswer, route: route, serverSaid: "client_user_id is another user's")
        }
        guard UUID(uuidString: userID) != nil else {
            throw VitalError(.unexpectedAnswer, route: route, serverSaid: "user_id is no UUID")
        }
        return self
    }
}

extension AnswerReader {
    func user(of answer: VitalAnswer) throws -> VitalUser {
        try decode(UserAnswer.self, from: answer).user(isNew: false)
    }
}
