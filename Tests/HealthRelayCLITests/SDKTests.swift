import Foundation
import Testing

/// The page for those who come from a phone SDK: its commands, run one after the other as they stand there.
@Suite(.timeLimit(.minutes(10))) struct SDKTests {
    static let page = Tool.root.path + "/Documentation/from-the-sdks.md"

    /// The commands of the page's `console` blocks, in their order.
    static func commands() throws -> [String] {
        var (commands, isInBlock): ([String], Bool) = ([], false)
        for line in try String(contentsOfFile: page, encoding: .utf8).split(separator: "\n") {
            if line.hasPrefix("```") { isInBlock = line == "```console" }
            if isInBlock, line.hasPrefix("$ ") { commands.append(String(line.dropFirst(2))) }
        }
        return commands
    }

    @Test("every command of the page for people from the SDKs does what it says")
    func page() async throws {
        let scratch = try Scratch()
        let server = try await Sandboxed(in: scratch)
        try FileManager.default.createSymbolicLink(
            at: scratch.url.appendingPathComponent("healthrelay"), withDestinationURL: Tool.executable)
        for name in ["two-meters.btsnoop"] {
            try FileManager.default.copyItem(
                at: URL(fileURLWithPath: Tool.fixture(name)), to: scratch.url.appendingPathComponent(name))
        }
        let commands = try Self.commands()
        #expect(commands.count > 25)
        var environment = server.environment
        environment["HEALTHRELAY_STATE_DIR"] = scratch.state
        environment["PATH"] = scratch.url.path + ":/usr/local/bin:/usr/bin:/bin"
        for command in commands {
            let result = try await Tool.Running(
                ["-c", "cd '\(scratch.url.path)' && \(command)"], environment: environment, in: scratch.url,
                executable: URL(fileURLWithPath: "/bin/bash")
            ).finish()
            #expect(result.status == 0, "\(command): \(result.output.suffix(1000)) \(result.errors.suffix(1000))")
        }
    }
}
