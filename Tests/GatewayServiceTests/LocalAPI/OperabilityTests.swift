import Foundation
import HealthReadings
import LocalAccess
import LogLines
import Logging
import NIOHTTP1
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewayService
@testable import GatewaySettings

@Suite("Health, metrics and settings read again", .timeLimit(.minutes(5))) struct OperabilityTests {
    @Test("metrics are in Prometheus' format, and promise 12: no reading, address or name is in them")
    func metrics() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters", "cuff-kpa", "glucose-oddities"])
        let now = Instant.systemClock
        try await Self.meet(Household.cuff, bench, clock: ClockReading(deviceTime: Self.noon, readAt: now), at: now)
        _ = try await bench.send("/nope")
        let answer = try await bench.send("/metrics")
        #expect(answer.status == 200)
        #expect(answer.headers["content-type"].first?.hasPrefix("text/plain; version=0.0.4") == true)
        let sample = /[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? -?[0-9.e+-]+/
        var families: Set<Substring> = []
        for line in answer.text.split(separator: "\n") {
            if line.hasPrefix("# TYPE ") {
                #expect(families.insert(line.split(separator: " ")[2]).inserted, "\(line)")
            } else if !line.hasPrefix("# HELP ") {
                #expect(line.wholeMatch(of: sample) != nil, "\(line)")
                #expect(families.contains(line.prefix { $0 != "{" && $0 != " " }), "\(line)")
            }
        }
        for name in [
            "healthrelay_readings", "healthrelay_waiting", "healthrelay_waiting_oldest_age_seconds",
            "healthrelay_destination_enabled", "healthrelay_delivered", "healthrelay_refused",
            "healthrelay_retracting", "healthrelay_left_behind",
            "healthrelay_device_clock_difference_seconds", "healthrelay_http_responses_total",
        ] { #expect(families.contains(name[...]), "\(name)") }
        for family in ["healthrelay_waiting", "healthrelay_delivered", "healthrelay_refused"] {
            let samples = answer.text.split(separator: "\n").filter { $0.hasPrefix(family + "{") }
            #expect(!samples.isEmpty && samples.allSatisfy { $0.contains(#"destination="vital""#) }, "\(samples)")
        }
        for secret in ["C0:00", "meter+", "BLESmart", "mg/dL", "mmHg", "00001808"] {
            #expect(!answer.text.contains(secret), "\(secret)")
        }
        try await bench.stop()
    }

    @Test("no series is twice in the metrics: people share one, and devices whose short aliases are the same")
    func alike() async throws {
        let house = try await Household(2, tls: false)
        let owner = try await house.token(.owner, nil)
        for (number, person) in house.people.enumerated() {
            let body = #"""
                {"kind":"glucose","value":5.\#(number),"unit":"mmol/L","time":"2026-11-20T06:30:00Z","person":"\#(person)"}
                """#
            #expect(try await house.api.send("/api/v1/readings", .POST, token: owner, body: body).status == 201)
        }
        let (first, second) = Self.alikeAddresses()
        let now = Instant.systemClock
        try await Self.meet(first, house.api, battery: 90, at: now)
        try await Self.meet(second, house.api, battery: 40, at: now.advanced(bySeconds: -60))
        let lines = try await house.api.send("/metrics", token: owner).text.split(separator: "\n")
        let series = lines.filter { !$0.hasPrefix("#") }.compactMap { $0.split(separator: " ").first }
        #expect(series.count > 20 && Set(series).count == series.count, "\(series)")
        let waiting = lines.filter { $0.hasPrefix("healthrelay_waiting{") }
        #expect(waiting.count == 1 && waiting.allSatisfy { $0.hasSuffix(" 2") }, "\(waiting)")
        // Of both, the battery of the device that was seen last.
        let batteries = lines.filter { $0.hasPrefix("healthrelay_device_battery_percent{") }
        #expect(batteries.count == 1 && batteries.allSatisfy { $0.hasSuffix(" 90") }, "\(batteries)")
        try await house.api.stop()
    }

    @Test("a device that was not seen for a year has no series, and one that is silent for eleven months has")
    func longGone() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let now = Instant.systemClock
        for (number, days) in [(1, 330), (2, 370)] as [(Int, Int64)] {
            try await Self.meet(Household.meter(number), bench, at: now.advanced(bySeconds: -days * 86_400))
        }
        let seen = try await bench.send("/metrics").text.split(separator: "\n").filter {
            $0.hasPrefix("healthrelay_device_last_seen_timestamp_seconds{")
        }
        #expect(seen.count == 1)
        #expect(seen.first?.hasSuffix(" \(now.advanced(bySeconds: -330 * 86_400).seconds)") == true, "\(seen)")
        try await bench.stop()
    }

    private static let noon = WallTime(secondsSinceEpoch: 1_795_262_400)

    /// A contact with a device of one model.
    private static func meet(
        _ address: DeviceAddress, _ bench: APIBench, clock: ClockReading? = nil, battery: UInt8? = nil,
        at start: Instant
    ) async throws {
        let device = DeviceDescription(address: address, model: "generic_glucose")
        _ = try await bench.gateway.store.beginContact(with: device, at: start, clock: clock, batteryPercent: battery)
    }

    /// Two addresses of which the four digits are the same.
    private static func alikeAddresses() -> (DeviceAddress, DeviceAddress) {
        var seen: [String: DeviceAddress] = [:]
        var number = 1000
        while true {
            let address = Household.meter(number)
            if let other = seen.updateValue(address, forKey: DeviceAlias(address, model: nil).digits) {
                return (other, address)
            }
            number += 1
        }
    }

    @Test("health is open, and says 503 where the store cannot be read")
    func health() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        #expect(
            try await bench.send("/health").text.replacing("nearly_full", with: "ok")
                == #"{"status":"ok","store":"ok","disk":"ok"}"#)
        bench.isLocked = true
        let locked = try await bench.send("/health")
        #expect(locked.status == 200 && locked.object["status"] as? String == "locked")
        try await bench.stop()
    }

    @Test("settings that are read again count where they can, and those that cannot are named")
    func reload() async throws {
        let bench = try await APIBench(tls: false)
        let flags = GatewayBench.zone.merging([
            "http.listen": "127.0.0.1:1", "consent.default": "denied", "sync.backfill_days": "1",
        ]) { $1 }
        let later = try await bench.gateway.reload(Settings(environment: [:], flags: flags))
        #expect(later.contains("http.listen") && !later.contains("consent.default"))
        // What waits for a restart is named until there is one.
        let again = try await bench.gateway.reload(Settings(environment: [:], flags: flags))
        #expect(again == later)
        #expect(try await bench.send("/api/v1/readings").status == 403)
        let broken = try Settings(environment: [:], flags: flags.merging(["sync.ignore": "nonsense"]) { $1 })
        await #expect(throws: Problem.self) { try await bench.gateway.reload(broken) }
        #expect(bench.gateway.settings.list("sync.ignore").isEmpty)
        try await bench.stop()
    }

    @Test("without TLS it listens on loopback alone")
    func exposed() throws {
        let logger = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }
        let settings = try Settings(
            environment: [:], flags: ["http.listen": "0.0.0.0:8480", "http.tls": "off"])
        #expect(throws: Problem.self) { try AccessPoint(settings, directory: NSTemporaryDirectory(), logger: logger) }
    }

    /// A service manager's socket.
    private static func listen(at path: String) -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var octets = Array(path.utf8)
        if octets.first == UInt8(ascii: "@") { octets[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
        let size = socklen_t(MemoryLayout<sa_family_t>.size + octets.count)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        #expect(result == 0)
        return descriptor
    }

    private final class Count: Sendable {
        let value = Mutex(0)
    }

    @Test(
        "a store that fails for a moment is asked again; meanwhile the service manager hears nothing, and the log why")
    func watchdog() async throws {
        let path = NSTemporaryDirectory() + "/hr-notify-\(UUID().uuidString.prefix(8))"
        let descriptor = Self.listen(at: path)
        defer {
            close(descriptor)
            unlink(path)
        }
        let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": path]))
        let (asked, log) = (Count(), LogLines())
        let service = WatchdogService(manager: manager, interval: .milliseconds(100), logger: log.logger()) {
            let number = asked.value.withLock { count in
                count += 1
                return count
            }
            if number <= 3 { throw StoreError.inputOutput(detail: "no answer") }
        }
        let running = Task { try await service.run() }
        var received = [UInt8](repeating: 0, count: 64)
        var count = -1
        for _ in 0..<2000 where count < 0 {
            count = recv(descriptor, &received, received.count, Int32(MSG_DONTWAIT))
            if count < 0 { try await Task.sleep(for: .milliseconds(5)) }
        }
        running.cancel()
        try await running.value
        #expect(String(decoding: received[..<max(0, count)], as: UTF8.self) == "WATCHDOG=1")
        let times = asked.value.withLock { $0 }
        #expect(times >= 4)
        let told = log.lines().filter { $0.contains("the store does not answer") }
        #expect(told.count == 1 && told.first?.contains("no answer") == true, "\(told)")
    }

    @Test("the service manager is told over its socket, an abstract one too", arguments: [true, false])
    func notifications(_ isAbstract: Bool) throws {
        let name = "hr-notify-\(UUID().uuidString.prefix(8))"
        let path = isAbstract ? "@" + name : NSTemporaryDirectory() + "/" + name
        let descriptor = Self.listen(at: path)
        defer { close(descriptor) }
        let manager = try #require(
            ServiceManager(environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000"]))
        #expect(manager.watchdog == .seconds(30))
        manager.notify("READY=1", "STATUS=up")
        var received = [UInt8](repeating: 0, count: 256)
        let count = recv(descriptor, &received, received.count, 0)
        #expect(String(decoding: received[..<max(0, count)], as: UTF8.self) == "READY=1\nSTATUS=up")
        // A store of an earlier version may take longer than a service has for its start.
        let narration = StartNarration(manager, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        narration.tell(WorkProgress(StoreProgress(.migrating, done: 1 << 20, of: 4 << 20), secondsLeft: 3))
        let length = recv(descriptor, &received, received.count, 0)
        #expect(
            String(decoding: received[..<max(0, length)], as: UTF8.self)
                == "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=900000000\nSTATUS=migrating: 1 of 4 MiB, 3 s left")
        #expect(ServiceManager(environment: [:]) == nil && ServiceManager(environment: ["NOTIFY_SOCKET": "x"]) == nil)
        let other = ServiceManager(
            environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"])
        #expect(other?.watchdog == nil)
    }
}
