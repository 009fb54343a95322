import Foundation
import Synchronization
import TestBus
import TestSupport
import Testing

@testable import LibDBus

@Suite(.enabled(if: TestBus.isInstalled, "dbus-daemon is not installed"), .timeLimit(.minutes(10)))
struct ConnectionTests {
    @Test func aConnectionGreetsTheBusAndCallsIt() async throws {
        let bus = try await TestBus.start()
        let connection = try await bus.connect()
        #expect(connection.uniqueName.hasPrefix(":1."))
        let names = try await connection.bus("ListNames")
        #expect(names.signature == "as" && names.first?.stringValues?.contains(connection.uniqueName) == true)
        let owned = try await connection.bus("GetNameOwner", [.string("org.freedesktop.DBus")])
        #expect(owned == [.string("org.freedesktop.DBus")])
        await connection.close()
    }

    @Test func errorsOfTheOtherSideKeepTheirNameAndWords() async throws {
        let bus = try await TestBus.start()
        let connection = try await bus.connect()
        let error = await #expect(throws: DBusError.self) { try await connection.bus("GetNameOwner", [.string("a.b")]) }
        guard case .remote("org.freedesktop.DBus.Error.NameHasNoOwner", let message) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(message.contains("a.b"))
        await #expect(throws: DBusError.self) { try await connection.call("a.b", "/", "a.b", "C") }
        await #expect(throws: DBusError.self) { try await connection.bus("NoSuch") }
    }

    @Test func wrongArgumentsFailTheCallAndNothingElse() async throws {
        let bus = try await TestBus.start()
        let connection = try await bus.connect()
        let error = await #expect(throws: DBusError.self) { try await connection.bus("GetNameOwner", [.string("\0")]) }
        guard case .invalidArgument = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        await #expect(throws: DBusError.self) { try await connection.call("x", "", "", "") }
        await #expect(throws: DBusError.self) { try await connection.emitSignal("/", "a.b", "c.d") }
        await #expect(throws: DBusError.self) { try await connection.send("a.b", "/", "a", "b") }
        #expect(try await connection.bus("GetId").signature == "s")
    }

    /// Keeps a connection's thread busy without holding the connection.
    private actor Occupant {
        private let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop) { self.loop = loop }

        func hold(_ begun: DispatchSemaphore, until end: DispatchSemaphore) {
            begun.signal()
            end.wait()
        }
    }

    private final class Held: Sendable {
        let connection: Mutex<DBusConnection?>

        init(_ connection: consuming DBusConnection) { self.connection = Mutex(connection) }
    }

    @Test func whoeverLetsGoOfAConnectionDoesNotWaitForItsThread() async throws {
        let bus = try await TestBus.start()
        let held = Held(try await bus.connect())
        let occupant = Occupant(try #require(held.connection.withLock { $0?.loop }))
        let (begun, end, letGo) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        let occupation = Task { await occupant.hold(begun, until: end) }
        let isLetGo = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                begun.wait()
                Thread.detachNewThread {
                    held.connection.withLock { $0 = nil }
                    letGo.signal()
                }
                continuation.resume(returning: letGo.wait(timeout: .now() + 10) == .success)
            }
        }
        end.signal()
        await occupation.value
        #expect(isLetGo)
    }

    @Test func aBusThatCannotBeReachedIsNamed() async throws {
        for address in [
            "unix:path=/nonexistent/bus", "", "nonsense", "unix:", "tcp:host=127.0.0.1,port=1", "x:y=\u{7f}",
        ] {
            let error = await #expect(throws: DBusError.self) { try await DBusConnection.open(.address(address)) }
            guard case .cannotConnect(let why) = error else {
                Issue.record("\(address): \(String(describing: error))")
                continue
            }
            #expect(!why.isEmpty)
        }
        let error = await #expect(throws: DBusError.self) { try await DBusConnection.open(.address("a\0")) }
        guard case .invalidArgument = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func aBusOverTCPWorksAsWell() async throws {
        let bus = try await TestBus.start(listen: "tcp:host=127.0.0.1,port=0")
        let connection = try await bus.connect()
        #expect(try await connection.bus("GetId").signature == "s")
        let descriptor = try DBusFileDescriptor(duplicating: 0)
        let error = await #expect(throws: DBusError.self) {
            try await connection.bus("GetNameOwner", [.unixFD(descriptor)])
        }
        #expect(error == .invalidArgument("this bus carries no file descriptors"))
    }

    @Test func aThousandCallsAtOnceAreEachAnswered() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        try await server.export("/echo", interface: "test.Echo") { $0.arguments }
        let destination = server.uniqueName
        // The server refuses more than it serves at once, so they come in groups.
        for group in 0..<20 {
            let answers = try await withThrowingTaskGroup(of: (UInt32, [DBusValue]).self) { tasks in
                for number in UInt32(0)..<50 {
                    tasks.addTask {
                        let number = UInt32(group) * 50 + number
                        let answer = try await client.call(destination, "/echo", "test.Echo", "Say", [.uint32(number)])
                        return (number, answer)
                    }
                }
                return try await tasks.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.count == 50 && answers.allSatisfy { $0.1 == [.uint32($0.0)] })
        }
    }

    @Test func aCallRunsOutOfTimeAndItsLateAnswerIsDropped() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        let gate = Gate()
        try await server.export("/slow", interface: "test.Slow") { call in
            if call.member == "Never" { await Gate().wait() } else { await gate.wait() }
            return [.string("late")]
        }
        let error = await #expect(throws: DBusError.self) {
            try await client.call(server.uniqueName, "/slow", "test.Slow", "Sleep", timeout: .milliseconds(30))
        }
        guard case .timedOut(let what) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(what.contains("test.Slow.Sleep") && !what.contains("/slow"))
        gate.open()
        // The answer is on its way before this one's.
        try await until { await server.handlings.isEmpty }
        #expect(try await client.bus("GetId").signature == "s")
        #expect(await client.nextDeadline == nil)
        let none = await #expect(throws: DBusError.self) {
            try await client.call(server.uniqueName, "/slow", "test.Slow", "Never", timeout: .seconds(-5))
        }
        guard case .timedOut = none else {
            Issue.record("\(String(describing: none))")
            return
        }
        // For ever is a duration too.
        _ = try await client.call(
            server.uniqueName, "/slow", "test.Slow", "Sleep", timeout: .seconds(Int64.max))
    }

    @Test func cancellingTheTaskCancelsTheCall() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        let gate = Gate()
        try await server.export("/slow", interface: "test.Slow") { _ in
            await gate.wait()
            return []
        }
        let destination = server.uniqueName
        let task = Task { try await client.call(destination, "/slow", "test.Slow", "Sleep") }
        try await until { await !server.handlings.isEmpty }
        task.cancel()
        #expect(await task.result.failure as? DBusError == .cancelled)
        gate.open()
        let early = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await client.bus("GetId")
        }
        early.cancel()
        #expect(await early.result.failure as? DBusError == .cancelled)
        #expect(await client.nextDeadline == nil)
    }

    @Test func cancelledCallsRaceWithTheirAnswersAndEachEndsOnce() async throws {
        let bus = try await TestBus.start()
        let client = try await bus.connect()
        var (answered, cancelled) = (0, 0)
        for round in 0..<400 {
            let task = Task { try await client.bus("GetId") }
            for _ in 0..<(round % 40) { await Task.yield() }
            task.cancel()
            switch await task.result {
            case .success: answered += 1
            case .failure(DBusError.cancelled): cancelled += 1
            case .failure(let error): Issue.record("\(error)")
            }
        }
        #expect(answered + cancelled == 400)
        #expect(await client.nextDeadline == nil)
    }

    @Test func whenTheBusDiesEveryoneIsTold() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        let (gate, ended) = (Gate(), Gate())
        try await server.export("/slow", interface: "test.Slow") { _ in
            await gate.wait()
            if Task.isCancelled { ended.open() }
            return []
        }
        let signals = try await client.signals(DBusMatch(member: "Never")) { _ in 1 }
        let iteration = Task {
            for try await _ in signals {}
        }
        let call = Task { [server] in try await client.call(server.uniqueName, "/slow", "test.Slow", "Sleep") }
        let closed = Task { await client.closed() }
        try await until { await !server.handlings.isEmpty }
        bus.stop()
        #expect(await call.result.failure as? DBusError == .disconnected)
        #expect(await iteration.result.failure as? DBusError == .disconnected)
        await closed.value
        await ended.wait()
        await client.closed()
        await #expect(throws: DBusError.disconnected) { try await client.bus("GetId") }
        await #expect(throws: DBusError.disconnected) { try await client.signals(DBusMatch()) { _ in 1 } }
        await #expect(throws: DBusError.disconnected) { try await client.emitSignal("/", "a.b", "C") }
        await #expect(throws: DBusError.disconnected) { try await client.flush() }
        await #expect(throws: DBusError.disconnected) {
            try await client.export("/", interface: "a.b") { _ in [] }
        }
        await client.close()
    }

    @Test func aBusThatDiesIsNoticedByWhoOnlySends() async throws {
        let bus = try await TestBus.start()
        let client = try await bus.connect()
        bus.stop()
        await client.closed()
        for _ in 0..<3 {
            await #expect(throws: DBusError.disconnected) { try await client.emitSignal("/", "a.b", "C") }
        }
    }

    @Test func closingEndsTheThreadAndEverythingThatWaits() async throws {
        let bus = try await TestBus.start()
        let client = try await bus.connect()
        let thread = try #require(await client.threadFolder())
        #expect(FileManager.default.fileExists(atPath: thread))
        let signals = try await client.signals(DBusMatch(member: "Never")) { _ in 1 }
        let waiting = Task { await client.closed() }
        async let first: Void = client.close()
        async let second: Void = client.close()
        _ = await (first, second)
        #expect(!FileManager.default.fileExists(atPath: thread), "the thread was joined")
        await waiting.value
        await #expect(throws: DBusError.disconnected) {
            for try await _ in signals {}
        }
        await #expect(throws: DBusError.disconnected) { try await client.bus("GetId") }
        await client.close()
        await client.closed()
    }

    @Test func aConnectionThatIsLetGoOfIsClosed() async throws {
        let bus = try await TestBus.start()
        let watcher = try await bus.connect()
        let gone = try await watcher.signals(
            DBusMatch(sender: "org.freedesktop.DBus", member: "NameOwnerChanged")
        ) { signal -> String? in
            let names = signal.arguments().compactMap(\.stringValue)
            return names.count == 3 && names[2].isEmpty ? names[0] : nil
        }
        var expected: Set<String> = []
        for way in 0..<30 {
            var connection: DBusConnection? = try await bus.connect()
            expected.insert(connection?.uniqueName ?? "")
            switch way % 3 {
            case 0: break
            // The last to hold it is a job on its own thread.
            case 1: if let held = connection { Task { try await held.bus("GetId") } }
            // The last to hold it is a subscription, which ends on its own thread too.
            default: _ = try await connection?.signals(DBusMatch(member: "Never")) { _ in 1 }
            }
            connection = nil
        }
        for try await burst in gone {
            expected.subtract(burst)
            if expected.isEmpty { break }
        }
        #expect(expected.isEmpty)
    }

    @Test func anIdleConnectionWakesNobody() async throws {
        let bus = try await TestBus.start()
        let client = try await bus.connect()
        let signals = try await client.signals(DBusMatch(member: "Never")) { _ in 1 }
        _ = try await client.bus("GetId")
        let thread = try #require(await client.threadFolder())
        func wakes() throws -> String? {
            try String(contentsOfFile: thread + "/status", encoding: .utf8).split(separator: "\n")
                .first { $0.hasPrefix("voluntary_ctxt_switches") }.map(String.init)
        }
        // The job that told the thread's number has ended when another comes.
        _ = await client.threadFolder()
        try await Task.sleep(for: .milliseconds(200))
        let before = try wakes()
        try await Task.sleep(for: .seconds(1))
        #expect(try wakes() == before)
        withExtendedLifetime(signals) {}
    }

    @Test func anActorMayShareTheThread() async throws {
        actor Sharer {
            let connection: DBusConnection
            nonisolated var unownedExecutor: UnownedSerialExecutor { connection.unownedExecutor }

            init(_ connection: DBusConnection) { self.connection = connection }

            /// Whether the connection may be touched without waiting, before and after a call.
            func share() async throws -> Bool {
                let before = isOpen
                let answer = try await connection.bus("GetId")
                return isOpen && before && answer.count == 1
            }

            private var isOpen: Bool { connection.assumeIsolated { $0.isOpen } }
        }
        let bus = try await TestBus.start()
        let connection = try await bus.connect()
        let sharer = Sharer(connection)
        #expect(try await sharer.share())
        await connection.close()
        await #expect(throws: DBusError.disconnected) { try await sharer.share() }
    }

    /// Whether the connection may be touched without waiting.
    private func isOnLoop(of connection: DBusConnection) -> Bool { connection.assumeIsolated { $0.isOpen } }

    @Test func aTaskThatPrefersTheEventLoopIsHandedSignalsOnItsThread() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(DBusMatch(interface: "test.Numbers")) {
            $0.arguments().first?.intValue
        }
        let taken = Task(executorPreference: receiver.taskExecutor) {
            var numbers: [Int] = []
            for try await burst in signals {
                #expect(isOnLoop(of: receiver))
                numbers += burst
                if numbers.count == 1000 { break }
            }
            return numbers
        }
        for number in 0..<1000 {
            try await sender.emitSignal("/", "test.Numbers", "Number", [.uint64(UInt64(number))])
        }
        #expect(try await taken.value == Array(0..<1000))
        // A task may outlast the connection whose loop it prefers.
        let last = Task(executorPreference: receiver.taskExecutor) {
            await receiver.close()
            await Task.yield()
            return sender.uniqueName
        }
        #expect(await last.value == sender.uniqueName)
    }

    @Test func flushingWaitsUntilAllIsWritten() async throws {
        let bus = try await TestBus.start()
        let (sender, receiver) = (try await bus.connect(), try await bus.connect())
        let signals = try await receiver.signals(DBusMatch(interface: "test.Large")) {
            $0.arguments().first?.byteValues?.count
        }
        let octets = [UInt8](repeating: 7, count: 1 << 20)
        for _ in 0..<20 { try await sender.emitSignal("/", "test.Large", "Octets", [.bytes(octets)]) }
        try await sender.flush()
        await sender.close()
        var count = 0
        for try await burst in signals {
            #expect(burst.allSatisfy { $0 == octets.count })
            count += burst.count
            if count == 20 { break }
        }
        #expect(count == 20)
    }
}

/// Holds tasks until it is opened, or they are cancelled.
final class Gate: Sendable {
    private let state = Lock<(isOpen: Bool, waiters: [CheckedContinuation<Void, Never>])>((false, []))

    func open() {
        let waiters = state.withLock { state in
            state.isOpen = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isOpen || Task.isCancelled { return true }
                    state.waiters.append(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            open()
        }
    }
}

extension Result {
    var failure: Failure? {
        guard case .failure(let error) = self else { return nil }
        return error
    }
}

extension DBusConnection {
    /// When the next call runs out of time.
    var nextDeadline: SuspendingClock.Instant? { calls.nextDeadline }

    /// How many subscriptions, and names that are followed, it knows.
    var subscriptions: [Int] { [routes.count, owners.count] }

    /// Where the system tells of this connection's thread.
    func threadFolder() -> String? {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")).map { "/proc/" + $0 }
    }
}
