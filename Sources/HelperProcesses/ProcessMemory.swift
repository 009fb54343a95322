import CSandbox
import Glibc

/// The memory of this process, which holds keys and readings.
public enum ProcessMemory {
    /// The variable that leaves the memory open, for debuggers and profilers.
    public static let exception = "HEALTHRELAY_DUMPABLE"

    /// Closes it: the process leaves no core dump, and other processes of its user can neither attach to it nor read its
    /// files in `/proc` that show memory or environment.
    ///
    /// A program that is run by this one starts with its memory open and must close it itself.
    public static func close() {
        guard getenv(exception) == nil else { return }
        _ = csandbox_close_memory()
    }
}
