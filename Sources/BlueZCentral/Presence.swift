import GATTClient
import HealthReadings

/// Which devices are near, told from when they were heard: a device comes when it is heard, or connects, after absence.
///
/// Absence is a disconnect, a connection attempt that failed, the daemon's forgetting it, or silence. Silence is counted
/// by the clock of our own listening, which stands still while discovery does.
struct Presence {
    /// A controller that filters duplicates tells a device once in each of BlueZ's rounds of discovery: 10.24 s of
    /// listening and 5 s of rest (`DISCOV_LE_TIMEOUT` in the kernel, `IDLE_DISCOV_TIMEOUT` in the daemon).
    static let silence: Duration = .seconds(20)

    private struct Seen {
        var heard: Duration
        var isConnected: Bool
        var failures: Int
    }

    private var seen: [String: Seen] = [:]

    /// A device was heard, or is connected.
    ///
    /// - Parameters:
    ///   - path: the device's object.
    ///   - now: how long we have listened by now.
    ///   - failures: how many connection attempts to it have failed.
    /// - Returns: whether it has come.
    mutating func isComing(_ path: String, isConnected: Bool, at now: Duration, failures: Int) -> Bool {
        let before = seen.updateValue(Seen(heard: now, isConnected: isConnected, failures: failures), forKey: path)
        guard let before else { return true }
        if before.isConnected { return false }
        if isConnected { return now - before.heard >= Self.silence }
        return now - before.heard >= Self.silence || before.failures != failures
    }

    /// A device's connection, as it was told with something else: one that ended is absent until it is heard.
    mutating func noteConnection(_ path: String, isConnected: Bool) {
        guard !isConnected, seen[path]?.isConnected == true else { return }
        seen[path] = nil
    }

    /// The daemon has forgotten it.
    mutating func forget(_ path: String) { seen[path] = nil }
}
