import EmulatedCard
import EmulatedReader
import EncodedSensor
import Foundation
import FreeStyleLibre
import HealthReadings
import TestSupport
import Testing

/// The executable with the real `healthrelay-nfc` and libnfc, at an emulated reader.
@Suite struct SensorTests {
    private func tag(_ sensor: EncodedSensor) -> EmulatedTag {
        EmulatedTag(
            memory: sensor.memory,
            uid: (0..<8).reversed().map { UInt8(truncatingIfNeeded: sensor.uid >> UInt64(8 * $0)) },
            patchInformation: sensor.patchInformation)
    }

    private func scan(_ reader: EmulatedReader, _ scratch: Scratch, _ more: String...) async throws -> Tool.Result {
        try await Tool.run(
            ["libre", "read", "--reader", reader.setting, "--json", "--wait", "3s", "--state-dir", scratch.state]
                + more, environment: ["HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"])
    }

    /// The code of the error that ended a command.
    private func code(_ result: Tool.Result) -> String? {
        guard let last = result.errors.split(separator: "\n").last else { return nil }
        return (try? Document(String(last)))?["error"]?["code"]?.plain
    }

    @Test("a sensor is read, stored and printed as the dump of its memory decodes; a second scan brings nothing new")
    func reads() async throws {
        let (scratch, sensor) = (try Scratch(), EncodedSensor(age: 5021))
        let reader = try EmulatedReader(tag: tag(sensor))
        let first = try await scan(reader, scratch)
        #expect(first.status == 0, "\(first.errors)")
        #expect(first.errors.contains("43 of 43 blocks") && first.errors.contains("new readings"))
        let document = try Document(first.output)
        #expect(document["sensor"]?["serial"]?.plain == "0M0001H7ZXR")
        let readings = document.elements("readings")
        #expect(readings.count == 48)

        let dump = scratch.url.appendingPathComponent("dump")
        try Data(sensor.memory).write(to: dump)
        let stored = try await Document(Tool.run(["query", "--json", "--state-dir", scratch.state]).output)
        let scanned = try #require(
            readings.last { $0["source"]?.plain == "trend" }?["time"]?.plain)
        let decoded = try await Tool.run([
            "libre", "decode", dump.path, "--uid", "E007A00000C0FFEE", "--patch-info", "DF0000010102", "--scanned-at",
            scanned, "--json",
        ])
        #expect(decoded.status == 0, "\(decoded.errors)")
        let members = ["id", "minute", "source", "raw", "calibration", "glucose", "time", "time_basis", "excluded"]
        for other in [try Document(decoded.output), stored] {
            let others = Dictionary(
                other.elements("readings").map { ($0["id"]?.plain ?? "", $0) }, uniquingKeysWith: { first, _ in first })
            for reading in readings {
                let same = others[reading["id"]?.plain ?? "-"]
                for member in members { #expect(same?[member] == reading[member], "\(member)") }
            }
        }
        let second = try await scan(reader, scratch)
        #expect(second.status == 0 && second.errors.contains("nothing new"), "\(second.errors)")
        #expect(try Document(second.output) == document)
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }

    @Test("the minutes of a sensor that was reset are none of its former life")
    func resets() async throws {
        let (scratch, former) = (try Scratch(), EncodedSensor(age: 5021))
        let reader = try EmulatedReader(tag: tag(former))
        let first = try await scan(reader, scratch)
        #expect(first.status == 0, "\(first.errors)")
        func stored() async throws -> [Document] {
            let all = ["query", "--json", "--limit", "10000", "--state-dir", scratch.state]
            return try await Document(Tool.run(all).output).elements("readings")
        }
        let before = try await stored()
        let new = EncodedSensor(age: 4700) { _, minute in
            RawRecord(glucose: UInt16(1200 + minute % 50), quality: 0x120, temperature: 6900, adjustment: 8)
        }
        reader.change { $0.tag = tag(new) }
        let second = try await scan(reader, scratch)
        #expect(second.status == 0 && second.errors.contains("48 new readings"), "\(second.errors)")
        let after = Dictionary(
            try await stored().map { ($0["id"]?.plain ?? "", $0) }, uniquingKeysWith: { first, _ in first })
        for reading in before {
            let same = after[reading["id"]?.plain ?? "-"]
            for member in ["minute", "glucose", "time", "excluded"] {
                #expect(same?[member] == reading[member], "\(member)")
            }
        }
        let readings = try Document(second.output).elements("readings")
        let start = Instant.systemClock.advanced(bySeconds: -4700 * 60)
        for reading in readings {
            let minute = Int64(reading["minute"]?.plain ?? "") ?? 0
            let time = try #require(reading["time"].flatMap { Instant(rfc3339: $0.plain) })
            #expect(abs(time.seconds - start.advanced(bySeconds: minute * 60).seconds) < 600, "\(minute)")
        }
        #expect(readings.count { $0["excluded"]?.plain == "superseded" } == 1)
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }

    @Test("of records that are not kept, because their minutes are unknown, a person is told")
    func contradiction() async throws {
        let scratch = try Scratch()
        let reader = try EmulatedReader()
        let cases: [(trend: UInt8?, history: UInt8, words: String)] = [
            (nil, 7, "the times of its history are unknown"),
            (3, 7, "the times of its values of each minute and its history are unknown"),
        ]
        for (trend, history, words) in cases {
            var sensor = EncodedSensor(age: 5021)
            (sensor.trendIndex, sensor.historyIndex) = (trend, history)
            reader.change { [sensor] in $0.tag = tag(sensor) }
            let result = try await scan(reader, scratch)
            #expect(result.status == 0 && result.errors.contains(words), "\(result.errors)")
        }
    }

    @Test("every document of sensors is valid against its schema")
    func schemas() async throws {
        let scratch = try Scratch()
        let reader = try EmulatedReader(tag: tag(EncodedSensor(age: 5021)))
        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        func record(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: documents.appendingPathComponent("\(name).json"))
        }
        try record("libre_read-read", try await scan(reader, scratch).output)
        for name in ["active", "advanced", "expired", "failed", "torn", "uncalibrated"] {
            let dump = ["libre", "decode", Tool.fixture("libre/\(name).hex"), "--json"]
            try record("libre_read-\(name)", try await Tool.run(dump).output)
            let timed = dump + ["--uid", "E007A00000C0FFEE", "--scanned-at", "2026-11-20T12:00:30Z"]
            try record("libre_read-\(name)_timed", try await Tool.run(timed).output)
        }
        try record("query-sensor", try await Tool.run(["query", "--json", "--state-dir", scratch.state]).output)
        try record("devices-sensor", try await Tool.run(["devices", "--json", "--state-dir", scratch.state]).output)
        try record("catalog-all", try await Tool.run(["catalog", "--json"]).output)
        let set = ["HEALTHRELAY_NFC_READER": reader.setting]
        try record("nfc_readers-one", try await Tool.run(["nfc", "readers", "--json"], environment: set).output)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0 && !check.output.contains(": 0 of 0"), "\(check.output.suffix(3000)) \(check.errors)")
    }

    @Test("each thing that can be wrong has its error and exit code, and loses nothing")
    func faults() async throws {
        let (scratch, good) = (try Scratch(), EncodedSensor(age: 5021))
        let reader = try EmulatedReader()
        func expect(_ status: Int32, _ wanted: String, _ change: (inout EmulatedReader.Behaviour) -> Void) async throws
        {
            reader.change {
                $0 = .init(tag: tag(good))
                change(&$0)
            }
            let result = try await scan(reader, scratch)
            #expect(result.status == status && code(result) == wanted, "\(wanted): \(result.status) \(result.errors)")
        }
        try await expect(75, "no_tag") { $0.tag = nil }
        try await expect(69, "reader_cannot_speak_iso15693") { $0.isPlain = true }
        try await expect(69, "reader_silent") { $0.acknowledges = false }
        try await expect(65, "foreign_sensor") { $0.tag?.patchInformation = [0x9D, 0x08, 0x30, 0x01, 0x12, 0x34] }
        try await expect(65, "sensor_memory_damaged") {
            var torn = good
            torn.damaged = [.body]
            $0.tag?.memory = torn.memory
        }
        try await expect(76, "tag_error") { $0.tag?.refusedBlocks = [4: 0x10] }
        // libnfc aborts its process over such a status.
        try await expect(75, "nfc_helper_died") { $0.status = 0x80 }
        let unset = try await Tool.run(["libre", "read", "--json", "--state-dir", scratch.state])
        #expect(unset.status == 69 && code(unset) == "no_reader_set")
        let gone = try await Tool.run([
            "libre", "read", "--json", "--reader", "pn532_uart:/nowhere:115200", "--state-dir", scratch.state,
        ])
        #expect(gone.status == 69 && code(gone) == "no_reader", "\(gone.errors)")
        let bad = try await Tool.run(["libre", "read", "--json", "--reader", "\t", "--state-dir", scratch.state])
        #expect(bad.status == 78 && code(bad) == "bad_reader_name", "\(bad.errors)")

        reader.change { $0 = .init(tag: tag(good)) }
        let last = try await scan(reader, scratch)
        #expect(last.status == 0 && ((try? Document(last.output))?.elements("readings").count) == 48, "\(last.errors)")
    }

    @Test(
        "promise 10: while this machine's clock is in doubt no sensor is read: its start would be wrong as long as it lives",
        .enabled("no C compiler") { await FakeClock.library != nil })
    func clockInDoubt() async throws {
        let (scratch, sensor) = (try Scratch(), EncodedSensor(age: 602))
        let reader = try EmulatedReader(tag: tag(sensor))
        // It shows the right time, and nobody says that it is synchronised.
        let strict = try await FakeClock(scratch).environment.merging(
            ["HEALTHRELAY_CLOCK_REQUIRE_SYNC": "true", "HEALTHRELAY_NFC_READER": reader.setting]) { $1 }
        let refused = try await Tool.run(
            ["libre", "read", "--json", "--state-dir", scratch.state], environment: strict)
        #expect(refused.status == 78 && code(refused) == "clock_not_trusted", "\(refused.errors)")
        let run = try Tool.Running(
            ["run", "--sandbox", "--state-dir", scratch.state],
            environment: strict.merging(
                ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none"]) { $1 },
            in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("no sensor is read") }, "\(run.errorText)")
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
        #expect(
            try await Tool.run(["query", "--json", "--state-dir", scratch.state]).output.contains("\"readings\":[]"))
    }

    @Test("readers that are set are listed with what they can do")
    func readers() async throws {
        let reader = try EmulatedReader()
        func listed() async throws -> Document {
            let result = try await Tool.run(
                ["nfc", "readers", "--json"], environment: ["HEALTHRELAY_NFC_READER": reader.setting])
            #expect(result.status == 0, "\(result.errors)")
            return try #require(try Document(result.output).elements("readers").first)
        }
        #expect(try await listed()["iso15693"] == .text("true"))
        reader.change { $0.isPlain = true }
        let plain = try await listed()
        #expect(plain["iso15693"] == .text("false") && plain["reason"]?.plain.contains("ISO 15693") == true)
        #expect(plain["transport"]?.plain == "libnfc" && plain["reader"]?.plain == reader.setting)
    }

    @Test(
        "`run` reads a sensor once while it is there; history supersedes; commands go through it; what is active is delivered"
    )
    func service() async throws {
        let scratch = try Scratch()
        let reader = try EmulatedReader()
        let run = try Tool.Running(
            ["run", "--sandbox", "--state-dir", scratch.state],
            environment: [
                "HEALTHRELAY_NFC_READER": reader.setting, "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
                "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
            ], in: scratch.url)
        #expect(
            await run.wait { $0.errorText.contains("NFC: ") && $0.errorText.contains("is ready") }, "\(run.errorText)")
        reader.change { $0.tag = tag(EncodedSensor(age: 602)) }
        #expect(await run.wait { $0.outputText.contains("read          a sensor") }, "\(run.outputText)")
        func samples() async throws -> Int {
            let status = try await Document(
                Tool.run(["sync", "status", "--json", "--state-dir", scratch.state]).output)
            return Int(status.destination?["delivered"]?.plain ?? "") ?? 0
        }
        let expected = try await Document(Tool.run(["query", "--json", "--state-dir", scratch.state]).output)
            .elements("readings").count { $0["excluded"] == .text("null") }
        #expect(expected > 30)
        #expect(await run.wait { _ in (try? await samples()) == expected }, "\(run.errorText)")

        // Still there: a command may ask for it again, the service does not.
        let frames = reader.frames.count
        let read = try await Tool.run(["libre", "read", "--json", "--state-dir", scratch.state])
        #expect(read.status == 0 && read.errors.contains("nothing new"), "\(read.errors)")
        #expect(reader.frames.count > frames)
        #expect(run.outputText.components(separatedBy: "read          a sensor").count == 2)

        // A minute later it is held there again.
        reader.change { $0.tag = nil }
        try await Task.sleep(for: .seconds(3))
        // Its age has run ahead: the newest trend record is still the one of minute 602.
        var later = EncodedSensor(age: 603)
        later.trendLag = 1
        reader.change { [later] in $0.tag = tag(later) }
        #expect(
            await run.wait { $0.outputText.components(separatedBy: "read          a sensor").count == 3 },
            "\(run.outputText)")
        let trend = try await Document(Tool.run(["query", "--json", "--state-dir", scratch.state]).output)
            .elements("readings").filter { $0["source"]?.plain == "trend" }
        #expect(Set(trend.compactMap { $0["minute"]?.plain }) == Set((587...602).map(String.init)) && trend.count == 16)
        #expect(trend.first { $0["minute"]?.plain == "600" }?["excluded"]?.plain == "superseded")
        reader.unplug()
        #expect(await run.wait { $0.errorText.contains("continuing without it") }, "\(run.errorText)")
        try reader.plugIn()
        #expect(
            await run.wait { $0.errorText.components(separatedBy: "is ready; hold a sensor").count == 3 },
            "\(run.errorText)")
        run.kill(SIGTERM)
        let ended = await run.finish()
        #expect(ended.status == 0 && ended.signal == nil, "\(ended.errors)")
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }

    /// The service at a reader.
    private func run(at reader: EmulatedReader, _ scratch: Scratch) throws -> Tool.Running {
        try Tool.Running(
            ["run", "--sandbox", "--state-dir", scratch.state],
            environment: [
                "HEALTHRELAY_NFC_READER": reader.setting, "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
                "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
            ], in: scratch.url)
    }

    /// How often the service has said something.
    private func count(_ words: String, _ run: Tool.Running) -> Int {
        run.outputText.components(separatedBy: words).count - 1
    }

    @Test("`run` reads a sensor that was lost in the middle as soon as it answers again")
    func flickers() async throws {
        let scratch = try Scratch()
        let reader = try EmulatedReader()
        let run = try run(at: reader, scratch)
        #expect(await run.wait { $0.errorText.contains("is ready") }, "\(run.errorText)")
        let still = tag(EncodedSensor(age: 602))
        var shaky = still
        shaky.leavesAfter = 9
        reader.change { [shaky] in $0.tag = shaky }
        // Nine answers, four requests and inventories without one, and two inventories more: it seems to have left.
        #expect(await run.wait { _ in reader.exchanges >= 19 }, "\(run.errorText)")
        reader.change { $0.tag = still }
        #expect(await run.wait { $0.outputText.contains("read          a sensor") }, "\(run.outputText)")
        #expect(count("not read", run) == 0, "\(run.outputText)")
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test(
        "`run` tries on while a sensor that it cannot read is there, and says so once; another one in its place is read"
    )
    func triesOn() async throws {
        let scratch = try Scratch()
        let reader = try EmulatedReader()
        let run = try run(at: reader, scratch)
        #expect(await run.wait { $0.errorText.contains("is ready") }, "\(run.errorText)")
        let good = tag(EncodedSensor(age: 602))
        var bad = good
        bad.silentBlocks = [7]
        reader.change { [bad] in $0.tag = bad }
        #expect(await run.wait { $0.outputText.contains("not read      tag silent") }, "\(run.outputText)")
        func asked() -> Int { reader.frames.count { $0 == [0x02, 0x20, 7] } }
        let before = asked()
        #expect(await run.wait { _ in asked() > before + 8 }, "it is tried on")
        #expect(count("not read", run) == 1, "\(run.outputText)")
        // At the edge of the field it answers wrongly at times, which is not the reader's fault.
        bad.damagesInventories = true
        reader.change { [bad] in $0.tag = bad }
        let wronglyBefore = asked()
        #expect(await run.wait { _ in asked() > wronglyBefore + 8 }, "it is tried on")
        #expect(!run.errorText.contains("continuing without it"), "\(run.errorText)")
        reader.change { $0.tag = good }
        #expect(await run.wait { $0.outputText.contains("read          a sensor") }, "\(run.outputText)")
        // Another sensor, and no moment without one.
        var other = EncodedSensor(age: 5021)
        other.uid += 1
        reader.change { [other] in $0.tag = tag(other) }
        #expect(await run.wait { count("read          a sensor", $0) == 2 }, "\(run.outputText)")
        #expect(count("not read", run) == 1, "\(run.outputText)")
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
        let readings = try await Document(Tool.run(["query", "--json", "--state-dir", scratch.state]).output)
            .elements("readings")
        #expect(Set(readings.compactMap { $0["device"]?["serial"]?.plain }).count == 2)
    }

    @Test(
        "`run` waits for a sensor while a card that is none is at a PC/SC reader, as a security key is for good",
        .enabled(
            if: CardService.isInstalled, "pcscd and vsmartcard-vpcd are not installed: make test-deps installs them"))
    func otherCard() async throws {
        let (scratch, service) = (try Scratch(), try CardService())
        try service.start()
        func present(_ standard: UInt8) async throws -> EmulatedCard {
            var behaviour = EmulatedCard.Behaviour(tag(EncodedSensor(age: 602)))
            behaviour.standard = standard
            var card: EmulatedCard?
            _ = await eventually {
                card = try? EmulatedCard(port: service.port, behaviour)
                return card != nil
            }
            return try #require(card, "\(service.log)")
        }
        let environment = [
            "HEALTHRELAY_NFC_READER": "pcsc:", "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
            "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
            CardService.variable: service.socket,
        ]
        let key = try await present(0x03)
        let read = ["libre", "read", "--json", "--wait", "1s", "--state-dir", scratch.state]
        let isSeen = try await eventually { try await code(Tool.run(read, environment: environment)) == "other_tag" }
        #expect(isSeen, "\(service.log)")
        let run = try Tool.Running(
            ["run", "--sandbox", "--state-dir", scratch.state], environment: environment, in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("a card that is not a sensor is at pcsc:") }, "\(run.errorText)")
        key.remove()
        let sensor = try await present(0x0B)
        #expect(await run.wait { $0.outputText.contains("read          a sensor") }, "\(run.outputText)")
        #expect(!run.errorText.contains("continuing without it"), "\(run.errorText)")
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
        await service.stop()
        withExtendedLifetime(sensor) {}
    }

    @Test("`run` says whose a new sensor is taken to be, where there are several people")
    func severalPeople() async throws {
        let scratch = try Scratch()
        let reader = try EmulatedReader()
        let settings = scratch.url.appendingPathComponent("healthrelay.yaml")
        try """
        user: {client_user_id: white_bear, time_zone: Europe/Berlin}
        users:
          - client_user_id: brown_bear
        nfc: {reader: "\(reader.setting)"}
        """.write(to: settings, atomically: true, encoding: .utf8)
        func scan(_ age: UInt16) async throws -> Tool.Result {
            reader.change { $0.tag = tag(EncodedSensor(age: age)) }
            let result = try await Tool.run(
                ["libre", "read", "--wait", "10s", "--config", settings.path, "--state-dir", scratch.state])
            #expect(result.status == 0, "\(result.errors)")
            return result
        }
        #expect(try await scan(602).errors.contains("the sensor is new, and its readings are white_bear's"))
        #expect(try await !scan(603).errors.contains("the sensor is new"))
    }

    @Test("dumps: the recorded ones decode to what is written beside them; others say what was expected")
    func dumps() async throws {
        for name in ["active", "advanced", "expired", "failed", "torn", "uncalibrated"] {
            let expected = try Document(
                String(contentsOfFile: Tool.fixture("libre/\(name).expected.json"), encoding: .utf8))
            let decoded = try await Tool.run(["libre", "decode", Tool.fixture("libre/\(name).hex"), "--json"])
            #expect(decoded.status == (name == "torn" ? 65 : 0), "\(decoded.errors)")
            let readings = try Document(decoded.output).elements("readings")
            let others = expected.elements("readings")
            #expect(readings.count == others.count)
            for (reading, other) in zip(readings, others) {
                for member in ["source", "minute", "raw", "calibration", "glucose"] {
                    #expect(reading[member] == other[member], "\(name): \(member)")
                }
                // The memory alone does not say which record of a minute counts.
                let excluded = reading["excluded"]
                #expect(excluded == other["excluded"] || excluded?.plain == "superseded", "\(name)")
            }
            #expect(readings.allSatisfy { $0["time"] == .text("null") && $0["id"] == .text("null") })
        }
        let scratch = try Scratch()
        let short = scratch.url.appendingPathComponent("short")
        try Data([1, 2, 3]).write(to: short)
        let result = try await Tool.run(["libre", "decode", short.path, "--json"])
        #expect(result.status == 65 && code(result) == "dump_malformed", "\(result.errors)")
        let missing = try await Tool.run(["libre", "decode", "/nowhere", "--json"])
        #expect(missing.status == 66 && code(missing) == "file_unreadable")
        let uid = try await Tool.run(["libre", "decode", Tool.fixture("libre/active.hex"), "--uid", "00", "--json"])
        #expect(uid.status == 64 || uid.status == 65, "\(uid.errors)")
    }
}
