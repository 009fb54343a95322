import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import ReadingDelivery
import ReadingStore
import Synchronization
import VitalClient
import VitalDestination

/// `user remove` and `store forget`: the right to be forgotten, at the server and here.
struct RemovalRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    private var clients: ClientList { ClientList(gateway: gateway) }

    /// What removing a person came to.
    private struct Removal: Sendable {
        var user: StoreUser
        /// What became of them at the server that `user` is about.
        var atServer: AtServer
        /// What became of them at each destination, in the order of the settings.
        var places: [Place]
        var erased: Erasure

        /// `{client_user_id, user_id, at_server, destinations: [{name, result}], erased: {readings, frames, contacts,
        /// sources}}`.
        var document: JSONValue {
            .object([
                "client_user_id": .optional(user.clientUserID.nonEmpty),
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

    /// What became of a person at a destination.
    private struct Place: Sendable {
        var name: String
        var result: AtServer
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

    func remove(confirmed: String?, isLocal: Bool) async throws {
        let work = { @Sendable () async throws -> Removal in
            let user = try await gateway.store.currentUser(at: gateway.destinations.primaryPlace())
            if let confirmed, confirmed != user.clientUserID {
                throw Problem(
                    "user_changed", .tryAgain, "the current user is no longer '\(confirmed)'; nothing was erased",
                    hint: "look again: `healthrelay user show`")
            }
            // The server first: what it still holds could not be found again once their id is gone here.
            let places = try await removeEverywhere([user], isLocal: isLocal)[0]
            try await revokeClients(of: [user])
            let erased = try await erase(user, retracts: !isLocal, except: try await removedKeys(places))
            try await forgetAccess(of: [user], everybody: false)
            for link in gateway.destinations.links { await link.open?.vital?.sources.forget() }
            gateway.refreshMeters()
            try await rewriteFiles()
            return Removal(
                user: user, atServer: atServer(places), places: Self.asked(places, erased), erased: erased)
        }
        // A post on its way would arrive for somebody who is gone, and might make them again.
        let removal = try await untilDone(gateway.isService) { try await gateway.destinations.withoutDelivery(work) }
        try await tell(removal)
        try await tellOfBackups()
    }

    /// Erases one person, or everybody there is: the current one last, whose devices are those that nobody else has.
    func forget(_ operation: ForgetOperation) async throws {
        let work = { @Sendable () async throws -> [Removal] in
            let people = try await people(operation.user)
            // The server first, and for all: once their ids are gone here, nobody could find them there again.
            let everywhere = try await removeEverywhere(
                people, isLocal: !operation.atServer, instead: "without --server, only the data here is erased")
            var removals = zip(people, everywhere).map { user, places in
                Removal(user: user, atServer: atServer(places), places: places, erased: Erasure())
            }
            try await revokeClients(of: people)
            for index in removals.indices {
                let places = removals[index].places
                removals[index].erased = try await erase(
                    removals[index].user, retracts: operation.atServer, except: try await removedKeys(places))
                removals[index].places = Self.asked(places, removals[index].erased)
            }
            try await forgetAccess(of: people, everybody: operation.user == nil)
            if operation.user == nil {
                try await gateway.store.destroyPruneKey()
                try await destroyKey()
            }
            for link in gateway.destinations.links { await link.open?.vital?.sources.forget() }
            gateway.refreshMeters()
            try await rewriteFiles()
            return removals
        }
        let removals = try await untilDone(gateway.isService) { try await gateway.destinations.withoutDelivery(work) }
        try await tellOfBackups()
        guard !json else {
            return try await output.data(JSONValue.object(["users": .array(removals.map(\.document))]).text)
        }
        for removal in removals {
            try await output.data(removal.user.clientUserID.isEmpty ? "no name:" : "\(removal.user.clientUserID):")
            try await tell(removal)
        }
    }

    /// Does work that goes on, if `isCertain`, when nobody waits for it any more: somebody who is gone at a server and still here
    /// would be made there again.
    private func untilDone<Value: Sendable>(
        _ isCertain: Bool, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await isCertain ? Task { try await work() }.value : work()
    }

    private func erase(_ user: StoreUser, retracts: Bool, except done: Set<DestinationKey>) async throws -> Erasure {
        let isCertain = gateway.isService || !done.isEmpty
        return try await untilDone(isCertain) { [gateway, output] in
            try await WorkProgress.following { progress in
                try await gateway.store.eraseUser(
                    user.key, retracts: retracts, except: done, rewritesFiles: false, progress: progress)
            } tell: { progress in
                do { try await output.progress(progress) } catch { if !isCertain { throw error } }
            }
        }
    }

    /// Once, whoever was erased, and last: it takes minutes in a large store, and nothing else may wait for it.
    private func rewriteFiles() async throws {
        try await output.following { try await gateway.store.finishErasure(progress: $0) }
    }

    /// Says where what was erased still is.
    private func tellOfBackups() async throws {
        guard let setting = gateway.settings.backup else { return }
        // One that is being made was begun while the person was there.
        let begun = gateway.isBackingUp.withLock(\.self) ? 1 : 0
        guard let folder = try? await gateway.backupFolder(), let made = try? await folder.backups().count else {
            return try await output.note(
                "backups in \(setting.directory), which cannot be read now, may still have what was erased: delete them if it must not come back"
            )
        }
        let count = made + begun
        guard count > 0 else { return }
        try await output.note(
            "\(count) backups in \(folder.setting.directory) still have what was erased: delete them if it must not come back"
        )
    }

    /// Revokes the clients of people who are about to be erased: nobody who takes the name later gets them. Nor does anybody
    /// fetch from their accounts.
    private func revokeClients(of people: [StoreUser]) async throws {
        try await gateway.clouds.forget(people: people.map(\.clientUserID))
        let names = people.map(\.clientUserID).filter { !$0.isEmpty }
        gateway.door?.desk.withdraw(people: names)
        guard hasClients else { return }
        let now = await clients.time()
        for number in try await clients.using({ try await $0.revoke(people: names, now: now) }) {
            gateway.door?.audit.note(AuditEntry(at: now, event: "revoked", client: number))
        }
    }

    /// Whether there is a list of clients.
    private var hasClients: Bool { access(gateway.store.directory + "/" + AccessStore.fileName, F_OK) == 0 }

    /// Forgets in the audit log who was served readings, and the people's names in the list of clients; with everybody,
    /// all of it and all who were let in.
    private func forgetAccess(of people: [StoreUser], everybody: Bool) async throws {
        guard hasClients else { return }
        let names = people.map(\.clientUserID).filter { !$0.isEmpty }
        await gateway.door?.audit.flush()
        gateway.door?.audit.forget(routes: AuditLog.readingRoutes, everybody: everybody)
        try await clients.using {
            try await $0.forget(routes: AuditLog.readingRoutes, people: names, everybody: everybody)
        }
    }

    /// Destroys the key with what it sealed: whatever an old copy of the files still holds cannot be opened with it.
    private func destroyKey() async throws {
        guard try await !gateway.store.destroyKey(), gateway.store.encryption.isOn else { return }
        guard try await !gateway.store.isKeyToBeDestroyed() else {
            return try await output.note(
                "the store's key is destroyed once the destinations have taken everything back")
        }
        try await output.note(
            "the store's key is a credential, so it stays; to replace it at the next start, add a new key as its last line"
        )
    }

    private func people(_ name: String?) async throws -> [StoreUser] {
        guard let name else {
            let current = try await gateway.store.currentUser()
            return try await gateway.store.users().filter { $0.key != current.key } + [current]
        }
        guard !name.isEmpty, let user = try await gateway.store.user(name) else {
            throw Problem("unknown_user", .noInput, "the store has no data of '\(name)'; nothing was erased")
        }
        // Of two who were known by two spellings, the command given twice is not to erase both.
        guard user.clientUserID.unicodeScalars.elementsEqual(name.unicodeScalars) else {
            throw Problem(
                "unknown_user", .noInput,
                "the store has no data of '\(name)' as it is spelled here in Unicode, but of '\(user.clientUserID)'; nothing was erased"
            )
        }
        return [user]
    }

    /// Removes people at every destination that can take back what it has.
    ///
    /// Every server is asked for everybody before the first one removes anybody, so that one that cannot be reached, or
    /// refuses, leaves all as they are.
    ///
    /// - Returns: for each person, what became of them at each destination.
    private func removeEverywhere(
        _ people: [StoreUser], isLocal: Bool,
        instead: String = "`healthrelay user remove --local` erases only the data here"
    ) async throws -> [[Place]] {
        let links = gateway.destinations.links
        let servers = isLocal ? [] : links.filter(\.isServer)
        // Whose id is whose cannot be checked without the key: somebody else could be removed.
        if !servers.isEmpty, let locked = gateway.store.lockedBecause {
            throw Self.refused(locked, hint: instead)
        }
        var asked: [(person: Int, name: String, remove: () async throws -> AtServer)] = []
        for (number, user) in people.enumerated() {
            for link in servers {
                do {
                    let isOnly = servers.count == 1 && people.count == 1
                    asked.append((number, link.name, try await removal(of: user, at: link, isOnly: isOnly)))
                } catch {
                    throw Self.refused(error, at: links.count > 1 ? link.name : nil, hint: instead)
                }
            }
        }
        var results = people.map { _ in [String: AtServer]() }
        for (number, name, remove) in asked {
            do { results[number][name] = try await remove() } catch {
                throw Self.refused(
                    error, at: links.count > 1 ? name : nil, done: Self.done(results), hint: instead)
            }
        }
        let others = try await otherDestinations()
        return results.map { results in
            links.map { Place(name: $0.name, result: results[$0.name] ?? .untouched) }
                + others.map { Place(name: $0, result: .untouched) }
        }
    }

    /// Destinations that have readings, and that the settings no longer name or that this gateway leaves alone.
    private func otherDestinations() async throws -> [String] {
        var names: [String] = []
        for known in try await gateway.store.destinations()
        where !gateway.destinations.links.contains(where: { $0.name == known.name }) {
            if try await gateway.store.statistics(of: known.key).delivered > 0 { names.append(known.name) }
        }
        return names
    }

    /// Where people were removed before a removal failed: `clinic: 1 of 2 people`.
    private static func done(_ results: [[String: AtServer]]) -> [String] {
        let counts = results.flatMap(\.keys).reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
        return counts.sorted { $0.key < $1.key }.map { name, count in
            results.count == 1 ? name : "\(name): \(count) of \(results.count) people"
        }
    }

    /// The destinations that have erased the person with all readings.
    private func removedKeys(_ places: [Place]) async throws -> Set<DestinationKey> {
        let names = places.filter { $0.result != .untouched }.map(\.name)
        return Set(try await gateway.store.destinations().filter { names.contains($0.name) }.map(\.key))
    }

    /// What became of a person at each destination, with those that are asked to take back single readings.
    private static func asked(
        _ places: [Place], _ erased: Erasure
    ) -> [Place] {
        places.map { place in
            let isAsked = erased.destinations.contains { $0.destination == place.name && $0.retracting > 0 }
            return Place(name: place.name, result: isAsked ? .retracting : place.result)
        }
    }

    private func atServer(_ places: [Place]) -> AtServer {
        places.first { $0.name == gateway.destinations.primary?.name }?.result ?? .untouched
    }

    /// Asks a server for a person, and returns what removes them there.
    ///
    /// - Parameter isOnly: whether nobody else is removed: then the removal itself is the question.
    private func removal(
        of user: StoreUser, at link: DestinationLink, isOnly: Bool
    ) async throws -> () async throws -> AtServer {
        let place = try await gateway.store.destinations().first { $0.name == link.name }?.key ?? .vital
        let known = try await gateway.store.users(at: place).first { $0.key == user.key }?.serverUserID
        // Nobody without a name was ever made there.
        guard !user.clientUserID.isEmpty || known != nil else { return { .absent } }
        try await gateway.destinations.requireSettled(link)
        guard let api = link.open?.vital?.api else { throw link.refusal ?? Problem.noServer }
        let name = user.clientUserID
        if let known, isOnly { return { try await delete(known, name, at: api) } }
        do {
            if let known, name.isEmpty {
                _ = try await api.user(known)
                return { try await delete(known, name, at: api) }
            }
            let found = try await api.resolveUser(clientUserID: name).userID
            return { try await delete(known ?? found, name, at: api) }
        } catch let error as VitalError where error.kind == .notFound {
            try await requireAnswer(of: api, for: name)
            return { if let known { try await delete(known, name, at: api) } else { .absent } }
        }
    }

    private func delete(_ id: String, _ name: String, at api: VitalAPI) async throws -> AtServer {
        if try await api.deleteUser(id) { return .removed }
        try await requireAnswer(of: api, for: name)
        return .absent
    }

    /// Refuses to believe a server's 404 that it gives to everybody: a proxy's, or another program's.
    private func requireAnswer(of api: VitalAPI, for name: String) async throws {
        guard try await !api.refusesUnknownKey(lookingUp: name.isEmpty ? "healthrelay-test" : name) else { return }
        throw VitalError(
            .unexpectedAnswer, route: "GET /v2/user/resolve/{client_user_id}", status: 404,
            serverSaid: "expected 401 for a key that nobody has, found that it makes no difference")
    }

    /// The problem that a removal was refused: what was removed before, and that nothing was erased here.
    private static func refused(
        _ error: any Error, at name: String? = nil, done: [String] = [], hint instead: String
    ) -> any Error {
        if error is CancellationError { return error }
        var problem = Problem(telling: error)
        if let name { problem.message = "\(name): " + problem.message }
        if !done.isEmpty { problem.message += "; already removed at " + done.joined(separator: ", ") }
        problem.message += "; nothing was erased here"
        problem.hint =
            problem.isTemporary
            ? "try again later; " + instead : [problem.hint, instead].compactMap(\.self).joined(separator: "; or: ")
        return problem
    }

    private func tell(_ removal: Removal) async throws {
        let (user, erased) = (removal.user, removal.erased)
        guard !json else {
            return try await output.data(removal.document.text)
        }
        for place in removal.places {
            let (name, result) = (place.name, place.result)
            guard result == .retracting || gateway.destinations.links.contains(where: { $0.name == name }) else {
                let isNamed = gateway.settings.destination(name) != nil
                try await output.data(
                    "left as they are at \(name), which "
                        + (isNamed ? "this gateway does not deliver to now" : "the settings no longer name"))
                continue
            }
            let title = gateway.destinations.links.count > 1 ? name : "the server"
            switch result {
            case .removed: try await output.data("removed at \(title)")
            case .absent: try await output.data("not at \(title)")
            case .untouched: try await output.data("left as they are at \(title)")
            case .retracting: try await output.data("\(name) takes the readings back with the next delivery")
            }
        }
        try await output.data(
            "erased here: \(erased.readings) readings, \(erased.frames) frames, \(erased.contacts) contacts, "
                + "\(erased.sources) sources")
        for left in erased.destinations where left.leftBehind > 0 {
            try await output.data("\(left.destination) cannot take back \(left.leftBehind) readings")
        }
        guard !user.clientUserID.isEmpty, gateway.settings["user.client_user_id"] == user.clientUserID else { return }
        try await output.note(
            "the setting `user.client_user_id` still names them: new readings would be delivered for them again")
    }
}
