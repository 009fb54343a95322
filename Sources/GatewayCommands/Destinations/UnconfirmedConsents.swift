import HealthReadings
import ReadingStore

/// People whose readings destinations don't get since a backup was put back: what they had withdrawn after it was made is granted
/// in it, so they have to say again what may be delivered.
struct UnconfirmedConsents: Sendable, Hashable {
    /// Who they are, for each destination where something waits for it.
    let people: [DestinationKey: Set<UserKey>]
    /// When the backup was put back.
    let since: Instant

    /// - Returns: `nil` if there is nobody who has to.
    init?(of store: ReadingStore) async throws {
        // Without its key the store delivers nothing, and that is said instead.
        guard store.lockedBecause == nil, let since = try await store.importedAt() else { return nil }
        let people = try await store.unconfirmedPeople()
        guard !people.isEmpty else { return nil }
        (self.people, self.since) = (people, since)
    }

    /// What waits for it, without names: also for whoever may see one person's readings only.
    var words: String {
        "a backup was put back at \(since.flooredToSecond), and a consent that was withdrawn after it was made is granted in it: "
            + "readings wait until their consents are confirmed or withdrawn (`healthrelay consent`)"
    }

    /// The same of one destination; `nil` if nothing waits there.
    func warning(at destination: DestinationKey) -> String? { people[destination] == nil ? nil : words }

    /// What is told to whoever may know everybody: who has to, and what to do about it.
    func finding(in store: ReadingStore) async throws -> (found: String, mend: String) {
        let everybody = people.values.reduce(into: Set<UserKey>()) { $0.formUnion($1) }
        var names: [String] = []
        for key in everybody.sorted(by: { $0.rawValue < $1.rawValue }).prefix(Self.mostNames) {
            // Other checks tell of a person whose row was changed outside of this program.
            let name = (try? await store.user(key))?.clientUserID
            names.append(
                name.map { $0.isEmpty ? "the person without a name (`--user \"\"`)" : $0 } ?? "person \(key.rawValue)")
        }
        let others = everybody.count - names.count
        let more = others > 0 ? " and \(others) more" : ""
        let isCurrentAlone = try await everybody == [store.currentUser().key]
        let user = isCurrentAlone ? "" : ", with `--user ID` for each person but the current one"
        return (
            "\(words), for \(names.joined(separator: ", "))\(more)",
            "`healthrelay consent revoke KIND...` for what was withdrawn, then `healthrelay consent grant KIND...` for the "
                + "rest\(user); the page's set-up asks the current person"
        )
    }

    /// A line with more names could not be read.
    private static let mostNames = 10
}
