import Foundation
import TestBus
import TestSupport
import Testing

@testable import LibDBus

/// Against programs that are not ours, each where it is installed.
@Suite(.enabled(if: TestBus.isInstalled, "dbus-daemon is not installed"), .timeLimit(.minutes(10)))
struct ForeignTests {
    static func isInstalled(_ path: String) -> Bool { FileManager.default.isExecutableFile(atPath: path) }
    static let python = NSHomeDirectory() + "/.cache/healthrelay-lab/venv/bin/python"

    /// A bus with an object on it whose answers show what came.
    private func serve() async throws -> (TestBus, DBusConnection) {
        let bus = try await TestBus.start()
        let server = try await bus.connect()
        let methods = [
            DBusMethodDescription("Describe", arguments: "sia{sv}as", results: "s"),
            DBusMethodDescription("Echo", arguments: "v", results: "v"), DBusMethodDescription("Fail"),
        ]
        try await server.export("/test/object", interface: "test.Object", methods: methods) { call in
            switch call.member {
            case "Describe":
                let entries = call.arguments[2].stringKeyed ?? [:]
                let texts = entries.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value.intValue ?? -1)" }
                let words = [call.arguments[0].stringValue ?? "", "\(call.arguments[1].intValue ?? -1)"]
                return [.string((words + texts + (call.arguments[3].stringValues ?? [])).joined(separator: " "))]
            case "Echo": return call.arguments
            default: throw DBusError.remote(name: "test.Error.Told", message: "as told")
            }
        }
        try await server.own("test.Server")
        return (bus, server)
    }

    @Test(.enabled(if: isInstalled("/usr/bin/dbus-send")))
    func dbusSendCallsUsAndIsHeard() async throws {
        let (bus, server) = try await serve()
        let arguments = ["--bus=\(bus.address)", "--print-reply", "--dest=test.Server", "/test/object"]
        let peer = try await run("/usr/bin/dbus-send", arguments + ["org.freedesktop.DBus.Peer.Ping"])
        #expect(peer.status == 0, "\(peer.output)")
        let echo = try await run("/usr/bin/dbus-send", arguments + ["test.Object.Echo", "variant:double:2.5"])
        #expect(echo.status == 0 && echo.output.contains("double 2.5"), "\(echo.output)")
        let error = try await run("/usr/bin/dbus-send", arguments + ["test.Object.Fail"])
        #expect(error.status != 0 && error.output.contains("test.Error.Told: as told"), "\(error.output)")
        let signals = try await server.signals(DBusMatch(interface: "test.Sent")) { $0.arguments() }
        let sent = try await run(
            "/usr/bin/dbus-send",
            [
                "--bus=\(bus.address)", "--type=signal", "/a", "test.Sent.Values", "string:a b", "byte:7", "int64:-9",
                "boolean:true", "array:string:x,y", "dict:string:int32:one,1,two,2", "objpath:/o", "uint16:65535",
            ])
        #expect(sent.status == 0, "\(sent.output)")
        var iterator = signals.makeAsyncIterator()
        let expected: [DBusValue] = [
            .string("a b"), .byte(7), .int64(-9), .bool(true), .array([.string("x"), .string("y")], of: "s"),
            .dictionary([.string("one"): .int32(1), .string("two"): .int32(2)], key: "s", value: "i"),
            .objectPath("/o"), .uint16(65535),
        ]
        #expect(try await iterator.next() == [expected])
    }

    @Test(.enabled(if: isInstalled("/usr/bin/busctl")))
    func busctlReadsWhatWeAre() async throws {
        let (bus, server) = try await serve()
        let tree = try await run("/usr/bin/busctl", ["--address=\(bus.address)", "tree", "--list", "test.Server"])
        #expect(tree.status == 0 && tree.output.contains("/test/object"), "\(tree.output)")
        let introspected = try await run(
            "/usr/bin/busctl", ["--address=\(bus.address)", "introspect", "test.Server", "/test/object", "test.Object"])
        #expect(introspected.output.contains("sia{sv}as"), "\(introspected.output)")
        let called = try await run(
            "/usr/bin/busctl",
            [
                "--address=\(bus.address)", "call", "test.Server", "/test/object", "test.Object", "Describe",
                "sia{sv}as", "word", "--", "-5", "2", "a", "y", "1", "b", "t", "2", "2", "x", "y",
            ])
        #expect(called.output == "s \"word -5 a=1 b=2 x y\"\n", "\(called.output)")
        withExtendedLifetime(server) {}
    }

    @Test(.enabled(if: isInstalled("/usr/bin/gdbus")))
    func gdbusCallsUs() async throws {
        let (bus, server) = try await serve()
        let called = try await run(
            "/usr/bin/gdbus",
            [
                "call", "--address", bus.address, "--dest", "test.Server", "--object-path", "/test/object", "--method",
                "test.Object.Describe", "w", "3", "{'k': <uint16 4>}", "['z']",
            ])
        #expect(called.output == "('w 3 k=4 z',)\n", "\(called.output)")
        withExtendedLifetime(server) {}
    }

    @Test(.enabled(if: isInstalled(python)))
    func dbusFastSendsBackEveryValue() async throws {
        let bus = try await TestBus.start()
        let client = try await bus.connect()
        let script = FileManager.default.temporaryDirectory.appendingPathComponent("echo-\(UUID().uuidString).py")
        defer { try? FileManager.default.removeItem(at: script) }
        let text = """
            import asyncio, sys
            from dbus_fast import Message, MessageType
            from dbus_fast.aio import MessageBus
            async def main():
                bus = await MessageBus(bus_address=sys.argv[1]).connect()
                done = asyncio.get_running_loop().create_future()
                def handle(message):
                    if message.message_type is not MessageType.METHOD_CALL or message.interface != "test.Echo":
                        return None
                    if message.member == "End":
                        done.set_result(None)
                    return Message.new_method_return(message, message.signature, message.body)
                bus.add_message_handler(handle)
                await bus.request_name("test.Echo")
                await done
            asyncio.run(main())
            """
        try text.write(to: script, atomically: true, encoding: .utf8)
        let echo = Task { try await run(Self.python, [script.path, bus.address]) }
        try await until { (try? await client.bus("NameHasOwner", [.string("test.Echo")])) == [.bool(true)] }
        var random = RandomValues(seed: 77)
        for _ in 0..<300 {
            let values = random.arguments()
            guard Name.signature.accepts(values.signature) else { continue }
            #expect(try await client.call("test.Echo", "/", "test.Echo", "Say", values) == values)
        }
        try await client.send("test.Echo", "/", "test.Echo", "End")
        #expect(try await echo.value.status == 0)
    }
}
