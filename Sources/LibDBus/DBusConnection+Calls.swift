import CDBus

extension DBusConnection {
    /// Calls a method and waits for its answer.
    ///
    /// Cancelling the task, or a time-out, ends the wait; the answer, if it still comes, is dropped. Signals that came
    /// before the answer are handed over before it.
    ///
    /// - Parameters:
    ///   - destination: whose: `org.bluez`, `:1.42`.
    ///   - path: the object.
    ///   - interface: the interface.
    ///   - member: the method.
    ///   - arguments: what it is given.
    ///   - selection: of an answer that tells of many objects, those that are read; nil for all.
    ///   - timeout: how long to wait.
    /// - Returns: the answer's values.
    /// - Throws: ``DBusError``: the other side's error as ``DBusError/remote(name:message:)``.
    public func call(
        _ destination: String, _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        selecting selection: DBusObjects? = nil, timeout: Duration = .seconds(25)
    ) async throws(DBusError) -> [DBusValue] {
        let message = try OwnedMessage.call(destination, path, interface, member, arguments)
        guard isOpen else { throw .disconnected }
        if Task.isCancelled { throw .cancelled }
        let serial = try transport.send(message)
        let deadline = SuspendingClock.now + timeout.bounded
        let answer = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let description = "\(interface).\(member), after \(timeout)"
                calls.add(
                    PendingCalls.Call(
                        deadline: deadline, description: description, selection: selection, continuation: continuation),
                    serial: serial)
                transport.deadline = calls.nextDeadline
            }
        } onCancel: {
            Task { await self.cancelCall(serial) }
        }
        return try answer.get()
    }

    /// Calls a method without waiting for an answer; the other side is told that none is expected.
    ///
    /// - Throws: ``DBusError/disconnected`` or ``DBusError/invalidArgument(_:)``.
    public func send(
        _ destination: String, _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue] = []
    ) throws(DBusError) {
        let message = try OwnedMessage.call(destination, path, interface, member, arguments)
        dbus_message_set_no_reply(message.pointer, 1)
        guard isOpen else { throw .disconnected }
        _ = try transport.send(message)
    }

    /// Emits a signal: to everyone whose match rules it meets, or to one peer.
    ///
    /// - Throws: ``DBusError/disconnected`` or ``DBusError/invalidArgument(_:)``.
    public func emitSignal(
        _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        to destination: String? = nil
    ) throws(DBusError) {
        let message = try OwnedMessage.signal(path, interface, member, arguments, to: destination)
        guard isOpen else { throw .disconnected }
        _ = try transport.send(message)
    }

    private func cancelCall(_ serial: UInt32) {
        calls.take(serial)?.continuation.resume(returning: .failure(.cancelled))
        transport.deadline = calls.nextDeadline
    }

    /// Ends the calls that have run out of time.
    func expireCalls() {
        if let next = calls.nextDeadline, next <= SuspendingClock.now {
            let now = SuspendingClock.now
            while let call = calls.takeExpired(at: now) {
                call.continuation.resume(returning: .failure(.timedOut(call.description)))
            }
        }
        transport.deadline = calls.nextDeadline
    }

    /// An answer, to a call that still waits or to none.
    func receiveAnswer(_ message: borrowing OwnedMessage) {
        guard let call = calls.take(dbus_message_get_reply_serial(message.pointer)) else { return }
        releaseSignals()
        call.continuation.resume(returning: Self.answer(of: message, call.selection))
    }

    private static func answer(of message: borrowing OwnedMessage, _ selection: DBusObjects?) -> PendingCalls.Answer {
        if dbus_message_get_type(message.pointer) == DBUS_MESSAGE_TYPE_ERROR {
            let name = dbus_message_get_error_name(message.pointer).map { String(cString: $0) } ?? ""
            let text = MessageHeader.firstText(of: message.pointer).map { String(cString: $0.text) } ?? ""
            return .failure(.remote(name: name, message: text))
        }
        do {
            return .success(try ValueReader.arguments(of: message.pointer, selection))
        } catch {
            return .failure(.unexpectedReply(expected: "values that can be read", found: error.description))
        }
    }
}
