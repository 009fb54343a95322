import Foundation
import Testing

/// `capture` as a person runs it, with the real helper; a socket gives what the kernel's monitor would.
@Suite struct CaptureTests {
    static let fixture = "glucose-first-delivery"

    /// A packet that every recording of hci0 keeps.
    static let last = MonitorServer.message(3, [0x10, 1, 0x42])

    /// Runs one until the last message, or `last`, is in the file.
    private func record(
        _ datagrams: [[UInt8]], last: [UInt8]? = nil, _ arguments: [String] = []
    ) async throws -> (Tool.Result, MonitorFile, CaptureSession) {
        let session = try CaptureSession(arguments)
        try await session.server.accept()
        try await session.server.send(datagrams + (last.map { [$0] } ?? []))
        let end = try #require(last ?? datagrams.last)
        #expect(await session.wait(for: end), "\(session.run.errorText)")
        let result = await session.finish()
        return (result, try MonitorFile(session.file), session)
    }

    @Test("what the monitor says is in the file, for its owner alone, and its readings are the meter's")
    func whole() async throws {
        let original = try MonitorFile(Tool.fixture(Self.fixture + ".btsnoop"))
        let began = Date()
        let (result, file, session) = try await record(original.datagrams)
        #expect(result.status == 0 && result.signal == nil, "\(result.errors)")
        #expect(file.isWhole && file.datagrams == original.datagrams)
        // The kernel's own times.
        #expect(file.times.allSatisfy { (-1...1).contains((Double($0) / 1e6 - began.timeIntervalSince1970) / 600) })
        #expect(file.times == file.times.sorted())
        let mode = try FileManager.default.attributesOfItem(atPath: session.file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(result.output.contains("\(original.datagrams.count) packets"))
        #expect(result.errors.contains("Recording hci0") && result.errors.contains("keyboard"))

        let replay = ["replay", session.file, "--dry-run", "--json", "--time-zone", "Europe/Berlin"]
        let readings = try await Tool.run(replay).lines.map { try Document($0) }
        let expected = try Document(contentsOf: Tool.fixture(Self.fixture + ".expected.json")).elements("readings")
        // The recording's times are today's, the meter's own are its own.
        func values(_ readings: [Document]) -> [String] {
            readings.map { reading in
                ["sequence", "device_time", "glucose", "sample_type", "context"].map { reading[$0]?.text ?? "-" }
                    .joined(separator: " ")
            }
        }
        #expect(values(readings) == values(expected))
        if FileManager.default.isExecutableFile(atPath: "/usr/bin/tshark") {
            let frames = try await Tool.other("tshark", ["-r", session.file, "-T", "fields", "-e", "frame.number"])
            #expect(frames.status == 0 && frames.lines.count == original.datagrams.count)
        }
    }

    @Test(
        "--json gives one document at the end, and JSON lines on standard error", arguments: [SIGINT, SIGTERM, SIGHUP])
    func document(_ signal: Int32) async throws {
        let original = try MonitorFile(Tool.fixture("cuff-three.btsnoop"))
        let session = try CaptureSession(["--json"])
        try await session.server.accept()
        try await session.server.send(original.datagrams)
        #expect(await session.wait(for: original.datagrams.count))
        let result = await session.finish(signal)
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.lines.count == 1)
        let document = try Document(result.output)
        #expect(document["packets"]?.text == "\(original.datagrams.count)" && document["dropped"]?.text == "0")
        let size = try FileManager.default.attributesOfItem(atPath: session.file)[.size] as? Int
        #expect(document["octets"]?.text == size.map { "\($0)" })
        for line in result.errors.split(separator: "\n") { _ = try Document(String(line)) }
        let path = try #require(session.scratch).url.appendingPathComponent("capture-one.json").path
        try result.output.write(toFile: path, atomically: true, encoding: .utf8)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["capture", path])
        #expect(check.status == 0, "\(check.output)")
    }

    @Test("promise 12: no key reaches the file or a log, unless it is asked for", arguments: [false, true])
    func keys(_ isKept: Bool) async throws {
        var secret: [UInt8] { (1...16).map { UInt8($0 * 13 & 0xFF | 1) } }
        let handle: [UInt8] = [64, 0]
        let acl = [UInt8]([64, 0x20, 21, 0, 17, 0, 6, 0, 0x08]) + secret
        let datagrams = [
            MonitorServer.message(2, [0x19, 0x20, 28] + handle + [UInt8](repeating: 7, count: 10) + secret),
            MonitorServer.message(2, [0x1A, 0x20, 18] + handle + secret), MonitorServer.message(5, acl),
            MonitorServer.message(4, [64, 0x00, 12, 0, 17, 0, 6, 0, 0x06] + secret[..<7]),
            MonitorServer.message(4, [64, 0x10, 9, 0] + secret[7...]),
            MonitorServer.message(17, [0, 0, 0, 0, 0x0A, 0] + secret), MonitorServer.message(12, secret),
            MonitorServer.message(13, secret), MonitorServer.message(11, secret),
        ]
        let (result, file, session) = try await record(datagrams, last: Self.last, isKept ? ["--keep-keys"] : [])
        #expect(result.status == 0 && file.datagrams.count == 6, "\(result.errors)")
        let content = try Data(contentsOf: URL(fileURLWithPath: session.file))
        for key in [Data(secret), Data(secret.reversed())] {
            for start in 0...8 {
                let half = key[start..<(start + 8)]
                if !isKept { #expect(content.range(of: half) == nil) }
                #expect(Data(result.errors.utf8).range(of: half) == nil)
            }
        }
        #expect((content.range(of: Data(secret)) != nil) == isKept)
        #expect(result.errors.contains("KEPT") == isKept)
    }

    @Test("other adapters, and with --device other devices, are not in the file")
    func selection() async throws {
        let original = try MonitorFile(Tool.fixture("two-meters.btsnoop"))
        let foreign = original.datagrams.prefix(20).map { $0[..<2] + [1, 0] + $0[4...] }
        let (result, file, session) = try await record(
            original.datagrams + foreign.map { Array($0) }, last: Self.last,
            ["--device", "c0:00:00:00:18:10", "--adapter", "hci0"])
        #expect(result.status == 0, "\(result.errors)")
        #expect(file.datagrams.count < original.datagrams.count && file.isWhole)
        #expect(file.datagrams.allSatisfy { $0[2...3] == [0, 0] })
        let replay = try await Tool.run(["replay", session.file, "--dry-run", "--json", "--time-zone", "Europe/Berlin"])
        let devices = Set(try replay.lines.map { try Document($0)["device"]?["address"]?.plain ?? "-" })
        #expect(devices == ["C0:00:00:00:18:10"], "\(replay.errors)")
        let (second, _, _) = try await record(
            foreign.map { Array($0) }, ["--adapter", "hci1"])
        #expect(second.errors.contains("Recording hci1"))
    }

    @Test(
        "a bonded device that hides behind a private address is found by its identity, and nothing of management is kept"
    )
    func identity() async throws {
        let hidden: [UInt8] = [0xE2, 0xB1, 0x54, 0x65, 0x5C, 0x6A]
        let ours: [UInt8] = [0x10, 0x18, 0, 0, 0, 0xC0]
        let parameters: [UInt8] = [24, 0, 0, 0, 72, 0, 0]
        let opened = MonitorServer.message(3, [0x3E, 19, 1, 0, 64, 0, 0, 1] + hidden + parameters)
        let value = MonitorServer.message(5, [64, 0x20, 8, 0, 4, 0, 4, 0, 0x1B, 14, 0, 7])
        let known = MonitorServer.message(17, [1, 0, 0, 0, 0x0B, 0] + ours + [2, 0, 0, 0, 0, 0, 0])
        let key = MonitorServer.message(
            17, [1, 0, 0, 0, 0x0A, 0, 1] + ours + [2] + [UInt8](repeating: 0x55, count: 28))
        let messages = [key, opened, key, known, value]
        let (_, file, _) = try await record(messages, last: Self.last, ["--device", "C0:00:00:00:18:10"])
        #expect(file.datagrams == [opened, value, Self.last])
        let (_, other, _) = try await record(messages, last: Self.last, ["--device", "C0:00:00:00:18:11"])
        #expect(other.datagrams == [Self.last])
    }

    @Test("an adapter that goes and comes back is told, and the recording goes on")
    func unplugged() async throws {
        let (there, gone) = (MonitorServer.message(0, [UInt8](repeating: 1, count: 16)), MonitorServer.message(1, []))
        let (result, file, _) = try await record([there, gone, there], last: Self.last)
        #expect(result.status == 0 && file.datagrams == [there, gone, there, Self.last])
        #expect(result.errors.contains("hci0 is gone") && result.errors.contains("hci0 is back"))
    }

    @Test("a signal ends it at whatever moment it comes", arguments: [0, 20, 40, 60, 80, 100, 130, 160, 200, 300])
    func endsAtOnce(milliseconds: Int) async throws {
        let session = try CaptureSession()
        try await Task.sleep(for: .milliseconds(milliseconds))
        let result = await session.finish(SIGTERM)
        #expect(result.status == 0 || result.signal == SIGTERM, "\(result.errors)")
    }

    @Test("a killed command leaves whole records, and no helper behind")
    func killed() async throws {
        let original = try MonitorFile(Tool.fixture(Self.fixture + ".btsnoop"))
        let session = try CaptureSession()
        try await session.server.accept()
        try await session.server.send(original.datagrams)
        #expect(await session.wait(for: original.datagrams.count))
        #expect(await session.finish(SIGKILL).signal == SIGKILL)
        #expect(try MonitorFile(session.file).isWhole)
        // The helper's end closes its socket.
        var isGone = false
        for _ in 0..<6000 where !isGone {
            do { try await session.server.send([MonitorServer.message(1, [])]) } catch { isGone = true }
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(isGone)
    }

    @Test("a disk that is full is 74, and what was recorded until then is a valid capture")
    func diskFull() async throws {
        let scratch = try Scratch()
        let server = try MonitorServer(scratch)
        let file = scratch.url.appendingPathComponent("capture.btsnoop").path
        // A file may have 8 blocks of 1024 octets.
        let run = try Tool.Running(
            ["-c", "ulimit -f 8; exec \"$@\"", "bash", Tool.executable.path, "capture", file, "--yes", "--json"],
            environment: ["HEALTHRELAY_CAPTURE_MONITOR": server.path], in: scratch.url,
            executable: URL(fileURLWithPath: "/bin/bash"))
        try await server.accept()
        let original = try MonitorFile(Tool.fixture(Self.fixture + ".btsnoop"))
        try? await server.send(original.datagrams)
        let result = await run.finish()
        #expect(result.status == 74, "\(result.errors)")
        #expect(result.errors.contains("disk_full"))
        let recorded = try MonitorFile(file)
        #expect(recorded.isWhole && recorded.datagrams.count > 10)
        #expect(recorded.datagrams[...] == original.datagrams.prefix(recorded.datagrams.count))
        #expect(
            try Document(result.output)["octets"]?.text == "\(try Data(contentsOf: URL(fileURLWithPath: file)).count)")
    }

    @Test("without a terminal and without --yes nothing is recorded: 64")
    func unconfirmed() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("capture.btsnoop").path
        let result = try await Tool.run(["capture", file, "--json"])
        #expect(result.status == 64 && result.errors.contains("not_confirmed"))
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    @Test("a file that is there is not touched, and a folder that is not there is named: 73")
    func cannotCreate() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("capture.btsnoop")
        try "mine".write(to: file, atomically: true, encoding: .utf8)
        let result = try await Tool.run(["capture", file.path, "--yes", "--json"])
        #expect(result.status == 73 && result.errors.contains("capture_exists"))
        #expect(try String(contentsOf: file, encoding: .utf8) == "mine")
        let server = try MonitorServer(scratch)
        let environment = ["HEALTHRELAY_CAPTURE_MONITOR": server.path]
        let nowhere = try await Tool.run(["capture", "/nonexistent/x", "--yes", "--json"], environment: environment)
        #expect(nowhere.status == 73 && nowhere.errors.contains("capture_cannot_create"), "\(nowhere.errors)")
    }

    @Test(
        "wrong options are 64 and leave no file",
        arguments: [["--device", "nonsense"], ["--adapter", "nonsense"], ["--nonsense"]])
    func usage(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("capture.btsnoop").path
        let server = try MonitorServer(scratch)
        let result = try await Tool.run(
            ["capture", file, "--yes", "--json"] + arguments,
            environment: ["HEALTHRELAY_CAPTURE_MONITOR": server.path])
        #expect(result.status == 64, "\(result.errors)")
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    @Test("an adapter that is not there is 69")
    func noAdapter() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("capture.btsnoop").path
        let result = try await Tool.run(["capture", file, "--yes", "--json", "--adapter", "hci250"])
        #expect(result.status == 69 && !FileManager.default.fileExists(atPath: file), "\(result.errors)")
        let code = try Document(String(result.errors.split(separator: "\n").last ?? ""))["error"]?["code"]?.plain
        #expect(code == "no_adapter" || code == "no_bluetooth")
    }
}
