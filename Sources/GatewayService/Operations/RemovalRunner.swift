import Foundation
import HealthReadings
import LocalAccess
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// `user remove` and `store forget`: the right to be forgotten, at the server and here.
extension Gateway {
    /// What removing a person came to.
    private struct Removal: Sendable {
        var user: StoreUser
        /// What became of them at the server that `user` is about.
        var atServer: AtServer
        /// What became of them at each destination, in the order of the settings.
        var places: [(name: String, result: AtServer)]
        var erased: Erasure

        /// `{client_user_id, user_id, at_server, destinations: [{name, result}], erased: {readings, frames, contacts,
        /// sources}}`.
        var document: JSONValue {
            .object([
                "client_user_id": .optional(user.clientUserID.isEmpty ? nil : user.clientUserID),
                "user_id": .optional(user.serverUserID), "at_server": .string(atServer.rawValue),
                "destinations": .array(
                    places.map { .object(["name": .string($0.name), "result": .string($0.result.rawValue)]) }),
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
        /// The next delivery has their readings taken back.
        case retracting
    }

    func remove(confirmed: String?, isLocal: Bool, json: Bool, _ output: any OperationOutput) async throws {
        let work = { @Sendable [self] () async throws -> Removal in
            let user = try await store.currentUser(at: primaryPlace())
            if let confirmed, confirmed != user.clientUserID {
                throw Problem(
                    "user_changed", .tryAgain, "the current user is no longer '\(confirmed)'; nothing was erased",
                    hint: "look again: `healthrelay user show`")
            }
            // The server first: what it still holds could not be found again once their id is gone here.
            let places = try await removeEverywhere(user, isLocal: isLocal)
            try await revokeClients(of: [user])
            let erased = try await store.eraseUser(
                user.key, retracts: !isLocal, except: try await removedKeys(places))
            try await forgetAccess(of: [user], everybody: false)
            for link in links { await link.open?.vital?.sources.forget() }
            refreshMeters()
            return Removal(
                user: user, atServer: atServer(places), places: Self.asked(places, erased), erased: erased)
        }
        // A post on its way would arrive for somebody who is gone, and might make them again.
        let removal = try await withoutDelivery(work)
        try await tell(removal, json: json, output)
    }

    /// Erases one person, or everybody there is: the current one last, whose devices are those that nobody else has.
    func forget(_ operation: ForgetOperation, json: Bool, _ output: any OperationOutput) async throws {
        let work = { @Sendable [self] () async throws -> [Removal] in
            let people = try await people(operation.user)
            var removals: [Removal] = []
            // The server first, and for all: once their ids are gone here, nobody could find them there again.
            for user in people {
                let places = try await removeEverywhere(
                    user, isLocal: !operation.atServer, instead: "without --server, only the data here is erased")
                removals.append(
                    Removal(user: user, atServer: atServer(places), places: places, erased: Erasure()))
            }
            try await revokeClients(of: people)
            for index in removals.indices {
                let places = removals[index].places
                removals[index].erased = try await store.eraseUser(
                    removals[index].user.key, retracts: operation.atServer, except: try await removedKeys(places))
                removals[index].places = Self.asked(places, removals[index].erased)
            }
            try await forgetAccess(of: people, everybody: operation.user == nil)
            if operation.user == nil {
                try await store.destroyPruneKey()
                try await destroyKey(output)
            }
            for link in links { await link.open?.vital?.sources.forget() }
            refreshMeters()
            return removals
        }
        let removals = try await withoutDelivery(work)
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
        guard try await !store.isKeyToBeDestroyed() else {
            return try await output.note(
                "the store's key is destroyed once the destinations have taken everything back")
        }
        try await output.note(
            "the store's key is a credential, so it stays; to replace it at the next start, add a new key as its last line"
        )
    }

    private func people(_ name: String?) async throws -> [StoreUser] {
        guard let name else {
            let current = try await store.currentUser()
            return try await store.users().filter { $0.key != current.key } + [current]
        }
        guard !name.isEmpty, let user = try await store.user(name) else {
            throw Problem("unknown_user", .noInput, "the store has no data of '\(name)'; nothing was erased")
        }
        return [user]
    }

    /// Removes a person at every destination that can take back what it has.
    private func removeEverywhere(
        _ user: StoreUser, isLocal: Bool,
        instead: String = "`healthrelay user remove --local` erases only the data here"
    ) async throws -> [(name: String, result: AtServer)] {
        var places: [(name: String, result: AtServer)] = []
        for link in links {
            let isServer = link.setting.kind.name == DestinationKind.vital.name
            let result = isLocal || !isServer ? .untouched : try await remove(user, at: link, instead: instead)
            places.append((link.name, result))
        }
        return places
    }

    /// The destinations that have erased the person with all readings.
    private func removedKeys(_ places: [(name: String, result: AtServer)]) async throws -> Set<DestinationKey> {
        let names = places.filter { $0.result != .untouched }.map(\.name)
        return Set(try await store.destinations().filter { names.contains($0.name) }.map(\.key))
    }

    /// What became of a person at each destination, with those that are asked to take back single readings.
    private static func asked(
        _ places: [(name: String, result: AtServer)], _ erased: Erasure
    ) -> [(name: String, result: AtServer)] {
        places.map { place in
            let isAsked = erased.destinations.contains { $0.destination == place.name && $0.retracting > 0 }
            return (place.name, isAsked ? .retracting : place.result)
        }
    }

    private func atServer(_ places: [(name: String, result: AtServer)]) -> AtServer {
        places.first { $0.name == primary?.name }?.result ?? .untouched
    }

    private func remove(_ user: StoreUser, at link: DestinationLink, instead: String) async throws -> AtServer {
        let place = try await store.destinations().first { $0.name == link.name }?.key ?? .vital
        let known = try await store.users(at: place).first { $0.key == user.key }?.serverUserID
        // Nobody without a name was ever made there.
        guard !user.clientUserID.isEmpty || known != nil else { return .absent }
        do {
            guard let api = link.open?.vital?.api else { throw link.refusal ?? Self.noServer }
            if let known { return try await api.deleteUser(known) ? .removed : .absent }
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
            if links.count > 1 { problem.message = "\(link.name): " + problem.message }
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
        for (name, result) in removal.places {
            let place = links.count > 1 ? name : "the server"
            switch result {
            case .removed: try await output.data("removed at \(place)")
            case .absent: try await output.data("not at \(place)")
            case .untouched: try await output.data("left as they are at \(place)")
            case .retracting: try await output.data("\(name) takes the readings back with the next delivery")
            }
        }
        try await output.data(
            "erased here: \(erased.readings) readings, \(erased.frames) frames, \(erased.contacts) contacts, "
                + "\(erased.sources) sources")
        for left in erased.destinations where left.leftBehind > 0 {
            try await output.data("\(left.destination) cannot take back \(left.leftBehind) readings")
        }
        guard !user.clientUserID.isEmpty, settings["user.client_user_id"] == user.clientUserID else { return }
        try await output.note(
            "the setting `user.client_user_id` still names them: new readings would be delivered for them again")
    }
}
