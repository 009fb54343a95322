import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient

extension VitalDestination {
    /// What is looked at, in the order in which a request gets there.
    private enum Stage: Int, CaseIterable {
        case address, certificate, credentials, permission

        var name: String { "\(self)" }
    }

    /// Proves that the server can be delivered to, as far as that is possible without leaving anything there: asks for the
    /// current person, or for their sources. Says what the server drops of the person, if it says so.
    public func test() async -> [Finding] {
        await Self.test(api, person: try? await store.currentUser().clientUserID)
    }

    /// Tests a server as ``test()`` does, where there is no store.
    ///
    /// - Parameters:
    ///   - api: the server.
    ///   - person: the `client_user_id` to ask for; `nil` or empty: nobody's.
    public static func test(_ api: VitalAPI, person: String?) async -> [Finding] {
        var limits = VitalAPI.Limits()
        limits.connecting = .seconds(5)
        limits.call = .seconds(10)
        let last: Finding
        do {
            last = try await ask(
                api.limited(to: limits), person.flatMap(\.nonEmpty) ?? "healthrelay-test")
        } catch {
            return findings(of: error, api.server)
        }
        return good(upTo: .permission, api.server) + [last]
    }

    /// Asks what only a server of this API that accepts the key answers.
    ///
    /// - Returns: what is known of what it does with readings.
    private static func ask(_ api: VitalAPI, _ person: String) async throws -> Finding {
        if let id = try await api.signedInUserID() {
            _ = try await answer("200 with the person's sources") { try await api.connectedSources(of: id) }
            // A server need not tell a session who its person is.
            guard let user = try? await api.user(id) else { return boundsUnknown }
            return dropping(user) ?? delivery
        }
        let known = try await answer("200 with the person, or 404 for one it does not know") {
            () async throws -> VitalUser? in
            do {
                return try await api.resolveUser(clientUserID: person)
            } catch let error as VitalError where error.kind == .notFound {
                return nil
            }
        }
        // 404 is what any server answers to a path that it does not have, whoever asks.
        guard known == nil, try await !api.refusesUnknownKey(lookingUp: person) else {
            return known.flatMap(dropping) ?? delivery
        }
        throw VitalError(
            .unexpectedAnswer, route: "GET /v2/user/resolve/{client_user_id}", status: 404,
            serverSaid: "expected 401 for a key that nobody has, found that it makes no difference")
    }

    /// Adds to an answer that is none of this API what was expected.
    private static func answer<Answer>(_ expected: String, _ ask: () async throws -> Answer) async throws -> Answer {
        do { return try await ask() } catch var error as VitalError where stage(of: error) == .address {
            guard error.status.map({ $0 < 500 }) ?? false else { throw error }
            error.serverSaid = (error.serverSaid.map { $0 + "; " } ?? "") + "expected \(expected)"
            throw error
        }
    }

    private static func stage(of error: any Error) -> Stage {
        switch (error as? VitalError)?.kind {
        case .untrustedServer: .certificate
        case .authenticationFailed, .tokenExpired: .credentials
        case .forbidden: .permission
        default: .address
        }
    }

    private static func findings(of error: any Error, _ server: VitalServer) -> [Finding] {
        let stage = stage(of: error)
        let before = Stage(rawValue: stage.rawValue - 1).map { good(upTo: $0, server) } ?? []
        let isAnother = stage == .address && (error as? VitalError)?.status.map { $0 < 500 } ?? false
        let bad = Finding(
            stage.name, isGood: false, found: "\(error)",
            mend: isAnother ? "is `base_url` of the destination the server's? a proxy or portal may answer" : nil,
            cause: error)
        let untried = Stage.allCases.filter { $0.rawValue > stage.rawValue }
            .map { Finding($0.name, isGood: nil, found: "not tried") }
        return before + [bad] + untried + [delivery]
    }

    private static func good(upTo last: Stage, _ server: VitalServer) -> [Finding] {
        Stage.allCases.filter { $0.rawValue <= last.rawValue }.map { stage in
            switch stage {
            case .address: Finding(stage.name, isGood: true, found: "\(server.host) answers")
            case .certificate where !server.baseURL.lowercased().hasPrefix("https:"):
                Finding(stage.name, isGood: nil, found: "plain http has no certificate")
            case .certificate: Finding(stage.name, isGood: true, found: "is trusted")
            case .credentials: Finding(stage.name, isGood: true, found: "are accepted")
            case .permission: Finding(stage.name, isGood: true, found: "users may be asked for")
            }
        }
    }

    /// What the server drops of a person's readings although it answers that it has taken them; `nil` if that is nothing.
    private static func dropping(_ user: VitalUser) -> Finding? {
        let today = String(Instant.systemClock.description.prefix(10))
        let (start, end) = (user.ingestionStart, user.ingestionEnd)
        let bounds = [
            start.map { "before \($0) (`ingestion_start`)" }, end.map { "from \($0) on (`ingestion_end`)" },
        ].compactMap(\.self)
        guard !bounds.isEmpty else { return nil }
        let isOutside = start.map { $0 > today } ?? false || end.map { $0 <= today } ?? false
        return Finding(
            "delivery", isGood: isOutside ? false : nil,
            found: "the server says that it took, and drops, what is measured \(bounds.joined(separator: " or "))",
            mend: "if that is not meant, have the bounds changed there; then `healthrelay destination redeliver`")
    }

    /// What stands in place of ``dropping(_:)`` if the server tells a session nothing of its person.
    private static let boundsUnknown = Finding(
        "delivery", isGood: nil,
        found:
            "the server doesn't tell a sign-in token whether it drops, although it says that it took it, what is measured "
            + "before some day or from one on (`ingestion_start`, `ingestion_end`)",
        mend:
            "if readings that count as delivered are missing there, ask whoever made the token for the person's bounds")

    private static let delivery = Finding(
        "delivery", isGood: nil,
        found: "cannot be proven without leaving a reading there: the first post shows whether the key may post")
}
