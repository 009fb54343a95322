import Foundation
import HealthReadings
import LogLines
import NIOCore
import ReadingStore
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import GuardedServer

@Suite("Bad messages at the control socket", .timeLimit(.minutes(5))) struct ControlLimitTests {
    /// Posts a body to the control socket and gives the answer's last line.
    private func post(_ bench: GatewayBench, _ body: String) async throws -> String {
        let path = StateDirectory(flag: bench.gateway.store.directory, environment: [:]).socket
        let wire = try #require(Wire(path: path))
        wire.send(
            "POST /v1/operations HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                + body)
        return await wire.read(until: { $0.contains("{\"problem\"") || $0.contains("{\"done\"") }).text
    }

    @Test(
        "numbers that no command sends are refused by their name, and the gateway lives",
        arguments: ["1e300", "-1", "1e19", "9223372036854775807", "-1e300", "1e400", "NaN", "\"1\""])
    func numbers(_ number: String) async throws {
        let bench = try await GatewayBench(.controlSocket)
        let durations = [
            #"{"device":{"_0":{"scan":{"_0":{"seconds":\#(number),"all":false}}}}}"#,
            #"{"device":{"_0":{"pair":{"_0":{"address":"C0:00:00:00:18:08","seconds":\#(number),"repair":false}}}}}"#,
            #"{"device":{"_0":{"setClock":{"_0":{"address":"C0:00:00:00:18:08","seconds":\#(number)}}}}}"#,
            #"{"device":{"_0":{"read":{"_0":{"addresses":[],"allRecords":false,"seconds":\#(number)}}}}}"#,
            #"{"store":{"_0":{"prune":{"olderThan":\#(number)}}}}"#,
            #"{"sensor":{"_0":{"read":{"reader":null,"seconds":\#(number)}}}}"#,
        ]
        let counts = [
            #"{"device":{"_0":{"watch":{"types":["hrv"],"window":\#(number)}}}}"#,
            #"{"source":{"_0":{"link":{"_0":"omron_ble","wait":\#(number)}}}}"#,
            #"{"client":{"_0":{"audit":{"limit":\#(number)}}}}"#,
            #"{"query":{"_0":{"types":[],"limit":\#(number),"latest":false,"format":"json"}}}"#,
        ]
        // Those that are no number of JSON's, or too large for any, are bad data.
        let isJSON = !["1e400", "NaN", "\"1\""].contains(number)
        for operation in durations {
            let answer = try await post(bench, "{\"operation\":\(operation),\"json\":true}")
            #expect(answer.contains(isJSON ? "\"status\":64" : "\"status\":65"), "\(operation): \(answer)")
        }
        for operation in counts {
            let answer = try await post(bench, "{\"operation\":\(operation),\"json\":true}")
            #expect(answer.contains("\"status\":64") || answer.contains("\"status\":65"), "\(operation): \(answer)")
        }
        #expect(try await bench.lines(.client(.list)).count == 1)
        try await bench.stop()
    }

    @Test("what is no operation is named as that, without what stood in it")
    func malformed() async throws {
        let bench = try await GatewayBench(.controlSocket)
        let deep = String(repeating: "[", count: 30_000)
        for body in ["", "{", "[]", "null", "{}", #"{"operation":{"secret-word":{}},"json":true}"#, deep, "\u{0}"] {
            let answer = try await post(bench, body)
            #expect(answer.contains("malformed_operation") && answer.contains("\"status\":65"), "\(answer)")
            #expect(!answer.contains("secret-word"))
        }
        try await bench.stop()
    }

    @Test("an operation of more than 64 KiB is done; one that no command line could hold is refused by name")
    func large() async throws {
        let bench = try await GatewayBench(.controlSocket)
        let ids = (0..<2500).map { "\"reading-\($0)-\(String(repeating: "0", count: 30))\"" }.joined(separator: ",")
        let retried = try await send(bench, #"{"operation":{"sync":{"_0":{"retry":{"_0":[\#(ids)]}}}},"json":true}"#)
        #expect(!retried.contains("unexpected") && !retried.contains("malformed"), "\(retried)")
        let huge = try await send(bench, "\"" + String(repeating: "x", count: 9 << 20) + "\"")
        #expect(huge.contains("operation_too_large"), "\(huge)")
        try await bench.stop()
    }

    /// Posts a body of any length, as the client of the commands does.
    private func send(_ bench: GatewayBench, _ body: String) async throws -> String {
        let path = StateDirectory(flag: bench.gateway.store.directory, environment: [:]).socket
        let wire = try #require(Wire(path: path))
        let head = "POST /v1/operations HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        var rest = Array((head + body).utf8)[...]
        while !rest.isEmpty {
            guard let count = wire.send(Array(rest.prefix(1 << 18))) else { break }
            rest = rest.dropFirst(count)
            if count == 0 { try await Task.sleep(for: .milliseconds(2)) }
        }
        return await wire.read(until: { $0.contains("{\"problem\"") || $0.contains("{\"done\"") }).text
    }

    @Test("a control client that never reads holds a bounded amount of memory, and is cut off")
    func deafClient() async throws {
        let bench = try await GatewayBench()
        let path = bench.directory.appendingPathComponent("deaf.sock").path
        let said = Mutex(0)
        let isCancelled = Mutex(false)
        var limits = ServerLimits.control
        limits.stall = .seconds(2)
        // An operation that would print for ever.
        let server = ControlServer.application(
            path: path, mode: 0o600, limits: limits, logger: bench.log.logger()
        ) { _, output in
            do {
                while true {
                    try await output.data(String(repeating: "x", count: 1000))
                    said.withLock { $0 += 1000 }
                }
            } catch {
                isCancelled.withLock { $0 = true }
                throw error
            }
        }
        let running = Task { try await server.run() }
        #expect(await eventually { FileManager.default.fileExists(atPath: path) })
        let wire = try #require(Wire(path: path))
        let body = #"{"operation":{"client":{"_0":{"list":{}}}},"json":true}"#
        wire.send("POST /v1/operations HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        #expect(await eventually { said.withLock(\.self) > 1 << 20 })
        #expect(await eventually { isCancelled.withLock(\.self) })
        // What waits here, what the channel holds, and what the kernel buffers.
        #expect(said.withLock(\.self) < 8 << 20, "\(said.withLock(\.self)) bytes")
        running.cancel()
        _ = await running.result
        try await bench.stop()
    }
}
