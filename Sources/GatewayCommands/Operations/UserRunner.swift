import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore
import VitalClient

/// `user`: the people at the server.
struct UserRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: UserOperation) async throws {
        switch operation {
        case .show: break
        case .create(let name, let isSet):
            let zone = try await gateway.store.currentUser().timeZone
            let user = try await gateway.destinations.requireAPI().createUser(
                clientUserID: name, fallbackTimeZone: zone)
            if isSet { try await adopt(user) }
            if !json {
                try await output.note(user.isNew ? "created at the server" : "the server knew this user already")
            }
            // Of this user, not of the one that stays set.
            guard isSet else { return try await show(user.clientUserID, user.userID, zone) }
        case .set(let name, let userID): try await adopt(find(name, userID))
        case .remove(let confirmed, let local):
            return try await RemovalRunner(gateway: gateway, json: json, output: output).remove(
                confirmed: confirmed, isLocal: local)
        case .clear:
            try await gateway.store.forgetServerUserIDs()
            try await gateway.store.setSyncEnabled(false)
            if !json {
                try await output.note("delivery is off; readings stay. To turn it on: `user set` and `sync enable`")
            }
        }
        try await show()
    }

    /// The person at the server whom a client's id, the server's UUID, or both mean.
    private func find(_ name: String?, _ userID: String?) async throws -> VitalUser {
        let api = try await gateway.destinations.requireAPI()
        if let userID {
            guard UUID(uuidString: userID) != nil else {
                throw Problem.usage(
                    "expected the server's UUID of a user, found '\(userID.prefix(64))'",
                    hint: "`user show` prints it as `user_id`; your own id of the user goes without --user-id")
            }
            guard let user = try await known({ try await api.user(userID) }) else {
                throw Problem(
                    "no_such_user", .noInput, "the server has no user with the UUID \(userID)",
                    hint: "is the destination's address that of the environment and region where the user was made?")
            }
            guard let name, name != user.clientUserID else { return user }
            throw Problem(
                "user_mismatch", .badData,
                "the UUID \(userID) is not \(name)'s at the server but that of \(user.clientUserID)",
                hint: "leave out one of the two")
        }
        let name = name ?? ""
        if let user = try await known({ try await api.resolveUser(clientUserID: name) }) { return user }
        // Many backends have UUIDs for ids of their own, so these go first.
        if UUID(uuidString: name) != nil, let user = try await known({ try await api.user(name) }) { return user }
        throw Problem(
            "no_such_user", .noInput, "the server has no user \(name)",
            hint: "create it: `healthrelay user create \(name)`")
    }

    /// What a look-up finds; `nil` where the server knows no such person.
    private func known(_ look: () async throws -> VitalUser) async throws -> VitalUser? {
        do {
            return try await look()
        } catch let error as VitalError where error.kind == .notFound {
            return nil
        }
    }

    private func adopt(_ user: VitalUser) async throws {
        let zone = try await gateway.store.currentUser().timeZone
        let stored = try await gateway.store.setCurrentUser(user.clientUserID, timeZone: zone)
        try await gateway.store.setServerUserID(user.userID, of: stored.key, at: gateway.destinations.primaryPlace())
        if let named = gateway.settings["user.client_user_id"], named != user.clientUserID {
            try await output.note(
                "the setting `user.client_user_id` names \(named), who is current again at the next start: change it")
        }
    }

    private func show() async throws {
        let user = try await gateway.store.currentUser(at: gateway.destinations.primaryPlace())
        try await show(user.clientUserID.nonEmpty, user.serverUserID, user.timeZone)
    }

    private func show(_ name: String?, _ userID: String?, _ zone: String) async throws {
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "client_user_id": .optional(name), "user_id": .optional(userID), "time_zone": .string(zone),
                ]).text)
        }
        try await output.data("user: \(name ?? "not set")")
        try await output.data("at the server: \(userID ?? "unknown yet")")
        try await output.data("time zone: \(zone)")
    }
}
