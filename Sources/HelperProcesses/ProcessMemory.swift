import CSandbox
import Glibc

/// The memory of this process, which holds keys and readings.
public enum ProcessMemory {
    /// The variable that leaves the memory open, for debuggers and profilers.
    public static let exception = "HEALTHRELAY_DUMPABLE"

    /// Has all threads share two arenas of glibc's allocator.
    ///
    /// It would make up to eight for each processor. The threads that serve tasks and queues change, so that in time each arena
    /// has a megabyte that was freed and is not given back. A gateway is idle mostly, and its threads wait for no arena.
    public static func shareArenas() { _ = csandbox_limit_arenas(2) }

    /// Gives back what was freed and lies between what is in use: glibc's allocator keeps that until its last pages are free.
    public static func giveBack() { _ = csandbox_trim_memory() }

    /// Closes it: the process leaves no core dump, and other processes of its user can neither attach to it nor read its
    /// files in `/proc` that show memory or environment.
    ///
    /// A program that is run by this one starts with its memory open and must close it itself.
    public static func close() {
        guard getenv(exception) == nil else { return }
        _ = csandbox_close_memory()
    }
}
