import EmulatedRadio
import Foundation
import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import LocalAPI
import LocalAccess
import LogLines
import ReadingStore
import TestSupport
import Testing
import VitalSandbox

@testable import GatewayCommands

/// The page in Debian's Chromium: `Tests/Page/browser` is the person in front of it.
@Suite("The page in a browser", .serialized, .timeLimit(.minutes(10)), .enabled(if: Browser.isThere))
struct PageTests {
    private static let everything = [
        "two-meters", "cuff-three", "cuff-kpa", "glucose-first-delivery", "glucose-second-delivery",
    ]

    private func browse(_ scenario: String, _ arguments: String...) async throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../Page")
        let result = try await Shell.run(
            "sh", ["-c", "exec \"$0\" \"$@\" 2>&1", folder.path + "/browser", scenario] + arguments)
        #expect(result.status == 0, "\(scenario): \(result.text.suffix(2500))")
    }

    @Test("it shows the state at a glance and charts; wide, dark and on a phone; by keyboard; nothing from elsewhere")
    func look() async throws {
        let bench = try await APIBench(tls: false, captures: Self.everything)
        try await browse("look", bench.address + "/")
        try await bench.stop()
    }

    @Test("it speaks German, French, Spanish and Arabic, by the browser's choice or the person's, right to left too")
    func languages() async throws {
        let bench = try await APIBench(tls: false, captures: Self.everything)
        try await browse("languages", bench.address + "/")
        try await bench.stop()
    }

    @Test("other vital signs than glucose and pressure have their row and their chart; none has one without readings")
    func kinds() async throws {
        let bench = try await APIBench(
            tls: false, captures: ["two-meters"], settings: ["user.client_user_id": "anna"])
        let (store, now) = (bench.gateway.store, Instant.systemClock)
        let device = DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_1899, kind: .random), model: nil, serial: nil, name: "Several")
        let contact = try await store.beginContact(with: device, at: now, clock: nil, batteryPercent: nil)
        let values: [(UInt16, [UInt8])] = [
            (0x2A1C, [0x00, 0x6E, 0x01, 0x00, 0xFF]), (0x2A5E, [0x00, 0x61, 0x00, 0x3F, 0x00]),
            (0x2A9D, [0x00, 0x14, 0x37]),
        ]
        for (ordinal, value) in values.enumerated() {
            _ = try await store.append(
                [
                    Frame(
                        format: FrameFormat(characteristic: value.0), payload: value.1, receivedAt: now,
                        ordinal: ordinal)
                ], of: contact)
        }
        try await store.endContact(contact, ContactSummary(isComplete: true, received: values.count))
        // A watch gives SDNN alone.
        let variability = VitalValue(
            kind: .hrv, [.init(.sdnn, Quantity(ExactDecimal(significand: 121), .milliseconds))])
        try await store.add([
            ImportedSample(
                person: "anna", provider: "apple_health_kit", source: "Watch", value: .vital(variability),
                time: ImportedTime(now, utcOffsetMinutes: 60))
        ])
        try await browse("kinds", bench.address + "/")
        try await bench.stop()
    }

    @Test("in a household it shows whoever is chosen, and nothing of anybody else, however late an answer comes")
    func household() async throws {
        let bench = try await APIBench(
            tls: false, captures: Self.everything, settings: ["user.client_user_id": "anna"])
        try await bench.gateway.store.setPeople(
            // A name that an address has to escape.
            ["anna", "ben + co"].map { StorePerson(clientUserID: $0, timeZone: "Europe/Berlin", shares: []) })
        try await browse("household", bench.address + "/")
        try await bench.stop()
    }

    @Test("what one person denies keeps another's readings from no open page, and from no figure's dialog")
    func denied() async throws {
        let bench = try await APIBench(
            tls: false, captures: ["two-meters"], settings: ["user.client_user_id": "anna"])
        let store = bench.gateway.store
        try await store.setPeople(
            ["anna", "ben"].map { StorePerson(clientUserID: $0, timeZone: "Europe/Berlin", shares: []) })
        let ben = try #require(try await store.user("ben"))
        try await store.setConsent(.bloodPressure, granted: false, of: ben.key)
        let ready = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: ready) }
        async let seen: Void = browse("denied", bench.address + "/", ready.path)
        #expect(await eventually { FileManager.default.fileExists(atPath: ready.path) })
        _ = try await CaptureReplay([APIBench.fixture("cuff-three")]).run(with: bench.gateway.reader())
        try await seen
        try await bench.stop()
    }

    @Test("a current user without a name is shown alone, too")
    func unnamed() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters"])
        try await bench.addAnna()
        try await browse("unnamed", bench.address + "/", "anna")
        try await bench.stop()
    }

    @Test("a value is left out of figures with a reason, by keyboard, and counts again")
    func figures() async throws {
        let bench = try await APIBench(tls: false, captures: Self.everything)
        try await browse("figures", bench.address + "/")
        try await bench.stop()
    }

    @Test("a reading that comes appears on a page that is open")
    func live() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        async let seen: Void = browse("live", bench.address + "/", "3")
        #expect(await eventually { bench.counters.openStreams > 0 })
        _ = try await CaptureReplay([APIBench.fixture("cuff-three")]).run(with: bench.gateway.reader())
        try await seen
        try await bench.stop()
    }

    @Test("a guided measurement has its timers, and counts the readings that come from the cuff")
    func measure() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let ready = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: ready) }
        async let seen: Void = browse("measure", bench.address + "/", ready.path)
        #expect(await eventually { FileManager.default.fileExists(atPath: ready.path) })
        _ = try await CaptureReplay([APIBench.fixture("cuff-three")]).run(with: bench.gateway.reader())
        try await seen
        try await bench.stop()
    }

    @Test("a fault of the radio is told in words with what to do about it, in each language, until it is over")
    func radio() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await APIBench(tls: false, meters: [meter], captures: [])
        let manager = try bench.gateway.requireManager()
        let schedule = Task { await MeterSchedule(manager).run() }
        #expect(await eventually { (try? await bench.gateway.store.devices().contains(where: \.isPaired)) == true })
        bench.radio.setAdapter(.unusable(.blocked("hci0", hard: false)))
        while manager.standingFaults.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let ready = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: ready) }
        async let seen: Void = browse("radio", bench.address + "/", ready.path)
        #expect(await eventually { FileManager.default.fileExists(atPath: ready.path) })
        bench.radio.setAdapter(.emulated)
        try await seen
        schedule.cancel()
        await schedule.value
        try await bench.stop()
    }

    @Test("a clock that is not trusted is told in words with what to do about it, in each language, until it is over")
    func clock() async throws {
        let watch = SettableWatch()
        let bench = try await APIBench(
            tls: false, captures: [], settings: ["clock.require_sync": "true"], machine: watch.machine)
        let ready = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: ready) }
        async let seen: Void = browse("clock", bench.address + "/", ready.path)
        #expect(await eventually { FileManager.default.fileExists(atPath: ready.path) })
        watch.isSynchronized = true
        try await seen
        try await bench.stop()
    }

    @Test(
        "a link opens the page once, also in a tab that shows it; it stays open over a reload, and ends with its session"
    )
    func link() async throws {
        let bench = try await APIBench(tls: false, captures: Self.everything, settings: ["http.local": "session"])
        let (first, second) = (bench.door.pageLink(now: Date()).url, bench.door.pageLink(now: Date()).url)
        try await browse("link", first, second)
        #expect(try await bench.door.clients.clients().count == 2)
        try await bench.stop()
    }

    @Test("beyond loopback a person signs in with a pairing code, and out again")
    func signIn() async throws {
        let bench = try await APIBench(tls: true, captures: Self.everything)
        try await browse("sign-in", bench.address + "/", bench.door.desk.invite(for: .owner, now: Date()).code)
        let clients = try await bench.door.clients.clients()
        #expect(clients.count == 1 && clients.allSatisfy { $0.revokedAt != nil }, "whoever signs out is out")
        try await bench.stop()
    }

    @Test("a session that reads for one person says for whom, and offers what it may do alone")
    func person() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(1)
        let grant = try #require(AccessGrant(.read, person: house.people[1]))
        let code = house.api.door.desk.invite(for: grant, now: Date()).code
        try await browse("person", house.api.address + "/", code, house.people[1])
        try await house.stop()
    }

    @Test("a read-only link shows one person's figures in a browser, and nothing once it was revoked")
    func view() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(1)
        let (url, number) = try await house.link(1, period: "3650d")
        let ready = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: ready) }
        async let seen: Void = browse("view", url, house.people[1], ready.path)
        #expect(await eventually { FileManager.default.fileExists(atPath: ready.path) })
        #expect(try await house.api.door.clients.revoke(number, now: Date()))
        try await seen
        try await house.stop()
    }

    @Test("a wall display shows the newest values, says what is old, and says so when the gateway is away")
    func wall() async throws {
        let house = try await Household(2)
        _ = try await house.glucose(1)
        let (url, _) = try await house.link(1)
        let ready = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: ready) }
        async let seen: Void = browse("wall", url, house.people[1], ready.path)
        #expect(await eventually { FileManager.default.fileExists(atPath: ready.path) })
        _ = try await house.pressure(slot: 2)
        try await seen
        try await house.stop()
    }

    @Test("a meter is paired with the digits that it shows")
    func pair() async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+00001808", pairing: .passkey(13_137))
        let bench = try await APIBench(tls: false, meters: [meter], captures: [])
        try await browse("pair", bench.address + "/", "013137")
        #expect(meter.isBonded && !bench.log.text.contains("13137"))
        try await bench.stop()
    }

    @Test("a monitor whose model no name tells is paired as the model on its label")
    func model() async throws {
        let monitor = EmulatedMeter(
            "C0:00:00:00:18:10", name: "BLESmart_0000021A28FF", services: [0x1810],
            manufacturerData: [0x020E: [0x01, 0x08, 0x05, 0x00, 0x05]])
        let bench = try await APIBench(tls: false, meters: [monitor], captures: [])
        try await browse("choose", bench.address + "/", "omron_hem7143t1")
        #expect(try await bench.gateway.store.devices().map(\.description.model) == ["omron_hem7143t1"])
        try await bench.stop()
    }

    @Test("a newcomer goes from a new gateway to a paired meter and a connected destination, with a link and a browser")
    func setUp() async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+00001808", pairing: .passkey(13_137))
        let (bench, server) = (
            try await RunnerBench([meter], settings: ["http.local": "session"]), try await Sandboxed()
        )
        let link = try #require(try await bench.lines(.setupToken).last).object["url"] as? String
        let token = try #require(link?.split(separator: "#").last)
        try await browse(
            "setup", try #require(link), "013137", try #require(server.settings["server.base_url"]),
            SandboxConfiguration.fixedKey)
        #expect(meter.isBonded)
        let list = try #require(try await bench.lines(.destination(.list)).last)
        #expect(list.contains(#""name":"clinic""#) && list.contains(#""enabled":true"#), "\(list)")
        let consents = try #require(try await bench.lines(.consent(.show(user: nil))).last)
        #expect(
            consents.contains(#""user":"mara""#) && consents.contains(#"{"kind":"weight","granted":false"#),
            "\(consents)")
        try await bench.stop()
        let directory = bench.state.path
        let own = try String(contentsOfFile: directory + "/settings.yaml", encoding: .utf8)
        for secret in [SandboxConfiguration.fixedKey, "correct horse", String(token), "13137"] {
            #expect(!own.contains(secret) && !bench.log.text.contains(secret), "\(secret)")
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: directory + "-backups").contains {
                $0.hasSuffix(".export")
            })
        for name in try FileManager.default.contentsOfDirectory(atPath: directory + "/secrets") {
            let attributes = try FileManager.default.attributesOfItem(atPath: directory + "/secrets/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
        try await server.stop()
    }

    @Test(
        "the set-up speaks German and Arabic, right to left, and the person's reports are in the language that was chosen"
    )
    func setUpLanguages() async throws {
        let bench = try await RunnerBench(settings: ["http.local": "session"])
        let link = try #require(try await bench.lines(.setupToken).last).object["url"] as? String
        try await browse("setup-languages", try #require(link))
        try await bench.stop()
        let own = try String(contentsOfFile: bench.state.path + "/settings.yaml", encoding: .utf8)
        #expect(own.contains("mara") && own.contains(#"language: "ar""#) && !own.contains(#"language: "de""#), "\(own)")
    }

    @Test("a backup of another gateway becomes the store of a new one, sent by a browser")
    func restore() async throws {
        let source = try await APIBench(tls: false, captures: Self.everything)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: file) }
        var octets: [UInt8] = []
        try await source.gateway.store.export(passphrase: "of several words") { octets += $0 }
        try Data(octets).write(to: file)
        let expected = try await source.gateway.store.statistics()
        try await source.stop()
        let bench = try await RunnerBench(settings: ["http.local": "session"])
        let link = try #require(try await bench.lines(.setupToken).last).object["url"] as? String
        try await browse("restore", try #require(link), file.path, "of several words")
        let stats = try #require(try await bench.lines(.store(.stats)).last).object
        #expect(stats["frames"] as? Int == expected.frames && expected.frames > 0)
        try await bench.stop()
        let names = try FileManager.default.contentsOfDirectory(atPath: bench.state.path)
        #expect(!names.contains("restore.part") && !names.contains("import.new"), "\(names)")
        #expect(!bench.log.text.contains("of several words"))
    }

    @Test("whatever is sent, what comes is what the OpenAPI document says")
    func document() async throws {
        let bench = try await APIBench(tls: false, captures: Self.everything)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "../../Page/api")
        let result = try await Shell.run("sh", ["-c", "exec \"$0\" \"$@\" 2>&1", script.path, bench.address])
        #expect(result.status == 0, "\(result.text.suffix(4000))")
        try await bench.stop()
    }
}

/// Debian's Chromium.
private enum Browser {
    static let isThere = FileManager.default.fileExists(atPath: "/usr/bin/chromium")
}
