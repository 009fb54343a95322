import CMosquitto
import Glibc
import OwnThread
import Synchronization

/// The thread of one connection. It alone touches the library's handle; others leave commands for it.
///
/// The library's own threads end without a word when TLS fails (mosquitto issue 2825), so its loop is ours: one poll() over
/// its socket and an eventfd. It also has no limit to the number of the descriptor, which the library's select() has.
final class LinkThread: Sendable {
    /// What is asked of the connection.
    enum Command: Sendable {
        case publish(MQTTMessage, Answer<MQTTReceipt>)
        case subscribe(String, MQTTMessage.Quality, Answer<MQTTMessage.Quality>)
        case unsubscribe(String, Answer<Void>)
        case close(publishesWill: Bool)

        /// Tells whoever waits that it cannot be done.
        func fail(_ error: MQTTError) {
            switch self {
            case .publish(_, let answer): answer.settle(.failure(error))
            case .subscribe(_, _, let answer): answer.settle(.failure(error))
            case .unsubscribe(_, let answer): answer.settle(.failure(error))
            case .close: break
            }
        }
    }

    private struct State {
        var commands: [Command] = []
        var ending: MQTTError?
        var enders: [Answer<MQTTError>] = []
    }

    private let state = Mutex(State())
    /// Wakes the thread.
    let bell: Int32

    /// - Throws: ``MQTTError`` if the system gives no eventfd.
    init() throws(MQTTError) {
        bell = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard bell >= 0 else { throw MQTTError(.system, "cannot wake a thread: \(MQTTError.words(errno))") }
    }

    deinit { Glibc.close(bell) }

    /// Whether the connection has not ended.
    var isOpen: Bool { state.withLock { $0.ending == nil } }

    /// Leaves a command; one for a connection that has ended fails at once.
    func post(_ command: Command) {
        let (ending, isFirst) = state.withLock { state in
            if state.ending == nil { state.commands.append(command) }
            return (state.ending, state.commands.count == 1)
        }
        // Whoever left the first command has rung: the thread takes the others with it.
        if let ending { command.fail(ending) } else if isFirst { eventfd_write(bell, 1) }
    }

    /// The commands since the last call. For the thread.
    func taken() -> [Command] {
        var count: eventfd_t = 0
        eventfd_read(bell, &count)
        return state.withLock { state in
            defer { state.commands = [] }
            return state.commands
        }
    }

    /// Takes no command any more. For the thread, before it tells those whose answers can't come: whoever knows of the end has to find
    /// the connection closed.
    func stop(_ error: MQTTError) { state.withLock { $0.ending = error } }

    /// Tells everybody that the connection has ended. For the thread, as the last it does.
    func end(_ error: MQTTError) {
        let (commands, enders) = state.withLock { state in
            state.ending = error
            defer { (state.commands, state.enders) = ([], []) }
            return (state.commands, state.enders)
        }
        for command in commands { command.fail(error) }
        for ender in enders { ender.settle(.success(error)) }
    }

    /// An answer that tells why the connection has ended, once it has.
    func ending() -> Answer<MQTTError> {
        let answer = Answer<MQTTError>()
        let known = state.withLock { state in
            if state.ending == nil {
                // Those of cancelled tasks.
                state.enders.removeAll(where: \.isSettled)
                state.enders.append(answer)
            }
            return state.ending
        }
        if let known { answer.settle(.success(known)) }
        return answer
    }

    /// Starts the thread, which connects and then serves the connection.
    func start(_ plan: LinkPlan) {
        let status = startThread { [self] in
            pthread_setname_np(pthread_self(), "mqtt")
            let error = LinkSession(self, plan).run()
            plan.messages.finish()
            end(error)
            plan.opened.settle(.failure(error))
        }
        guard status != 0 else { return }
        let error = MQTTError(.system, "cannot start a thread: \(MQTTError.words(status))")
        plan.opened.settle(.failure(error))
        end(error)
    }
}

/// What a connection is opened with.
struct LinkPlan: Sendable {
    var broker: MQTTBroker
    var options: MQTTOptions
    var version: MQTTVersion
    /// Told when the broker has let us in, or why it has not.
    var opened: Answer<Void>
    var messages: AsyncStream<MQTTMessage>.Continuation
    var room: MessageRoom
}

/// How many bytes of received messages wait for their consumer. Whoever may publish where we listen decides how long a message is:
/// their number alone bounds nothing.
final class MessageRoom: Sendable {
    private let most: Int
    private let held = Mutex(0)

    init(_ most: Int) { self.most = most }

    /// Counts a message until ``leave(_:)``.
    ///
    /// - Returns: whether there is room for it.
    func enter(_ bytes: Int) -> Bool {
        held.withLock { held in
            guard bytes <= most - held else { return false }
            held += bytes
            return true
        }
    }

    /// Counts a message no more.
    func leave(_ bytes: Int) { held.withLock { $0 -= bytes } }
}
