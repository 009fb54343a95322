import Foundation
import Testing

/// What HTTP asks of a server besides its routes (RFC 9110, RFC 9112).
@Suite("HTTP messages", .timeLimit(.minutes(5))) struct MessageTests {
    @Test("an answer to HEAD has GET's header fields and no content, and the next answer follows it at once")
    func head() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let next = "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        for (path, status) in [("/health", 200), ("/page.css", 200), ("/nowhere", 404)] {
            let both = try await bench.raw("HEAD \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n" + next)
            let parts = both.components(separatedBy: "\r\n\r\n")
            #expect(parts.count == 3 && parts[0].hasPrefix("HTTP/1.1 \(status) "), "\(path): \(both)")
            #expect(parts.count == 3 && parts[1].hasPrefix("HTTP/1.1 404 "), "\(path): \(both)")
            let got = try await bench.raw("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            let length = try #require(got.firstMatch(of: /content-length: \d+/.ignoresCase()))
            #expect(parts[0].lowercased().contains(length.output.lowercased()), "\(path): \(parts[0])")
        }
        try await bench.stop()
    }

    @Test("HEAD of a stream ends with its header fields")
    func headOfStream() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let token = try await bench.token()
        let answer = try await bench.raw(
            "HEAD /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.hasSuffix("\r\n\r\n"), "\(answer)")
        #expect(answer.components(separatedBy: "\r\n\r\n").count == 2, "\(answer)")
        try await bench.stop()
    }

    @Test("a client that waits for 100 is told to go on, unless its body would be too large")
    func expectContinue() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        func request(_ length: Int) -> String {
            "POST /api/v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + "Expect: 100-continue\r\nConnection: close\r\nContent-Length: \(length)\r\n\r\n"
        }
        let wire = try #require(Wire(port: bench.port))
        wire.send(request(2))
        let first = await wire.read(within: .seconds(5), until: { $0.hasSuffix("\r\n\r\n") }).text
        #expect(first.hasPrefix("HTTP/1.1 100 "), "\(first)")
        wire.send("{}")
        let rest = await wire.read().text
        #expect(rest.hasPrefix("HTTP/1.1 400 "), "\(rest)")
        let large = try #require(Wire(port: bench.port))
        large.send(request(1 << 20))
        #expect(await large.read().text.hasPrefix("HTTP/1.1 413 "))
        try await bench.stop()
    }

    @Test("two Host fields are refused, and the host of the request's target is the one that counts")
    func hosts() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        func status(_ target: String, _ hosts: String...) async throws -> String {
            let fields = hosts.map { "Host: \($0)\r\n" }.joined()
            let answer = try await bench.raw("GET \(target) HTTP/1.1\r\n\(fields)Connection: close\r\n\r\n")
            return String(answer.dropFirst("HTTP/1.1 ".count).prefix(3))
        }
        #expect(try await status("/health", "localhost", "rebound.example") == "400")
        #expect(try await status("/health", "localhost", "localhost") == "400")
        #expect(try await status("/health", "rebound.example", "localhost") == "400")
        #expect(try await status("http://localhost/health", "localhost", "localhost") == "400")
        for target in [
            "http://rebound.example/health", "http://a@localhost/health", "http:///health", "rebound.example",
        ] {
            #expect(try await ["400", "421"].contains(status(target, "localhost")), "\(target)")
        }
        #expect(try await status("http://localhost/health", "localhost") == "200")
        #expect(try await status("http://localhost:1/health", "rebound.example") == "200")
        try await bench.stop()
    }
}
