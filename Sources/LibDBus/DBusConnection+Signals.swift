import CDBus

extension DBusConnection {
    /// Subscribes to the signals that meet a match rule.
    ///
    /// `decode` runs on the event loop and must not block; it returns `nil` for a signal that isn't wanted. The rule is on
    /// the bus when this returns.
    ///
    /// - Throws: ``DBusError``: ``DBusError/invalidArgument(_:)`` for a rule that is not one, or what the bus answers.
    public func signals<Signal: Sendable>(
        _ match: DBusMatch, decode: @escaping @Sendable (borrowing DBusSignal) -> Signal?
    ) async throws(DBusError) -> DBusSignals<Signal> {
        try await signals([match], decode: decode)
    }

    /// Subscribes to the signals that meet any of several match rules.
    ///
    /// The subscription keeps the order of its signals, also across rules; two subscriptions are two streams. A signal
    /// that meets several rules comes once. The rules are on the bus when this returns.
    ///
    /// - Throws: ``DBusError``: ``DBusError/invalidArgument(_:)`` for a rule that is not one, or what the bus answers.
    public func signals<Signal: Sendable>(
        _ matches: [DBusMatch], decode: @escaping @Sendable (borrowing DBusSignal) -> Signal?
    ) async throws(DBusError) -> DBusSignals<Signal> {
        let subscription = DBusSubscription(self, decode: decode)
        try await subscription.add(matches)
        return DBusSignals(subscription)
    }

    /// Adds rules for the signals that go into a queue.
    func add<Signal>(_ matches: [DBusMatch], to queue: SignalQueue<Signal>) async throws(DBusError) {
        var texts: [String] = []
        for match in matches { texts.append(try match.text()) }
        guard isOpen else { throw .disconnected }
        guard !queue.isClosed else { throw .cancelled }
        if matches.isEmpty { return }
        let route = route(to: queue)
        var (rules, added): ([SignalRule], [String]) = ([], [])
        do throws(DBusError) {
            for (match, text) in zip(matches, texts) {
                // Closed meanwhile: following a name again would leave it behind.
                guard !route.isRemoved else { throw .cancelled }
                // Matched here before the bus has the rule: a signal may come before the bus answers.
                let rule = SignalRule(match, owner: match.followed.map { owner(of: $0) })
                route.rules.append(rule)
                rules.append(rule)
                if let name = match.followed { try await follow(name, for: route) }
                added.append(text)
                try await addMatch(text, for: route)
            }
        } catch {
            takeBack(rules, added, from: route)
            throw error
        }
    }

    /// Takes a subscription and its rules away.
    func remove<Signal>(_ queue: SignalQueue<Signal>) {
        if let route = routes.first(where: { $0.identity === queue }) { remove(route) }
    }

    private func route<Signal>(to queue: SignalQueue<Signal>) -> SignalRoute {
        if let route = routes.first(where: { $0.identity === queue }) { return route }
        let route = DecodingRoute(queue)
        routes.append(route)
        return route
    }

    private func remove(_ route: SignalRoute) {
        route.isRemoved = true
        routes.removeAll { $0 === route }
        for text in route.texts { removeMatch(text) }
        forgetOwners()
    }

    private func takeBack(_ rules: [SignalRule], _ texts: [String], from route: SignalRoute) {
        guard !route.isRemoved else { return }
        route.rules.removeAll { rule in rules.contains { $0 === rule } }
        if route.rules.isEmpty { return remove(route) }
        for text in texts {
            guard let index = route.texts.lastIndex(of: text) else { continue }
            route.texts.remove(at: index)
            removeMatch(text)
        }
        forgetOwners()
    }

    private func addMatch(_ text: String, for route: SignalRoute) async throws(DBusError) {
        guard !route.isRemoved else { throw .cancelled }
        // Noted before the call: the bus may have heard one that was cancelled.
        route.texts.append(text)
        _ = try await callBus("AddMatch", [.string(text)])
    }

    private func removeMatch(_ text: String) {
        try? send(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, "RemoveMatch", [.string(text)])
    }

    private func callBus(_ member: String, _ arguments: [DBusValue]) async throws(DBusError) -> [DBusValue] {
        try await call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, member, arguments)
    }

    // MARK: Owners of names

    private func owner(of name: String) -> NameOwner {
        let owner = owners[name] ?? NameOwner()
        owners[name] = owner
        return owner
    }

    /// Lets the bus tell who owns a name for as long as the route is there.
    private func follow(_ name: String, for route: SignalRoute) async throws(DBusError) {
        if route.followed.contains(name) { return }
        let changes = DBusMatch(
            sender: DBUS_SERVICE_DBUS, path: DBUS_PATH_DBUS, interface: DBUS_INTERFACE_DBUS,
            member: "NameOwnerChanged", arg0: name)
        // In this order: the bus answers and emits in turn, so the owner it tells is never out of date.
        try await addMatch(try changes.text(), for: route)
        try await askOwner(of: name)
        route.followed.insert(name)
    }

    private func askOwner(of name: String) async throws(DBusError) {
        let answer: [DBusValue]
        do {
            answer = try await callBus("GetNameOwner", [.string(name)])
        } catch .remote(name: DBUS_ERROR_NAME_HAS_NO_OWNER, _) {
            return
        }
        guard let unique = answer.first?.stringValue else {
            throw .unexpectedReply(expected: "s", found: answer.signature)
        }
        owners[name]?.change(to: unique)
    }

    /// Drops the names that no rule follows any more.
    private func forgetOwners() {
        owners = owners.filter { _, owner in
            routes.contains { route in route.rules.contains { $0.owner === owner } }
        }
    }

    /// Heeds a signal if the bus itself sent it, and gives it to the subscriptions whose rules it meets.
    func receiveSignal(_ message: borrowing OwnedMessage) {
        let signal = DBusSignal(message.pointer)
        if signal.isMember(Self.localInterface, "Disconnected") { return end() }
        if signal.header.sender.isText(Self.busName) { heed(signal) }
        for route in routes {
            for rule in route.rules where rule.matches(signal) {
                route.receive(signal)
                break
            }
        }
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
