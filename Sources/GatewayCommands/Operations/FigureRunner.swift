import GatewaySettings
import HealthReadings
import ReadingStore

/// The arguments of `figures`.
public enum FigureOperation: Codable, Sendable, Hashable {
    /// Leaves the readings with these ids out of figures.
    case leaveOut([String], reason: String?)
    /// Has them count again.
    case include([String])
}

/// `figures`: which readings count in figures.
struct FigureRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: FigureOperation) async throws {
        let desk = FigureDesk(gateway)
        let result =
            switch operation {
            case .leaveOut(let ids, let reason):
                try await desk.leaveOut(desk.identifiers(ids), reason: reason, by: FigureDesk.command)
            case .include(let ids): try await desk.include(desk.identifiers(ids), by: FigureDesk.command)
            }
        guard !json else { return try await output.data(result.document.text) }
        for reading in result.readings { try await output.data(reading.line) }
        if result.changed < result.readings.count {
            try await output.note(
                "\(result.readings.count - result.changed) of \(result.readings.count) were as asked before")
        }
    }
}

/// Leaves readings out of figures and takes them back in, for the command line and the local API alike.
package struct FigureDesk: Sendable {
    /// Who says so where it is the command line.
    package static let command = "command"

    private let gateway: Gateway

    /// Makes a desk.
    package init(_ gateway: Gateway) { self.gateway = gateway }

    /// Ids as they were typed.
    ///
    /// - Throws: `Problem` for what is no id, and for none.
    package func identifiers(_ texts: [String]) throws(Problem) -> [ReadingID] {
        guard !texts.isEmpty else { throw Problem.usage("expected the ids of readings, found none") }
        return try texts.map { text throws(Problem) in try ReadingID.argument(text) }
    }

    /// Leaves readings out of figures.
    ///
    /// - Parameter replaces: whether a reason that somebody has given before is replaced.
    /// - Throws: `FigureDecisionError`, `EntryError` for the reason, `Problem` while the clock is untrusted.
    package func leaveOut(
        _ ids: [ReadingID], reason: String?, by: String, replaces: Bool = true
    ) async throws -> FigureDecisionResult {
        if let problem = await gateway.clockProblem() { throw problem }
        return try await gateway.store.leaveOut(ids, reason: reason, by: by, replaces: replaces)
    }

    /// Has readings count in figures again.
    ///
    /// - Throws: `FigureDecisionError`, `Problem` while the clock is untrusted.
    package func include(_ ids: [ReadingID], by: String) async throws -> FigureDecisionResult {
        if let problem = await gateway.clockProblem() { throw problem }
        return try await gateway.store.include(ids, by: by)
    }
}

extension FigureDecisionResult {
    /// `{"changed", "readings"}`.
    package var document: JSONValue {
        .object(["changed": .integer(Int64(changed)), "readings": .array(readings.map(\.document))])
    }
}
