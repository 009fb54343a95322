import Foundation
import Logging
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewayService
@testable import GatewaySettings

@Suite("Health, metrics and settings read again", .timeLimit(.minutes(5))) struct OperabilityTests {
    @Test("metrics are in Prometheus' format, and promise 12: no reading, address or name is in them")
    func metrics() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters", "cuff-kpa", "glucose-oddities"])
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

    @Test("the service manager is told over its socket, an abstract one too", arguments: [true, false])
    func notifications(_ isAbstract: Bool) throws {
        let name = "hr-notify-\(UUID().uuidString.prefix(8))"
        let path = isAbstract ? "@" + name : NSTemporaryDirectory() + "/" + name
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var octets = Array(path.utf8)
        if isAbstract { octets[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
        let size = socklen_t(MemoryLayout<sa_family_t>.size + octets.count)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        #expect(result == 0)
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
