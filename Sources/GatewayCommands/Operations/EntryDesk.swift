import GatewaySettings
import HealthReadings
import ReadingStore

/// What of an entry is to become another; a part that is `nil` stays, and an empty pulse, meal or note goes.
public struct EntryChange: Codable, Sendable, Hashable {
    /// The number, or both of a blood pressure.
    public var value: String?
    /// The unit.
    public var unit: String?
    /// The pulse.
    public var pulse: String?
    /// The time, as `EntryText` has it.
    public var time: String?
    /// The meal.
    public var meal: String?
    /// The note.
    public var note: String?

    /// Changes nothing.
    public init() {}

    /// Whether nothing is to change.
    package var isEmpty: Bool { [value, unit, pulse, time, meal, note].allSatisfy { $0 == nil } }
}

/// What an entry, a correction or a withdrawal came to.
package struct EntryResult: Sendable {
    /// How it ended.
    package enum Outcome: String, Sendable { case added, present, corrected, withdrawn }

    /// How it ended.
    package var outcome: Outcome
    /// The reading; `nil` if its content was pruned.
    package var reading: Reading?

    /// `{"outcome", "reading"}`.
    package var document: JSONValue {
        .object(["outcome": .string(outcome.rawValue), "reading": reading?.document ?? .null])
    }
}

/// Takes what people enter by hand, and asks about what is unusual, for the command line and the local API alike.
package struct EntryDesk: Sendable {
    /// Asks whether an unusual entry is right; throws where it is not, or nobody can say.
    package typealias Confirmation = @Sendable ([EntryDoubt]) async throws -> Void

    private let gateway: Gateway

    /// Makes a desk.
    package init(_ gateway: Gateway) { self.gateway = gateway }

    /// Stores an entry.
    ///
    /// - Throws: `EntryError` for what cannot be a reading; whatever `confirm` throws; `Problem` while the clock is untrusted.
    package func add(_ text: EntryText, of person: StoreUser, confirm: Confirmation) async throws -> EntryResult {
        if let problem = await gateway.clockProblem() { throw problem }
        let now = Instant.systemClock
        let entry = try await entry(text, of: person, at: now)
        return try await keep(entry, at: now, as: .added, confirm)
    }

    /// Stores a corrected entry in the place of another.
    ///
    /// - Throws: `EntryChangeError` for a reading that nobody entered; otherwise as ``add(_:of:confirm:)``.
    package func correct(
        _ reading: Reading, with change: EntryChange, confirm: Confirmation
    ) async throws -> EntryResult {
        if let problem = await gateway.clockProblem() { throw problem }
        guard let facts = reading.record.entry else { throw EntryChangeError.measured(reading.id) }
        guard let person = try await gateway.store.user(reading.person ?? "") else {
            throw StoreError.unknown("the person of an entry")
        }
        let now = Instant.systemClock
        var text = reading.text
        text.value = change.value ?? text.value
        text.unit = change.unit ?? text.unit
        text.time = change.time
        func chosen(_ new: String?, _ old: String?) -> String? { new.map(\.nonEmpty) ?? old }
        text.pulse = chosen(change.pulse, text.pulse)
        text.meal = chosen(change.meal, reading.context?.meal)
        text.note = chosen(change.note, facts.note)
        var entry = try await entry(text, of: person, at: now)
        if change.time == nil { (entry.time, entry.localTime) = (reading.time, reading.record.baseTime) }
        if entry.id == reading.id {
            guard reading.excluded != .withdrawn else { throw EntryChangeError.withdrawn(reading.id) }
            return EntryResult(outcome: .present, reading: reading)
        }
        // The same correction again finds its own reading there, or that it was pruned.
        if reading.excluded == .withdrawn, try await !gateway.store.knows(entry) {
            throw EntryChangeError.withdrawn(reading.id)
        }
        entry.corrects = reading.id
        return try await keep(entry, at: now, as: .corrected, confirm)
    }

    /// Withdraws an entry; one that was withdrawn or corrected before is `present`: nothing changes.
    ///
    /// - Throws: `EntryChangeError` for a reading that nobody entered; `Problem` while the clock is untrusted.
    package func withdraw(_ id: ReadingID) async throws -> EntryResult {
        if let problem = await gateway.clockProblem() { throw problem }
        let wasWithdrawn = try await gateway.store.reading(id)?.excluded == .withdrawn
        let reading = try await gateway.store.withdraw(id)
        gateway.destinations.wake()
        return EntryResult(outcome: wasWithdrawn ? .present : .withdrawn, reading: reading)
    }

    private func entry(_ text: EntryText, of person: StoreUser, at now: Instant) async throws -> ManualEntry {
        try ManualEntry(
            text, person: person.clientUserID, zones: await gateway.store.zones(of: person.key), now: now)
    }

    private func keep(
        _ entry: ManualEntry, at now: Instant, as outcome: EntryResult.Outcome, _ confirm: Confirmation
    ) async throws -> EntryResult {
        let others = try await gateway.store.entries(of: entry.person, entry.kind, at: entry.instant)
        // What is there already is not asked about: nothing will change.
        if !others.contains(where: { $0.id == entry.id }) {
            let doubts =
                entry.doubts(at: now) + others.filter { $0.id != entry.corrects }.map { EntryDoubt.sameTime($0.id) }
            if !doubts.isEmpty { try await confirm(doubts) }
        }
        let kept = try await gateway.store.enter(entry)
        gateway.destinations.wake()
        switch kept {
        case .added(let reading): return EntryResult(outcome: outcome, reading: reading)
        case .present(let reading): return EntryResult(outcome: .present, reading: reading)
        case .pruned: return EntryResult(outcome: .present, reading: nil)
        }
    }
}

extension Reading {
    /// The values as they were typed.
    fileprivate var text: EntryText {
        func digits(_ quantity: Quantity?) -> String? {
            switch quantity?.number {
            case .value(let number), .implausible(let number): number.description
            default: nil
            }
        }
        var text = EntryText(kind: kind.rawValue, value: "", unit: "")
        switch record.value {
        case .glucose(let glucose):
            text.value = digits(glucose.concentration) ?? ""
            text.unit = glucose.concentration?.unit.symbol ?? ""
        case .bloodPressure(let pressure):
            text.value = "\(digits(pressure.systolic) ?? "")/\(digits(pressure.diastolic) ?? "")"
            text.unit = pressure.systolic.unit.symbol
            text.pulse = digits(pressure.pulse)
        case .vital(let vital):
            text.value = digits(vital.main) ?? ""
            text.unit = vital.main?.unit.symbol ?? ""
            text.pulse = digits(vital[.pulse])
        // Nobody enters these by hand.
        case .kept: break
        }
        return text
    }
}
