import FleetCollector
import FleetDocuments
import FleetStore
import Foundation
import HealthReadings
import TestSupport
import Testing

/// `healthrelay-collector` as an operator runs it.
@Suite("healthrelay-collector", .timeLimit(.minutes(3))) struct CollectorCommandTests {
    private static let executable = URL(fileURLWithPath: CommandLine.arguments[0]).standardizedFileURL
        .deletingLastPathComponent().appendingPathComponent("healthrelay-collector")

    private struct Result {
        var status: Int32
        var output: String
        var errors: String
    }

    private func run(
        _ arguments: String..., in directory: String, environment: [String: String]? = nil
    ) throws -> Result {
        let process = Process()
        process.executableURL = Self.executable
        if let environment { process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 } }
        process.arguments = arguments + ["--state-dir", directory]
        let (output, errors) = (Pipe(), Pipe())
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        // A command prints less than a pipe holds.
        process.waitUntilExit()
        func text(_ pipe: Pipe) -> String {
            String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        }
        return Result(status: process.terminationStatus, output: text(output), errors: text(errors))
    }

    private func file(_ text: String, in directory: String) throws -> String {
        let path = directory + "/desired.yaml"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    @Test("a token is shown once, lets its gateway in, and is withdrawn with --revoke")
    func tokens() async throws {
        let directory = SampleBatch.folder()
        let made = try run("token", "gw1", in: directory)
        #expect(made.status == 0 && made.output.count == 65)
        let tokens = GatewayTokens(store: try SQLiteCentralStore(directory: directory))
        let token = made.output.trimmingCharacters(in: .newlines)
        #expect(try await tokens.gateway(of: token) == "gw1")
        #expect(
            try run("token", "gw1", "--revoke", "--json", in: directory).output
                == "{\"gateway\":\"gw1\",\"revoked\":1}\n")
        #expect(try await tokens.gateway(of: token) == nil)
        #expect(try run("token", "gw1", "--revoke", in: directory).output == "0 tokens of gw1 withdrawn\n")
        let wrong = try run("token", "no good", "--json", in: directory)
        #expect(wrong.status == 64 && wrong.errors.contains("\"usage\""))
    }

    @Test("no library cleans up after what other threads may use")
    func ending() throws {
        // The dynamic linker says so in a file, which is named after the process.
        let directory = SampleBatch.folder()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let environment = ["LD_DEBUG": "files", "LD_DEBUG_OUTPUT": directory + "/linker"]
        #expect(try run("gateways", in: directory, environment: environment).status == 0)
        #expect(try run("--help", in: directory, environment: environment).output.contains("USAGE"))
        #expect(try run("nonsense", in: directory, environment: environment).status == 64)
        let said = try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasPrefix("linker.") }
        #expect(said.count == 3)
        for name in said {
            let text = try String(contentsOfFile: directory + "/" + name, encoding: .utf8)
            #expect(text.contains("calling init") && !text.contains("calling fini"))
        }
    }

    @Test("what was put aside is listed with its reason, and nothing of its content")
    func aside() async throws {
        let directory = SampleBatch.folder()
        let store = try SQLiteCentralStore(directory: directory)
        try await store.prepare()
        #expect(try run("aside", "--json", in: directory).output == "{\"documents\":[]}\n")
        for (second, name) in ["gw1", "gw2"].enumerated() {
            try await store.putAside(
                AsideDocument(
                    received: Instant(seconds: 1_800_000_000 + Int64(second)), gateway: name, reason: "other_gateway",
                    words: "the document names another\u{1b}[31m", octets: Array("secret".utf8)))
        }
        let listed = try run("aside", in: directory)
        #expect(listed.output.contains("gw2  other_gateway") && listed.output.contains("6 bytes"))
        #expect(!listed.output.contains("secret") && !listed.output.contains("\u{1b}"))
        #expect(try run("aside", "--limit", "1", "--json", in: directory).output.contains("\"gateway\":\"gw2\""))
        #expect(try !run("aside", "--limit", "1", "--json", in: directory).output.contains("\"gateway\":\"gw1\""))
        // What is dropped of a gateway that sends too much is counted.
        for last in 0..<UInt8(6) {
            try await store.putAside(
                AsideDocument(
                    received: Instant(seconds: 1_800_000_002), gateway: "gw3", reason: "bad_document", words: "",
                    octets: [UInt8](repeating: 120, count: 900_000) + [last]))
        }
        #expect(
            try run("aside", in: directory).output.contains(
                "gw3  aside_full  2 more documents of the gateway were not kept  1800002 bytes\n"))
        let counted = try run("aside", "--limit", "1", "--json", in: directory).output
        #expect(counted.contains("\"reason\":\"aside_full\"") && counted.contains("\"sha256\":null"))
        await store.close()
    }

    @Test("settings get a version that grows, and the list says who waits for them")
    func configure() async throws {
        let directory = SampleBatch.folder()
        _ = try run("token", "gw1", in: directory)
        let path = try file("log:\n  level: debug\n", in: directory)
        let first = try run("configure", "--all", "--file", path, "--json", in: directory)
        #expect(first.status == 0 && first.output.hasPrefix("{\"gateway\":null,\"version\":"))
        #expect(first.output.hasSuffix("\"published\":false}\n"))
        let second = try run("configure", "gw1", "--file", path, in: directory)
        #expect(second.output.contains("for gw1; gateways get it with their next hello or status"))
        let store = try SQLiteCentralStore(directory: directory)
        let wanted = try #require(try await store.configuration(of: "gw1"))
        #expect(first.output.contains("\(try #require(try await store.configuration(of: "gw9")).version)"))
        #expect(second.output.hasPrefix("version \(wanted.version) ") && wanted.settings == #"{"log.level":"debug"}"#)
        #expect(try run("gateways", in: directory).output.contains("\(wanted.version) waits for the gateway"))
        #expect(
            try run("gateways", "--json", in: directory).output.contains("\"wanted_configuration\":\(wanted.version)"))
        for (arguments, status) in [
            (["configure", "--file", path], 64), (["configure", "gw1", "--all", "--file", path], 64),
            (["configure", "gw1", "--file", "/nowhere"], 66),
            (["configure", "gw1", "--file", try file("http: {listen: x}", in: directory)], 78),
        ] as [([String], Int32)] {
            let process = Process()
            process.executableURL = Self.executable
            process.arguments = arguments + ["--state-dir", directory]
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            #expect(process.terminationStatus == status, "\(arguments)")
        }
        #expect(try await store.configuration(of: "gw1") == wanted)
        await store.close()
    }
}
