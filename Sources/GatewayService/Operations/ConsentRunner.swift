import HealthReadings
import ReadingDelivery
import ReadingStore

/// The arguments of `consent`.
public enum ConsentOperation: Codable, Sendable, Hashable {
    /// How it stands, and what was said when; nil: of the current user.
    case show(user: String?)
    /// Allows kinds, or no longer; none: all kinds.
    case set(kinds: [String], granted: Bool, user: String?)
}

extension Gateway {
    func run(_ operation: ConsentOperation, json: Bool, output: any OperationOutput) async throws {
        let person: StoreUser
        switch operation {
        case .show(let name): person = try await consenting(name)
        case .set(let names, let isGranted, let name):
            person = try await consenting(name)
            let kinds = try names.isEmpty ? ReadingKind.allCases : names.map(Self.kind)
            for kind in kinds { try await store.setConsent(kind, granted: isGranted, of: person.key) }
            if isGranted { wakeWorkers() }
        }
        guard !json else { return try await output.data(consentDocument(of: person).text) }
        for consent in try await store.consents(of: person.key) {
            let since = consent.at.map { " since \($0.flooredToSecond)" } ?? ", by the settings"
            try await output.data("\(consent.kind.rawValue): \(consent.isGranted ? "granted" : "not granted")\(since)")
        }
    }

    /// `{user, consents, history}` of a person.
    func consentDocument(of person: StoreUser) async throws -> JSONValue {
        func document(_ consent: Consent) -> JSONValue {
            .object([
                "kind": .string(consent.kind.rawValue), "granted": .bool(consent.isGranted),
                "at": .optional(consent.at?.flooredToSecond.description),
            ])
        }
        return .object([
            "user": .optional(person.clientUserID.isEmpty ? nil : person.clientUserID),
            "consents": .array(try await store.consents(of: person.key).map(document)),
            "history": .array(try await store.consentHistory(of: person.key).map(document)),
        ])
    }

    private func consenting(_ name: String?) async throws -> StoreUser {
        guard let name else { return try await store.currentUser() }
        guard let user = try await store.user(name) else {
            throw Problem("no_such_user", .noInput, "the store has no user \(name)")
        }
        return user
    }
}
