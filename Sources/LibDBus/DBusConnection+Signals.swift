import CDBus

extension DBusConnection {
    /// Subscribes to signals.
    ///
    /// They are decoded on the event loop by `decode` (nil: not wanted), which must not block, and handed over by the
    /// burst. The rule is on the bus before this returns. Order is kept within a subscription; two subscriptions are two
    /// streams, so what must keep its order belongs into one.
    ///
    /// - Throws: ``DBusError``: ``DBusError/invalidArgument(_:)`` for a rule that is none, or what the bus says of it.
    public func signals<Signal: Sendable>(
        _ match: DBusMatch, decode: @escaping @Sendable (borrowing DBusSignal) -> Signal?
    ) async throws(DBusError) -> DBusSignals<Signal> {
        let rule = try match.text()
        guard isOpen else { throw .disconnected }
        let followed = match.sender.flatMap { $0.hasPrefix(":") || $0 == DBUS_SERVICE_DBUS ? nil : $0 }
        let owner = followed.map { follow($0) }
        let buffer = SignalBuffer<Signal>()
        let sink = DecodingSink(
            number: nextNumber(), rule: SignalRule(match, owner: owner), followed: followed, buffer: buffer,
            decode: decode)
        sinks.append(sink)
        do {
            if let followed, let owner {
                let changes = DBusMatch(
                    sender: DBUS_SERVICE_DBUS, path: DBUS_PATH_DBUS, interface: DBUS_INTERFACE_DBUS,
                    member: "NameOwnerChanged", arg0: followed)
                // In this order: the bus answers and emits in turn, so what it says of the owner is never out of date.
                try await addMatch(try changes.text(), for: sink)
                try await askOwner(of: followed, owner)
            }
            try await addMatch(rule, for: sink)
        } catch {
            unsubscribe(sink.number)
            throw error
        }
        return DBusSignals(SignalSubscription(self, number: sink.number, buffer: buffer))
    }

    private func follow(_ name: String) -> NameOwner {
        let owner = owners[name] ?? NameOwner()
        owner.users += 1
        owners[name] = owner
        return owner
    }

    private func addMatch(_ rule: String, for sink: SignalSink) async throws(DBusError) {
        // Noted before it is known: a call that was cancelled may have been heard.
        sink.matchRules.append(rule)
        _ = try await callBus("AddMatch", [.string(rule)])
    }

    private func askOwner(of name: String, _ owner: NameOwner) async throws(DBusError) {
        let answer: [DBusValue]
        do {
            answer = try await callBus("GetNameOwner", [.string(name)])
        } catch .remote(name: DBUS_ERROR_NAME_HAS_NO_OWNER, _) {
            return
        }
        guard let unique = answer.first?.stringValue else {
            throw .unexpectedReply(expected: "s", found: answer.signature)
        }
        owner.change(to: unique)
    }

    private func callBus(_ member: String, _ arguments: [DBusValue]) async throws(DBusError) -> [DBusValue] {
        try await call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, member, arguments)
    }

    /// Takes a subscription and its rules away.
    func unsubscribe(_ number: UInt64) {
        guard let index = sinks.firstIndex(where: { $0.number == number }) else { return }
        let sink = sinks.remove(at: index)
        if let name = sink.followed, let owner = owners[name] {
            owner.users -= 1
            if owner.users == 0 { owners[name] = nil }
        }
        for rule in sink.matchRules {
            try? send(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, "RemoveMatch", [.string(rule)])
        }
    }

    /// A signal: the bus's own are heeded, then who wants it decodes it.
    func receiveSignal(_ message: borrowing OwnedMessage) {
        let signal = DBusSignal(message.pointer)
        if signal.isMember(Self.localInterface, "Disconnected") { return end() }
        if signal.header.sender.isText(Self.busName) { heed(signal) }
        for sink in sinks where sink.rule.matches(signal) { sink.receive(signal) }
    }

    private static var localInterface: StaticString { "org.freedesktop.DBus.Local" }
    private static var busName: StaticString { "org.freedesktop.DBus" }

    /// Follows the owners of the names that subscriptions name.
    private func heed(_ signal: borrowing DBusSignal) {
        guard !owners.isEmpty, signal.isMember(Self.busName, "NameOwnerChanged"),
            dbus_message_has_signature(signal.message, "sss") != 0
        else { return }
        var iterator = DBusMessageIter()
        var name: UnsafePointer<CChar>?
        var unique: UnsafePointer<CChar>?
        dbus_message_iter_init(signal.message, &iterator)
        dbus_message_iter_get_basic(&iterator, &name)
        dbus_message_iter_next(&iterator)
        dbus_message_iter_next(&iterator)
        dbus_message_iter_get_basic(&iterator, &unique)
        if let name { owners[String(cString: name)]?.change(to: unique) }
    }
}
