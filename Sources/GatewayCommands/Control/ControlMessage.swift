import Foundation
import GatewaySettings

/// One line of the control socket's answer: what the command prints, what it asks, and how it ends.
enum ControlMessage: Codable, Sendable, Hashable {
    case data(String)
    case note(String)
    case octets(Data)
    case progress(TransferProgress)
    case work(WorkProgress)
    case pressure(CuffPressure)
    case warning(Problem)
    /// To be answered at `/v1/answers/ID` with a ``ControlAnswer``.
    case question(id: String, Question)
    /// Everything before it is to be where it goes; then to be answered, as a question.
    case settle(id: String)
    /// The answer to this question is no longer wanted.
    case withdrawn(id: String)
    case problem(Problem)
    case done
}

/// What is posted to `/v1/answers/ID`.
enum ControlAnswer: Codable, Sendable, Hashable {
    case answer(Answer)
    /// Nobody there can answer, and why.
    case problem(Problem)
}
