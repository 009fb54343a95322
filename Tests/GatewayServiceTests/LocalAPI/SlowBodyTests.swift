import Foundation
import GuardedServer
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import Testing

@Suite("A body that does not come", .timeLimit(.minutes(5))) struct SlowBodyTests {
    /// A server whose route notices nothing, as on a busy machine, and that gives a body half a second.
    private func with(_ body: (Int) async throws -> Void) async throws {
        let router = Router()
        router.post("/wait") { _, _ in
            try await Task.sleep(for: .seconds(600))
            return "late"
        }
        router.post("/stream") { _, _ in
            Response(
                status: .ok,
                body: ResponseBody { writer in
                    try await writer.write(ByteBuffer(string: "begun"))
                    try await Task.sleep(for: .seconds(600))
                    try await writer.finish(nil)
                })
        }
        router.post("/answered") { _, _ in "early" }
        var limits = ServerLimits()
        limits.body = .milliseconds(500)
        let port = AsyncStream<Int>.makeStream()
        let logger = Logger(label: "slow") { _ in SwiftLogNoOpLogHandler() }
        let server = RestingServer(
            router: router, address: .hostname("127.0.0.1", port: 0), logger: logger,
            guarding: ServerGuard(limits: limits)
        ) { port.continuation.yield($0.localAddress?.port ?? 0) }
        let group = ServiceGroup(services: [server], logger: logger)
        let running = Task { try await group.run() }
        var ports = port.stream.makeAsyncIterator()
        try await body(try #require(await ports.next()))
        running.cancel()
        _ = await running.result
    }

    /// Everything that comes until the server closes its side.
    private func answer(_ text: String, at port: Int) async throws -> String {
        let socket = try #require(RawSocket(port: port))
        defer { socket.close() }
        socket.send(text)
        var octets: [UInt8] = []
        while let part = try await socket.receive() { octets += part }
        return String(decoding: octets, as: UTF8.self)
    }

    private static func request(_ path: String, _ more: String = "") -> String {
        "POST \(path) HTTP/1.1\r\nHost: localhost\r\n\(more)Content-Length: 100\r\n\r\n{\"code\":"
    }

    @Test(
        "is answered with 408 when its time is over, however late the route is",
        arguments: ["", "Expect: 100-continue\r\n"])
    func busy(_ fields: String) async throws {
        try await with { port in
            let answer = try await answer(Self.request("/wait", fields), at: port)
            #expect(answer.contains("HTTP/1.1 408 Request Timeout\r\n"), "\(answer)")
            #expect(answer.lowercased().contains("connection: close\r\n"), "\(answer)")
            #expect(
                answer.hasSuffix(
                    #"{"error":{"code":"request_timeout","message":"the body did not arrive in time","hint":null}}"#))
            #expect(!answer.contains("late"))
        }
    }

    @Test("has one answer, also where the route has answered or begun to", arguments: ["/answered", "/stream"])
    func answered(_ path: String) async throws {
        try await with { port in
            let answer = try await answer(Self.request(path), at: port)
            // On a busy machine the body's time may be over before the route has begun.
            #expect(answer.components(separatedBy: "HTTP/1.1 ").count == 2, "\(answer)")
        }
    }

    @Test("closes the connection where an earlier request has no answer yet")
    func pipelined() async throws {
        try await with { port in
            let first = "POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            let answer = try await answer(first + Self.request("/wait"), at: port)
            #expect(answer.isEmpty, "\(answer)")
        }
    }
}
