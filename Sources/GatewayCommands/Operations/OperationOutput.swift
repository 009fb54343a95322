import GatewaySettings
import HealthReadings

/// Where an operation's result goes, and who answers its questions: the terminal of this process, or through the
/// control socket that of another.
///
/// Each call throws where nobody is there any more to see it; the operation then ends.
public protocol OperationOutput: Sendable {
    /// A line for standard output.
    func data(_ line: String) async throws
    /// A line for standard error.
    func note(_ line: String) async throws
    /// Octets of a file, in order; returns when there is room for more.
    func octets(_ octets: [UInt8]) async throws
    /// How far a transfer has come.
    func progress(_ progress: TransferProgress) async throws
    /// How far work on the whole store has come.
    func progress(_ progress: WorkProgress) async throws
    /// The pressure in a cuff that measures.
    func pressure(_ pressure: CuffPressure) async throws
    /// Something that went wrong and does not end the operation.
    func warn(_ problem: Problem) async throws
    /// Asks the person, and waits for what they say; cancelled where the answer is no longer wanted.
    ///
    /// - Throws: `Problem` where nobody can answer.
    func ask(_ question: Question) async throws -> Answer
    /// Returns once everything so far is where it goes: written to standard output, and on disk where that is a file.
    ///
    /// - Throws: why it is not.
    func settle() async throws
}

extension OperationOutput {
    /// Nobody writes a file.
    public func octets(_ octets: [UInt8]) async throws {
        throw Problem("no_file", .ourFault, "the operation yields bytes, but has no file for them")
    }
    /// The progress as a note.
    public func progress(_ progress: TransferProgress) async throws { try await note(progress.line) }
    /// Nothing: only somebody who waits at a terminal, or asked for documents, wants to know.
    public func progress(_ progress: WorkProgress) async throws {}
    /// The pressure as a note.
    public func pressure(_ pressure: CuffPressure) async throws { try await note(pressure.line) }
    /// The problem as a note.
    public func warn(_ problem: Problem) async throws { try await note(problem.message) }
    /// What is told is where it goes.
    public func settle() async throws {}
    /// Nobody answers.
    public func ask(_ question: Question) async throws -> Answer { throw question.unanswered }
}

/// The pressure in a cuff while it measures: for people to see, and never a reading.
public struct CuffPressure: Codable, Sendable, Hashable {
    /// The device, as it is called on the terminal.
    public var device: String
    /// The pressure's digits, as the cuff sent them.
    public var value: String
    /// `mmHg` or `kPa`.
    public var unit: String

    /// Makes a pressure.
    public init(device: String, value: String, unit: String) {
        self.device = device
        self.value = value
        self.unit = unit
    }

    /// `QardioARM: 120 mmHg in the cuff`.
    public var line: String { "\(device): \(value) \(unit) in the cuff" }

    /// `{"device","value","unit"}`.
    public var document: JSONValue {
        .object([
            "device": .string(device), "value": ExactDecimal(value).map(JSONValue.number) ?? .null,
            "unit": .string(unit),
        ])
    }
}

/// How far the transfer of a device's records has come.
public struct TransferProgress: Codable, Sendable, Hashable {
    /// The device, as it is called on the terminal.
    public var device: String
    /// How many came.
    public var received: Int
    /// How many are to come; nil where it cannot count.
    public var announced: Int?

    /// What is counted, in the singular.
    public var unit = "record"

    /// Makes a progress.
    public init(device: String, received: Int, announced: Int?, unit: String = "record") {
        self.unit = unit
        self.device = device
        self.received = received
        self.announced = announced
    }

    /// `meter+00001808: 12 of 450 records`.
    public var line: String {
        "\(device): \(received)" + (announced.map { " of \($0)" } ?? "")
            + " \(unit)\((announced ?? received) == 1 ? "" : "s")"
    }

    /// Whether all came that was announced.
    public var isComplete: Bool { announced.map { received >= $0 } ?? false }

    /// `{"device","received","announced"}`.
    public var document: JSONValue {
        .object([
            "device": .string(device), "received": .integer(Int64(received)), "announced": .optional(announced),
        ])
    }
}
