import CDBus
import Glibc

/// libdbus' connection with its watches, and when its calls run out of time: what the event loop waits for.
///
/// It is unchecked because it is not the compiler that sees to it: everything here is touched on the event loop's thread
/// alone, by the loop itself and by the connection, whose executor is that loop; after the loop has ended, by the one
/// job at a time that the connection still runs.
final class BusTransport: @unchecked Sendable {
    /// libdbus' connection; nil once it is closed.
    private(set) var connection: OpaquePointer?
    /// The name the bus gave; empty before it was greeted.
    private(set) var uniqueName = ""
    /// When the next call has waited long enough.
    var deadline: SuspendingClock.Instant?
    /// What to poll for, and on which descriptor: none (-1) before the connection begins to read.
    private(set) var wanted = pollfd(fd: -1, events: 0, revents: 0)
    /// Something has to be looked at although the socket says nothing: the connection was lost while sending.
    private(set) var needsAttention = false

    private var watches: [OpaquePointer] = []
    private var isReading = false

    /// Connects, in the calling thread. The system may take its time over a bus that does not accept.
    ///
    /// The bus is not greeted here, and never by libdbus itself: that holds a lock of the whole process for as long as
    /// the bus takes to answer, and so stops every other connection.
    ///
    /// - Throws: ``DBusError/cannotConnect(_:)``, and ``DBusError/invalidArgument(_:)`` for an address with a NUL.
    init(_ address: DBusAddress) throws(DBusError) {
        _ = Self.threads
        let text = try address.text()
        try Name.text.check(text)
        var error = CDBus.DBusError()
        dbus_error_init(&error)
        defer { dbus_error_free(&error) }
        guard let opened = dbus_connection_open_private(text, &error) else {
            throw .cannotConnect(error.message.map { String(cString: $0) } ?? "the reason is unknown")
        }
        connection = opened
        dbus_connection_set_exit_on_disconnect(opened, 0)
        let context = Unmanaged.passUnretained(self).toOpaque()
        let isWatched = dbus_connection_set_watch_functions(
            opened,
            { watch, context in
                BusTransport.of(context)?.add(watch)
                return 1
            },
            { watch, context in BusTransport.of(context)?.remove(watch) },
            { _, context in BusTransport.of(context)?.weigh() },
            context, nil)
        if isWatched == 0 {
            close()
            throw .cannotConnect("the system has no memory left")
        }
    }

    /// Says hello, which a bus wants before anything else, in the calling thread.
    ///
    /// - Parameters:
    ///   - bell: a descriptor that becomes readable when `isGivenUp` is to be asked again.
    ///   - isGivenUp: whether nobody waits any more.
    /// - Throws: ``DBusError/cannotConnect(_:)``; ``DBusError/cancelled`` where it was given up.
    func greet(bell: Int32, isGivenUp: () -> Bool) throws(DBusError) {
        isReading = true
        weigh()
        defer {
            isReading = false
            weigh()
            needsAttention = false
        }
        let hello = try OwnedMessage.call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, "Hello", [])
        let serial = try send(hello)
        while !isGivenUp() {
            var polled = (pollfd(fd: bell, events: Int16(POLLIN), revents: 0), wanted)
            withUnsafeMutableBytes(of: &polled) { bytes in
                _ = poll(bytes.assumingMemoryBound(to: pollfd.self).baseAddress, 2, needsAttention ? 0 : -1)
            }
            handle(polled.1.revents)
            while let message = OwnedMessage(owning: pop()) {
                if dbus_message_is_signal(message.pointer, DBUS_INTERFACE_LOCAL, "Disconnected") != 0 {
                    throw .cannotConnect("the bus ended the connection")
                }
                guard dbus_message_get_reply_serial(message.pointer) == serial else { continue }
                let text = MessageHeader.firstText(of: message.pointer).map { String(cString: $0.text) }
                guard dbus_message_get_type(message.pointer) == DBUS_MESSAGE_TYPE_METHOD_RETURN, let text else {
                    throw .cannotConnect(text ?? "the bus gave no name")
                }
                uniqueName = text
                return
            }
        }
        throw .cancelled
    }

    /// libdbus guards itself with locks from here on, and leaves the process' SIGPIPE as it is: it does not need it
    /// changed where the system can send without.
    private static let threads: Bool = {
        dbus_connection_set_change_sigpipe(0)
        return dbus_threads_init_default() != 0
    }()

    /// Begins to read: what came behind the bus's answer to the greeting lies in libdbus' queue already.
    func begin() {
        isReading = true
        weigh()
        needsAttention = true
    }

    /// Lets libdbus read and write what poll() says it can; messages are then there to be popped.
    func handle(_ events: Int16) {
        needsAttention = false
        guard events != 0 else { return }
        let isFailing = events & Int16(POLLERR | POLLHUP | POLLNVAL) != 0
        for watch in watches {
            // Handling one watch may have taken the other away.
            guard watches.contains(watch), dbus_watch_get_enabled(watch) != 0 else { continue }
            var flags: UInt32 = 0
            if events & Int16(POLLIN) != 0 { flags |= DBUS_WATCH_READABLE.rawValue }
            if events & Int16(POLLOUT) != 0 { flags |= DBUS_WATCH_WRITABLE.rawValue }
            if events & Int16(POLLERR | POLLNVAL) != 0 { flags |= DBUS_WATCH_ERROR.rawValue }
            if events & Int16(POLLHUP) != 0 { flags |= DBUS_WATCH_HANGUP.rawValue }
            flags &= dbus_watch_get_flags(watch) | DBUS_WATCH_ERROR.rawValue | DBUS_WATCH_HANGUP.rawValue
            if flags != 0 { dbus_watch_handle(watch, flags) }
        }
        if isFailing, let connection, dbus_connection_get_is_connected(connection) == 0 { needsAttention = true }
    }

    /// The next message that came.
    func pop() -> OpaquePointer? { connection.flatMap { dbus_connection_pop_message($0) } }

    /// Sends a message, or queues it where the socket is full.
    ///
    /// - Returns: its serial number.
    func send(_ message: borrowing OwnedMessage) throws(DBusError) -> UInt32 {
        guard let connection, dbus_connection_get_is_connected(connection) != 0 else { throw .disconnected }
        if dbus_message_contains_unix_fds(message.pointer) != 0,
            dbus_connection_can_send_type(connection, WireType.unixFD.rawValue) == 0
        {
            throw .invalidArgument("this bus carries no file descriptors")
        }
        var serial: UInt32 = 0
        guard dbus_connection_send(connection, message.pointer, &serial) != 0 else {
            throw .invalidArgument("the system has no memory left")
        }
        if dbus_connection_get_is_connected(connection) == 0 { needsAttention = true }
        return serial
    }

    /// Whether something waits for the socket to take it.
    var isSending: Bool { connection.map { dbus_connection_has_messages_to_send($0) != 0 } ?? false }

    /// Closes the connection; what was not sent is lost.
    func close() {
        guard let connection else { return }
        self.connection = nil
        deadline = nil
        dbus_connection_close(connection)
        dbus_connection_unref(connection)
        watches = []
        wanted.fd = -1
        needsAttention = false
    }

    /// How long poll() may wait in milliseconds, and -1 for as long as it takes.
    var timeout: Int32 {
        if needsAttention { return 0 }
        guard let deadline else { return -1 }
        let left = SuspendingClock.now.duration(to: deadline)
        if left <= .zero { return 0 }
        // Rounded up, or the last millisecond would be spent in turning.
        return Int32(clamping: left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000 + 1)
    }

    /// Whether there is something to do although the socket says nothing.
    var isDue: Bool { needsAttention || deadline.map { $0 <= SuspendingClock.now } ?? false }

    private static func of(_ context: UnsafeMutableRawPointer?) -> BusTransport? {
        context.map { Unmanaged<BusTransport>.fromOpaque($0).takeUnretainedValue() }
    }

    private func add(_ watch: OpaquePointer?) {
        if let watch { watches.append(watch) }
        weigh()
    }

    private func remove(_ watch: OpaquePointer?) {
        watches.removeAll { $0 == watch }
        weigh()
        // A transport that is done with its socket has something to say about it.
        needsAttention = true
    }

    private func weigh() {
        wanted = pollfd(fd: -1, events: 0, revents: 0)
        guard isReading else { return }
        for watch in watches where dbus_watch_get_enabled(watch) != 0 {
            let flags = dbus_watch_get_flags(watch)
            wanted.fd = dbus_watch_get_unix_fd(watch)
            if flags & DBUS_WATCH_READABLE.rawValue != 0 { wanted.events |= Int16(POLLIN) }
            if flags & DBUS_WATCH_WRITABLE.rawValue != 0 { wanted.events |= Int16(POLLOUT) }
        }
    }
}
