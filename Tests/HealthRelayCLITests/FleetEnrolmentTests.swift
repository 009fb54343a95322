import Foundation
import Testing

/// `fleet`, against a running `healthrelay-collector ca`.
@Suite("Enrolment from the command line") struct FleetEnrolmentTests {
    private static let collector = Tool.executable.deletingLastPathComponent()
        .appendingPathComponent("healthrelay-collector")

    private struct Place {
        let scratch: Scratch
        let settings: String
        var authority: String { scratch.url.appendingPathComponent("ca").path }

        init() throws {
            scratch = try Scratch()
            settings = scratch.url.appendingPathComponent("collector.yaml").path
            try "ca: {listen: \"127.0.0.1:0\", url: \"https://localhost:1\"}\n".write(
                toFile: settings, atomically: true, encoding: .utf8)
        }

        func start(_ arguments: String...) throws -> Tool.Running {
            try Tool.Running(
                ["ca"] + arguments + ["--state-dir", authority, "--settings", settings, "--json"], environment: [:],
                in: scratch.url, executable: FleetEnrolmentTests.collector)
        }

        func collector(_ arguments: [String]) async throws -> Tool.Result {
            try await Tool.Running(
                ["ca"] + arguments + ["--state-dir", authority, "--settings", settings, "--json"], environment: [:],
                in: scratch.url, executable: FleetEnrolmentTests.collector
            ).finish()
        }

        func gateway(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(["fleet"] + arguments + ["--json", "--state-dir", scratch.state])
        }
    }

    /// The port that a started authority says it listens on.
    private func port(_ running: Tool.Running) async throws -> Int {
        var found: Int?
        _ = await running.wait { running in
            guard let range = running.errorText.range(of: #"https://[^"]*:(\d+)"#, options: .regularExpression) else {
                return false
            }
            found = Int(running.errorText[range].split(separator: ":").last ?? "")
            return found != nil
        }
        return try #require(found, "\(running.errorText)")
    }

    @Test("a gateway enrols over HTTPS, shows how it stands, and a used, damaged or revoked token is named")
    func enrol() async throws {
        let place = try Place()
        #expect(try await place.collector(["list"]).status == 66)
        let made = try await place.collector(["init"])
        #expect(made.status == 0, "\(made.errors)")
        #expect(try await place.collector(["init"]).status == 73)
        let server = try place.start("run")
        let url = "https://localhost:\(try await port(server))"
        let token = place.scratch.url.appendingPathComponent("gw.token").path
        let written = try await place.collector(["token", "gw-0001", "--output", token])
        #expect(written.status == 0, "\(written.errors)")
        #expect(try Document(written.output)["authority_sha256"]?.plain == Document(made.output)["sha256"]?.plain)
        #expect(try FileManager.default.attributesOfItem(atPath: token)[.posixPermissions] as? Int == 0o600)
        #expect(try await place.collector(["token", "gw 1"]).status == 64)

        let before = try await place.gateway("status")
        // The file's own address is nobody's: nothing is lost by asking there.
        #expect(try await place.gateway("enrol", "--token-file", token).status == 69)
        let enrolled = try await place.gateway("enrol", "--token-file", token, "--url", url)
        #expect(enrolled.status == 0, "\(enrolled.errors)")
        #expect(try Document(enrolled.output)["gateway"]?.plain == "gw-0001")
        #expect(!enrolled.errors.contains("others may use"), "\(enrolled.errors)")
        chmod(token, 0o644)
        let again = try await place.gateway("enrol", "--token-file", token, "--url", url)
        #expect(again.errors.contains("others may use \(token)"), "\(again.errors)")
        #expect(again.status == 0 && again.output.contains(#""is_new":false"#))
        let status = try await place.gateway("status")
        #expect(status.status == 0 && status.output.contains(#""state":"valid""#))
        #expect(!status.output.contains("PRIVATE") && !enrolled.errors.contains("PRIVATE"))
        let listed = try await place.collector(["list"])
        #expect(listed.output.contains(#""gateway":"gw-0001","state":"enrolled""#), "\(listed.output)")

        // Another gateway with the same file, a damaged file, none, and one of the revoked gateway's.
        let other = try Place()
        let used = try await other.gateway("enrol", "--token-file", token, "--url", url)
        #expect(used.status == 77 && used.errors.contains("token_used"), "\(used.errors)")
        let damaged = place.scratch.url.appendingPathComponent("damaged").path
        let text = try String(contentsOfFile: token, encoding: .utf8)
        try String(text.dropLast(200)).write(toFile: damaged, atomically: true, encoding: .utf8)
        #expect(try await other.gateway("enrol", "--token-file", damaged).status == 65)
        #expect(try await other.gateway("enrol", "--token-file", damaged + ".none").status == 66)
        let revoked = try await place.collector(["revoke", "gw-0001"])
        #expect(revoked.status == 0 && revoked.output.contains(#""broker":"none""#), "\(revoked.errors)")
        #expect(try await place.collector(["token", "gw-0001", "--output", token + "2"]).status == 77)
        #expect(try await place.collector(["revoke", "gw-0009"]).status == 66)

        let documents = place.scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        for (name, result) in [
            ("fleet_status-0", before), ("fleet_status-1", status), ("fleet_enrol-1", enrolled),
            ("fleet_enrol-2", again),
        ] {
            try result.output.write(
                to: documents.appendingPathComponent("\(name).json"), atomically: true, encoding: .utf8)
        }
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
        server.kill(SIGTERM)
        #expect(await server.finish().status == 0)
    }

    @Test("a certificate for a server has a host's name")
    func server() async throws {
        let place = try Place()
        #expect(try await place.collector(["init"]).status == 0)
        #expect(try await place.collector(["server", "gw-0001"]).status == 64)
        let made = try await place.collector(["server", "a.example", "127.0.0.1", "--into", place.scratch.url.path])
        #expect(made.status == 0, "\(made.errors)")
        let key = place.scratch.url.appendingPathComponent("a.example.key").path
        #expect(try FileManager.default.attributesOfItem(atPath: key)[.posixPermissions] as? Int == 0o600)
    }
}
