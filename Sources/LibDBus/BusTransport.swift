import CDBus
import Glibc
import Synchronization

/// libdbus' connection with its watches, and when its calls run out of time: what the event loop waits for.
///
/// It is unchecked because it is not the compiler that sees to it: everything here is touched on the event loop's thread
/// alone, by the loop itself and by the connection, whose executor is that loop; after the loop has ended, by the one
/// job at a time that the connection still runs.
final class BusTransport: @unchecked Sendable {
    /// libdbus' connection; nil once it is closed.
    private(set) var connection: OpaquePointer?
    /// The name the bus gave.
    let uniqueName: String
    /// When the next call has waited long enough.
    var deadline: SuspendingClock.Instant?
    /// What to poll for, and on which descriptor: none (-1) before the connection begins to read.
    private(set) var wanted = pollfd(fd: -1, events: 0, revents: 0)
    /// Something has to be looked at although the socket says nothing: the connection was lost while sending.
    private(set) var needsAttention = false

    private var watches: [OpaquePointer] = []
    private var isReading = false

    /// Connects, in the calling thread; may take as long as the bus takes to answer.
    ///
    /// - Throws: ``DBusError/cannotConnect(_:)``.
    init(_ address: DBusAddress) throws(DBusError) {
        _ = Self.threads
        if case .address(let text) = address { try Name.text.check(text) }
        var error = CDBus.DBusError()
        dbus_error_init(&error)
        defer { dbus_error_free(&error) }
        let opened: OpaquePointer? =
            switch address {
            case .system: dbus_bus_get_private(DBUS_BUS_SYSTEM, &error)
            case .session: dbus_bus_get_private(DBUS_BUS_SESSION, &error)
            case .address(let text): Self.register(at: text, &error)
            }
        guard let opened else {
            throw .cannotConnect(error.message.map { String(cString: $0) } ?? "the reason is unknown")
        }
        dbus_connection_set_exit_on_disconnect(opened, 0)
        uniqueName = dbus_bus_get_unique_name(opened).map { String(cString: $0) } ?? ""
        connection = opened
    }

    private static func register(at address: String, _ error: inout CDBus.DBusError) -> OpaquePointer? {
        guard let opened = dbus_connection_open_private(address, &error) else { return nil }
        dbus_connection_set_exit_on_disconnect(opened, 0)
        if dbus_bus_register(opened, &error) != 0 { return opened }
        dbus_connection_close(opened)
        dbus_connection_unref(opened)
        return nil
    }

    /// libdbus guards itself with locks from here on, and leaves the process' SIGPIPE as it is: it does not need it
    /// changed where the system can send without.
    private static let threads: Bool = {
        dbus_connection_set_change_sigpipe(0)
        return dbus_threads_init_default() != 0
    }()

    /// Begins to read.
    func begin() {
        guard let connection, !isReading else { return }
        isReading = true
        let context = Unmanaged.passUnretained(self).toOpaque()
        let isSet = dbus_connection_set_watch_functions(
            connection,
            { watch, context in
                BusTransport.of(context)?.add(watch)
                return 1
            },
            { watch, context in BusTransport.of(context)?.remove(watch) },
            { _, context in BusTransport.of(context)?.weigh() },
            context, nil)
        // What came while the bus was greeted lies in libdbus' queue; without watches the connection is lost.
        needsAttention = true
        if isSet == 0 { dbus_connection_close(connection) }
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
        for watch in watches where dbus_watch_get_enabled(watch) != 0 {
            let flags = dbus_watch_get_flags(watch)
            wanted.fd = dbus_watch_get_unix_fd(watch)
            if flags & DBUS_WATCH_READABLE.rawValue != 0 { wanted.events |= Int16(POLLIN) }
            if flags & DBUS_WATCH_WRITABLE.rawValue != 0 { wanted.events |= Int16(POLLOUT) }
        }
    }
}
