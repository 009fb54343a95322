import GRDB
import Synchronization

/// Why readings wait, as it was read last, until a commit changes it.
///
/// Only what documents show of it and where the journal queues a reading is taken from here. What is about to be delivered
/// asks the database each time.
struct KnownHolds: Sendable {
    /// Grows with each commit that changes the rules, or may have.
    private(set) var changes = 0
    private var rules: HoldRules?
    /// How often the keys had changed.
    private var keys = 0
    /// Whether a commit is under way that may change the rules: a reader may or may not see it.
    private var isChanging = false
    /// The number that SQLite gives the writing connection of what others have committed.
    private var dataVersion: Int64?

    /// - Parameter changes: the count at which they have to be good; `nil`: now.
    mutating func rules(at changes: Int? = nil, _ sealing: Sealing) -> HoldRules? {
        let keys = sealing.changes
        if keys != self.keys {
            self.keys = keys
            forget()
        }
        guard changes ?? self.changes == self.changes, !isChanging, sealing.refusal == nil else { return nil }
        return rules
    }

    /// - Parameters:
    ///   - changes: the count before they were read.
    ///   - keys: how often the keys had changed before.
    mutating func keep(_ found: HoldRules, at changes: Int, _ keys: Int) {
        // Those that are here may have heeded a contact since.
        guard rules == nil, !isChanging, changes == self.changes, keys == self.keys else { return }
        rules = found
    }

    /// Notes what is about to be committed: before anybody can read it.
    mutating func expect(_ change: HoldChange) { isChanging = !change.isNone }

    /// Notes what was committed; `nil`: nothing was.
    mutating func note(_ change: HoldChange?) {
        isChanging = false
        guard let change, !change.isNone else { return }
        var heeding = rules.take()
        switch change.apply(to: &heeding) {
        case .none: rules = heeding
        case .heeded:
            rules = heeding
            changes += 1
        case .unknown: changes += 1
        }
    }

    /// Forgets the rules if another program has changed the store, which none should.
    mutating func note(dataVersion version: Int64?) {
        if version != dataVersion { forget() }
        dataVersion = version
    }

    private mutating func forget() {
        rules = nil
        changes += 1
    }
}

/// What a transaction changes of why readings wait, as far as SQLite tells it.
struct HoldChange: Sendable {
    enum Effect {
        case none
        /// The rules were made those behind the change.
        case heeded
        /// They have to be read anew.
        case unknown
    }

    private let touched: TouchedRows.Parts?
    /// When the devices that it is about were first met.
    private let firstContacts: [Int64: Int64?]

    /// - Parameter touched: what was changed; `nil` if that is not known.
    init(_ db: Database, _ touched: TouchedRows.Parts?) throws {
        self.touched = touched
        // As the database has it: what a transaction has taken back was touched, too.
        firstContacts = try DeviceHolds.firstContacts(db, of: touched?.met ?? [])
    }

    /// Whether the rules are what they were, whatever they are.
    var isNone: Bool { touched.map { !$0.rules && !$0.devices && firstContacts.isEmpty } ?? false }

    func apply(to known: inout HoldRules?) -> Effect {
        guard let touched, !touched.rules, var rules = known.take(), !touched.devices || !rules.nameDevices else {
            return .unknown
        }
        let isChanged = rules.heed(firstContacts)
        known = rules
        return isChanged ? .heeded : .none
    }
}

/// Finds the rules for a read that begins after this was made: the count is older than what the read sees.
struct HoldLookup: Sendable {
    private let store: ReadingStore
    private let changes: Int

    init(_ store: ReadingStore) {
        self.store = store
        changes = store.holdsKnown.withLock(\.changes)
    }

    func rules(_ db: Database) throws -> HoldRules {
        let sealing = store.sealing
        if let known = store.holdsKnown.withLock({ $0.rules(at: changes, sealing) }) { return known }
        let keys = sealing.changes
        let rules = try HoldRules(db, sealing)
        store.holdsKnown.withLock { $0.keep(rules, at: changes, keys) }
        return rules
    }
}

extension ReadingStore {
    /// The rules as a transaction that writes sees them.
    func holdRules(inWriting db: Database) throws -> HoldRules {
        let version = try PreparedStatement(db, "PRAGMA data_version").firstInt()
        // Nobody commits meanwhile.
        let change = try HoldChange(db, touchedRows.parts)
        var known = holdsKnown.withLock { holds in
            holds.note(dataVersion: version)
            return holds.rules(sealing)
        }
        if change.apply(to: &known) != .unknown, let known {
            assert((try? HoldRules(db, sealing)).map { $0 == known } ?? true, "the rules have changed unnoticed")
            return known
        }
        return try change.isNone ? HoldLookup(self).rules(db) : HoldRules(db, sealing)
    }
}
