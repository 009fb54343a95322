import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing

@testable import GatewayCommands

@Suite("Bad requests to the local API", .timeLimit(.minutes(5))) struct BadRequestTests {
    @Test("bodies that are too large, of another type, or no object")
    func bodies() async throws {
        let bench = try await APIBench(tls: true)
        let token = try await bench.token()
        let large = "{\"types\":[\"" + String(repeating: "x", count: 1 << 20) + "\"]}"
        let answer = try await bench.send("/api/v1/health/data", .POST, token: token, body: large)
        #expect(answer.status == 413 && answer.code == "body_too_large")
        #expect(try await bench.send("/api/v1/pair", .POST, body: large).status == 413)
        let type = [("Content-Type", "text/plain")]
        #expect(try await bench.send("/api/v1/pair", .POST, headers: type, body: "{}").status == 415)
        let packed = try await bench.send(
            "/api/v1/pair", .POST, headers: [("Content-Encoding", "gzip")], body: #"{"code":"x","clientName":"x"}"#)
        #expect(packed.status == 415 && packed.code == "encoded_body")
        #expect(packed.headers["accept-encoding"] == ["identity"])
        for body in ["", "{", "[]", "null", "\"x\"", "{\"code\":", "\u{0}", #"{"code":1,"clientName":"x"}"#, "{}"] {
            let answer = try await bench.send("/api/v1/pair", .POST, body: body)
            #expect(answer.status == 400, "\(body): \(answer.status)")
        }
        let nested = String(repeating: "{\"a\":", count: 3000) + "1" + String(repeating: "}", count: 3000)
        #expect(try await bench.send("/api/v1/pair", .POST, body: nested).status == 400)
        try await bench.stop()
    }

    @Test("samples: what is no time, no type or no number is refused with its name")
    func samples() async throws {
        let bench = try await APIBench(tls: true)
        let token = try await bench.token()
        let (from, to) = ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")
        let cases = [
            #"{"startDate":"yesterday","endDate":"\#(to)","types":["heartRate"]}"#,
            #"{"startDate":"\#(to)","endDate":"\#(from)","types":["heartRate"]}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)","types":[]}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)","types":["telepathy"]}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)","types":["heartRate"],"limit":0}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)","types":["heartRate"],"limit":1.5}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)","types":["heartRate"],"limit":true}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)","types":["heartRate"],"limit":1e300}"#,
            #"{"startDate":"\#(from)","endDate":"\#(to)"}"#,
        ]
        for body in cases {
            let answer = try await bench.send("/api/v1/health/data", .POST, token: token, body: body)
            #expect(answer.status == 400, "\(body): \(answer.status) \(answer.text)")
        }
        let steps = #"{"startDate":"\#(from)","endDate":"\#(to)","types":["heartRate","steps"]}"#
        #expect(try await bench.send("/api/v1/health/data", .POST, token: token, body: steps).status == 403)
        try await bench.stop()
    }

    @Test(
        "parameters that are none",
        arguments: [
            "limit=0", "limit=10001", "limit=x", "limit=-1", "cursor=x", "types=x", "types=", "from=x", "to=2026-13-01",
            "latest=yes", "stray=1", "cursor=%00", "limit=1&limit=x%FF", "types=glucose,,height",
        ])
    func parameters(_ query: String) async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let answer = try await bench.send("/api/v1/readings?" + query)
        #expect(answer.status == 400, "\(query): \(answer.status)")
        try await bench.stop()
    }

    @Test("no path leads out of the routes")
    func traversal() async throws {
        let bench = try await APIBench(tls: false)
        for path in [
            "/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/state/healthrelay.sqlite", "//etc/passwd",
            "/tls.pem",
            "/page.js/../../tls.pem", "/api/v1/readings/..%2f..%2f", "/api/v1/readings/%00", "/\\..\\tls.pem",
        ] {
            let answer = try await bench.raw("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(answer.contains(" 404 ") || answer.contains(" 400 "), "\(path): \(answer.prefix(100))")
            #expect(!answer.contains("root:") && !answer.contains("PRIVATE KEY"))
        }
        try await bench.stop()
    }

    @Test("header fields over 16 KiB, request lines that are none, and other methods")
    func heads() async throws {
        let bench = try await APIBench(tls: false)
        let padding = String(repeating: "x", count: 17 << 10)
        for head in [
            "GET / HTTP/1.1\r\nHost: localhost\r\nX-Padding: \(padding)\r\n\r\n", "\u{0}\u{1}\u{2}\r\n\r\n",
            "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
            "POST /api/v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            "POST /api/v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        ] {
            let answer = try await bench.raw(head)
            #expect(!answer.contains(" 200 "), "\(head.prefix(60)): \(answer.prefix(100))")
        }
        for method in ["PUT", "PATCH", "TRACE", "OPTIONS", "BREW"] {
            let answer = try await bench.raw(
                "\(method) /api/v1/readings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(answer.contains(" 404 ") || answer.contains(" 40"), "\(method): \(answer.prefix(100))")
        }
        #expect(try await bench.send("/health").status == 200)
        try await bench.stop()
    }

    @Test("a body that does not come is not waited for, and a connection that is silent is closed")
    func slow() async throws {
        let bench = try await APIBench(tls: true)
        let plain = try await APIBench(tls: false)
        async let half = plain.raw(
            "POST /api/v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + "Content-Length: 100\r\n\r\n{\"code\":")
        async let dripping = plain.raw("GET /health HTTP/1.1\r\nHost: local")
        // Neither a greeting nor a request: no TLS begins.
        async let silent = bench.raw("")
        #expect(try await half.contains(" 408 "))
        #expect(try await !dripping.contains(" 200 "))
        #expect(try await silent.isEmpty)
        try await bench.stop()
        try await plain.stop()
    }

    @Test("a thousand connections that say nothing keep nobody out for long, and the readings come in meanwhile")
    func flood() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let sockets = (0..<700).compactMap { _ in RawSocket(port: bench.port) }
        #expect(sockets.count > 500)
        let report = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: bench.gateway.reader())
        #expect(report.contacts > 0)
        #expect(try await bench.send("/health").status == 200)
        withExtendedLifetime(sockets) {}
        for socket in sockets { socket.close() }
        try await bench.stop()
    }
}

extension APIBench {
    /// Sends octets as they are and gives what comes until the other side closes.
    func raw(_ text: String) async throws -> String {
        let port = port
        return try await Task.detached {
            guard let socket = RawSocket(port: port) else { throw RawSocket.Refused() }
            defer { socket.close() }
            socket.send(text)
            var octets: [UInt8] = []
            while let part = try await socket.receive() { octets += part }
            return String(decoding: octets, as: UTF8.self)
        }.value
    }
}

/// A socket without any protocol.
struct RawSocket: Sendable {
    struct Refused: Error {}
    private let descriptor: Int32

    /// - Parameters:
    ///   - source: the address to come from; nil: any.
    ///   - waits: whether to wait until it is connected.
    init?(port: Int, to host: String = "127.0.0.1", from source: String? = nil, waits: Bool = true) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        guard source.map({ Self.call(bind, descriptor, $0, 0) }) ?? true,
            Self.call(connect, descriptor, host, port) || errno == EINPROGRESS
        else {
            Glibc.close(descriptor)
            return nil
        }
        // Not for ever: with as many threads as processors, whoever is to accept it may need this one.
        var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        if waits { poll(&wanted, 1, 5000) }
        if waits, Int32(wanted.revents) & (POLLERR | POLLHUP) != 0 {
            Glibc.close(descriptor)
            return nil
        }
    }

    private static func call(
        _ function: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ descriptor: Int32, _ host: String,
        _ port: Int
    ) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr(host)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { function(descriptor, $0, size) == 0 }
        }
    }

    func send(_ text: String) {
        let octets = Array(text.utf8)
        _ = Glibc.send(descriptor, octets, octets.count, Int32(MSG_NOSIGNAL))
    }

    /// What comes next; nil at the end, or after a minute and a half.
    func receive() async throws -> [UInt8]? {
        var octets = [UInt8](repeating: 0, count: 65_536)
        for _ in 0..<9000 {
            let count = recv(descriptor, &octets, octets.count, 0)
            if count > 0 { return Array(octets[..<count]) }
            guard count < 0, errno == EAGAIN else { return nil }
            try await Task.sleep(for: .milliseconds(10))
        }
        return nil
    }

    func close() { Glibc.close(descriptor) }
}
