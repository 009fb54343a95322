import GatewaySettings
import HealthReadings
import ReadingDelivery
import ReadingStore

/// The arguments of `consent`.
public enum ConsentOperation: Codable, Sendable, Hashable {
    /// How it stands, and what was said when; nil: of the current user.
    case show(user: String?)
    /// Allows kinds, or no longer; none: all kinds. At one destination; nil: everywhere.
    case set(kinds: [String], granted: Bool, user: String?, destination: String? = nil)
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
        case .set(let names, let isGranted, let name, let destination):
            person = try await consenting(name)
            let place = try await place(destination)
            let kinds = try names.isEmpty ? ReadingKind.allCases : names.map(ReadingKind.argument)
            try await gateway.store.setConsents(kinds, granted: isGranted, of: person.key, at: place)
            if isGranted { gateway.destinations.wake() }
        }
        guard !json else { return try await output.data(Consent.document(of: person, in: gateway.store).text) }
        for consent in try await Consent.standing(of: person, in: gateway.store) {
            try await output.data(Self.line(consent.general))
            // What differs at one destination alone.
            for own in consent.own where own.isGranted != consent.general.isGranted {
                try await output.data(Self.line(own))
            }
        }
    }

    private static func line(_ consent: Consent) -> String {
        let since = consent.at.map { " since \($0.flooredToSecond)" } ?? ", by the settings"
        let place = consent.destination.map { " at \($0)" } ?? ""
        guard !consent.isUnconfirmed else {
            return "\(consent.kind.rawValue)\(place): not granted before it is confirmed, because a backup was put back"
        }
        return "\(consent.kind.rawValue)\(place): \(consent.isGranted ? "granted" : "not granted")\(since)"
    }

    private func consenting(_ name: String?) async throws -> StoreUser {
        guard let name else { return try await gateway.store.currentUser() }
        guard let user = try await gateway.store.user(name) else {
            throw Problem("no_such_user", .noInput, "the store has no user \(name)")
        }
        return user
    }

    private func place(_ name: String?) async throws -> DestinationKey? {
        guard let name else { return nil }
        // What somebody says of a destination that is not in the settings now counts when it is back.
        let known = try await gateway.store.destinations()
        guard let place = known.first(where: { $0.name == name }) else {
            throw Problem.noSuchDestination(name, among: known.map(\.name))
        }
        return place.key
    }
}

extension Consent {
    /// How a person's consent to each kind stands in general, and at each destination that there is.
    static func standing(
        of person: StoreUser, in store: ReadingStore
    ) async throws -> [(general: Consent, own: [Consent])] {
        var own: [Consent] = []
        for destination in try await store.destinations() where destination.state != .removed {
            own += try await store.consents(of: person.key, at: destination.key)
        }
        return try await store.consents(of: person.key).map { general in
            (general, own.filter { $0.kind == general.kind })
        }
    }

    /// `{user, consents, history}` of a person.
    package static func document(of person: StoreUser, in store: ReadingStore) async throws -> JSONValue {
        func members(_ consent: Consent) -> [JSONValue.Member] {
            [
                .init("granted", .bool(consent.isGranted)),
                .init("at", .optional(consent.at?.flooredToSecond.description)),
            ]
        }
        let consents = try await standing(of: person, in: store).map { consent -> JSONValue in
            .object(
                [.init("kind", .string(consent.general.kind.rawValue))] + members(consent.general) + [
                    .init(
                        "destinations",
                        .array(
                            consent.own.map {
                                .object([.init("destination", .optional($0.destination))] + members($0))
                            }))
                ])
        }
        let history = try await store.consentHistory(of: person.key).map { consent -> JSONValue in
            .object(
                [.init("kind", .string(consent.kind.rawValue))] + members(consent) + [
                    .init("destination", .optional(consent.destination))
                ])
        }
        return .object([
            "user": .optional(person.clientUserID.nonEmpty),
            "consents": .array(consents), "history": .array(history),
        ])
    }
}
