import Foundation
import Testing

/// The program that records: what it may do, where it is looked for, how it ends, and what a person sees of it.
@Suite struct CaptureHelperTests {
    @Test("the program gives up what it was started with, and stays small")
    func privileges() async throws {
        let session = try CaptureSession()
        try await session.server.accept()
        let value = MonitorServer.message(5, [64, 0x20, 11, 0, 7, 0, 4, 0, 0x1B, 14, 0] + [1, 2, 3, 4])
        try await session.server.send(Array(repeating: value, count: 20_000))
        #expect(await session.wait(for: 20_000))
        let helpers = try FileManager.default.contentsOfDirectory(atPath: "/proc").filter { Int($0) != nil }.filter {
            let stat = (try? String(contentsOfFile: "/proc/\($0)/stat", encoding: .utf8)) ?? ""
            let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
            return stat.contains("(healthrelay-cap")
                && fields.dropFirst().first == "\(session.run.process.processIdentifier)"
        }
        let helper = try #require(helpers.first)
        let status = try String(contentsOfFile: "/proc/\(helper)/status", encoding: .utf8)
        func field(_ name: String) -> [Substring] {
            status.split(separator: "\n").first { $0.hasPrefix(name + ":") }?.split(whereSeparator: \.isWhitespace)
                .dropFirst().map { $0 } ?? []
        }
        for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] { #expect(field(name) == ["0000000000000000"]) }
        #expect(field("NoNewPrivs") == ["1"] && !field("Uid").contains("0"))
        #expect(Int(field("VmHWM").first ?? "") ?? .max < 48 * 1024, "\(field("VmHWM"))")
        #expect(await session.finish().status == 0)
        #expect(kill(pid_t(helper) ?? 0, 0) != 0)
    }

    @Test("a helper that is missing is 69, one that is not for this user 77, one that cannot start 69 with its words")
    func helper() async throws {
        // A second name of the program, in a folder of its own.
        let folder = Tool.executable.deletingLastPathComponent().appendingPathComponent("capture-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let program = folder.appendingPathComponent("healthrelay")
        try FileManager.default.linkItem(at: Tool.executable, to: program)
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("capture.btsnoop").path
        func run() async throws -> Tool.Result {
            try await Tool.Running(
                ["capture", file, "--yes", "--json"], environment: ["PATH": "/nonexistent"], in: scratch.url,
                executable: program
            ).finish()
        }
        let missing = try await run()
        #expect(missing.status == 69 && missing.errors.contains("capture_helper_missing"), "\(missing.errors)")
        let helper = folder.appendingPathComponent("healthrelay-capture")
        try "#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n".write(
            to: helper, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: helper.path)
        let closed = try await run()
        #expect(closed.status == 77 && closed.errors.contains("the group"), "\(closed.errors)")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: helper.path)
        let broken = try await run()
        #expect(broken.status == 69 && broken.errors.contains("loading shared libraries"), "\(broken.errors)")
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    @Test("on a terminal it asks first, shows how it goes, and Ctrl-C ends it", arguments: ["y", "n"])
    func terminal(_ answer: String) async throws {
        let scratch = try Scratch()
        let server = try MonitorServer(scratch)
        let file = scratch.url.appendingPathComponent("capture.btsnoop").path
        let script = """
            import os, pty, sys
            child, terminal = pty.fork()
            if child == 0:
                os.execv(sys.argv[1], [sys.argv[1], "capture", sys.argv[2]])
            shown = b""
            def until(text):
                global shown
                while text not in shown:
                    try:
                        shown += os.read(terminal, 4096)
                    except OSError:
                        return
            until(b"[y/N]")
            os.write(terminal, sys.argv[3].encode() + b"\\n")
            until(b"3 packets")
            os.write(terminal, b"\\x03")
            until(b"never said")
            print(shown.decode(errors="replace"))
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """
        let run = try Tool.Running(
            ["python3", "-c", script, Tool.executable.path, file, answer],
            environment: ["HEALTHRELAY_CAPTURE_MONITOR": server.path], in: scratch.url,
            executable: URL(fileURLWithPath: "/usr/bin/env"))
        if answer == "y" {
            try await server.accept()
            try await server.send(Array(repeating: MonitorServer.message(3, [0x10, 1, 0x42]), count: 3))
        }
        let result = await run.finish()
        #expect(result.status == (answer == "y" ? 0 : 64), "\(result.output) \(result.errors)")
        #expect(FileManager.default.fileExists(atPath: file) == (answer == "y"))
        if answer == "y" { #expect(result.output.contains("Recording hci0") && result.output.contains("0 lost")) }
    }

    @Test("the helper alone: ends with a signal or with its input, refuses options it does not know, prints its help")
    func helperAlone() async throws {
        let helper = Tool.executable.deletingLastPathComponent().appendingPathComponent("healthrelay-capture")
        let scratch = try Scratch()
        let server = try MonitorServer(scratch)
        func run(_ arguments: [String], _ program: URL = helper) throws -> Tool.Running {
            try Tool.Running(
                arguments, environment: ["HEALTHRELAY_CAPTURE_MONITOR": server.path], in: scratch.url,
                executable: program)
        }
        func isRecorded(_ run: Tool.Running) async -> Bool {
            await run.wait { (try? MonitorFile($0.output.path).datagrams) == [CaptureTests.last] }
        }
        // /dev/null is nobody's input.
        let stopped = try run([])
        try await server.accept()
        try await server.send([CaptureTests.last])
        #expect(await isRecorded(stopped))
        stopped.kill(SIGTERM)
        let result = await stopped.finish()
        #expect(result.status == 0 && result.errors.contains("total\tpackets\t1"), "\(result.errors)")
        #expect(try MonitorFile(stopped.output.path).isWhole)
        server.end()

        // The pipe's other end stays open until the fifo is written to.
        #expect(mkfifo(scratch.state, 0o600) == 0)
        let piped = try run(
            ["-c", "read -r _ <'\(scratch.state)' | \"$0\"", helper.path], URL(fileURLWithPath: "/bin/sh"))
        try await server.accept()
        try await server.send([CaptureTests.last])
        #expect(await isRecorded(piped))
        let fifo = try FileHandle(forWritingTo: URL(fileURLWithPath: scratch.state))
        try fifo.write(contentsOf: Data("end\n".utf8))
        try fifo.close()
        #expect(await piped.finish().status == 0)

        #expect(try await run(["--nonsense"]).finish().status == 64)
        #expect(try await run(["--help"]).finish().output.contains("usage: healthrelay-capture"))
    }
}
