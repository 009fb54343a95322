import CDBus
import Glibc

/// A connection to a message bus.
///
/// It has one thread, which is its event loop and the executor of everything isolated to it. An actor that gives this
/// connection's ``unownedExecutor`` as its own, and holds the connection, works on the same thread; a task that prefers
/// its ``taskExecutor`` is handed signals there, without a change of threads. Nothing polls: an idle connection wakes
/// nobody.
///
/// When the bus goes away, calls fail and streams of signals end with ``DBusError/disconnected``, handlers of exported
/// objects are cancelled, and ``closed()`` returns; a new connection is then to be opened. A connection that is let go
/// of is closed.
///
///     let connection = try await DBusConnection.open(.system)
///     let names = try await connection.call(
///         "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListNames")
///     await connection.close()
public actor DBusConnection {
    /// The name the bus gave this connection: `:1.42`.
    public nonisolated let uniqueName: String

    nonisolated let loop: EventLoop
    let transport: BusTransport
    var isOpen = true
    var calls = PendingCalls()
    var routes: [SignalRoute] = []
    var owners: [String: NameOwner] = [:]
    var objects = ExportedObjects()
    var handlings: [UInt64: Handling] = [:]
    /// Calls that came and whose handlers begin when all that came has been looked at.
    var arrivals: [Arrival] = []
    private var closedWaiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
    private var flushWaiters: [CheckedContinuation<Void, Never>] = []
    private var lastNumber: UInt64 = 0

    /// The event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// The event loop, for tasks that take what the connection brings on its own thread: as the preference of a task
    /// (`withTaskExecutorPreference`), it hands signals over without a change of threads. Whatever such a task does
    /// between two of them keeps the bus waiting.
    public nonisolated let taskExecutor: any TaskExecutor

    private init(_ loop: EventLoop, _ transport: BusTransport) {
        self.loop = loop
        taskExecutor = EventLoopTasks(loop)
        self.transport = transport
        uniqueName = transport.uniqueName
        loop.attach(self)
    }

    deinit {
        for handling in handlings.values { handling.task?.cancel() }
        loop.leave()
    }

    /// Connects to a bus and says hello.
    ///
    /// - Parameter timeout: how long that may take.
    /// - Throws: ``DBusError/cannotConnect(_:)``, ``DBusError/timedOut(_:)``, ``DBusError/cancelled``, or
    ///   ``DBusError/invalidArgument(_:)`` for an address with a NUL.
    public static func open(
        _ address: DBusAddress, timeout: Duration = .seconds(10)
    ) async throws(DBusError) -> DBusConnection {
        let loop = try EventLoop()
        let opening = Opening()
        let timer = Task {
            try await Task.sleep(for: timeout.bounded)
            _ = opening.settle(.failure(.timedOut("connecting to the bus, after \(timeout)")))
        }
        defer { timer.cancel() }
        let outcome = await withTaskCancellationHandler {
            await opening.outcome { loop.start(address, opening) }
        } onCancel: {
            _ = opening.settle(.failure(.cancelled))
        }
        switch outcome {
        case .failure(let error):
            loop.abandon()
            throw error
        case .success(let transport):
            let connection = DBusConnection(loop, transport)
            await connection.begin()
            return connection
        }
    }

    private func begin() { transport.begin() }

    /// Closes the connection and ends its thread: calls, streams and handlers end as when the bus goes away. What was
    /// sent and not yet written is lost; ``flush()`` waits for that.
    public nonisolated func close() async {
        await end()
        await loop.stop()
    }

    /// Returns when the bus has gone away or the connection was closed, or when the task is cancelled.
    public nonisolated func closed() async { await waitUntilClosed() }

    private func waitUntilClosed() async {
        guard isOpen, !Task.isCancelled else { return }
        let number = nextNumber()
        await withTaskCancellationHandler {
            await withCheckedContinuation { closedWaiters[number] = $0 }
        } onCancel: {
            Task { await self.stopWaiting(number) }
        }
    }

    private func stopWaiting(_ number: UInt64) { closedWaiters.removeValue(forKey: number)?.resume() }

    /// Returns when everything sent so far has been written to the bus.
    ///
    /// - Throws: ``DBusError/disconnected``.
    public func flush() async throws(DBusError) {
        if isOpen, transport.isSending { await withCheckedContinuation { flushWaiters.append($0) } }
        guard isOpen else { throw .disconnected }
    }

    /// A number that was not given out before.
    func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    // MARK: The event loop's side

    /// Does what a wake-up brought.
    ///
    /// - Parameter takesAll: whether to read on for as long as there is something, which libdbus does not by itself.
    /// - Returns: whether there were signals among it that somebody wanted.
    func wake(_ events: Int16, takesAll: Bool) -> Bool {
        transport.handle(events)
        var hasMore = takeMessages()
        for _ in 0..<Self.mostReads where takesAll && hasMore {
            transport.handle(Int16(POLLIN))
            hasMore = takeMessages()
        }
        let isWanted = releaseSignals()
        beginArrivals()
        expireCalls()
        if !flushWaiters.isEmpty, !transport.isSending { resumeFlushWaiters() }
        return isWanted
    }

    /// So often the socket is read for one burst at most.
    private static let mostReads = 64

    /// - Returns: whether there were any.
    private func takeMessages() -> Bool {
        var found = false
        while isOpen, let message = OwnedMessage(owning: transport.pop()) {
            switch dbus_message_get_type(message.pointer) {
            case DBUS_MESSAGE_TYPE_SIGNAL: receiveSignal(message)
            case DBUS_MESSAGE_TYPE_METHOD_CALL: receiveCall(message)
            case DBUS_MESSAGE_TYPE_METHOD_RETURN, DBUS_MESSAGE_TYPE_ERROR: receiveAnswer(message)
            default: break
            }
            found = true
        }
        return found
    }

    /// Hands over the signals that came.
    ///
    /// - Returns: whether there were any that somebody wanted.
    @discardableResult func releaseSignals() -> Bool {
        var isWanted = false
        for route in routes where route.release() { isWanted = true }
        return isWanted
    }

    /// The connection is over: tells everyone who waits for something.
    func end() {
        guard isOpen else { return }
        isOpen = false
        transport.close()
        for call in calls.takeAll() { call.continuation.resume(returning: .failure(.disconnected)) }
        for route in routes { route.end(with: .disconnected) }
        routes = []
        owners = [:]
        for handling in handlings.values { handling.task?.cancel() }
        handlings = [:]
        arrivals = []
        objects = ExportedObjects()
        resumeFlushWaiters()
        let waiters = closedWaiters
        closedWaiters = [:]
        for waiter in waiters.values { waiter.resume() }
    }

    private func resumeFlushWaiters() {
        let waiters = flushWaiters
        flushWaiters = []
        for waiter in waiters { waiter.resume() }
    }
}

extension Duration {
    /// Durations that can be added to an instant: zero to ten years.
    var bounded: Duration { min(max(self, .zero), .seconds(315_360_000)) }
}
