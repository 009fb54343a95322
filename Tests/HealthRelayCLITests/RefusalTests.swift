import Foundation
import Testing

@Suite("Settings and files that a command cannot use")
struct RefusalTests {
    @Test(
        "settings that `run` cannot use are 78 with file and line, for `config show` too",
        arguments: [
            "server: {base_url: 'http://127.0.0.1:99999'}", "server: {base_url: 'http://127.0.0.1:'}",
            "http: {trusted_proxies: [10.0.0.0/33]}", "user: {time_zone: BST}", "user: {time_zone: Mars/X}",
            "http: {listen: '127.0.0.1:70000'}", "sync: {ignore: [[a]]}",
        ])
    func settings(_ text: String) async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml").path
        try ("# first line\n" + text + "\n").write(toFile: file, atomically: true, encoding: .utf8)
        for command in [
            ["config", "show"], ["run", "--state-dir", scratch.state], ["sync", "--state-dir", scratch.state],
        ] {
            let result = try await Tool.run(command + ["--config", file])
            #expect(result.status == 78 && result.signal == nil, "\(command): \(result.errors)")
            #expect(result.errors.contains(file + ":2: "), "\(command): \(result.errors)")
        }
    }

    @Test("a person's zone that is an abbreviation is refused")
    func person() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(
            ["user", "create", "white_bear", "--json", "--state-dir", scratch.state],
            environment: ["HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "IST"])
        #expect(result.status == 78 && result.errors.contains("unknown_time_zone"), "\(result.errors)")
        let decoded = try await Tool.run([
            "decode", "2a18", "13 05 00 ea 07 0b 14 0c 1e 00 3c 00 5f b0 11", "--time-zone", "GMT+3", "--json",
        ])
        #expect(decoded.status == 64, "\(decoded.errors)")
    }

    @Test("a name to listen on that is none is 69 cannot_listen")
    func noHost() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(
            ["run", "--json", "--state-dir", scratch.state],
            environment: ["HEALTHRELAY_HTTP_LISTEN": "nosuch.invalid:8480"])
        #expect(result.status == 69 && result.errors.contains("cannot_listen"), "\(result.errors)")
        #expect(result.errors.contains("nosuch.invalid"))
    }

    @Test("a directory in place of the control socket is 73 control_socket_unusable")
    func noSocket() async throws {
        let scratch = try Scratch()
        let socket = scratch.state + "/control.sock"
        try FileManager.default.createDirectory(atPath: socket, withIntermediateDirectories: true)
        let result = try await Tool.run(
            ["run", "--json", "--state-dir", scratch.state], environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"])
        #expect(result.status == 73 && result.errors.contains("control_socket_unusable"), "\(result.errors)")
        #expect(result.errors.contains(socket))
    }

    @Test("a FIFO in place of a file is a named error at once", arguments: ["readings.sqlite", "readings.sqlite-wal"])
    func fifo(_ name: String) async throws {
        let scratch = try Scratch()
        try FileManager.default.createDirectory(atPath: scratch.state, withIntermediateDirectories: true)
        try #require(mkfifo(scratch.state + "/" + name, 0o600) == 0)
        for command in [["run"], ["doctor"], ["store", "verify"]] {
            let run = try Tool.Running(
                command + ["--json", "--state-dir", scratch.state],
                environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none"],
                in: scratch.url)
            #expect(await run.wait(60) { !$0.process.isRunning }, "\(command) hangs")
            run.kill(SIGKILL)
            let result = await run.finish()
            #expect((result.errors + result.output).contains(name), "\(command): \(result.errors) \(result.output)")
        }
    }
}
