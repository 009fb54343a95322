import GatewaySettings
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

/// `consent`: what a person has agreed to have delivered.
struct ConsentRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: ConsentOperation) async throws {
        let person: StoreUser
        switch operation {
        case .show(let name): person = try await consenting(name)
        case .set(let names, let isGranted, let name):
            person = try await consenting(name)
            let kinds = try names.isEmpty ? ReadingKind.allCases : names.map(ReadingKind.argument)
            for kind in kinds { try await gateway.store.setConsent(kind, granted: isGranted, of: person.key) }
            if isGranted { gateway.destinations.wake() }
        }
        guard !json else { return try await output.data(Consent.document(of: person, in: gateway.store).text) }
        for consent in try await gateway.store.consents(of: person.key) {
            let since = consent.at.map { " since \($0.flooredToSecond)" } ?? ", by the settings"
            try await output.data("\(consent.kind.rawValue): \(consent.isGranted ? "granted" : "not granted")\(since)")
        }
    }

    private func consenting(_ name: String?) async throws -> StoreUser {
        guard let name else { return try await gateway.store.currentUser() }
        guard let user = try await gateway.store.user(name) else {
            throw Problem("no_such_user", .noInput, "the store has no user \(name)")
        }
        return user
    }
}

extension Consent {
    /// `{user, consents, history}` of a person.
    package static func document(of person: StoreUser, in store: ReadingStore) async throws -> JSONValue {
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
}
