import Foundation
import GatewayCommands
import GatewaySettings
import Glibc
import HealthReadings
import Logging
import ServiceLifecycle

/// The service manager's notifications (sd_notify(3)): that the gateway is up, reads its settings again, stops, lives.
struct ServiceManager: Sendable {
    private let socketPath: String
    /// How often it wants to hear that the gateway lives; nil: not at all.
    let watchdog: Duration?

    /// The manager that started this process; nil: none, or one that wants no notifications.
    init?(environment: [String: String] = ProcessInfo.processInfo.environment) {
        guard let path = environment["NOTIFY_SOCKET"], path.hasPrefix("/") || path.hasPrefix("@") else { return nil }
        socketPath = path
        let isForUs = environment["WATCHDOG_PID"].map { $0 == String(getpid()) } ?? true
        watchdog = isForUs ? environment["WATCHDOG_USEC"].flatMap(Int64.init).map { .microseconds($0) } : nil
    }

    /// Sends lines such as `READY=1`; where nobody takes them, nothing is lost.
    func notify(_ lines: String...) {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var octets = Array(socketPath.utf8)
        // A name that begins with @ is an abstract one, whose first octet is NUL.
        if octets.first == UInt8(ascii: "@") { octets[0] = 0 }
        guard octets.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
        let size = socklen_t(MemoryLayout<sa_family_t>.size + octets.count)
        let message = Array(lines.joined(separator: "\n").utf8)
        _ = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(descriptor, message, message.count, Int32(MSG_NOSIGNAL), $0, size)
            }
        }
    }

    /// That the settings are being read again, with the moment that tells it from an earlier time.
    func notifyReloading() {
        notify("RELOADING=1", "MONOTONIC_USEC=\(SystemClock.monotonic)")
    }
}

/// Tells the service manager that the gateway lives: as long as its store answers.
struct WatchdogService: Service {
    let manager: ServiceManager
    let interval: Duration
    let logger: Logger
    /// Asks the store something.
    let ask: @Sendable () async throws -> Void

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var failure: String?
            // After a failure it asks again soon: the manager hears of it in time if the next answer is good, and otherwise ends the
            // gateway and starts it anew.
            while (try? await Task.sleep(for: failure == nil ? interval / 2 : interval / 10)) != nil {
                do {
                    try await ask()
                    manager.notify("WATCHDOG=1")
                    failure = nil
                } catch {
                    let words = Problem(describing: error)?.message ?? "\(error)"
                    if words != failure, !Task.isCancelled {
                        logger.error("the store does not answer", metadata: ["error": "\(words)"])
                    }
                    failure = words
                }
            }
        }
    }
}
