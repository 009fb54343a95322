import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import ReadingStore
import Synchronization

/// A meter that is paired from the page: what it has said, what it asks, and how it ended.
final class MeterPairing: OperationOutput {
    /// How it stands.
    private enum Stage {
        case running
        case done(String)
        case failed(Problem)
    }

    private struct State {
        var stage = Stage.running
        var notes: [String] = []
        var question: (id: String, question: Question)?
        var waiter: CheckedContinuation<Answer, any Error>?
        var task: Task<Void, Never>?
    }

    let id = UUID().uuidString.lowercased()
    let address: DeviceAddress
    /// Whose client began it; `nil`: one of the household's.
    let person: UserKey?
    private let state = Mutex(State())

    init(_ address: DeviceAddress, person: UserKey?) {
        self.address = address
        self.person = person
    }

    /// Begins.
    ///
    /// - Parameter model: the catalogue's id of the model that the person says it is.
    func start(_ gateway: Gateway, repair: Bool, model: String?) {
        let operation = PairOperation(address: address.description, repair: repair, model: model)
        let task = Task {
            do {
                try await gateway.run(OperationRequest(.device(.pair(operation)), json: true), output: self)
                finish(nil)
            } catch {
                finish(Problem(describing: error) ?? .unexpected(error))
            }
        }
        state.withLock { $0.task = task }
    }

    /// Whether it has ended.
    var isOver: Bool {
        state.withLock { state in
            if case .running = state.stage { return false }
            return true
        }
    }

    /// Stops it.
    func cancel() { state.withLock(\.task)?.cancel() }

    /// `{id, address, state, notes, question, result, error}`.
    var document: JSONValue {
        state.withLock { state in
            let (name, result, problem): (String, String?, Problem?) =
                switch state.stage {
                case .running: (state.question == nil ? "running" : "question", nil, nil)
                case .done(let result): ("done", result, nil)
                case .failed(let problem): ("failed", nil, problem)
                }
            return .object([
                "id": .string(id), "address": .string(address.description), "state": .string(name),
                "notes": .array(state.notes.map(JSONValue.string)),
                "question": state.question?.question.document ?? .null,
                "proven": result.map { .bool($0.contains("\"proven\":true")) } ?? .null,
                "error": problem?.document["error"] ?? .null,
            ])
        }
    }

    /// Answers what is asked.
    ///
    /// - Returns: whether an answer of that form was waited for.
    func answer(_ answer: Answer) -> Bool {
        let waiter: CheckedContinuation<Answer, any Error>? = state.withLock { state in
            guard let asked = state.question?.question, asked.takes(answer) else { return nil }
            state.question = nil
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: answer)
        return waiter != nil
    }

    // MARK: The operation's side

    func data(_ line: String) { state.withLock { $0.stage = .done(line) } }
    func note(_ line: String) { state.withLock { $0.notes.append(line) } }

    func ask(_ question: Question) async throws -> Answer {
        let id = UUID().uuidString
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isWanted = state.withLock { state in
                    guard !Task.isCancelled else { return false }
                    state.question = (id, question)
                    state.waiter = continuation
                    return true
                }
                if !isWanted { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            let waiter: CheckedContinuation<Answer, any Error>? = state.withLock { state in
                guard state.question?.id == id else { return nil }
                state.question = nil
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(throwing: CancellationError())
        }
    }

    private func finish(_ problem: Problem?) {
        state.withLock { state in
            state.question = nil
            if let problem {
                state.stage = .failed(problem)
            } else if case .running = state.stage {
                state.stage = .done("")
            }
        }
    }
}

extension Question {
    /// `{kind, device, digits}`: digits only where they are to be compared with those on the device.
    var document: JSONValue {
        switch self {
        case .passkey(let device):
            .object(["kind": "passkey", "device": .string(device), "digits": .null])
        case .comparison(let passkey, let device):
            .object(["kind": "comparison", "device": .string(device), "digits": .string(passkey.digits)])
        case .unauthenticated(let device):
            .object(["kind": "unauthenticated", "device": .string(device), "digits": .null])
        // No pairing asks this.
        case .unusualEntry, .move: .null
        }
    }

    fileprivate func takes(_ answer: Answer) -> Bool {
        switch (self, answer) {
        case (.passkey, .passkey), (.comparison, .confirmation), (.unauthenticated, .confirmation): true
        default: false
        }
    }
}
