import Foundation
import Testing

/// `Packaging/show`, which is `make run`, with another program in the gateway's place.
@Suite(.timeLimit(.minutes(5))) struct ShowTests {
    /// Ends by itself after a minute, where nobody ends it.
    private static let program = """
        #!/bin/bash
        [ "$1" = run ] || exit 1
        trap 'echo ended; exit 3' TERM
        echo began
        for _ in $(seq 600); do sleep 0.1; done
        """

    @Test("TERM, which the script alone gets, ends the gateway, and the script after it")
    func terminated() async throws {
        let (scratch, files) = (try Scratch(), FileManager.default)
        let (packaging, build) = (scratch.url.appendingPathComponent("Packaging"), scratch.url.path + "/.build/debug")
        try files.createDirectory(at: packaging, withIntermediateDirectories: true)
        try files.createDirectory(atPath: build, withIntermediateDirectories: true)
        let script = packaging.appendingPathComponent("show")
        try files.copyItem(at: Tool.root.appendingPathComponent("Packaging/show"), to: script)
        let isMade = files.createFile(
            atPath: build + "/healthrelay", contents: Data(Self.program.utf8), attributes: [.posixPermissions: 0o755])
        #expect(isMade)
        // Another test of this process may have it ignore signals, and a script cannot trap what it was started to ignore.
        let run = try Tool.Running(
            ["--default-signal=TERM", script.path, scratch.state, "none.btsnoop"], environment: [:], in: scratch.url,
            executable: URL(fileURLWithPath: "/usr/bin/env"))
        #expect(await run.wait { $0.outputText.contains("began\n") }, "\(run.errorText)")
        run.kill(SIGTERM)
        let result = await run.finish()
        #expect(result.signal == nil && result.status == 3, "\(result)")
        #expect(result.output.hasSuffix("ended\n"), "\(result)")
    }
}
