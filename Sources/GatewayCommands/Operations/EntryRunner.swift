import GatewaySettings
import HealthReadings
import ReadingStore

/// The arguments of `add`, `correct` and `withdraw`.
public enum EntryOperation: Codable, Sendable, Hashable {
    /// Stores what a person typed; `person` is the client's id, `nil` for the current user. If `confirmed`, nothing is asked.
    case add(EntryText, person: String?, confirmed: Bool)
    /// Stores it in the place of the entry with this id.
    case correct(String, EntryChange, confirmed: Bool)
    /// Takes the entry with this id back.
    case withdraw(String)
}

/// `add`, `correct` and `withdraw`: readings that people enter by hand.
struct EntryRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: EntryOperation) async throws {
        let desk = EntryDesk(gateway)
        let result: EntryResult
        switch operation {
        case .add(let text, let person, let isConfirmed):
            result = try await desk.add(
                text, of: gateway.store.personOrCurrent(named: person), confirm: confirmation(isConfirmed))
        case .correct(let id, let change, let isConfirmed):
            guard !change.isEmpty else {
                throw Problem.usage("correct: expected another value, time, pulse, meal or note, found none")
            }
            result = try await desk.correct(reading(id), with: change, confirm: confirmation(isConfirmed))
        case .withdraw(let id):
            result = try await desk.withdraw(reading(id).id)
        }
        guard !json else { return try await output.data(result.document.text) }
        if let reading = result.reading { try await output.data(reading.line) }
        guard result.outcome == .present else { return }
        if case .withdraw = operation {
            // Somebody may mean the value that counts, which is the correction's.
            try await output.note("this reading was withdrawn or corrected before: nothing has changed")
        } else {
            try await output.note("this entry is stored already: nothing has changed")
        }
    }

    private func reading(_ text: String) async throws -> Reading {
        let id = try ReadingID.argument(text)
        guard let reading = try await gateway.store.reading(id) else { throw EntryChangeError.noSuchReading(id) }
        return reading
    }

    private func confirmation(_ isConfirmed: Bool) -> EntryDesk.Confirmation {
        { [output] doubts in
            guard !isConfirmed else { return }
            guard case .confirmation(true) = try await output.ask(.unusualEntry(doubts: doubts.map(\.description)))
            else {
                throw Problem("not_confirmed", .badData, "not confirmed: nothing was stored")
            }
        }
    }
}
