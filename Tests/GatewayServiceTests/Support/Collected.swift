import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import Synchronization

/// What an operation printed, and the person who answers its questions.
final class Collected: OperationOutput {
    private struct State {
        var data: [String] = []
        var notes: [String] = []
        var progress: [TransferProgress] = []
        var warnings: [Problem] = []
        var questions: [Question] = []
        var withdrawn = 0
    }

    private let state = Mutex(State())
    private let person: @Sendable (Question) async throws -> Answer
    private let onData: @Sendable (String) throws -> Void

    /// - Parameters:
    ///   - person: answers.
    ///   - onData: what is done with each line of data, which may find that nobody reads it.
    init(
        person: @escaping @Sendable (Question) async throws -> Answer = { throw $0.unanswered },
        onData: @escaping @Sendable (String) throws -> Void = { _ in }
    ) {
        self.onData = onData
        self.person = person
    }

    var data: [String] { state.withLock(\.data) }
    var notes: [String] { state.withLock(\.notes) }
    var progress: [TransferProgress] { state.withLock(\.progress) }
    var warnings: [Problem] { state.withLock(\.warnings) }
    var questions: [Question] { state.withLock(\.questions) }
    /// How many questions were not wanted answered any more.
    var withdrawn: Int { state.withLock(\.withdrawn) }
    /// Everything a person or a log could see.
    var text: String { (data + notes + warnings.map { "\($0)" }).joined(separator: "\n") }

    func data(_ line: String) throws {
        state.withLock { $0.data.append(line) }
        try onData(line)
    }
    func note(_ line: String) { state.withLock { $0.notes.append(line) } }
    func octets(_ octets: [UInt8]) { state.withLock { $0.data.append(String(decoding: octets, as: UTF8.self)) } }
    func progress(_ progress: TransferProgress) { state.withLock { $0.progress.append(progress) } }
    func warn(_ problem: Problem) { state.withLock { $0.warnings.append(problem) } }

    func ask(_ question: Question) async throws -> Answer {
        state.withLock { $0.questions.append(question) }
        do {
            return try await person(question)
        } catch let error as CancellationError {
            state.withLock { $0.withdrawn += 1 }
            throw error
        }
    }
}

extension String {
    /// The JSON object in it.
    var object: [String: any Sendable] {
        (try? JSONSerialization.jsonObject(with: Data(utf8))) as? [String: any Sendable] ?? [:]
    }
}
