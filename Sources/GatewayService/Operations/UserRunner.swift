import HealthReadings
import ReadingStore
import VitalClient

extension Gateway {
    func run(_ operation: UserOperation, json: Bool, output: any OperationOutput) async throws {
        switch operation {
        case .show: break
        case .create(let name):
            let user = try await requireAPI().createUser(
                clientUserID: name, fallbackTimeZone: try await store.currentUser().timeZone)
            try await adopt(user)
            if !json {
                try await output.note(user.isNew ? "created at the server" : "the server knew this user already")
            }
        case .set(let name):
            do {
                try await adopt(requireAPI().resolveUser(clientUserID: name))
            } catch let error as VitalError where error.kind == .notFound {
                throw Problem(
                    "no_such_user", .noInput, "the server has no user \(name)",
                    hint: "create it: `healthrelay user create \(name)`")
            }
        case .remove(let confirmed, let local):
            return try await remove(confirmed: confirmed, isLocal: local, json: json, output)
        case .clear:
            let user = try await store.currentUser()
            for destination in try await store.destinations() {
                try await store.setServerUserID(nil, of: user.key, at: destination.key)
            }
            try await store.setSyncEnabled(false)
            if !json {
                try await output.note("delivery is off; readings stay. To turn it on: `user set` and `sync enable`")
            }
        }
        try await show(json: json, output)
    }

    private func adopt(_ user: VitalUser) async throws {
        let zone = try await store.currentUser().timeZone
        let stored = try await store.setCurrentUser(user.clientUserID, timeZone: zone)
        try await store.setServerUserID(user.userID, of: stored.key, at: primaryPlace())
    }

    private func show(json: Bool, _ output: any OperationOutput) async throws {
        let user = try await store.currentUser(at: primaryPlace())
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
