import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import NIOCore
import ReadingStore
import TestSupport
import Testing

@testable import GuardedServer
@testable import LocalAPI

extension ServerLimits {
    /// Limits that a test need not wait for.
    static let short: ServerLimits = {
        var limits = ServerLimits()
        limits.idle = .seconds(2)
        limits.body = .seconds(1)
        limits.answer = .seconds(2)
        limits.stall = .seconds(1)
        limits.linger = .seconds(1)
        return limits
    }()

    /// Limits longer than a test, except those that `change` shortens: no other limit can close the connection.
    static func only(_ change: (inout ServerLimits) -> Void = { _ in }) -> ServerLimits {
        var limits = ServerLimits()
        let long = TimeAmount.minutes(5)
        (limits.idle, limits.body, limits.answer, limits.stall, limits.linger) = (long, long, long, long, long)
        change(&limits)
        return limits
    }
}

@Suite("Connections that a client holds or floods", .timeLimit(.minutes(5))) struct ConnectionLimitTests {
    private static let post =
        "POST /api/v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    private func wire(_ bench: APIBench, receiveBuffer: Int32? = nil) throws -> Wire {
        try #require(Wire(port: bench.port, receiveBuffer: receiveBuffer))
    }

    @Test("a body that trickles in for ever ends its connection")
    func slowBody() async throws {
        // It is answered when the body's time is over, and closed when the answer has lingered.
        let limits = ServerLimits.only { ($0.body, $0.linger) = (.seconds(1), .seconds(1)) }
        let bench = try await APIBench(tls: false, captures: [], limits: limits)
        let wire = try wire(bench)
        wire.send(Self.post + "Content-Length: 60000\r\n\r\n")
        #expect(await wire.flood([UInt8(ascii: " ")], pause: .milliseconds(100)).isClosed)
        try await bench.stop()
    }

    @Test("header fields that trickle in for ever end their connection")
    func slowHead() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only { $0.idle = .seconds(2) })
        let wire = try wire(bench)
        wire.send("GET /health HTTP/1.1\r\nX-Slow: ")
        #expect(await wire.flood([UInt8(ascii: "x")], pause: .milliseconds(100)).isClosed)
        try await bench.stop()
    }

    @Test("a TLS handshake that trickles in for ever ends its connection")
    func slowHandshake() async throws {
        let bench = try await APIBench(tls: true, captures: [], limits: .only { $0.idle = .seconds(2) })
        let wire = try wire(bench)
        wire.send([0x16, 0x03, 0x01, 0x3F, 0x00, 0x01, 0x00, 0x3E, 0xFC, 0x03, 0x03])
        #expect(await wire.flood([0], pause: .milliseconds(100)).isClosed)
        try await bench.stop()
    }

    @Test(
        "a body without end is not swallowed, whether a route reads it, refuses it, or does not exist",
        arguments: [
            "POST /api/v1/pair", "POST /api/v1/health/data", "GET /health", "POST /nowhere", "GET /page.js",
            "GET /api/v1/events",
        ])
    func endlessBody(_ line: String) async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only())
        let wire = try wire(bench)
        wire.send(
            "\(line) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: UInt8(ascii: " "), count: 65_536) + [13, 10]
        let (sent, isClosed) = await wire.flood(chunk)
        // What the gateway takes, and what the kernel buffers on both sides.
        #expect(isClosed && sent < 32 << 20, "\(line): \(sent) bytes, closed: \(isClosed)")
        #expect(try await bench.send("/health").status == 200)
        try await bench.stop()
    }

    @Test("what is no chunk ends a connection that has been answered")
    func brokenBehindAnswer() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only { $0.linger = .seconds(1) })
        let wire = try wire(bench)
        wire.send("GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n \r\nzz")
        #expect(await wire.flood([UInt8](repeating: UInt8(ascii: "z"), count: 65_536)).isClosed)
        #expect(try await bench.send("/health").status == 200)
        try await bench.stop()
    }

    @Test("a chunk's extension without end is not swallowed")
    func endlessExtension() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only())
        let wire = try wire(bench)
        wire.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n1;")
        let (sent, isClosed) = await wire.flood([UInt8](repeating: UInt8(ascii: "x"), count: 65_536))
        #expect(isClosed && sent < 32 << 20, "\(sent) bytes")
        try await bench.stop()
    }

    @Test("an answer given before the body has come is the connection's last", arguments: [true, false])
    func early(_ isChunked: Bool) async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let wire = try wire(bench)
        wire.send(
            "POST /api/v1/health/data HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + (isChunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: 1000\r\n\r\n"))
        let (text, isClosed) = await wire.read()
        #expect(text.hasPrefix("HTTP/1.1 401") && text.lowercased().contains("connection: close"), "\(text)")
        #expect(isClosed)
        try await bench.stop()
    }

    @Test("a body too large is told so before the connection ends")
    func tooLarge() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let wire = try wire(bench)
        wire.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n")
        let spaces = String(repeating: " ", count: 0x8000)
        for _ in 0..<3 { wire.send("8000\r\n\(spaces)\r\n") }
        let (text, isClosed) = await wire.read()
        #expect(text.contains(" 413 ") && text.contains("body_too_large") && isClosed, "\(text)")
        try await bench.stop()
    }

    @Test(
        "chunks that are none are a bad request, not a fault of the gateway", arguments: ["zz", "2\r\n{}\r\n\n", "-1"])
    func brokenChunks(_ chunk: String) async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let wire = try wire(bench)
        wire.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n\(chunk)\r\n")
        let (text, isClosed) = await wire.read()
        #expect(text.hasPrefix("HTTP/1.1 400") && !text.contains("HTTP/1.1 5") && isClosed, "\(text)")
        try await bench.stop()
    }

    @Test("a client that has been answered and goes on with requests is closed")
    func lingering() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only { $0.linger = .seconds(1) })
        let wire = try wire(bench)
        let request = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
        wire.send(request + "Connection: close\r\n\r\n" + request + "\r\n")
        #expect(await wire.flood(Array((request + "\r\n").utf8), pause: .milliseconds(50)).isClosed)
        try await bench.stop()
    }

    @Test("a client that has been answered and goes on with its body is closed")
    func lingeringBody() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only { $0.linger = .seconds(1) })
        let wire = try wire(bench)
        wire.send("POST /api/v1/health/data HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n")
        #expect(await wire.read(until: { $0.hasPrefix("HTTP/1.1 401") }).text.hasPrefix("HTTP/1.1 401"))
        #expect(await wire.flood([UInt8(ascii: " ")], pause: .milliseconds(50)).isClosed)
        try await bench.stop()
    }

    @Test("requests that do not wait for answers are answered in order, up to sixteen")
    func pipelining() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let request = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let modest = try wire(bench)
        modest.send(String(repeating: request, count: 10))
        let answers = await modest.read(until: { $0.components(separatedBy: "HTTP/1.1 200").count == 11 })
        #expect(!answers.isClosed)
        let greedy = try wire(bench)
        greedy.send(String(repeating: request, count: 5000))
        let (text, isClosed) = await greedy.read()
        #expect(isClosed && text.components(separatedBy: "HTTP/1.1 ").count <= 18)
        try await bench.stop()
    }

    @Test("a body longer than its Content-Length is no second request")
    func surplus() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .short)
        let wire = try wire(bench)
        wire.send(Self.post + "Content-Length: 2\r\n\r\n{}{\"more\":1}\r\n\r\n")
        let (text, isClosed) = await wire.read()
        #expect(text.components(separatedBy: "HTTP/1.1 400").count >= 2 && !text.contains(" 200 ") && isClosed)
        try await bench.stop()
    }

    @Test("a client that does not take its answer is closed")
    func slowReader() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only { $0.answer = .seconds(2) })
        let token = try await bench.token()
        try await fill(bench, readings: 2000)
        let wire = try wire(bench, receiveBuffer: 4096)
        let page =
            "GET /api/v1/readings?limit=2000 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n"
        for _ in 0..<16 { wire.send(page) }
        #expect(wire.isOpen(at: bench.port))
        #expect(await eventually { !wire.isOpen(at: bench.port) })
        // What the kernel held for it still comes, and then the end.
        let (text, isClosed) = await wire.read(within: .seconds(60))
        #expect(isClosed && text.components(separatedBy: "HTTP/1.1 200").count <= 16)
        try await bench.stop()
    }

    /// Stores so many blood pressures that 16 pages of them are more than the kernel holds for one connection.
    private func fill(_ bench: APIBench, readings: Int) async throws {
        let device = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_1810, kind: .random), model: nil, serial: nil, name: "Many")
        let contact = try await bench.gateway.store.beginContact(
            with: device, at: .systemClock, clock: nil, batteryPercent: nil)
        let frames = (0..<readings).map { number in
            let (day, hour, minute) = (UInt8(1 + number / 1440), UInt8(number / 60 % 24), UInt8(number % 60))
            return Frame(
                format: FrameFormat(characteristic: 0x2A35),
                payload: [0x02, 0x78, 0x00, 0x50, 0x00, 0x5A, 0x00, 0xEA, 0x07, 0x01, day, hour, minute, 0x00],
                receivedAt: .systemClock, ordinal: number)
        }
        _ = try await bench.gateway.store.append(frames, of: contact)
    }

    @Test("a client that does not take its events is closed")
    func slowListener() async throws {
        let bench = try await APIBench(tls: false, captures: [], limits: .only { $0.stall = .seconds(1) })
        let token = try await bench.token()
        let stream = try wire(bench, receiveBuffer: 4096)
        stream.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n")
        #expect(await eventually { bench.counters.openStreams == 1 })
        let padding = JSONValue.string(String(repeating: "x", count: 8192))
        for _ in 0..<APIEventHub.capacity { bench.hub.post("sync", .object(["padding": padding])) }
        let began = ContinuousClock.now
        #expect(await eventually { bench.counters.openStreams == 0 })
        #expect(ContinuousClock.now - began < .seconds(20))
        try await bench.stop()
    }

    @Test("a request that comes in several parts is answered, and its connection goes on")
    func parts() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let wire = try wire(bench)
        let body = #"{"code":"xxxxxxxx","clientName":"x"}"#
        for _ in 0..<2 {
            for part in [String(Self.post.prefix(20)), String(Self.post.dropFirst(20))] {
                wire.send(part)
                try await Task.sleep(for: .milliseconds(20))
            }
            wire.send("Content-Length: \(body.utf8.count)\r\n\r\n")
            try await Task.sleep(for: .milliseconds(20))
            wire.send(body)
            let (text, isClosed) = await wire.read(until: { $0.contains("not_invited") })
            #expect(text.hasPrefix("HTTP/1.1 400") && !isClosed, "\(text)")
        }
        try await bench.stop()
    }
}

@Suite("Who may open a connection") struct ConnectionCensusTests {
    @Test("eight networks do not hold every slot, and one that comes late finds room")
    func fairness() {
        let census = ConnectionCensus(capacity: 448)
        for host in 1...8 {
            let peer = PeerAddress("192.0.2.\(host)")
            for _ in 0..<200 { _ = census.enter(peer) }
        }
        let late = PeerAddress("192.0.2.9")
        for _ in 0..<8 { #expect(census.enter(late)) }
    }

    @Test("a network may take as many as the documentation says, and gets back what it closes")
    func limit() {
        let census = ConnectionCensus(capacity: 448)
        let peer = PeerAddress("192.0.2.1")
        for _ in 0..<64 { #expect(census.enter(peer)) }
        #expect(!census.enter(peer))
        census.leave(peer)
        #expect(census.enter(peer) && !census.enter(peer))
    }

    @Test("this machine gets in while others hold every slot")
    func reserved() {
        let census = ConnectionCensus(capacity: 448)
        for host in 0..<448 { _ = census.enter(PeerAddress("10.0.\(host / 250).\(host % 250)")) }
        #expect(!census.enter(PeerAddress("198.51.100.1")))
        for own in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] { #expect(census.enter(PeerAddress(own))) }
    }

    @Test("IPv6 peers are counted by their /64, IPv4 peers by their address")
    func networks() {
        func network(_ text: String) -> String { PeerAddress(text).network }
        #expect(network("2001:db8:0:1::5") == network("2001:db8:0:1:ffff:ffff:ffff:ffff"))
        #expect(network("2001:db8:0:1::5") != network("2001:db8:0:2::5"))
        #expect(network("fe80::1%eth0") == network("fe80::2"))
        #expect(network("::ffff:192.0.2.1") == network("192.0.2.1"))
        #expect(network("192.0.2.1") != network("192.0.2.2"))
        #expect(!PeerAddress("2001:db8::1").isLoopback && !PeerAddress("10.0.0.1").isLoopback)
        #expect(PeerAddress("::1").isLoopback && PeerAddress(nil).isLoopback)
        let census = ConnectionCensus(capacity: 448)
        for host in 0..<64 { #expect(census.enter(PeerAddress("2001:db8:0:1::\(String(host, radix: 16))"))) }
        #expect(!census.enter(PeerAddress("2001:db8:0:1::abcd")))
        #expect(census.enter(PeerAddress("2001:db8:0:2::1")))
    }
}
