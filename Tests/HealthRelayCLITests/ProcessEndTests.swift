import Foundation
import Testing

/// How the program ends: other threads of it may still run.
@Suite struct ProcessEndTests {
    @Test(
        "no library cleans up after what other threads may use",
        arguments: [
            (0, ["--version"]), (0, ["--help"]), (0, ["store", "stats"]), (64, ["nonsense"]),
            (66, ["store", "import", "/nonexistent"]),
        ] as [(Int32, [String])])
    func quiet(_ status: Int32, _ arguments: [String]) async throws {
        let scratch = try Scratch()
        // The dynamic linker says so on standard error.
        let result = try await Tool.run(
            arguments + ["--state-dir", scratch.state], environment: ["LD_DEBUG": "files"])
        #expect(result.errors.contains("calling init"), "the linker tells nothing here")
        #expect(!result.errors.contains("calling fini"))
        #expect(result.signal == nil)
        #expect(result.status == status)
    }

    @Test(
        "a replay that a signal stops ends with 75 and keeps what it has stored; run again, it stores the rest",
        arguments: ["SIGTERM", "SIGHUP"])
    func stoppedReplay(_ signal: String) async throws {
        let scratch = try Scratch()
        let replay =
            ["replay", "--json", "--state-dir", scratch.state] + Tool.captures.map { Tool.fixture($0 + ".btsnoop") }
        // A pipe that nobody reads holds the replay in the middle.
        let stopped = try await Self.stop(replay, by: signal, "SIG_DFL")
        #expect(stopped.output.hasPrefix("75 ") && stopped.output.contains("interrupted"), "\(stopped)")
        func stored() async throws -> Int {
            let query = ["query", "--limit", "10000", "--format", "ndjson", "--state-dir", scratch.state]
            return try await Tool.run(query).lines.count
        }
        let some = try await stored()
        #expect(try await Tool.run(replay).status == 0)
        let all = try await stored()
        #expect(some > 0 && some < all)
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }

    @Test("a command that was started with nohup goes on when its terminal goes away")
    func nohup() async throws {
        let scratch = try Scratch()
        let replay =
            ["replay", "--json", "--state-dir", scratch.state] + Tool.captures.map { Tool.fixture($0 + ".btsnoop") }
        let ended = try await Self.stop(replay, by: "SIGHUP", "SIG_IGN")
        #expect(ended.output.hasPrefix("0 "), "\(ended)")
    }

    /// Sends a signal, once more for a terminal that has gone, to a command in the middle of its output; prints the status and
    /// the last line of standard error.
    ///
    /// - Parameter hangup: what the command is started with for SIGHUP.
    private static func stop(_ command: [String], by signal: String, _ hangup: String) async throws -> Tool.Result {
        let script = """
            import fcntl, os, signal, struct, subprocess, sys, termios, time
            number = getattr(signal, sys.argv[1])
            signal.signal(signal.SIGHUP, getattr(signal, sys.argv[2]))
            reader, writer = os.pipe()
            fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ
            program = subprocess.Popen(sys.argv[3:], stdout=writer, stderr=subprocess.PIPE)
            os.close(writer)
            waiting = lambda: struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0]
            size, since = 0, time.time()
            while program.poll() is None and time.time() - since < 1:
                if waiting() != size or size == 0: size, since = waiting(), time.time()
                time.sleep(0.02)
            for _ in range(2 if number == signal.SIGHUP else 1):
                program.send_signal(number)
                time.sleep(0.25)
            time.sleep(0.25)
            while os.read(reader, 65536): pass
            errors = program.stderr.read().decode()
            print(program.wait(), errors.splitlines()[-1:])
            """
        return try await Tool.other("python3", ["-c", script, signal, hangup, Tool.executable.path] + command)
    }
}
