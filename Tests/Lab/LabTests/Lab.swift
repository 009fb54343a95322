import Foundation
import HealthReadings
import Testing

/// The lab's server: what a test asks of the meters, of the air and of the gateway's machine.
///
/// `Tests/Lab/run-lab --suite` starts it and says where it listens. Everything asked waits until it is done, without
/// holding one of the threads that tests run on.
struct Lab: Sendable {
    struct Refused: Error, CustomStringConvertible { var description: String }

    static var isAvailable: Bool { ProcessInfo.processInfo.environment["HEALTHRELAY_LAB_SOCKET"] != nil }
    /// The zone that all the lab's meters are in.
    static var zone: String { ProcessInfo.processInfo.environment["HEALTHRELAY_LAB_ZONE"] ?? "UTC" }

    /// Whose kernel and bluetoothd the gateway's machine has.
    static var debian: Int { ProcessInfo.processInfo.environment["HEALTHRELAY_LAB_DEBIAN"].flatMap { Int($0) } ?? 12 }

    private let path: String

    /// A lab as after its boot; meters to keep are there with their bonds.
    static func fresh(keeping kept: [LabMeter] = []) async throws -> Lab {
        let lab = Lab(path: try #require(ProcessInfo.processInfo.environment["HEALTHRELAY_LAB_SOCKET"]))
        try await lab("reset", ["keep": .array(kept.map { .string($0.name) })])
        return lab
    }

    /// Brings a meter on the air.
    func add(_ definition: Document, _ behaviour: Document = [:]) async throws -> LabMeter {
        let added = try await self("add", ["meter": definition, "behaviour": behaviour])
        return LabMeter(
            lab: self, name: try #require(added["meter"]?.text), address: try #require(added["address"]?.text))
    }

    /// Brings the device of a report on the air, at the address that the report has. How it pairs no report says.
    func add(report: URL, _ behaviour: Document = [:]) async throws -> LabMeter {
        let added = try await self("add_reported", ["path": .string(report.path), "behaviour": behaviour])
        return LabMeter(
            lab: self, name: try #require(added["meter"]?.text), address: try #require(added["address"]?.text))
    }

    /// Asks, and gives what comes back.
    @discardableResult
    func callAsFunction(_ request: String, _ arguments: [String: Document] = [:]) async throws -> Document {
        let line = Document.object(arguments.merging(["do": .string(request)]) { $1 }).json
        let answer = try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(with: Result { try Self.exchange(line, path) }) }
        }
        let document = try Document(answer)
        guard let result = document["ok"] else {
            throw Refused(description: document["error"]?.text ?? "the lab said \(answer)")
        }
        return result
    }

    /// What the meters, the adapter and bluetoothd did last. Blocks until the lab has answered.
    static var story: String {
        guard let path = ProcessInfo.processInfo.environment["HEALTHRELAY_LAB_SOCKET"] else { return "no lab" }
        do {
            return try Document(exchange(Document.object(["do": .string("story")]).json, path))["ok"]?["story"]?.text
                ?? ""
        } catch {
            return "the lab does not say what happened: \(error)"
        }
    }

    /// One request on a connection of its own; the lab's answers may be long.
    private static func exchange(_ line: String, _ path: String) throws -> String {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Refused(description: "no socket: \(errno)") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw Refused(description: "\(path) is too long for a socket")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else { throw Refused(description: "the lab is not at \(path): \(errno)") }
        try file.write(contentsOf: Data((line + "\n").utf8))
        shutdown(descriptor, Int32(SHUT_WR))
        return String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
    }
}

extension Lab {
    /// The moment by the clock of logs and packets, CLOCK_MONOTONIC, in seconds.
    static var now: Double { Double(SystemClock.monotonic) / 1e6 }

    /// The addresses that bluetoothd keeps keys of.
    func bonds() async throws -> [String] { try await self("bonds")["bonds"]?.elements.compactMap(\.text) ?? [] }

    func bluetoothd(_ action: String) async throws { try await self("bluetoothd", ["action": .string(action)]) }

    func adapter(_ action: String) async throws { try await self("adapter", ["action": .string(action)]) }

    /// Runs a shell command on the gateway's machine, and gives its output.
    @discardableResult
    func guest(_ command: String) async throws -> String {
        let answer = try await self("guest", ["command": .string(command)])
        guard answer["status"]?.integer == 0 else { throw Refused(description: "\(command): \(answer.json)") }
        return answer["output"]?.text ?? ""
    }

    /// When attribute packets with this opcode passed the adapter.
    func packets(_ opcode: Int, since: Double = 0) async throws -> [Document] {
        try await self("packets", ["opcodes": [.number(opcode)], "since": .number(since)])["packets"]?.elements ?? []
    }

    func strangers(_ count: Int, interval: Double = 1, malformed: Bool = false) async throws {
        try await self(
            "strangers",
            ["count": .number(count), "interval": .number(interval), "malformed": malformed ? true : false])
    }
}
