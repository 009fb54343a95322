import TestBus
import TestSupport
import Testing

@testable import LibDBus

@Suite("Subscriptions", .enabled(if: TestBus.isInstalled, "dbus-daemon is not installed"), .timeLimit(.minutes(5)))
struct SubscriptionTests {
    /// A bus with a sender that has a name, and a subscription of another connection.
    private struct Bench {
        let bus: TestBus
        let sender: DBusConnection
        let receiver: DBusConnection
        let subscription: DBusSubscription<String>

        init(ownsName: Bool = true) async throws {
            bus = try await TestBus.start()
            (sender, receiver) = (try await bus.connect(), try await bus.connect())
            if ownsName { try await sender.own("test.Name") }
            subscription = DBusSubscription(receiver) { signal in
                signal.isMember("org.freedesktop.DBus", "NameOwnerChanged")
                    ? "owner" : signal.argument(0)?.stringValue
            }
        }

        func emit(_ text: String, _ path: String = "/a", _ interface: String = "test.A") async throws {
            try await sender.emitSignal(path, interface, "Text", [.string(text)])
        }

        /// Returns when everything that was emitted has reached the receiver.
        func settle() async throws {
            _ = try await sender.bus("GetId")
            _ = try await receiver.bus("GetId")
        }

        /// What has come by now.
        func taken() async throws -> [String] {
            try await settle()
            guard case .signals(let texts) = await subscription.next(within: .zero) else { return [] }
            return texts
        }

        /// How many match rules the bus keeps for the receiver.
        func rules() async throws -> Int {
            let answer = try await receiver.call(
                "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats",
                "GetConnectionStats", [.string(receiver.uniqueName)])
            return answer.first?.stringKeyed?["MatchRules"]?.intValue ?? -1
        }
    }

    private static func rule(_ path: String) -> DBusMatch { DBusMatch(sender: "test.Name", path: path) }

    @Test("Signals of several rules keep their order, across objects, interfaces and the bus's own")
    func keepsTheOrderAcrossRules() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(
            Self.rule("/a"), DBusMatch(sender: "test.Name", interface: "test.B"),
            DBusMatch(sender: "org.freedesktop.DBus", member: "NameOwnerChanged", arg0: "test.Name"))
        var expected: [String] = []
        for number in 0..<300 {
            let text = "\(number)"
            try await bench.emit(text, ["/a", "/b", "/a"][number % 3], ["test.A", "test.B", "test.B"][number % 3])
            expected.append(text)
        }
        _ = try await bench.sender.bus("ReleaseName", [.string("test.Name")])
        #expect(try await bench.taken() == expected + ["owner"])
    }

    @Test("A signal that meets several rules comes once, and one that meets none never")
    func comesOnce() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(
            Self.rule("/a"), Self.rule("/a"), DBusMatch(sender: "test.Name", interface: "test.A"))
        try await bench.emit("once")
        try await bench.emit("never", "/b", "test.B")
        try await bench.emit("again", "/b")
        #expect(try await bench.taken() == ["once", "again"])
    }

    @Test("Nothing is lost between the rule and the first read, nor while rules are added")
    func losesNothing() async throws {
        let bench = try await Bench()
        let subscription = bench.subscription
        try await subscription.add(Self.rule("/a"))
        let sending = Task {
            for number in 0..<500 {
                try await bench.emit("\(number)")
                if number % 50 == 0 { try await subscription.add(Self.rule("/other\(number)")) }
            }
        }
        try await sending.value
        #expect(try await bench.taken() == (0..<500).map { "\($0)" })
    }

    @Test("Each rule is on the bus once, a name is followed once, and closing takes all of them away")
    func countsRules() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(Self.rule("/a"), Self.rule("/b"), Self.rule("/c"))
        #expect(try await bench.rules() == 4)
        try await bench.subscription.add(Self.rule("/d"))
        #expect(try await bench.rules() == 5)
        bench.subscription.close()
        bench.subscription.close()
        try await until { try await bench.rules() == 0 }
        #expect(await bench.receiver.subscriptions == [0, 0])
        await #expect(throws: DBusError.cancelled) { try await bench.subscription.add(Self.rule("/e")) }
        #expect(try await bench.rules() == 0)
    }

    @Test("A subscription that nobody holds any more leaves nothing on the bus")
    func endsWithItsLastReference() async throws {
        let bench = try await Bench()
        do {
            let subscription = DBusSubscription(bench.receiver) { _ in 1 }
            try await subscription.add(Self.rule("/a"))
            #expect(try await bench.rules() == 2)
        }
        try await until { try await bench.rules() == 0 }
    }

    @Test("Rules that the bus refuses, or that are no rules, leave the others as they were")
    func keepsTheOthers() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(Self.rule("/a"))
        await #expect(throws: DBusError.self) {
            try await bench.subscription.add(
                Self.rule("/b"), DBusMatch(sender: "test.Name", arg0Namespace: "not..valid"))
        }
        await #expect(throws: DBusError.self) {
            try await bench.subscription.add(DBusMatch(sender: "test.Name", path: "no path"))
        }
        try await until { try await bench.rules() == 2 }
        try await bench.emit("a")
        try await bench.emit("b", "/b")
        #expect(try await bench.taken() == ["a"])
    }

    @Test("Closing while rules are being added leaves nothing on the bus")
    func closesWhileAdding() async throws {
        let bench = try await Bench()
        for _ in 0..<50 {
            let subscription = DBusSubscription(bench.receiver) { _ in 1 }
            let adding = Task { try await subscription.add((0..<5).map { Self.rule("/r\($0)") }) }
            await Task.yield()
            subscription.close()
            _ = await adding.result
        }
        try await until { try await bench.rules() == 0 }
        #expect(await bench.receiver.subscriptions == [0, 0])
    }

    @Test("Adding rules that is cancelled leaves nothing on the bus")
    func cancelsAdding() async throws {
        let bench = try await Bench()
        for _ in 0..<50 {
            let adding = Task {
                let subscription = DBusSubscription(bench.receiver) { _ in 1 }
                try await subscription.add((0..<5).map { Self.rule("/r\($0)") })
            }
            await Task.yield()
            adding.cancel()
            _ = await adding.result
        }
        try await until { try await bench.rules() == 0 }
    }

    @Test("A name that changes its owner, as a daemon does that starts again, is followed by every rule")
    func followsARestart() async throws {
        let bench = try await Bench(ownsName: false)
        try await bench.subscription.add(Self.rule("/a"), Self.rule("/b"))
        try await bench.emit("too early")
        try await bench.sender.own("test.Name")
        try await bench.emit("first")
        _ = try await bench.sender.bus("ReleaseName", [.string("test.Name")])
        try await bench.sender.emitSignal(
            "/a", "test.A", "Text", [.string("too late")], to: bench.receiver.uniqueName)
        try await bench.settle()
        let second = try await bench.bus.connect()
        try await second.own("test.Name")
        try await second.emitSignal("/b", "test.A", "Text", [.string("second")])
        _ = try await second.bus("GetId")
        #expect(try await bench.taken() == ["first", "second"])
    }

    @Test("A wait ends in time, with its task, with another's wait, or by an interruption, and loses nothing")
    func endsWaits() async throws {
        let bench = try await Bench()
        let subscription = bench.subscription
        try await subscription.add(Self.rule("/a"))
        #expect(await subscription.next(within: .zero).isSilence)
        #expect(await subscription.next(within: .milliseconds(20)).isSilence)
        let cancelled = Task { await subscription.next() }
        cancelled.cancel()
        #expect(await cancelled.value.isCancelled)
        subscription.interrupt()
        subscription.interrupt()
        #expect(await subscription.next().isInterrupted)
        #expect(await subscription.next(within: .milliseconds(1)).isSilence)
        let replaced = Task { await subscription.next() }
        try await until { subscription.hasReader }
        async let last = subscription.next()
        #expect(await replaced.value.isCancelled)
        try await bench.emit("kept")
        guard case .signals(["kept"]) = await last else {
            Issue.record("the signal was lost")
            return
        }
    }

    @Test("A wait that is over at once ends, however short it is")
    func endsShortWaits() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(Self.rule("/a"))
        for _ in 0..<2000 {
            #expect(await bench.subscription.next(within: .nanoseconds(1)).isSilence)
        }
    }

    @Test("What was not taken can be drained, and the last that is meant be removed")
    func removesAndDrains() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(Self.rule("/a"))
        for text in ["a", "b", "a", "c"] { try await bench.emit(text) }
        try await bench.settle()
        bench.subscription.removeLast { $0 == "a" }
        bench.subscription.removeLast { $0 == "z" }
        #expect(bench.subscription.drain() == ["a", "b", "c"])
        #expect(await bench.subscription.next(within: .zero).isSilence)
    }

    @Test("The end of the bus comes after everything that came before it; a closed subscription ends without an error")
    func endsLast() async throws {
        let bench = try await Bench()
        try await bench.subscription.add(Self.rule("/a"))
        let closed = DBusSubscription(bench.receiver) { _ in 1 }
        try await closed.add(Self.rule("/a"))
        try await bench.emit("last words")
        try await bench.settle()
        closed.close()
        guard case .signals([1]) = await closed.next(), case .ended(nil) = await closed.next() else {
            Issue.record("what had come was lost")
            return
        }
        bench.bus.stop()
        await bench.receiver.closed()
        guard case .signals(["last words"]) = await bench.subscription.next(),
            case .ended(.disconnected) = await bench.subscription.next()
        else {
            Issue.record("what had come was lost")
            return
        }
        await #expect(throws: DBusError.disconnected) { try await bench.subscription.add(Self.rule("/b")) }
    }

    @Test("A connection that only its subscriptions held is closed with the last of them")
    func doesNotKeepTheConnection() async throws {
        let bus = try await TestBus.start()
        let watcher = try await bus.connect()
        let name: String
        do {
            let connection = try await bus.connect()
            name = connection.uniqueName
            let signals = try await connection.signals([DBusMatch(interface: "test.A"), DBusMatch(path: "/a")]) { _ in 1
            }
            withExtendedLifetime(signals) {}
        }
        try await until { try await watcher.bus("NameHasOwner", [.string(name)]) == [.bool(false)] }
    }
}

extension DBusOutcome {
    fileprivate var isSilence: Bool { if case .silence = self { true } else { false } }
    fileprivate var isCancelled: Bool { if case .cancelled = self { true } else { false } }
    fileprivate var isInterrupted: Bool { if case .interrupted = self { true } else { false } }
}
