import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("The end of a link")
struct LinkRedirectTests {
    @Test("success and error, with and without a provider; unknown parameters are nobody's")
    func ends() throws {
        let success = try LinkRedirect(query: "state=success&provider=oura&isMobile=True&x")
        #expect(success.outcome == .success && success.provider == "oura")
        #expect(try LinkRedirect(query: "state=success").provider == nil)
        let error = try LinkRedirect(
            query: "isMobile=&error=Invalid%20username+or%20password&error_type=provider_credential_error&state=error")
        #expect(error.outcome == .failure("provider_credential_error: Invalid username or password"))
        #expect(try LinkRedirect(query: "state=error&error=denied").outcome == .failure("denied"))
        #expect(try LinkRedirect(query: "state=error").outcome == .failure("no reason was given"))
        // The first of a name counts.
        #expect(try LinkRedirect(query: "state=success&state=error").outcome == .success)
    }

    @Test("what is no end says what it found", arguments: ["", "state=", "provider=oura", "State=success", "=success"])
    func noState(_ query: String) {
        #expect(throws: LinkRedirect.Malformed(found: nil)) { try LinkRedirect(query: query) }
    }

    @Test("what the server says is fit for a terminal: one line, no control character, 300 characters at most")
    func terminal() throws {
        #expect(throws: LinkRedirect.Malformed(found: "[2J x")) { try LinkRedirect(query: "state=%1B[2J%0Ax") }
        let long = try LinkRedirect(query: "state=error&error=%E2%80%AE%0d%0a" + String(repeating: "a", count: 5000))
        #expect(long.outcome == .failure(String(repeating: "a", count: 300)))
    }
}

@Suite("Waiting for the end of a link")
struct LinkListenerTests {
    private static let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }

    private func fetch(_ url: String, _ method: String = "GET", host: String? = nil) async throws -> (Int, String) {
        var request = HTTPClientRequest(url: url)
        request.method = .init(rawValue: method)
        if let host { request.headers.replaceOrAdd(name: "host", value: host) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        return (Int(response.status.code), String(buffer: try await response.body.collect(upTo: 1 << 16)))
    }

    private func listening<Value: Sendable>(
        _ body: @escaping @Sendable (LinkListener) async throws -> Value
    ) async throws -> Value {
        try await LinkListener.listening(logger: Self.quiet, body)
    }

    @Test("the browser's redirect is the end, and the person reads that the page may be closed")
    func end() async throws {
        for (query, outcome) in [
            ("state=success&provider=oura", LinkRedirect.Outcome.success), ("state=error&error=no", .failure("no")),
        ] {
            let redirect = try await listening { listener in
                async let page = fetch(listener.redirectURL + "?" + query)
                let redirect = try await listener.redirect(within: .seconds(60))
                let (status, text) = try await page
                #expect(status == 200 && text.contains("You may close this page"))
                return redirect
            }
            #expect(redirect?.outcome == outcome)
        }
    }

    @Test("only its own path, and only under a name of this machine; what is no end is refused and waited on")
    func strangers() async throws {
        let redirect = try await listening { listener in
            let url = listener.redirectURL
            #expect(url.wholeMatch(of: /http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}/) != nil)
            let root = "http://127.0.0.1:\(listener.port)"
            #expect(try await fetch(root + "/?state=success").0 == 404)
            #expect(try await fetch(root + "/" + String(repeating: "0", count: 32) + "?state=success").0 == 404)
            #expect(try await fetch(root + "/favicon.ico").0 == 404)
            #expect(try await fetch(url + "?state=success", host: "rebound.example").0 == 421)
            let (status, page) = try await fetch(url + "?state=%3Cb%3E%3C%CC%81")
            #expect(status == 400 && page.unicodeScalars.contains("state=&lt;b>&lt;\u{301}".unicodeScalars))
            #expect(try await fetch(url).0 == 400)
            #expect(try await fetch(url + "?state=success", "DELETE").0 != 200)
            // Nothing of that has ended it.
            #expect(try await fetch(url + "?state=error&error=at+last", "POST").0 == 200)
            return try await listener.redirect(within: .seconds(60))
        }
        #expect(redirect?.outcome == .failure("at last"))
    }

    /// Whether anybody listens on a port of this machine.
    private static func isOpen(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    @Test("nobody comes: nil, and the port is free again; each link has a path of its own")
    func timeout() async throws {
        let first = try await listening { listener in
            let nobody = try await listener.redirect(within: .milliseconds(50))
            #expect(nobody == nil && Self.isOpen(listener.port))
            return listener.redirectURL
        }
        let port = try #require(first.firstMatch(of: /:(\d+)\//).flatMap { Int($0.1) })
        #expect(!Self.isOpen(port))
        let second = try await listening { $0.redirectURL }
        #expect(first.suffix(32) != second.suffix(32))
    }

    @Test("what the body throws is thrown, and a cancelled wait ends")
    func errors() async throws {
        await #expect(throws: Problem.self) {
            try await listening { _ -> Int in throw Problem("x", .usage, "y") }
        }
        let (started, continuation) = AsyncStream<Void>.makeStream()
        let waiting = Task {
            try await listening { listener in
                continuation.finish()
                return try await listener.redirect(within: .seconds(600))
            }
        }
        for await _ in started {}
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }
}
