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
        case .create(let name):
            let user = try await gateway.destinations.requireAPI().createUser(
                clientUserID: name, fallbackTimeZone: try await gateway.store.currentUser().timeZone)
            try await adopt(user)
            if !json {
                try await output.note(user.isNew ? "created at the server" : "the server knew this user already")
            }
        case .set(let name):
            do {
                try await adopt(gateway.destinations.requireAPI().resolveUser(clientUserID: name))
            } catch let error as VitalError where error.kind == .notFound {
                throw Problem(
                    "no_such_user", .noInput, "the server has no user \(name)",
                    hint: "create it: `healthrelay user create \(name)`")
            }
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

    private func adopt(_ user: VitalUser) async throws {
        let zone = try await gateway.store.currentUser().timeZone
        let stored = try await gateway.store.setCurrentUser(user.clientUserID, timeZone: zone)
        try await gateway.store.setServerUserID(user.userID, of: stored.key, at: gateway.destinations.primaryPlace())
    }

    private func show() async throws {
        let user = try await gateway.store.currentUser(at: gateway.destinations.primaryPlace())
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "client_user_id": .optional(user.clientUserID.isEmpty ? nil : user.clientUserID),
                    "user_id": .optional(user.serverUserID), "time_zone": .string(user.timeZone),
                ]).text)
        }
        try await output.data("user: \(user.clientUserID.isEmpty ? "not set" : user.clientUserID)")
        try await output.data("at the server: \(user.serverUserID ?? "unknown yet")")
        try await output.data("time zone: \(user.timeZone)")
    }
}
