import Foundation
import HealthReadings
import LocalAccess
import ReadingStore
import VitalClient

/// `user remove` and `store forget`: the right to be forgotten, at the server and here.
extension Gateway {
    /// What removing a person came to.
    private struct Removal: Sendable {
        var user: StoreUser
        var atServer: AtServer
        var erased: Erasure

        /// `{client_user_id, user_id, at_server, erased: {readings, frames, contacts, sources}}`.
        var document: JSONValue {
            .object([
                "client_user_id": .optional(user.clientUserID.isEmpty ? nil : user.clientUserID),
                "user_id": .optional(user.serverUserID), "at_server": .string(atServer.rawValue),
                "erased": .object([
                    "readings": .integer(Int64(erased.readings)), "frames": .integer(Int64(erased.frames)),
                    "contacts": .integer(Int64(erased.contacts)), "sources": .integer(Int64(erased.sources)),
                ]),
            ])
        }
    }

    /// What became of them at the server.
    private enum AtServer: String, Sendable {
        case removed
        /// They were not there.
        case absent
        /// The server was not asked.
        case untouched
    }

    func remove(confirmed: String?, isLocal: Bool, json: Bool, _ output: any OperationOutput) async throws {
        let work = { @Sendable [self] () async throws -> Removal in
            let user = try await store.currentUser()
            if let confirmed, confirmed != user.clientUserID {
                throw Problem(
                    "user_changed", .tryAgain, "the current user is no longer '\(confirmed)'; nothing was erased",
                    hint: "look again: `healthrelay user show`")
            }
            // The server first: what it still holds could not be found again once their id is gone here.
            let atServer = isLocal ? .untouched : try await removeAtServer(user)
            try await revokeClients(of: [user])
            let erased = try await store.eraseUser(user.key)
            try await forgetAccess(of: [user], everybody: false)
            await sources?.forget()
            refreshMeters()
            return Removal(user: user, atServer: atServer, erased: erased)
        }
        // A post on its way would arrive for somebody who is gone, and might make them again.
        let removal = if let worker { try await worker.withoutDelivery(work) } else { try await work() }
        try await tell(removal, json: json, output)
    }

    /// Erases one person, or everybody there is: the current one last, whose devices are those that nobody else has.
    func forget(_ operation: ForgetOperation, json: Bool, _ output: any OperationOutput) async throws {
        let work = { @Sendable [self] () async throws -> [Removal] in
            let people = try await people(operation.user)
            var removals: [Removal] = []
            // The server first, and for all: once their ids are gone here, nobody could find them there again.
            for user in people {
                let atServer =
                    operation.atServer
                    ? try await removeAtServer(user, instead: "without --server, what is here alone is erased")
                    : .untouched
                removals.append(Removal(user: user, atServer: atServer, erased: Erasure()))
            }
            try await revokeClients(of: people)
            for index in removals.indices {
                removals[index].erased = try await store.eraseUser(removals[index].user.key)
            }
            try await forgetAccess(of: people, everybody: operation.user == nil)
            if operation.user == nil {
                try await store.destroyPruneKey()
                try await destroyKey(output)
            }
            await sources?.forget()
            refreshMeters()
            return removals
        }
        let removals = if let worker { try await worker.withoutDelivery(work) } else { try await work() }
        guard !json else {
            return try await output.data(JSONValue.object(["users": .array(removals.map(\.document))]).text)
        }
        for removal in removals {
            try await output.data(removal.user.clientUserID.isEmpty ? "no name:" : "\(removal.user.clientUserID):")
            try await tell(removal, json: false, output)
        }
    }

    /// Revokes the clients of people who are about to be erased: nobody who takes the name later gets them.
    private func revokeClients(of people: [StoreUser]) async throws {
        let names = people.map(\.clientUserID).filter { !$0.isEmpty }
        door?.desk.withdraw(people: names)
        guard hasClients else { return }
        let now = await tokenTime()
        for number in try await withClients({ try await $0.revoke(people: names, now: now) }) {
            door?.audit.note(AuditEntry(at: now, event: "revoked", client: number))
        }
    }

    /// Whether there is a list of clients.
    private var hasClients: Bool { access(store.directory + "/" + AccessStore.fileName, F_OK) == 0 }

    /// Forgets in the audit log who was served readings, and the people's names in the list of clients; with everybody,
    /// all of it and all who were let in.
    private func forgetAccess(of people: [StoreUser], everybody: Bool) async throws {
        guard hasClients else { return }
        let names = people.map(\.clientUserID).filter { !$0.isEmpty }
        await door?.audit.flush()
        door?.audit.forget(routes: ReadingRoutes.audited, everybody: everybody)
        try await withClients {
            try await $0.forget(routes: ReadingRoutes.audited, people: names, everybody: everybody)
        }
    }

    /// Destroys the key with what it sealed: whatever an old copy of the files still holds cannot be opened with it.
    private func destroyKey(_ output: any OperationOutput) async throws {
        guard try await !store.destroyKey(), store.encryption.isOn else { return }
        try await output.note(
            "the store's key is a credential and stays; a new line behind it there has it replaced at the next start")
    }

    private func people(_ name: String?) async throws -> [StoreUser] {
        guard let name else {
            let current = try await store.currentUser()
            return try await store.users().filter { $0.key != current.key } + [current]
        }
        guard !name.isEmpty, let user = try await store.user(name) else {
            throw Problem("unknown_user", .noInput, "the store has nothing of '\(name)'; nothing was erased")
        }
        return [user]
    }

    private func removeAtServer(
        _ user: StoreUser, instead: String = "`healthrelay user remove --local` erases what is here alone"
    ) async throws -> AtServer {
        // Nobody without a name was ever made there.
        guard !user.clientUserID.isEmpty || user.serverUserID != nil else { return .absent }
        do {
            let api = try requireAPI()
            if let userID = user.serverUserID { return try await api.deleteUser(userID) ? .removed : .absent }
            do {
                let userID = try await api.resolveUser(clientUserID: user.clientUserID).userID
                return try await api.deleteUser(userID) ? .removed : .absent
            } catch let error as VitalError where error.kind == .notFound {
                return .absent
            }
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            var problem = Problem(describing: error) ?? .unexpected(error)
            problem.message += "; nothing was erased here"
            problem.hint =
                ["no_server_key", VitalConnection.insecureCode].contains(problem.code)
                ? instead : "try again later; " + instead
            throw problem
        }
    }

    private func tell(_ removal: Removal, json: Bool, _ output: any OperationOutput) async throws {
        let (user, erased) = (removal.user, removal.erased)
        guard !json else {
            return try await output.data(removal.document.text)
        }
        switch removal.atServer {
        case .removed: try await output.data("removed at the server")
        case .absent: try await output.data("not at the server")
        case .untouched: try await output.data("left as they are at the server")
        }
        try await output.data(
            "erased here: \(erased.readings) readings, \(erased.frames) frames, \(erased.contacts) contacts, "
                + "\(erased.sources) sources")
        guard !user.clientUserID.isEmpty, settings["user.client_user_id"] == user.clientUserID else { return }
        try await output.note(
            "the setting `user.client_user_id` still names them: readings to come would be delivered for them again")
    }
}
