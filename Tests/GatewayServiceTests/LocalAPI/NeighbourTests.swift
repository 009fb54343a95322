import Foundation
import HealthReadings
import LocalAccess
import LogLines
import TestSupport
import Testing

@testable import GatewayCommands

/// What one neighbour on the network can do to another, and to the gateway. `Tests/Network/run` gives this process a
/// network of its own with many addresses.
@Suite("The local API and its neighbours", .serialized, .timeLimit(.minutes(10)), .enabled(if: Neighbour.areThere))
struct NeighbourTests {
    @Test("an address has sixty-four connections at most, and takes none of another's")
    func connections() async throws {
        let bench = try await Neighbour.bench()
        let greedy = (0..<64).compactMap { _ in
            RawSocket(port: bench.port, to: Neighbour.server, from: Neighbour(2).address)
        }
        #expect(greedy.count == 64)
        // They are counted as they are accepted, which is after they are connected.
        #expect(await eventually { Neighbour.accepted(on: bench.port) > 64 })
        for _ in 0..<100 {
            let began = ContinuousClock.now
            let refused = try #require(
                RawSocket(port: bench.port, to: Neighbour.server, from: Neighbour(2).address))
            #expect(try await refused.receive() == nil && ContinuousClock.now - began < .seconds(5))
            refused.close()
        }
        #expect(Neighbour.accepted(on: bench.port) <= 64 + 1 + 1)
        #expect(await Neighbour(3).statuses(bench, "/health") == [200])
        greedy[0].close()
        #expect(await eventually { await Neighbour(2).statuses(bench, "/health") == [200] })
        for socket in greedy.dropFirst() { socket.close() }
        try await bench.stop()
    }

    @Test("an address has sixty requests a minute without a token; another's are its own")
    func requests() async throws {
        let bench = try await Neighbour.bench()
        let answers = await Neighbour(2).statuses(bench, "/health?[1-70]")
        #expect(answers == Array(repeating: 200, count: 60) + Array(repeating: 429, count: 10))
        #expect(await Neighbour(3).statuses(bench, "/health") == [200])
        // Who is let in is counted by the token, from whatever address.
        let token = try await bench.token()
        #expect(await Neighbour(2).statuses(bench, "/api/v1/status", "-H", "Authorization: Bearer \(token)") == [200])
        try await bench.stop()
    }

    @Test("wrong guesses keep nobody out, not even their own address; the audit log has each")
    func guessing() async throws {
        let bench = try await Neighbour.bench()
        let code = bench.door.desk.invite(for: .owner, now: Date()).code
        func pair(_ neighbour: Int, _ code: String) async -> [Int] {
            await Neighbour(neighbour).statuses(
                bench, "/api/v1/pair", "-H", "Content-Type: application/json", "-d",
                #"{"code":"\#(code)","clientName":"x"}"#)
        }
        let guesses = await withTaskGroup(of: [Int].self) { group in
            for neighbour in 2..<16 { group.addTask { await pair(neighbour, "guess\(neighbour)xx") } }
            for number in 0..<6 { group.addTask { await pair(30, "guess\(number)xx") } }
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(guesses == Array(repeating: 400, count: 20))
        #expect(try await bench.door.clients.clients().isEmpty)
        #expect(await pair(30, code) == [200])
        #expect(await pair(40, code) == [400])
        await bench.door.audit.flush()
        let refused = try await bench.door.audit.newest(100).filter { $0.event == "pair_refused" }
        #expect(refused.reduce(0) { $0 + $1.count } == 21)
        // Who guesses goes no further than anybody who is not known.
        let second = bench.door.desk.invite(for: .owner, now: Date()).code
        #expect(await pair(40, second) == [200])
        #expect(!bench.log.text.contains(code) && !bench.log.text.contains(second))
        try await bench.stop()
    }

    @Test("this machine gets in while neighbours hold every slot they can have")
    func reserved() async throws {
        let bench = try await Neighbour.bench()
        var flood: [RawSocket] = []
        for index in 0..<2000 {
            let source = Neighbour(2 + index % 200).address
            flood += [RawSocket(port: bench.port, to: Neighbour.server, from: source, waits: false)].compactMap(\.self)
        }
        #expect(await eventually { Neighbour.accepted(on: bench.port) > 400 })
        let answer = try await Shell.run(
            "curl",
            ["-sk", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", "https://127.0.0.1:\(bench.port)/health"])
        #expect(answer.text == "200")
        for socket in flood { socket.close() }
        try await bench.stop()
    }

    @Test("three thousand connections from sixty addresses: bounded, readings go on, who is there is served")
    func thousands() async throws {
        let bench = try await Neighbour.bench()
        let token = try await bench.token()
        #expect(try await bench.send("/api/v1/status", token: token).status == 200)
        func reads() async throws -> Duration {
            let began = ContinuousClock.now
            let report = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: bench.gateway.reader())
            #expect(report.contacts > 0)
            return ContinuousClock.now - began
        }
        let quiet = try await reads()
        let flood = (0..<3000).compactMap { index in
            RawSocket(
                port: bench.port, to: Neighbour.server, from: Neighbour(100 + index % 60).address, waits: false)
        }
        #expect(flood.count == 3000)
        // Half of them say something that is no greeting.
        for socket in flood.prefix(1500) { socket.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n") }
        let busy = try await reads()
        #expect(busy < quiet * 5 + .seconds(2), "\(busy) instead of \(quiet)")
        // The connection that was there before.
        #expect(try await bench.send("/api/v1/status", token: token).status == 200)
        #expect(Neighbour.accepted(on: bench.port) <= 512 + 1)
        for socket in flood { socket.close() }
        #expect(await eventually { await Neighbour(3).statuses(bench, "/health") == [200] })
        #expect(!bench.log.text.contains(token))
        try await bench.stop()
    }
}

/// Another machine on the network.
struct Neighbour {
    let address: String

    init(_ number: Int) { address = "\(Self.network ?? "").\(number)" }

    private static let network = ProcessInfo.processInfo.environment["HEALTHRELAY_TEST_NETWORK"]
    static let areThere = network != nil
    /// The gateway's address.
    static let server = Neighbour(1).address

    /// A gateway that all can reach.
    static func bench() async throws -> APIBench {
        try await APIBench(tls: true, captures: [], settings: ["http.listen": "0.0.0.0:0", "http.tls": "auto"])
    }

    /// The statuses that come for a path (with curl's ranges); none where no answer comes.
    func statuses(_ bench: APIBench, _ path: String, _ options: String...) async -> [Int] {
        let fixed = ["-sk", "-m", "20", "--interface", address, "-o", "/dev/null", "-w", "%{http_code}\n"]
        let answer = try? await Shell.run("curl", fixed + options + ["https://\(Self.server):\(bench.port)\(path)"])
        return answer?.text.split(separator: "\n").compactMap { Int($0) }.filter { $0 > 0 } ?? []
    }

    /// How many sockets of this process are bound to a port: the connections that it has taken, and the one that listens.
    static func accepted(on port: Int) -> Int {
        (0..<20_000).count(where: { descriptor in
            var (name, size) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
            let isBound = withUnsafeMutablePointer(to: &name) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(Int32(descriptor), $0, &size) == 0 }
            }
            return isBound && name.sin_family == sa_family_t(AF_INET) && name.sin_port == in_port_t(port).bigEndian
        })
    }
}
