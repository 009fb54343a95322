import Foundation
import TestBus
import TestSupport
import Testing

@testable import LibDBus

@Suite(.enabled(if: TestBus.isInstalled, "dbus-daemon is not installed"), .timeLimit(.minutes(10)))
struct ExportTests {
    private func remote(_ body: () async throws -> Void) async -> String? {
        do {
            try await body()
            return nil
        } catch DBusError.remote(let name, _) {
            return name.split(separator: ".").last.map(String.init)
        } catch {
            return "\(error)"
        }
    }

    @Test(arguments: 0..<4)
    func valuesOfEveryTypeGoThroughTheBusAndBack(seed: Int) async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        try await server.export("/echo", interface: "test.Echo") { $0.arguments }
        var random = RandomValues(seed: UInt64(1000 + seed))
        for _ in 0..<100 {
            let values = random.arguments()
            guard Name.signature.accepts(values.signature) else { continue }
            #expect(try await client.call(server.uniqueName, "/echo", "test.Echo", "Say", values) == values)
        }
    }

    @Test func fileDescriptorsGoThroughTheBus() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        try await server.export("/echo", interface: "test.Echo") { call in
            // The same one twice, in containers.
            guard let descriptor = call.arguments.first?.fileDescriptorValue else { return [] }
            return [.structure([.unixFD(descriptor)]), .variant(.unixFD(descriptor))]
        }
        let before = try openDescriptors()
        for number in 0..<20 {
            var pipe: [Int32] = [0, 0]
            try #require(Foundation.pipe(&pipe) == 0)
            let reading = try DBusFileDescriptor(owning: pipe[0])
            let writing = try DBusFileDescriptor(owning: pipe[1])
            let answer = try await client.call(server.uniqueName, "/echo", "test.Echo", "Say", [.unixFD(writing)])
            #expect(answer.signature == "(h)v")
            let returned = try #require(answer.last?.fileDescriptorValue)
            #expect(returned.rawValue != writing.rawValue && fcntl(returned.rawValue, F_GETFD) & FD_CLOEXEC != 0)
            #expect(Foundation.write(returned.rawValue, [UInt8(number)], 1) == 1)
            var octet: UInt8 = 0
            #expect(Foundation.read(reading.rawValue, &octet, 1) == 1 && octet == number)
        }
        // Other tests of this process open and close descriptors as well: those of 20 rounds would show.
        try await until { ((try? openDescriptors()) ?? 1000) < before + 60 }
    }

    private func openDescriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }

    @Test func callersAreToldWhatIsMissing() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        let name = server.uniqueName
        let methods = [DBusMethodDescription("Add", arguments: "uu", results: "u")]
        try await server.export("/a/b", interface: "test.Adder", methods: methods) { call in
            [.uint32(UInt32(call.arguments.compactMap(\.intValue).reduce(0, +)))]
        }
        #expect(try await client.call(name, "/a/b", "test.Adder", "Add", [.uint32(1), .uint32(2)]) == [.uint32(3)])
        #expect(await remote { _ = try await client.call(name, "/a", "test.Adder", "Add") } == "UnknownObject")
        #expect(await remote { _ = try await client.call(name, "/a/b", "test.Other", "Add") } == "UnknownInterface")
        #expect(await remote { _ = try await client.call(name, "/a/b", "test.Adder", "Sub") } == "UnknownMethod")
        #expect(
            await remote { _ = try await client.call(name, "/a/b", "test.Adder", "Add", [.string("1")]) }
                == "InvalidArgs")
        #expect(await remote { _ = try await client.call(name, "/x", "org.freedesktop.DBus.Peer", "Ping") } == nil)
        let identity = try await client.call(name, "/", "org.freedesktop.DBus.Peer", "GetMachineId")
        #expect(identity.first?.stringValue?.count == 32)
        #expect(
            await remote { _ = try await client.call(name, "/x", "org.freedesktop.DBus.Introspectable", "Introspect") }
                == "UnknownObject")
        let tree = try await client.call(name, "/", "org.freedesktop.DBus.Introspectable", "Introspect")
        #expect(tree.first?.stringValue?.contains(#"<node name="a"/>"#) == true)
        let object = try await client.call(name, "/a/b", "org.freedesktop.DBus.Introspectable", "Introspect")
        let text = try #require(object.first?.stringValue)
        #expect(text.contains(#"<method name="Add">"#) && text.contains(#"<arg type="u" direction="out"/>"#))
        await #expect(throws: DBusError.self) {
            try await server.export("/a/b", interface: "test.Adder") { _ in [] }
        }
        await #expect(throws: DBusError.self) { try await server.export("a", interface: "test.Adder") { _ in [] } }
        await #expect(throws: DBusError.self) {
            try await server.export(
                "/c", interface: "test.Adder", methods: [DBusMethodDescription("Bad", arguments: "a")]
            ) { _ in [] }
        }
    }

    @Test func whatAHandlerThrowsIsTheCallersAnswer() async throws {
        struct Odd: Error {}
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        try await server.export("/a", interface: "test.Thrower") { call in
            switch call.member {
            case "Rejected": throw DBusError.remote(name: "org.bluez.Error.Rejected", message: "no")
            case "BadName": throw DBusError.remote(name: "not a name", message: "a\0b")
            case "BadValue": return [.string("\0")]
            default: throw Odd()
            }
        }
        func answer(_ member: String) async -> DBusError? {
            let call = Task { try await client.call(server.uniqueName, "/a", "test.Thrower", member) }
            return await call.result.failure as? DBusError
        }
        #expect(await answer("Rejected") == .remote(name: "org.bluez.Error.Rejected", message: "no"))
        #expect(await answer("BadName") == .remote(name: "org.freedesktop.DBus.Error.Failed", message: "a"))
        #expect(await answer("Other") == .remote(name: "org.freedesktop.DBus.Error.Failed", message: "Odd()"))
        guard case .remote("org.freedesktop.DBus.Error.Failed", let why) = await answer("BadValue") else {
            Issue.record("no error")
            return
        }
        #expect(why.contains("without NUL"))
    }

    @Test func handlersRunSideBySideAndBeginInTheOrderOfTheirCalls() async throws {
        actor Order {
            var begun: [Int] = []
            let gate = Gate()
            func handle(_ call: DBusMethodCall) async -> [DBusValue] {
                begun.append(call.arguments.first?.intValue ?? -1)
                await gate.wait()
                return []
            }
        }
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        let order = Order()
        try await server.export("/a", interface: "test.Slow") { await order.handle($0) }
        for number in 0..<64 {
            try await client.send(server.uniqueName, "/a", "test.Slow", "Go", [.int32(Int32(number))])
        }
        try await until { await order.begun.count == 64 }
        #expect(await order.begun == Array(0..<64))
        // One more is refused, not queued.
        #expect(
            await remote { _ = try await client.call(server.uniqueName, "/a", "test.Slow", "Go", [.int32(64)]) }
                == "LimitsExceeded")
        order.gate.open()
        try await until { await server.handlings.isEmpty }
        #expect(try await client.call(server.uniqueName, "/a", "test.Slow", "Go", [.int32(65)]) == [])
    }

    @Test func handlersAreCancelledWhenTheObjectGoesAndTheirCallersTold() async throws {
        let bus = try await TestBus.start()
        let (server, client) = (try await bus.connect(), try await bus.connect())
        let cancelled = Lock(0)
        for path in ["/a", "/b"] {
            try await server.export(path, interface: "test.Slow") { _ in
                await Gate().wait()
                cancelled.withLock { $0 += Task.isCancelled ? 1 : 0 }
                return []
            }
        }
        let name = server.uniqueName
        let first = Task { try await client.call(name, "/a", "test.Slow", "Go") }
        let second = Task { try await client.call(name, "/b", "test.Slow", "Go") }
        try await until { await server.handlings.count == 2 }
        await server.unexport("/a")
        await server.unexport("/never")
        #expect(
            await first.result.failure as? DBusError
                == .remote(name: "org.freedesktop.DBus.Error.UnknownObject", message: "the object has gone"))
        try await until { cancelled.withLock { $0 } == 1 }
        #expect(await remote { _ = try await client.call(name, "/a", "test.Slow", "Go") } == "UnknownObject")
        await server.close()
        try await until { cancelled.withLock { $0 } == 2 }
        // The bus tells who waited for a peer that has gone.
        guard case DBusError.remote(let error, _)? = await second.result.failure else {
            Issue.record("no error")
            return
        }
        #expect(error == "org.freedesktop.DBus.Error.NoReply")
    }

    @Test func handlersAreCancelledWhenTheConnectionIsLetGoOf() async throws {
        let bus = try await TestBus.start()
        let client = try await bus.connect()
        let (begun, cancelled) = (Gate(), Gate())
        var server: DBusConnection? = try await bus.connect()
        try await server?.export("/a", interface: "test.Slow") { _ in
            begun.open()
            await Gate().wait()
            if Task.isCancelled { cancelled.open() }
            return []
        }
        try await client.send(server?.uniqueName ?? "", "/a", "test.Slow", "Go")
        await begun.wait()
        server = nil
        await cancelled.wait()
    }
}
