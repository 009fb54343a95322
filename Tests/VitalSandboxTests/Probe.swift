import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle
import Testing

@testable import VitalSandbox

/// A running sandbox and a client of it that is not ours.
struct Probe: Sendable {
    var address: SandboxAddress
    var key: String? = SandboxConfiguration.fixedKey

    struct Answer {
        var status: Int
        var requestID: String?
        var text: String
        /// Parsed by Foundation, not by the sandbox's own reader.
        var json: [String: Any]

        /// `loc|type` of each finding.
        var findings: [String] {
            (json["detail"] as? [[String: Any]] ?? []).map { problem in
                let steps = (problem["loc"] as? [Any] ?? []).map { "\($0)" }
                return steps.joined(separator: ".") + "|" + (problem["type"] as? String ?? "")
            }
        }

        var errorType: String? { (json["detail"] as? [String: Any])?["error_type"] as? String }
    }

    func send(
        _ method: String, _ path: String, _ body: String? = nil, octets: [UInt8]? = nil,
        headers: [String: String] = [:]
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: address.baseURL + path)
        request.method = .init(rawValue: method)
        if let key { request.headers.add(name: "x-vital-api-key", value: key) }
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let octets {
            request.body = .bytes(octets)
        } else if let body {
            request.body = .bytes(Array(body.utf8))
            request.headers.add(name: "content-type", value: "application/json")
        }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let text = String(buffer: try await response.body.collect(upTo: 8 << 20))
        #expect(response.headers.first(name: "content-type") == "application/json", "\(method) \(path)")
        let json = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        return Answer(
            status: Int(response.status.code), requestID: response.headers.first(name: "x-request-id"), text: text,
            json: try #require(json))
    }

    /// Creates a user with the sources given and returns the id.
    func user(_ clientID: String = "white_bear", sources: [String] = []) async throws -> String {
        let created = try await send("POST", "/v2/user", #"{"client_user_id":"\#(clientID)"}"#)
        let id = try #require(created.json["user_id"] as? String)
        for slug in sources {
            let linked = try await send("POST", "/v2/link/provider/manual/\(slug)", #"{"user_id":"\#(id)"}"#)
            #expect(linked.status == 200)
        }
        return id
    }

    func samples() async throws -> [[String: Any]] {
        try await send("GET", "/sandbox/samples").json["samples"] as? [[String: Any]] ?? []
    }

    func posts() async throws -> [[String: Any]] {
        try await send("GET", "/sandbox/posts").json["posts"] as? [[String: Any]] ?? []
    }
}

/// Runs a sandbox for the length of the body and shuts it down gracefully.
func withSandbox(
    _ configuration: SandboxConfiguration = .init(), _ body: @escaping @Sendable (Probe) async throws -> Void
) async throws {
    let logger = Logger(label: "sandbox.tests") { _ in SwiftLogNoOpLogHandler() }
    let server = try SandboxServer(configuration: configuration, logger: logger)
    let group = ServiceGroup(services: [server], logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await group.run() }
        let probe = Probe(address: try await server.address())
        do {
            try await body(probe)
        } catch {
            await group.triggerGracefulShutdown()
            throw error
        }
        await group.triggerGracefulShutdown()
        try await tasks.waitForAll()
    }
}

/// Bodies written from the API's description.
enum Bodies {
    static func quantity(_ value: String, _ unit: String, _ type: String, at: String, more: String = "") -> String {
        #"{"value":\#(value),"unit":"\#(unit)","start_date":"\#(at)","end_date":"\#(at)","type":"\#(type)"\#(more)}"#
    }

    static func envelope(_ items: [String], provider: String = "accuchek_ble", more: String = "") -> String {
        #"{"stage":"daily","provider":"\#(provider)","time_zone":"Europe/Berlin","is_final_chunk":true,"#
            + #""data":[\#(items.joined(separator: ","))]\#(more)}"#
    }

    static func glucose(_ value: String, at: String = "2026-11-20T12:30:00Z", provider: String = "accuchek_ble")
        -> String
    {
        envelope([quantity(value, "mmol/L", "fingerprick", at: at)], provider: provider)
    }

    static func pressure(_ systolic: String, _ diastolic: String, _ pulse: String?, at: String) -> String {
        let beats = pulse.map { #","pulse":"# + quantity($0, "bpm", "cuff", at: at) } ?? ""
        return #"{"systolic":\#(quantity(systolic, "mmHg", "cuff", at: at)),"#
            + #""diastolic":\#(quantity(diastolic, "mmHg", "cuff", at: at))\#(beats)}"#
    }
}

/// A folder that is gone when the body ends.
func withFolder(_ body: (String) async throws -> Void) async throws {
    let path = NSTemporaryDirectory() + "sandbox-tests-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await body(path)
}

/// What a command of the system writes to its standard output.
func shell(_ command: String) async throws -> [UInt8] {
    try await offPool { try runShell(command) }
}

/// Blocking work must not take the few threads on which the server under test runs.
private func offPool<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async { continuation.resume(with: Result { try work() }) }
    }
}

private func runShell(_ command: String) throws -> [UInt8] {
    let process = Process()
    let pipe = Pipe()
    process.executableURL = URL(fileURLWithPath: "/bin/sh")
    process.arguments = ["-c", command]
    process.standardOutput = pipe
    try process.run()
    let output = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0, "\(command)")
    return Array(output)
}

/// Sends octets over a bare socket and returns what comes back until the peer closes or ten seconds pass in silence.
func rawExchange(_ port: Int, _ text: String, patience seconds: Int = 10) async throws -> String {
    try await offPool { exchange(port, text, seconds) }
}

private func exchange(_ port: Int, _ text: String, _ seconds: Int) -> String {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var wait = timeval(tv_sec: seconds, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let connected = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    #expect(connected == 0)
    let octets = Array(text.utf8)
    #expect(send(descriptor, octets, octets.count, 0) == octets.count)
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
        let count = recv(descriptor, &chunk, chunk.count, 0)
        guard count > 0 else { break }
        answer.append(contentsOf: chunk[..<count])
    }
    return String(decoding: answer, as: UTF8.self)
}
