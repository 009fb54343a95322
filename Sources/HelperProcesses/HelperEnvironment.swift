import Glibc

/// The environment of a helper: what finding libraries and speaking to people takes, and nothing else.
///
/// This process's own environment may hold keys (`HEALTHRELAY_SERVER_…`) and say where the service manager has put
/// secrets (`CREDENTIALS_DIRECTORY`) and its notification socket.
public enum HelperEnvironment {
    private static let names: Set<String> = [
        "PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SWIFT_BACKTRACE", "ASAN_OPTIONS", "LSAN_OPTIONS",
        "TSAN_OPTIONS", "UBSAN_OPTIONS", "LIBDISPATCH_LOG",
        // Where `healthrelay-capture` finds its tests' monitor.
        "HEALTHRELAY_CAPTURE_MONITOR",
    ]
    private static let prefixes = ["LC_", "LIBNFC_", "LIBUSB_"]

    /// What of an environment a helper gets.
    public static func minimal(_ environment: [String: String]) -> [String: String] {
        environment.filter { entry in names.contains(entry.key) || prefixes.contains { entry.key.hasPrefix($0) } }
    }

    /// This process's own.
    static var own: [String: String] {
        var found: [String: String] = [:]
        var entry = environ
        while let text = entry.pointee {
            let parts = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { found[String(parts[0])] = String(parts[1]) }
            entry += 1
        }
        return found
    }
}
