import EmulatedReader
import EncodedSensor
import Foundation
import Testing

/// The executable under a clock that is wrong by years: `Tests/Clock/clock.c`, preloaded, moves the clock of a process and
/// says what the kernel says of it, while the machine's own stays.
@Suite(.timeLimit(.minutes(5)), .enabled("no C compiler") { await FakeClock.library != nil })
struct ClockJumpTests {
    private static let zone = ["HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"]

    private func tag(_ sensor: EncodedSensor) -> EmulatedTag {
        EmulatedTag(
            memory: sensor.memory,
            uid: (0..<8).reversed().map { UInt8(truncatingIfNeeded: sensor.uid >> UInt64(8 * $0)) },
            patchInformation: sensor.patchInformation)
    }

    /// A gateway's state, a sensor at an emulated reader, and the clock of what is run on them.
    private struct Bench {
        let scratch: Scratch
        let reader: EmulatedReader
        let clock: FakeClock

        var environment: [String: String] {
            get async {
                await clock.environment.merging(ClockJumpTests.zone) { $1 }.merging([
                    "HEALTHRELAY_NFC_READER": reader.setting, "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
                    "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
                ]) { $1 }
            }
        }

        func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--state-dir", scratch.state], environment: environment)
        }

        /// The times of the readings that are stored.
        func times() async throws -> [String] {
            try await Document(run("query", "--json").output).elements("readings").compactMap { $0["time"]?.plain }
        }

        /// Scans, and expects that it is refused because of the clock, which `doctor` names.
        func expectDoubt(_ words: String, line: Int = #line) async throws {
            let before = try await times()
            let refused = try await run("libre", "read", "--json", "--wait", "3s")
            #expect(
                refused.status == 78 && refused.errors.contains("clock_not_trusted"), "line \(line): \(refused)")
            let doctor = try await run("doctor")
            let check = doctor.lines.first { $0.contains("  clock  ") } ?? ""
            #expect(check.hasPrefix("FAIL") && check.contains(words), "line \(line): \(doctor)")
            #expect(try await times() == before, "line \(line)")
        }

        func expectScan(line: Int = #line) async throws {
            let result = try await run("libre", "read", "--json", "--wait", "10s")
            #expect(result.status == 0, "line \(line): \(result.errors)")
            #expect(try await run("store", "verify").status == 0, "line \(line)")
        }
    }

    private func bench(_ sensor: EncodedSensor = EncodedSensor(age: 5021)) async throws -> Bench {
        let scratch = try Scratch()
        return Bench(scratch: scratch, reader: try EmulatedReader(tag: tag(sensor)), clock: try FakeClock(scratch))
    }

    @Test("a clock that leaps by ten years, either way, reads nothing, loses nothing, and is trusted when it is back")
    func leap() async throws {
        let bench = try await bench()
        try await bench.expectScan()
        let times = try await bench.times()
        #expect(times.count == 48)
        for (years, words) in [(10.0, "has jumped"), (-10, "earlier than this program's build")] {
            bench.clock.set(years: years)
            try await bench.expectDoubt(words)
            #expect(try await bench.run("store", "prune", "--older-than", "1d").status == 78)
            bench.clock.set(years: 0)
            try await bench.expectScan()
            #expect(try await bench.times() == times, "no reading is moved, lost or doubled")
        }
    }

    @Test("1970 at the start, then put right: trusted when the kernel, or systemd-timesyncd for a sandbox, says so")
    func epoch() async throws {
        for said in [FakeClock.Synchronization.kernel, .timesyncd] {
            let bench = try await bench()
            bench.clock.set(seconds: -Date().timeIntervalSince1970, .refused)
            try await bench.expectDoubt("earlier than this program's build")
            bench.clock.set(years: 0, .refused)
            try await bench.expectDoubt("has jumped")
            bench.clock.set(years: 0, said)
            try await bench.expectScan()
            let newest = try #require(try await bench.times().first.flatMap { try? Date($0, strategy: .iso8601) })
            #expect(abs(newest.timeIntervalSinceNow) < 600, "\(newest)")
        }
    }

    @Test("a contact under a future clock blocks reading until a person says so, or the clock is synchronised")
    func contactInTheFuture() async throws {
        let bench = try await bench()
        bench.clock.set(years: 10)
        try await bench.expectScan()
        let wrong = try await bench.times()
        // The machine is started again meanwhile: nothing tells of the jump but the store.
        try FileManager.default.removeItem(atPath: bench.scratch.state + "/clock.json")
        bench.clock.set(years: 0)
        try await bench.expectDoubt("behind the newest contact in the store")
        let doctor = try await bench.run("doctor")
        #expect(doctor.output.contains("healthrelay store trust-clock"), "\(doctor.output)")

        let copy = bench.scratch.url.appendingPathComponent("copy").path
        #expect(try await Tool.other("cp", ["-a", bench.scratch.state, copy]).status == 0)
        let synchronized = FakeClock.Synchronization.kernel
        bench.clock.set(years: 0, synchronized)
        let recovered = try await Tool.run(
            ["libre", "read", "--json", "--wait", "10s", "--state-dir", copy], environment: bench.environment)
        #expect(recovered.status == 0, "without a person: \(recovered.errors)")

        bench.clock.set(years: 0)
        let trusted = try await bench.run("store", "trust-clock", "--json")
        #expect(trusted.status == 0, "\(trusted.errors)")
        #expect(try Document(trusted.output)["contacts_set_aside"]?.plain == "1")
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5036)) }
        try await bench.expectScan()
        let after = try await bench.run("doctor")
        #expect(after.output.contains("1 contacts began under a wrong clock"), "\(after.output)")
        let right = try await bench.times().compactMap { try? Date($0, strategy: .iso8601) }
        #expect(right.contains { abs($0.timeIntervalSinceNow) < 600 }, "\(wrong) \(right)")
        // Minutes have their own times, and not all the scan's.
        let recent = right.filter { abs($0.timeIntervalSinceNow) < 86_400 }.sorted()
        #expect(Set(recent).count > 10, "\(recent)")
    }

    @Test("a clock that was behind at a sensor's first scan is believed as soon as it is put right")
    func putRight() async throws {
        let bench = try await bench()
        try await bench.expectScan()
        let times = try await bench.times()
        // The machine was started again: nothing tells of the jump.
        try FileManager.default.removeItem(atPath: bench.scratch.state + "/clock.json")
        bench.clock.set(seconds: 5 * 3600)
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5036)) }
        try await bench.expectScan()
        let all = Set(try await bench.times())
        #expect(all.isSuperset(of: times))
        let newest = try #require(all.compactMap { try? Date($0, strategy: .iso8601) }.max())
        #expect(abs(newest.timeIntervalSinceNow - 5 * 3600) < 600, "\(newest)")
    }

    @Test("a clock that was some minutes fast at a sensor's first scan is believed as soon as it is put right")
    func wasFast() async throws {
        let bench = try await bench()
        try await bench.expectScan()
        let times = try await bench.times()
        // The machine was started again: nothing proves its clock. In an hour by it, the sensor has counted seventy minutes.
        try FileManager.default.removeItem(atPath: bench.scratch.state + "/clock.json")
        bench.clock.set(seconds: 3600)
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5091)) }
        try await bench.expectScan()
        let all = Set(try await bench.times())
        #expect(all.isSuperset(of: times) && all.count > times.count)
    }

    @Test("a scan by which a sensor started earlier than is known is refused until something speaks for the clock")
    func contradicted() async throws {
        let bench = try await bench()
        try await bench.expectScan()
        let times = try await bench.times()
        // The sensor has counted on for five hours while the machine was off; the clock has not.
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5321)) }
        let refused = try await bench.run("libre", "read", "--json", "--wait", "3s")
        #expect(refused.status == 78 && refused.errors.contains("clock_not_trusted"), "\(refused)")
        #expect(refused.errors.contains("contradicts the known start of this sensor"), "\(refused)")
        #expect(try await bench.times() == times)
        let environment = await bench.environment
        let run = try Tool.Running(
            ["run", "--sandbox", "--state-dir", bench.scratch.state], environment: environment, in: bench.scratch.url)
        #expect(await run.wait { $0.errorText.contains("contradicts the known start") }, "\(run.errorText)")
        // While the sensor is there, it is tried again.
        bench.clock.set(seconds: 5 * 3600, .kernel)
        #expect(await run.wait { $0.outputText.contains("read          a sensor") }, "\(run.errorText)")
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
        try await bench.expectScan()
        let all = Set(try await bench.times())
        #expect(all.isSuperset(of: times))
        let newest = try #require(all.compactMap { try? Date($0, strategy: .iso8601) }.max())
        #expect(abs(newest.timeIntervalSinceNow - 5 * 3600) < 600, "\(newest)")

        // Where the start is what was wrong, a person says so.
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5621)) }
        let again = try await bench.run("libre", "read", "--json", "--wait", "3s")
        #expect(again.status == 0, "the clock is synchronised: \(again)")
        bench.clock.set(seconds: 5 * 3600)
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5921)) }
        #expect(try await bench.run("libre", "read", "--json", "--wait", "3s").status == 78)
        #expect(try await bench.run("store", "trust-clock", "--json").status == 0)
        try await bench.expectScan()
    }

    @Test(
        "what was imported while the clock was behind, and lay in the future by it, counts once the clock is put right")
    func imported() async throws {
        let bench = try await bench()
        let records = [2.0, 9].map { days in
            let time = Date().addingTimeInterval(days * 86_400).formatted(.iso8601)
                .replacingOccurrences(of: "T", with: " ").replacingOccurrences(of: "Z", with: " +0000")
            return
                #"<Record type="HKQuantityTypeIdentifierBodyMass" sourceName="Scale" unit="kg" startDate="\#(time)" "#
                + #"endDate="\#(time)" value="70.5"/>"#
        }
        let file = bench.scratch.url.appendingPathComponent("export.xml").path
        let text =
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<HealthData>\n\(records.joined(separator: "\n"))\n</HealthData>\n"
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        func add() async throws {
            let environment = await bench.environment.merging(["HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear"]) { $1 }
            let result = try await Tool.run(
                ["import", file, "--json", "--state-dir", bench.scratch.state], environment: environment)
            #expect(result.status == 0, "\(result.errors)")
        }
        func readings() async throws -> [Document] {
            try await Document(bench.run("query", "--json").output).elements("readings")
                .sorted { ($0["time"]?.plain ?? "") < ($1["time"]?.plain ?? "") }
        }
        try await add()
        let before = try await readings()
        #expect(before.map { $0["excluded"]?.plain } == ["implausible_time", "implausible_time"])
        bench.clock.set(seconds: 3 * 86_400, .kernel)
        try await add()
        let after = try await readings()
        #expect(after.map { $0["excluded"]?.plain } == ["null", "implausible_time"])
        #expect(after.map { $0["id"]?.plain } == before.map { $0["id"]?.plain })
        #expect(after.map { $0["time"]?.plain } == before.map { $0["time"]?.plain })
        #expect(try await bench.run("store", "verify").status == 0)
    }

    @Test("the service: a jump while it runs, the certificate, a paired program, and what it delivers")
    func service() async throws {
        let bench = try await bench()
        bench.reader.change { $0.tag = nil }
        let listen = ["HEALTHRELAY_HTTP_LISTEN": "0.0.0.0:0"]
        let environment = await bench.environment.merging(listen) { $1 }
        func start() throws -> Tool.Running {
            try Tool.Running(
                ["run", "--sandbox", "--state-dir", bench.scratch.state], environment: environment,
                in: bench.scratch.url)
        }
        func port(_ run: Tool.Running) async throws -> String {
            #expect(await run.wait { $0.errorText.contains("Page at https") }, "\(run.errorText)")
            let found = run.errorText.firstMatch(of: /Page at https:\/\/[^:\s]+:(\d+)/)
            return String(try #require(found?.1, "\(run.errorText)"))
        }
        let run = try start()
        let first = try await port(run)
        let certificate = try Data(contentsOf: URL(fileURLWithPath: bench.scratch.state + "/tls.pem"))
        let invitation = try await Document(bench.run("client", "invite", "--json").output)
        let code = try #require(invitation["code"]?.plain)
        let paired = try await Tool.other(
            "curl",
            [
                "-sk", "-m", "30", "-H", "Content-Type: application/json", "-d",
                #"{"code":"\#(code)","clientName":"test"}"#, "https://127.0.0.1:\(first)/api/v1/pair",
            ])
        let token = try #require(try Document(paired.output)["token"]?.plain, "\(paired)")
        func status(_ port: String) async throws -> String {
            try await Tool.other(
                "curl",
                [
                    "-sk", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer \(token)",
                    "https://127.0.0.1:\(port)/api/v1/readings",
                ]
            ).output
        }
        #expect(try await status(first) == "200")

        bench.clock.set(years: 10)
        try await Task.sleep(for: .seconds(6))
        #expect(try await status(first) == "200", "thirty days are not over because the clock says so")
        bench.reader.change { $0.tag = tag(EncodedSensor(age: 5021)) }
        #expect(await run.wait { $0.errorText.contains("no sensor is read") }, "\(run.errorText)")
        #expect(try await bench.times().isEmpty)
        bench.clock.set(years: 0)
        #expect(await run.wait { $0.outputText.contains("read          a sensor") }, "\(run.errorText)")
        let times = try await bench.times()
        #expect(times.count == 48)
        let newest = try #require(times.first.flatMap { try? Date($0, strategy: .iso8601) })
        #expect(abs(newest.timeIntervalSinceNow) < 600)
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)

        // And a start in the future, and one in the past.
        for years in [10.0, -10] {
            bench.clock.set(years: years)
            let again = try start()
            #expect(try await status(port(again)) == "200", "\(years)")
            again.kill(SIGTERM)
            #expect(await again.finish().status == 0)
            #expect(try Data(contentsOf: URL(fileURLWithPath: bench.scratch.state + "/tls.pem")) == certificate)
        }
        bench.clock.set(years: 0)
        #expect(try await bench.times() == times)
    }

    @Test("replay and delivery go by the captures' times, whatever the clock shows")
    func replay() async throws {
        var results: [[String]] = []
        for years in [0.0, 10, -10] {
            let bench = try await bench()
            let server = try await Sandboxed(in: bench.scratch)
            bench.clock.set(years: years)
            let environment = await bench.environment.merging(server.environment) { $1 }
            let replayed = try await Tool.run(
                ["replay", Tool.fixture("two-meters.btsnoop"), "--state-dir", bench.scratch.state],
                environment: environment)
            #expect(replayed.status == 0, "\(replayed.errors)")
            let synced = try await Tool.run(["sync", "--state-dir", bench.scratch.state], environment: environment)
            #expect(synced.status == 0, "\(synced.errors)")
            let samples = try await Document(server.curl(server.baseURL + "/sandbox/samples?limit=10000"))
            let delivered = samples.elements("samples").map { sample in
                "\(sample["timestamp"]?.plain ?? "-") \(sample["item"]?.text ?? "-")"
            }
            // A reading's id, value and metadata are in the item.
            #expect(!delivered.isEmpty && delivered.allSatisfy { $0.contains("measured_value") }, "\(delivered)")
            results.append(try await bench.times() + delivered.sorted())
        }
        #expect(results[0] == results[1] && results[0] == results[2])
    }
}

/// The clock of processes that are started with its environment.
final class FakeClock: Sendable {
    enum Synchronization: Int64 { case nobody, kernel, refused, timesyncd }

    /// The library to preload; nil where it cannot be made.
    static var library: String? { get async { await made.value } }

    private static let made = Task<String?, Never> {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("hr-clock-\(getpid()).so").path
        let source = Tool.root.appendingPathComponent("Tests/Clock/clock.c").path
        // Swift comes with the second.
        for compiler in ["cc", "clang"] {
            let result = try? await Tool.other(compiler, ["-shared", "-fPIC", "-O1", "-o", path, source])
            if result?.status == 0 { return path }
        }
        return nil
    }

    private let path: String

    init(_ scratch: Scratch) throws {
        path = scratch.url.appendingPathComponent("clock").path
        try Data(count: 16).write(to: URL(fileURLWithPath: path))
    }

    var environment: [String: String] {
        get async {
            [
                "LD_PRELOAD": await Self.library ?? "", "HEALTHRELAY_TEST_CLOCK": path,
                // No time service of this machine is asked.
                "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent",
            ]
        }
    }

    func set(years: Double, _ synchronization: Synchronization = .nobody) {
        set(seconds: years * 365 * 86_400, synchronization)
    }

    func set(seconds: Double, _ synchronization: Synchronization = .nobody) {
        let numbers = [Int64(seconds * 1_000_000), synchronization.rawValue]
        guard let file = FileHandle(forUpdatingAtPath: path) else { return }
        numbers.withUnsafeBytes { file.write(Data($0)) }
        try? file.close()
    }
}
