import Crypto
import Foundation
import GRDB

/// The keys: which are known, which rows are under them, and how they change.
extension ReadingStore {
    /// The setting that names the generations rows may be of: a number and its key's check a line; `0` for rows in the
    /// clear.
    private static let generations = "seal.generations"
    /// The checks of keys that no row is under any more and that are to go from the file.
    private static let retired = "seal.retired"

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

    /// Takes the keys of the file into use, and has rows that are not under the newest go over to it.
    func openKeys() async throws {
        let former = sealing.refusal
        try await takeKeys()
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
            try await judgeAgain()
        } catch {
            logger.warning("stored readings are not judged again yet", metadata: ["error": "\(error)"])
        }
        resealInBackground()
        if former != nil { subscribers.withLock { $0.publish([]) } }
    }

    private func takeKeys() async throws {
        let (file, isOn) = (keyFile, encryption.isOn)
        _ = try await write(.setting) { db in
            try Self.state(db, file, isOn: isOn)
        } committed: { [sealing] state in
            sealing.set(state)
        }
    }

    private static func state(_ db: Database, _ file: KeyFile, isOn: Bool) throws -> Sealing.State {
        var known = try knownGenerations(db)
        var state = Sealing.State()
        var keys: [SymmetricKey]?
        do { keys = try file.read() } catch let error as StoreError {
            // Of no matter to a store in the clear.
            guard isOn || known.contains(where: { $0.number > 0 }) else { return state }
            state.refusal = error
            return state
        }
        for (number, check) in known where number > 0 {
            guard let key = keys?.first(where: { KeyFile.check($0) == check }) else {
                state.refusal =
                    keys == nil ? .keyMissing(path: file.source.path) : .keyWrong(path: file.source.path)
                return state
            }
            state.keys[number] = GenerationKeys(generation: number, key: key)
        }
        if isOn {
            let newest: SymmetricKey
            let retired = try lines(db, retired)
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
            let number = known.first { $0.check == check }?.number ?? (known.map(\.number).max() ?? 0) + 1
            if !known.contains(where: { $0.number == number }) { known.append((number, check)) }
            state.keys[number] = GenerationKeys(generation: number, key: newest)
            state.current = number
        } else if !known.contains(where: { $0.number == 0 }) {
            known.append((0, ""))
        }
        state.inUse = known.map(\.number).sorted {
            ($0 == state.current ? 1 : 0, $0) > ($1 == state.current ? 1 : 0, $1)
        }
        let noted = known.map { $0.number == 0 ? "0" : "\($0.number) \($0.check)" }
        if try lines(db, generations) != noted { try set(db, generations, lines: noted) }
        return state
    }

    static func knownGenerations(_ db: Database) throws -> [(number: UInt64, check: String)] {
        let lines = try lines(db, generations)
        guard !lines.isEmpty else {
            let isEmpty = try Bool.fetchOne(db, sql: "SELECT NOT EXISTS (SELECT 1 FROM frame)") ?? true
            return isEmpty ? [] : [(0, "")]
        }
        return try lines.map { line in
            let parts = line.split(separator: " ")
            guard let number = parts.first.flatMap({ UInt64($0) }), parts.count == (number == 0 ? 1 : 2) else {
                throw StoreError.corrupt(detail: "the list of keys has the line \(line)")
            }
            return (number, parts.dropFirst().first.map(String.init) ?? "")
        }
    }

    /// Notes that some rows are in the clear again: a migration has made them anew.
    static func noteRowsInTheClear(_ db: Database) throws {
        let known = try lines(db, generations)
        if !known.isEmpty, !known.contains("0") { try set(db, generations, lines: known + ["0"]) }
    }

    // MARK: Change of keys

    /// Makes a new key, has every row go over to it and destroys the one before.
    ///
    /// The file has both from before the first row is sealed anew until after the last: where it is cut short, opening
    /// the store goes on with it.
    /// - Returns: how many readings went over.
    /// - Throws: ``StoreError/keyUnusable(path:reason:)`` where the file is not the store's to write.
    @discardableResult
    public func rotateKey() async throws -> Int {
        try await requireKeys()
        let file = keyFile
        guard encryption.isOn else {
            throw StoreError.keyUnusable(path: file.source.path, reason: "is not in use: encryption is off")
        }
        guard file.source.isWritable else {
            throw StoreError.keyUnusable(
                path: file.source.path, reason: "is a credential: add the new key there as its last line, and restart")
        }
        // What is under way to the present newest key ends first: no more than two keys are in use at a time.
        try await finishResealing()
        try file.replace(with: (try file.read() ?? []) + [SymmetricKey(size: .bits256)])
        try await takeKeys()
        return try await reseal()
    }

    /// Destroys the key where no reading is left that it seals, and begins another. What devices are called, which it
    /// sealed too, is learnt again of them.
    ///
    /// - Returns: whether it was the store's to destroy: a credential is not.
    @discardableResult
    public func destroyKey() async throws -> Bool {
        let isUnused = try await write(.setting) { db in
            let isUsed = try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM frame) OR EXISTS (SELECT 1 FROM reading)")
            guard isUsed == false, try Self.lines(db, Self.pruneKeySetting).isEmpty else { return false }
            let checks = try Self.knownGenerations(db).filter { $0.number > 0 }.map(\.check)
            try db.execute(sql: "UPDATE device SET label = NULL")
            try Self.set(db, Self.retired, lines: Self.lines(db, Self.retired) + checks)
            try Self.set(db, Self.generations, lines: [])
            return true
        }
        guard isUnused, keyFile.source.isWritable else { return false }
        try await openKeys()
        return true
    }

    /// Notes that every row is under the current key.
    static func retireOtherGenerations(_ db: Database, current: UInt64) throws {
        let known = try knownGenerations(db)
        try set(
            db, retired,
            lines: lines(db, retired) + known.filter { $0.number != current && $0.number > 0 }.map(\.check))
        try set(
            db, generations,
            lines: known.filter { $0.number == current }.map { $0.number == 0 ? "0" : "\($0.number) \($0.check)" })
    }

    /// Takes keys out of the file that no row is under any more.
    func removeRetired() async throws {
        let checks = try await read { db in try Self.lines(db, Self.retired) }
        guard !checks.isEmpty else { return }
        let file = keyFile
        if file.source.isWritable, let keys = try file.read() {
            let kept = keys.filter { !checks.contains(KeyFile.check($0)) }
            if kept.count < keys.count { try file.replace(with: kept) }
        } else {
            logger.notice("every row is under the newest key: the older ones may be removed from \(file.source.path)")
        }
        try await write(.setting) { db in try Self.set(db, Self.retired, lines: []) }
    }
}
