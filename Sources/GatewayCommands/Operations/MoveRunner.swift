import GatewaySettings
import HealthReadings
import ReadingStore

/// The arguments of `move`; instants are still text, because a date means the zone of ``person``, which the store knows.
public struct MoveOperation: Codable, Sendable, Hashable {
    /// The ids of readings; none: those of ``device``.
    public var ids: [String]
    /// The address of a device.
    public var device: String?
    /// The device's slot; `nil`: any.
    public var slot: UInt8?
    /// RFC 3339 or a date, inclusive.
    public var from: String?
    /// RFC 3339 or a date, inclusive.
    public var to: String?
    /// The client's id of the person who has them; `nil`: anybody.
    public var person: String?
    /// The client's id of the person whose they are.
    public var toPerson: String
    /// Whether nothing is asked.
    public var confirmed: Bool

    /// Makes it.
    public init(
        ids: [String] = [], device: String? = nil, slot: UInt8? = nil, from: String? = nil, to: String? = nil,
        person: String? = nil, toPerson: String, confirmed: Bool = false
    ) {
        self.ids = ids
        self.device = device
        self.slot = slot
        self.from = from
        self.to = to
        self.person = person
        self.toPerson = toPerson
        self.confirmed = confirmed
    }
}

/// `move`: readings that another person measured.
package struct MoveRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: MoveOperation) async throws {
        let desk = MoveDesk(gateway)
        let (selection, person) = try await desk.selection(operation)
        let preview = try await gateway.store.previewMove(of: selection, to: person.key)
        if preview.count > 0, !operation.confirmed {
            guard case .confirmation(true) = try await output.ask(.move(words: preview.words(to: operation.toPerson)))
            else { throw Problem("not_confirmed", .badData, "not confirmed: nothing was moved") }
        }
        let move = try await desk.move(selection, to: person)
        guard json else {
            for line in move.lines(to: operation.toPerson) { try await output.data(line) }
            return
        }
        try await output.data(move.document(to: operation.toPerson).text)
    }
}

/// Moves readings for whoever asks.
package struct MoveDesk: Sendable {
    private let gateway: Gateway

    package init(_ gateway: Gateway) { self.gateway = gateway }

    /// What the arguments mean.
    ///
    /// - Throws: `Problem` for arguments that cannot be used, and people that the store does not know.
    package func selection(_ operation: MoveOperation) async throws -> (MoveSelection, StoreUser) {
        let person = try await user(operation.toPerson)
        guard let device = operation.device else {
            guard !operation.ids.isEmpty, operation.slot == nil, operation.from == nil, operation.to == nil,
                operation.person == nil
            else { throw Problem.usage("expected the ids of readings, or a device") }
            return (.readings(try operation.ids.map(ReadingID.argument)), person)
        }
        guard operation.ids.isEmpty else {
            throw Problem.usage("expected the ids of readings, or a device, found both")
        }
        guard let address = DeviceAddress(device) else {
            throw Problem.usage("expected an address such as C0:00:00:00:18:08, found '\(device.prefix(64))'")
        }
        let holder = try await operation.person.asyncMap { try await user($0) }
        return (
            .device(
                .init(
                    address: try await gateway.known(address), slot: operation.slot,
                    range: try await gateway.store.range(from: operation.from, to: operation.to, of: holder),
                    person: holder?.key)),
            person
        )
    }

    /// Moves them, and has the destinations told.
    package func move(_ selection: MoveSelection, to person: StoreUser) async throws -> ReadingMove {
        let move = try await gateway.store.moveReadings(selection, to: person.key)
        gateway.destinations.wake()
        return move
    }

    private func user(_ name: String) async throws -> StoreUser {
        guard !name.isEmpty, let user = try await gateway.store.user(name) else {
            throw Problem(
                "no_such_user", .noInput, "the store knows no user \(name.prefix(64))",
                hint: "name them under `users` in the settings, or make them with `healthrelay user create`")
        }
        return user
    }
}

extension Optional where Wrapped: Sendable {
    fileprivate func asyncMap<Value>(_ body: (Wrapped) async throws -> Value) async rethrows -> Value? {
        if let self { try await body(self) } else { nil }
    }
}

extension MovePreview {
    /// What is asked.
    fileprivate func words(to person: String) -> [String] {
        var lines = readings.sorted { $0.key < $1.key }.map { name, count in
            "\(count) reading\(count == 1 ? "" : "s") of \(name.isEmpty ? "nobody's name" : name) would be \(person)'s."
        }
        lines += delivered.sorted { $0.key < $1.key }.map { name, count in
            "\(name) has \(count) of them: it is asked to take \(count == 1 ? "it" : "them") back and gets "
                + "\(count == 1 ? "it" : "them") again as \(person)'s, where \(person)'s consent and the settings allow it."
        }
        if pruned > 0 { lines.append("\(pruned) more were pruned here, and stay whose they were.") }
        return lines
    }
}

extension ReadingMove {
    /// `{person, moved, unchanged, destinations: [{name, retracting, left_behind, waiting}]}`.
    package func document(to person: String) -> JSONValue {
        .object([
            "person": .string(person), "moved": .integer(Int64(moved)), "unchanged": .integer(Int64(unchanged)),
            "destinations": .array(
                destinations.sorted { $0.key < $1.key }.map { name, place in
                    .object([
                        "name": .string(name), "retracting": .integer(Int64(place.retracting)),
                        "left_behind": .integer(Int64(place.leftBehind)), "waiting": .integer(Int64(place.waiting)),
                    ])
                }),
        ])
    }

    fileprivate func lines(to person: String) -> [String] {
        ["\(moved) moved to \(person)" + (unchanged > 0 ? ", \(unchanged) theirs already" : "")]
            + destinations.sorted { $0.key < $1.key }.map { name, place in
                "\(name): \(place.retracting) to be taken back, \(place.waiting) to be delivered"
                    + (place.leftBehind > 0 ? ", \(place.leftBehind) that it cannot take back" : "")
            }
    }
}
