import GatewaySettings
import ReadingStore

extension ReadingStore {
    /// The person that a command names.
    ///
    /// - Throws: `Problem` with status 66 if the store knows nobody of this name.
    func person(named name: String) async throws -> StoreUser {
        guard let user = try await user(name) else {
            throw Problem("no_such_user", .noInput, "the store knows no user \(name.prefix(64))")
        }
        return user
    }

    /// The person that a command names, or the current user.
    ///
    /// - Throws: `Problem` with status 66 if the store knows nobody of this name.
    func personOrCurrent(named name: String?) async throws -> StoreUser {
        if let name { try await person(named: name) } else { try await currentUser() }
    }
}
