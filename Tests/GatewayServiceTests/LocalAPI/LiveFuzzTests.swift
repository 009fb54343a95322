import Foundation
import GatewayCommands
import LocalAccess
import ReadingStore
import TestSupport
import Testing

@testable import GatewaySettings

/// Mutated requests at the sockets a gateway really listens on. A few seconds in the ordinary run;
/// `Tests/Fuzz/live SECONDS` runs it for longer. A run comes again with `HEALTHRELAY_LIVE_FUZZ_SEED`.
@Suite("Live sockets under mutated input", .serialized, .timeLimit(.minutes(60))) struct LiveFuzzTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seconds = environment["HEALTHRELAY_LIVE_FUZZ_SECONDS"].flatMap(Double.init) ?? 3
    private static let seed = environment["HEALTHRELAY_LIVE_FUZZ_SEED"].flatMap(UInt64.init) ?? 1
    /// How much more memory a run may hold in the end; other tests run in this process meanwhile.
    private static let growth = 300 << 20

    @Test("the page's socket, in the clear: no 5xx, nothing of anybody for strangers, alive in the end")
    func plain() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters"], limits: .short)
        let token = try await bench.token()
        // With `http.local: trusted` every caller on loopback reads.
        let isGuarded = try await bench.send("/api/v1/readings").status == 401
        let report = try await fuzz("http", Self.requests(token: token)) {
            Wire(port: bench.port)
        } check: { sent, answer in
            #expect(!answer.contains("HTTP/1.1 5"), "\(sent.debugDescription): \(answer.prefix(200))")
            if isGuarded, !sent.contains(token) {
                #expect(!answer.contains("\"systolic\""), "\(sent.debugDescription)")
            }
        }
        #expect(report.inputs > 20)
        let fresh = try await bench.token()
        #expect(try await bench.send("/api/v1/status", token: fresh).status == 200)
        try await bench.stop()
    }

    @Test("the page's socket over TLS: bytes that are no handshake, or almost one")
    func handshake() async throws {
        let bench = try await APIBench(tls: true, captures: [], limits: .short)
        let hello = try await Self.clientHello()
        #expect(hello.first == 0x16 && hello.count > 100)
        let report = try await fuzz("tls", [hello, Array(hello.prefix(60))] + Self.requests(token: "none").prefix(2)) {
            Wire(port: bench.port)
        } check: { sent, answer in
            #expect(!answer.contains("HTTP/1.1"), "\(sent.debugDescription)")
        }
        #expect(report.inputs > 20)
        #expect(try await bench.send("/health").status == 200)
        try await bench.stop()
    }

    @Test("the control socket: every operation, mutated; alive in the end")
    func control() async throws {
        let bench = try await GatewayBench(.controlSocket)
        let path = StateDirectory(flag: bench.gateway.store.directory, environment: [:]).socket
        let report = try await fuzz("control", Self.operations()) {
            Wire(path: path)
        } check: { sent, answer in
            #expect(!answer.contains("HTTP/1.1 5"), "\(sent.debugDescription): \(answer.prefix(200))")
        }
        #expect(report.inputs > 20)
        #expect(try await bench.lines(.client(.list)).count == 1)
        try await bench.stop()
    }

    private struct Report { var inputs = 0 }

    /// Sends mutations of `corpus` for the time of a run.
    ///
    /// - Parameter check: looks at what was sent and what came.
    private func fuzz(
        _ name: String, _ corpus: [[UInt8]], connect: () -> Wire?, check: (String, String) -> Void
    ) async throws -> Report {
        var mutator = Mutator(seed: Self.seed, corpus: corpus)
        let (began, before) = (ContinuousClock.now, residentMemory())
        var report = Report()
        // A busy machine may need longer to send enough.
        while ContinuousClock.now - began < .seconds(Self.seconds)
            || (report.inputs <= 20 && ContinuousClock.now - began < .seconds(60))
        {
            let input = mutator.next()
            let wire = try #require(connect(), "\(name): nobody listens after \(report.inputs) inputs")
            var answer = ""
            for part in mutator.parts(of: input) {
                wire.send(part)
                if mutator.pauses() { answer += await wire.read(within: .milliseconds(3)).text }
            }
            answer += await wire.read(within: .milliseconds(15)).text
            check(String(decoding: input, as: UTF8.self), answer)
            report.inputs += 1
        }
        let grown = residentMemory() - before
        #expect(grown < Self.growth, "\(name): \(grown >> 20) MiB more after \(report.inputs) inputs")
        print("live fuzz: \(name): \(report.inputs) inputs, \(grown >> 20) MiB more, seed \(Self.seed)")
        return report
    }

    // MARK: What is mutated

    private static func requests(token: String) -> [[UInt8]] {
        let host = "Host: localhost\r\n"
        let key = "Authorization: Bearer \(token)\r\n"
        let json = "Content-Type: application/json\r\n"
        func post(_ path: String, _ body: String, _ fields: String = "") -> String {
            "POST \(path) HTTP/1.1\r\n\(host)\(json)\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        }
        let window = #""startDate":"2026-01-01T00:00:00Z","endDate":"2027-01-01T00:00:00Z""#
        return [
            "GET /health HTTP/1.1\r\n\(host)\r\n",
            "GET /api/v1/readings?limit=10&types=glucose HTTP/1.1\r\n\(host)\r\n",
            "GET /api/v1/readings?limit=10&from=2026-11-20&to=2026-11-21&latest=true HTTP/1.1\r\n\(host)\(key)\r\n",
            "GET /api/v1/events?last_event_id=abc-1 HTTP/1.1\r\n\(host)\(key)Last-Event-ID: abc-7\r\n\r\n",
            "GET /api/v1/readings/00112233445566778899aabbccddeeff HTTP/1.1\r\n\(host)\(key)\r\n",
            post("/api/v1/pair", #"{"code":"abcdefgh","clientName":"fuzz"}"#),
            post("/api/v1/session", #"{"code":"abcdefgh","name":"fuzz"}"#, "Sec-Fetch-Site: same-origin\r\n"),
            post("/api/v1/health/data", #"{\#(window),"types":["heartRate"],"limit":5,"offset":3}"#, key),
            post("/api/v1/scan", #"{"seconds":1}"#, key),
            post("/api/v1/pairings", #"{"address":"C0:00:00:00:18:08","repair":false}"#, key),
            "POST /api/v1/pair HTTP/1.1\r\n\(host)\(json)Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "DELETE /api/v1/session HTTP/1.1\r\n\(host)Cookie: __Host-healthrelay=\(token)\r\n\r\n",
            "GET /metrics HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\n\(host)\r\n",
        ].map { Array($0.utf8) }
    }

    private static func operations() -> [[UInt8]] {
        let query = #"{"query":{"_0":{"types":["glucose"],"limit":10,"offset":1,"latest":false,"format":"json"}}}"#
        let operations = [
            query, #"{"user":{"_0":{"show":{}}}}"#, #"{"user":{"_0":{"set":{"_0":"white_bear"}}}}"#,
            #"{"source":{"_0":{"list":{}}}}"#, #"{"source":{"_0":{"link":{"_0":"omron_ble","wait":1}}}}"#,
            #"{"sync":{"_0":{"now":{"from":"2026-11-20","to":null}}}}"#, #"{"sync":{"_0":{"status":{}}}}"#,
            #"{"sync":{"_0":{"retry":{"_0":["00112233445566778899aabbccddeeff"]}}}}"#,
            #"{"store":{"_0":{"stats":{}}}}"#, #"{"store":{"_0":{"prune":{"olderThan":86400}}}}"#,
            #"{"store":{"_0":{"verify":{}}}}"#, #"{"store":{"_0":{"export":{"passphrase":"correct horse"}}}}"#,
            #"{"device":{"_0":{"scan":{"_0":{"seconds":0.1,"all":true}}}}}"#, #"{"device":{"_0":{"list":{}}}}"#,
            #"{"device":{"_0":{"pair":{"_0":{"address":"C0:00:00:00:18:08","seconds":0.1,"repair":false}}}}}"#,
            #"{"device":{"_0":{"watch":{"types":["hrv"],"window":60}}}}"#,
            #"{"sensor":{"_0":{"read":{"reader":null,"seconds":0.1}}}}"#,
            #"{"client":{"_0":{"revoke":{"_0":1}}}}"#, #"{"client":{"_0":{"audit":{"limit":10}}}}"#,
        ]
        func post(_ path: String, _ body: String) -> [UInt8] {
            Array("POST \(path) HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
        }
        return operations.map { post("/v1/operations", "{\"operation\":\($0),\"json\":true}") } + [
            post("/v1/answers/0F4A", #"{"answer":{"_0":{"confirmation":{"_0":true}}}}"#)
        ]
    }

    /// What a real client says first.
    private static func clientHello() async throws -> [UInt8] {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var (address, size) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        try #require(isBound)
        let port = in_port_t(bigEndian: address.sin_port)
        async let ended = Shell.run("curl", ["-sk", "-m", "2", "https://127.0.0.1:\(port)/"])
        let hello = await Task.detached {
            let peer = accept(listener, nil, nil)
            defer { close(peer) }
            var octets = [UInt8](repeating: 0, count: 4096)
            return Array(octets[..<max(0, recv(peer, &octets, octets.count, 0))])
        }.value
        _ = try? await ended
        return hello
    }
}

/// Makes bad input out of good input.
private struct Mutator {
    private var generator: SeededGenerator
    private let corpus: [[UInt8]]
    /// What parsers trip over.
    private static let words = [
        "\r\n", "\r\n\r\n", "\0", "%00", "%FF", "..", "//", ": ", "Content-Length: 18446744073709551616\r\n",
        "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFF\r\n", "Expect: 100-continue\r\n",
        "Connection: close\r\n", "Upgrade: h2c\r\n", "HTTP/2.0", "1e300", "-1", "9223372036854775808", "null",
        "[[[[[[[[",
        "{\"a\":", "\\ud800", "\u{1F99C}", "\"", "NaN", "2026-13-45T99:99:99Z", "9999999999999-01-01",
    ]

    init(seed: UInt64, corpus: [[UInt8]]) {
        generator = SeededGenerator(seed: seed)
        self.corpus = corpus
    }

    private mutating func below(_ limit: Int) -> Int { limit > 0 ? Int.random(in: 0..<limit, using: &generator) : 0 }

    mutating func next() -> [UInt8] {
        var octets = corpus[below(corpus.count)]
        for _ in 0..<below(6) {
            let place = below(octets.count)
            switch below(7) {
            case 0 where !octets.isEmpty: octets[place] = UInt8(below(256))
            case 1 where !octets.isEmpty: octets[place] ^= 1 << UInt8(below(8))
            case 2: octets.insert(contentsOf: Array(Self.words[below(Self.words.count)].utf8), at: place)
            case 3: octets.removeSubrange(place..<min(octets.count, place + below(40)))
            case 4:
                let other = corpus[below(corpus.count)]
                octets = Array(octets[..<place] + other[below(other.count)...])
            case 5:
                let part = Array(octets[place..<min(octets.count, place + 1 + below(30))])
                octets.insert(contentsOf: (0..<below(200)).flatMap { _ in part }, at: place)
            default: octets += corpus[below(corpus.count)]
            }
        }
        return octets
    }

    /// The input in one part, or in several.
    mutating func parts(of input: [UInt8]) -> [[UInt8]] {
        guard below(3) == 0 else { return [input] }
        var (parts, rest) = ([[UInt8]](), input[...])
        while !rest.isEmpty, parts.count < 8 {
            let count = 1 + below(rest.count)
            parts.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return parts
    }

    mutating func pauses() -> Bool { below(4) == 0 }
}
