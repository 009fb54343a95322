import CDBus

/// A call whose handler runs.
struct Handling: Sendable {
    var path: String
    /// Nil where no answer is expected.
    var address: ReplyAddress?
    var task: Task<Void, Never>?
}

/// A call whose handler is about to begin.
struct Arrival {
    var call: DBusMethodCall
    var serial: UInt32
    var handler: DBusMethodHandler
}

extension DBusConnection {
    /// How many handlers may run at once; callers beyond that are refused.
    private static var mostHandlings: Int { 64 }

    /// Exports an object's interface: calls of its methods are answered by `handler`.
    ///
    /// Handlers run side by side, begin in the order in which their calls came, and may take minutes. What `handler` does
    /// before it first waits runs on the event loop and must not block. A handler is cancelled when the object is no
    /// longer exported, when the bus goes away, and when the connection is closed; nobody then hears its answer. What it
    /// throws is the caller's answer: ``DBusError/remote(name:message:)`` as it is, anything else as
    /// `org.freedesktop.DBus.Error.Failed`. Who calls is in ``DBusMethodCall/sender``: on a bus anyone may.
    ///
    /// - Parameters:
    ///   - path: the object; one path may have several interfaces.
    ///   - interface: the interface.
    ///   - methods: what it has, for introspection, and to refuse other methods and arguments of other types; where it is
    ///     empty, every call comes to `handler`.
    ///   - handler: answers a call.
    /// - Throws: ``DBusError/invalidArgument(_:)``, also where the path has this interface already;
    ///   ``DBusError/disconnected``.
    public func export(
        _ path: String, interface: String, methods: [DBusMethodDescription] = [], handler: @escaping DBusMethodHandler
    ) throws(DBusError) {
        try Name.path.check(path)
        try Name.interface.check(interface)
        for method in methods {
            try Name.member.check(method.name)
            try Name.signature.check(method.arguments)
            try Name.signature.check(method.results)
        }
        guard isOpen else { throw .disconnected }
        guard objects[path]?[interface] == nil else {
            throw .invalidArgument("expected an interface that is not exported yet, found \(interface) at \(path)")
        }
        objects.add(ExportedObjects.Interface(methods: methods, handler: handler), interface, at: path)
    }

    /// Exports an object's interfaces no longer. Handlers that run are cancelled, and their callers told that the object
    /// has gone.
    public func unexport(_ path: String) {
        objects.remove(path)
        arrivals.removeAll { $0.call.path == path }
        for (number, handling) in handlings where handling.path == path {
            handlings[number] = nil
            handling.task?.cancel()
            if let address = handling.address { refuse(address, DBUS_ERROR_UNKNOWN_OBJECT, "the object has gone") }
        }
    }

    /// A call of a method: answered here, refused, or given to a handler.
    func receiveCall(_ message: borrowing OwnedMessage) {
        let header = MessageHeader(of: message.pointer)
        func text(_ pointer: UnsafePointer<CChar>?) -> String { pointer.map { String(cString: $0) } ?? "" }
        let serial = dbus_message_get_serial(message.pointer)
        var call = DBusMethodCall(
            sender: text(header.sender), path: text(header.path), interface: text(header.interface),
            member: text(header.member), isReplyExpected: dbus_message_get_no_reply(message.pointer) == 0)
        do {
            if let values = try answerOfItself(to: call) {
                return try reply(to: call, serial, values)
            }
            let (name, interface) = try find(call)
            call.interface = name
            try interface.check(call.member, message.signature)
            guard handlings.count + arrivals.count < Self.mostHandlings else {
                throw DBusError.remote(name: DBUS_ERROR_LIMITS_EXCEEDED, message: "too many calls at once")
            }
            do {
                call.arguments = try ValueReader.arguments(of: message.pointer)
            } catch {
                throw DBusError.remote(name: DBUS_ERROR_LIMITS_EXCEEDED, message: error.description)
            }
            arrivals.append(Arrival(call: call, serial: serial, handler: interface.handler))
        } catch {
            answer(call, serial, with: error)
        }
    }

    /// What every connection answers: `Peer` for any path, `Introspectable` for those that lead to an object.
    private func answerOfItself(to call: DBusMethodCall) throws(DBusError) -> [DBusValue]? {
        switch (call.interface, call.member) {
        case (DBUS_INTERFACE_PEER, "Ping"): return []
        case (DBUS_INTERFACE_PEER, "GetMachineId"):
            guard let identity = dbus_try_get_local_machine_id(nil) else {
                throw .remote(name: DBUS_ERROR_FAILED, message: "the machine has no identity")
            }
            defer { dbus_free(identity) }
            return [.string(String(cString: identity))]
        case (DBUS_INTERFACE_INTROSPECTABLE, "Introspect"):
            guard objects.isNode(call.path) else { return nil }
            return [.string(objects.introspection(of: call.path))]
        default: return nil
        }
    }

    private func find(_ call: DBusMethodCall) throws(DBusError) -> (String, ExportedObjects.Interface) {
        guard let object = objects[call.path] else {
            throw .remote(name: DBUS_ERROR_UNKNOWN_OBJECT, message: "no object at \(call.path)")
        }
        if !call.interface.isEmpty {
            guard let interface = object[call.interface] else {
                throw .remote(name: DBUS_ERROR_UNKNOWN_INTERFACE, message: "no interface \(call.interface)")
            }
            return (call.interface, interface)
        }
        // A call may name no interface: the one that has the method, or the first that takes any.
        let named = object.sorted { $0.key < $1.key }
        guard
            let found = named.first(where: { $0.value.methods.contains { $0.name == call.member } })
                ?? named.first(where: { $0.value.methods.isEmpty })
        else { throw .remote(name: DBUS_ERROR_UNKNOWN_METHOD, message: "no method \(call.member)") }
        return (found.key, found.value)
    }

    /// Begins the handlers of the calls that came.
    func beginArrivals() {
        if arrivals.isEmpty { return }
        let begun = arrivals
        arrivals = []
        for arrival in begun {
            let number = nextNumber()
            let call = arrival.call
            let address =
                call.isReplyExpected ? ReplyAddress(sender: call.sender, serial: arrival.serial) : nil
            handlings[number] = Handling(path: call.path, address: address)
            // Its answer comes back by a job, so later than this.
            let task = Self.begin(arrival) { [weak self] outcome in await self?.finish(number, outcome) }
            handlings[number]?.task = task
        }
    }

    /// Begins a handler at once, so in order, and outside of the connection's isolation: a connection that is let go of
    /// is not held by handlers that run.
    private static func begin(
        _ arrival: Arrival, then finish: @escaping @Sendable (Result<[DBusValue], any Error>) async -> Void
    ) -> Task<Void, Never> {
        let (call, handler) = (arrival.call, arrival.handler)
        return Task.immediate {
            do { await finish(.success(try await handler(call))) } catch { await finish(.failure(error)) }
        }
    }

    private func finish(_ number: UInt64, _ outcome: Result<[DBusValue], any Error>) {
        guard let handling = handlings.removeValue(forKey: number), let address = handling.address else { return }
        do {
            _ = try transport.send(OwnedMessage.reply(to: address, outcome.get()))
        } catch {
            refuse(address, error)
        }
    }

    private func reply(to call: DBusMethodCall, _ serial: UInt32, _ values: [DBusValue]) throws(DBusError) {
        guard call.isReplyExpected else { return }
        _ = try transport.send(OwnedMessage.reply(to: ReplyAddress(sender: call.sender, serial: serial), values))
    }

    private func answer(_ call: DBusMethodCall, _ serial: UInt32, with error: any Error) {
        if call.isReplyExpected { refuse(ReplyAddress(sender: call.sender, serial: serial), error) }
    }

    private func refuse(_ address: ReplyAddress, _ error: any Error) {
        if case DBusError.remote(let name, let message) = error {
            refuse(address, name, message)
        } else {
            refuse(address, DBUS_ERROR_FAILED, String(describing: error))
        }
    }

    private func refuse(_ address: ReplyAddress, _ name: String, _ message: String) {
        // Where this cannot be sent either, the caller's own time-out ends its wait.
        if let error = try? OwnedMessage.error(name, message, to: address) { _ = try? transport.send(error) }
    }
}

extension ExportedObjects.Interface {
    /// - Throws: what the caller is answered, where the method is another than those described.
    fileprivate func check(_ member: String, _ signature: String) throws(DBusError) {
        if methods.isEmpty { return }
        guard let method = methods.first(where: { $0.name == member }) else {
            throw .remote(name: DBUS_ERROR_UNKNOWN_METHOD, message: "no method \(member)")
        }
        guard method.arguments == signature else {
            throw .remote(
                name: DBUS_ERROR_INVALID_ARGS, message: "expected \"\(method.arguments)\", found \"\(signature)\"")
        }
    }
}
