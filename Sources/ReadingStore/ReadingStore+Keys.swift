import Crypto
import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

/// The keys that a transaction takes into use.
private struct TakenKeys: Sendable {
    var state: Sealing.State
    /// What is wrong with the row of a person who waited for the key.
    var problem: StoreError?
    /// The file that the settings name, if it had a key before this store had any.
    var found: KeyFile?
}

/// The keys: which are known, which rows are under them, and how they change.
extension ReadingStore {
    /// The checks of keys that no row is under any more and that are to go from the file.
    private static let retired = "seal.retired"
    /// The check of the key that ``rotateKey(progress:)`` has made, until every row is under it.
    private static let rotation = "seal.rotation"
    /// Whether the key is to be destroyed once nothing is left to be taken back.
    private static let destruction = "seal.destroy"

    var keyFile: KeyFile {
        KeyFile(
            source: encryption.key ?? StoreKeySource(path: directory + "/" + StoreEncryption.keyName))
    }

    /// Why the store's content can neither be read nor added to; nil where it can.
    public var lockedBecause: StoreError? { sealing.refusal }

    /// Looks for the key again where it was missing: a store whose key comes back goes on by itself.
    ///
    /// - Throws: ``StoreError/keyMissing(path:)``, ``StoreError/keyWrong(path:)``,
    ///   ``StoreError/keyUnusable(path:reason:)``: nothing is read, taken in or overwritten.
    public func requireKeys() async throws {
        if sealing.refusal != nil { try await openKeys() }
        try sealing.requireKeys()
    }

    /// Takes the keys of the file into use, and re-encrypts rows that are not under the newest.
    func openKeys() async throws {
        let former = sealing.refusal
        try await takeKeys()
        try await useTakenKeys(after: former)
    }

    /// Does what follows once the keys are known.
    ///
    /// - Parameter former: why they were not known before.
    private func useTakenKeys(after former: StoreError?) async throws {
        if let refusal = sealing.refusal {
            if refusal != former { logger.error("\(refusal)", metadata: ["mend": "\(refusal.hint)"]) }
            return
        }
        try await removeRetired()
        try await loadPruneKey()
        do {
            try await correctTrendMinutes()
        } catch {
            // The store is of use without it; the next opening tries again.
            logger.warning(
                "the minutes of stored trend readings are not corrected yet", metadata: ["error": "\(error)"])
        }
        do {
            try await decodePending()
        } catch {
            logger.warning("what an interrupted contact left is not read yet", metadata: ["error": "\(error)"])
        }
        do {
            try await judgeAgain()
        } catch {
            logger.warning("stored readings are not judged again yet", metadata: ["error": "\(error)"])
        }
        resealInBackground()
        if former != nil { publishRemoval() }
    }

    /// Takes the keys of the file into use.
    ///
    /// - Parameter key: a new key, which the file gets first.
    /// - Throws: ``StoreError/keyMissing(path:)`` or ``StoreError/keyWrong(path:)`` if there is a new key and the file lacks one that
    ///   rows are under: the keys that the store still knows would be lost with it.
    func takeKeys(adding key: SymmetricKey? = nil) async throws {
        let taken = try await write(.setting) { [self] db -> TakenKeys in
            // The file is changed in transactions only: of two changes at the same moment, one would lose its key.
            if let key { try keyFile.replace(with: Self.keysOfRows(keyFile, db) + [key]) }
            let found = try foundKeys(db)
            var taken = try takeKeys(db)
            if taken.state.refusal == nil { taken.found = found }
            return taken
        } committed: { [self] taken in
            use(taken)
        }
        report(taken)
    }

    /// Checks that the file still has every key that rows are under. A store that is open knows them until it is closed; without the
    /// file it can't be opened again.
    ///
    /// - Throws: ``StoreError/keyMissing(path:)``, ``StoreError/keyWrong(path:)``, ``StoreError/keyUnusable(path:reason:)``.
    public func checkKeyFile() async throws {
        guard sealing.inUse != [0] else { return }
        let file = keyFile
        try await read { db in _ = try Self.keysOfRows(file, db) }
    }

    /// The keys of the file, all that rows are under among them.
    private static func keysOfRows(_ file: KeyFile, _ db: Database) throws -> [SymmetricKey] {
        let keys = try file.read()
        let checks = (keys ?? []).map(KeyFile.check)
        guard try KeyList(db).entries.allSatisfy({ $0.number == 0 || checks.contains($0.check) }) else {
            throw keys == nil ? StoreError.keyMissing(path: file.source.path) : .keyWrong(path: file.source.path)
        }
        return keys ?? []
    }

    /// The file that the settings name, if it has a key and this store has none yet: it may be another store's.
    private func foundKeys(_ db: Database) throws -> KeyFile? {
        guard encryption.isOn, encryption.key?.isWritable == true, try KeyList(db).entries.isEmpty,
            (try? keyFile.read()) != nil
        else { return nil }
        return keyFile
    }

    private func takeKeys(_ db: Database) throws -> TakenKeys {
        let state = try Self.state(db, keyFile, isOn: encryption.isOn)
        guard state.refusal == nil else { return TakenKeys(state: state) }
        let sealing = Sealing(state)
        if state.current > 0 { try PeopleTags(db: db, sealing: sealing).signUnnamed() }
        // In this commit: no reading is stored for anybody before the people are who they are to be.
        let problem = try waitingPeople.withLock(\.self).apply(db, sealing, now: now())
        return TakenKeys(state: state, problem: problem)
    }

    private func use(_ taken: TakenKeys) {
        if taken.state.refusal == nil { waitingPeople.withLock { $0 = WaitingPeople() } }
        sealing.set(taken.state)
    }

    private func report(_ taken: TakenKeys) {
        if let problem = taken.problem { logger.error("\(problem)", metadata: ["mend": "\(problem.hint)"]) }
        if let found = taken.found { logger.warning("\(found.sharingWarning)") }
    }

    private static func state(_ db: Database, _ file: KeyFile, isOn: Bool) throws -> Sealing.State {
        var list = try KeyList(db)
        var state = Sealing.State()
        var keys: [SymmetricKey]?
        do { keys = try file.read() } catch let error as StoreError {
            // Of no matter to a store in the clear.
            guard isOn || list.entries.contains(where: { $0.number > 0 }) else {
                state.earlier = .all
                return state
            }
            state.refusal = error
            return state
        }
        for entry in list.entries where entry.number > 0 {
            guard let key = keys?.first(where: { KeyFile.check($0) == entry.check }) else {
                state.refusal =
                    keys == nil ? .keyMissing(path: file.source.path) : .keyWrong(path: file.source.path)
                return state
            }
            state.keys[entry.number] = GenerationKeys(
                generation: entry.number, key: key, bindsColumns: entry.bindsColumns)
        }
        if isOn || list.entries.contains(where: { $0.number > 0 }) { try list.authenticate(db, state.keys) }
        let werePeopleSigned = list.entries.contains(where: \.signsPeople)
        if isOn {
            let newest: SymmetricKey
            // A key that rows are under is in use, whatever else says that it is to go.
            let listed = list.entries.map(\.check)
            let retired = try lines(db, retired).filter { !listed.contains($0) }
            if let key = keys?.last(where: { !retired.contains(KeyFile.check($0)) }) {
                newest = key
            } else {
                guard file.source.isWritable else {
                    state.refusal = .keyMissing(path: file.source.path)
                    return state
                }
                newest = SymmetricKey(size: .bits256)
                try file.replace(with: (keys ?? []) + [newest])
            }
            let check = KeyFile.check(newest)
            let known = list.entries.first { $0.check == check && $0.bindsColumns }
            let number = known?.number ?? (list.entries.map(\.number).max() ?? 0) + 1
            if known == nil { list.entries.append(.init(number: number, check: check, bindsColumns: true)) }
            state.keys[number] = GenerationKeys(generation: number, key: newest)
            state.current = number
            for index in list.entries.indices where list.entries[index].number == number {
                list.entries[index].signsPeople = true
            }
            if !werePeopleSigned { try PeopleTags(db: db, sealing: Sealing(state)).signAll() }
            if !list.entries.contains(where: { !$0.bindsColumns }) {
                list.earlier = nil
            } else if list.earlier == nil || list.earlier == .all {
                list.earlier = try EarlierRows(db)
            }
            state.earlier = list.earlier
        } else {
            if !list.entries.contains(where: { $0.number == 0 }) {
                list.entries.append(.init(number: 0, check: "", bindsColumns: false))
            }
            list.earlier = list.entries.contains(where: \.bindsColumns) ? .all : nil
            state.earlier = .all
            for index in list.entries.indices { list.entries[index].signsPeople = false }
            if werePeopleSigned { try PeopleTags(db: db, sealing: Sealing(state)).clear() }
        }
        state.inUse = list.entries.map(\.number).sorted {
            ($0 == state.current ? 1 : 0, $0) > ($1 == state.current ? 1 : 0, $1)
        }
        try list.write(db, state.keys)
        return state
    }

    // MARK: Change of keys

    /// Makes a new key, re-encrypts every row with it and destroys the previous one.
    ///
    /// The file has both from before the first row is sealed anew until after the last: where it is cut short, opening
    /// the store goes on with it, and so does calling this again, without another key.
    ///
    /// One call at a time changes the key. A call during another one waits for it, is told of its progress and returns
    /// what the other one has done. If the other one is stopped or fails, the call that waits goes on.
    ///
    /// - Parameter progress: called after each transaction, by a call that this one waits for, too.
    /// - Returns: how many readings were re-encrypted, and which rows could not be read.
    /// - Throws: ``StoreError/keyUnusable(path:reason:)`` where the file is not the store's to write;
    ///   ``StoreError/keyMissing(path:)`` and ``StoreError/keyWrong(path:)`` where it lacks the key that the store is open with;
    ///   ``StoreError/tooLittleSpace(path:needed:free:)``, and nothing was changed; `CancellationError`.
    @discardableResult
    public func rotateKey(progress: @escaping StoreProgress.Handler = { _ in }) async throws -> KeyChange {
        try await requireKeys()
        let file = keyFile
        guard encryption.isOn else {
            throw StoreError.keyUnusable(path: file.source.path, reason: "is not in use: encryption is off")
        }
        guard file.source.isWritable else {
            throw StoreError.keyUnusable(
                path: file.source.path, reason: "is a credential: add the new key there as its last line, and restart")
        }
        return try await keyChanges.run(progress) { progress in
            try await requireSpaceToRewrite()
            let isUnderWay = try await isRotating()
            // What is under way to the present newest key ends first: no more than two keys are in use at a time.
            let change = try await finishResealing(progress: progress)
            guard !isUnderWay else { return change }
            let key = SymmetricKey(size: .bits256)
            try await write(.setting) { db in try Self.set(db, Self.rotation, lines: [KeyFile.check(key)]) }
            try await takeKeys(adding: key)
            return try await finishResealing(progress: progress)
        }
    }

    /// Whether rows are being re-encrypted with a key that a rotation has made.
    private func isRotating() async throws -> Bool {
        guard sealing.inUse.count > 1 || sealing.hasRetired else { return false }
        return try await read { db in
            guard let check = try Self.lines(db, Self.rotation).first else { return false }
            return try KeyList(db).entries.last?.check == check
        }
    }

    /// Destroys the key where no reading is left that it seals, and begins another. What devices are called, which it
    /// sealed too, is learnt again of them.
    ///
    /// - Returns: whether it was the store's to destroy: a credential is not.
    @discardableResult
    public func destroyKey() async throws -> Bool {
        let (former, isWritable) = (sealing.refusal, keyFile.source.isWritable)
        let taken = try await write(.setting) { [self] db -> TakenKeys? in
            // A credential that is there goes on sealing what comes next, so the list has to go on naming it.
            guard isWritable || sealing.refusal != nil else { return nil }
            let isUsed = try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM frame) OR EXISTS (SELECT 1 FROM reading)")
            guard isUsed == false, try Self.lines(db, Self.pruneKeySetting).isEmpty else { return nil }
            // What destinations are still to take back is sealed under it.
            let isNeeded = try Retracting.isAnyAsked(db)
            try Self.set(db, Self.destruction, lines: isNeeded ? ["1"] : [])
            guard !isNeeded else { return nil }
            try Retracting.giveUp(db)
            let checks = Set(try KeyList(db).entries.filter { $0.number > 0 }.map(\.check))
            try db.execute(sql: "UPDATE device SET label = NULL")
            let people = PeopleTags(db: db, sealing: sealing)
            if sealing.refusal != nil { try people.clearUnchecked() } else if sealing.current > 0 { try people.clear() }
            try Self.set(db, Self.retired, lines: Self.lines(db, Self.retired) + checks.sorted())
            try KeyList.clear(db)
            // In this commit: the next one may store a reading, and its key has to be listed.
            return try isWritable ? takeKeys(db) : nil
        } committed: { [self] taken in
            if let taken { use(taken) }
        }
        guard let taken else { return false }
        report(taken)
        try await useTakenKeys(after: former)
        return true
    }

    /// Whether the key is destroyed as soon as nothing is left to be taken back.
    public func isKeyToBeDestroyed() async throws -> Bool {
        try await read { db in try !Self.lines(db, Self.destruction).isEmpty }
    }

    /// Whether a destination that the settings name is still to take back something that was erased or changed here.
    package func isAnythingToBeTakenBack() async throws -> Bool { try await read(Retracting.isAnyAsked) }

    /// Destroys the key if that was asked for and the last reading to be taken back has been.
    func destroyKeyIfAsked() async throws {
        let isAsked = try await read { db in
            try !Self.lines(db, Self.destruction).isEmpty
                && !Retracting.isAnyAsked(db)
        }
        if isAsked { try await destroyKey() }
    }

    /// Notes that every row is under the current key.
    static func retireOtherGenerations(_ db: Database, _ sealing: Sealing) throws {
        let current = sealing.current
        var list = try KeyList(db)
        let former = list.entries
        list.entries = former.filter { $0.number == current }
        list.earlier = nil
        // One key may be of two generations: the rows of one were re-encrypted for the other.
        let kept = list.entries.map(\.check)
        let gone = former.filter { $0.number > 0 && !kept.contains($0.check) }.map(\.check)
        try set(db, retired, lines: lines(db, retired).filter { !kept.contains($0) } + gone)
        try list.write(db, current > 0 ? [current: sealing.keys(of: current)] : [:])
    }

    /// Takes keys out of the file that no row is under any more.
    func removeRetired() async throws {
        guard try await !read(Self.unusedChecks).isEmpty else { return }
        let file = keyFile
        let isOurs = try await write(.setting) { db -> Bool in
            let checks = try Self.unusedChecks(db)
            let keys = try file.source.isWritable ? file.read() : nil
            if let keys {
                let kept = keys.filter { !checks.contains(KeyFile.check($0)) }
                if kept.count < keys.count { try file.replace(with: kept) }
            }
            try Self.set(db, Self.retired, lines: [])
            try Self.set(db, Self.rotation, lines: [])
            return keys != nil
        }
        if !isOurs {
            logger.notice(
                "every row is sealed with the newest key; you may remove the older keys from \(file.source.path)")
        }
    }

    /// The checks of keys that are to go from the file and that no row is under.
    private static func unusedChecks(_ db: Database) throws -> [String] {
        let listed = try KeyList(db).entries.map(\.check)
        return try lines(db, retired).filter { !listed.contains($0) }
    }
}
