import GATTClient
import HealthReadings
import LibDBus
import Logging
import Synchronization

/// `org.bluez.Agent1`: what the daemon asks while a device is paired, put to whoever pairs it.
///
/// It answers for that one device and rejects every other, and every caller but the service.
final class AgentObject: Sendable {
    static let path = "/org/healthrelay/agent"

    /// What was asked, and what became of it: tells errors apart that the daemon does not.
    struct Course: Sendable, Hashable {
        var wasAsked = false
        var usedPasskey = false
        var wasRejected = false
        var ranOutOfTime = false
        /// The daemon took a question back.
        var wasCancelled = false
    }

    private struct State {
        var course = Course()
        var questions: [Int: @Sendable () -> Void] = [:]
        var asked = 0
        var showing: AsyncStream<(UInt32, Int)>.Continuation?
        var shower: Task<Void, Never>?
    }

    private let agent: any PairingAgent
    private let device: Advertisement
    private let devicePath: String
    private let serviceOwner: String
    private let limit: Duration
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - agent: who is asked.
    ///   - device: which device, as it is told to the agent.
    ///   - devicePath: its object.
    ///   - serviceOwner: who may ask: the service's unique name.
    ///   - limit: how long a person may take.
    init(
        _ agent: any PairingAgent, for device: Advertisement, at devicePath: String, serviceOwner: String,
        limit: Duration, logger: Logger
    ) {
        self.agent = agent
        self.device = device
        self.devicePath = devicePath
        self.serviceOwner = serviceOwner
        self.limit = limit
        self.logger = logger
    }

    deinit { end() }

    var course: Course { state.withLock(\.course) }

    static let methods = [
        DBusMethodDescription("Release"),
        DBusMethodDescription("RequestPinCode", arguments: "o", results: "s"),
        DBusMethodDescription("DisplayPinCode", arguments: "os"),
        DBusMethodDescription("RequestPasskey", arguments: "o", results: "u"),
        DBusMethodDescription("DisplayPasskey", arguments: "ouq"),
        DBusMethodDescription("RequestConfirmation", arguments: "ou"),
        DBusMethodDescription("RequestAuthorization", arguments: "o"),
        DBusMethodDescription("AuthorizeService", arguments: "os"),
        DBusMethodDescription("Cancel"),
    ]

    /// Answers a call of the daemon.
    func answer(_ call: DBusMethodCall) async throws -> [DBusValue] {
        guard call.sender == serviceOwner else { throw Self.rejected }
        switch call.member {
        case "Cancel":
            state.withLock { $0.course.wasCancelled = true }
            cancelQuestions()
            return []
        case "Release":
            cancelQuestions()
            return []
        default: break
        }
        guard call.arguments.first?.objectPathValue == devicePath else { throw Self.rejected }
        logger.debug("the daemon asks", metadata: ["method": "\(call.member)"])
        let (agent, device) = (agent, device)
        switch call.member {
        case "RequestPasskey":
            return [.uint32(try await passkey())]
        case "RequestPinCode":
            return [.string(Self.digits(try await passkey()))]
        case "DisplayPasskey":
            guard let digits = call.arguments[1].intValue.flatMap({ UInt32(exactly: $0) }) else { throw Self.rejected }
            noteAsked(usesPasskey: true)
            show(digits, typed: call.arguments[2].intValue ?? 0)
            return []
        case "DisplayPinCode":
            guard let digits = call.arguments[1].stringValue.flatMap({ UInt32($0) }) else { throw Self.rejected }
            noteAsked(usesPasskey: true)
            show(digits, typed: 0)
            return []
        case "RequestConfirmation":
            guard let digits = call.arguments[1].intValue.flatMap({ UInt32(exactly: $0) }) else { throw Self.rejected }
            noteAsked(usesPasskey: true)
            guard try await ask({ try await agent.confirm(digits, shownBy: device) }) else { throw reject() }
            return []
        case "RequestAuthorization":
            noteAsked(usesPasskey: false)
            guard try await ask({ try await agent.allowUnauthenticated(device) }) else { throw reject() }
            return []
        case "AuthorizeService":
            // A service of the daemon's own, for the device that is being paired.
            return []
        default: throw Self.rejected
        }
    }

    /// Whether a device may stay paired that was paired without a question: the daemon does not ask where it began a
    /// pairing in which nothing can be shown or typed.
    func allowsUnasked() async throws -> Bool {
        if course.wasAsked { return true }
        let (agent, device) = (agent, device)
        return try await ask { try await agent.allowUnauthenticated(device) }
    }

    /// The pairing is over: whoever is still asked need not answer.
    func end() {
        cancelQuestions()
        let (showing, shower) = state.withLock { ($0.showing, $0.shower) }
        showing?.finish()
        shower?.cancel()
    }

    private func passkey() async throws -> UInt32 {
        noteAsked(usesPasskey: true)
        let (agent, device) = (agent, device)
        let passkey = try await ask { try await agent.passkey(shownBy: device) }
        guard passkey <= 999_999 else { throw reject() }
        return passkey
    }

    private func ask<Answer: Sendable>(_ body: @escaping @Sendable () async throws -> Answer) async throws -> Answer {
        let question = Question<Answer>()
        let number = state.withLock { state in
            state.asked += 1
            state.questions[state.asked] = { question.cancel() }
            return state.asked
        }
        defer { state.withLock { state in state.questions[number] = nil } }
        do {
            return try await question.answer(within: limit, body)
        } catch is TimeIsUp {
            state.withLock { $0.course.ranOutOfTime = true }
            throw Self.cancelled
        } catch is CancellationError {
            throw Self.cancelled
        } catch {
            logger.debug("the pairing was not answered", metadata: ["error": "\(type(of: error))"])
            throw reject()
        }
    }

    /// One after the other, and without making the daemon wait.
    private func show(_ digits: UInt32, typed: Int) {
        let showing = state.withLock { state in
            if let showing = state.showing { return showing }
            let (stream, continuation) = AsyncStream<(UInt32, Int)>.makeStream(bufferingPolicy: .bufferingNewest(16))
            let (agent, device) = (agent, device)
            state.showing = continuation
            state.shower = Task {
                for await (digits, typed) in stream { await agent.show(passkey: digits, typed: typed, at: device) }
            }
            return continuation
        }
        showing.yield((digits, typed))
    }

    private func cancelQuestions() {
        let questions = state.withLock { Array($0.questions.values) }
        for cancel in questions { cancel() }
    }

    private func noteAsked(usesPasskey: Bool) {
        state.withLock { state in
            state.course.wasAsked = true
            if usesPasskey { state.course.usedPasskey = true }
        }
    }

    private func reject() -> DBusError {
        state.withLock { $0.course.wasRejected = true }
        return Self.rejected
    }

    private static let rejected = DBusError.remote(name: "org.bluez.Error.Rejected", message: "Rejected")
    private static let cancelled = DBusError.remote(name: "org.bluez.Error.Canceled", message: "Canceled")

    static func digits(_ passkey: UInt32) -> String { String(passkey, digits: 6) }
}
