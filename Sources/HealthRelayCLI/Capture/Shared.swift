import Foundation
import Synchronization

/// A flag that a signal's handler and the recording share.
final class SharedFlag: Sendable {
    private let state = Mutex(false)

    var value: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }

    /// Does something unless the flag is set; nobody can set it meanwhile.
    func unlessSet(_ body: () -> Void) { state.withLock { if !$0 { body() } } }
}

/// When something was last told.
final class SharedSeconds: Sendable {
    private let last = Mutex<Int64?>(nil)

    /// Whether so many seconds have gone by since this was last true, or since the beginning.
    func isDue(_ now: Int64, every pause: Int64, from beginning: Int64) -> Bool {
        last.withLock { last in
            guard now - (last ?? beginning) >= pause else { return false }
            last = now
            return true
        }
    }
}

/// The end of a pipe that keeps another process going while it is open.
final class Lifeline: Sendable {
    private let descriptor: Mutex<Int32>

    /// Takes the handle's descriptor over; -1 where there is none to be had, and then nothing is held.
    init(_ handle: FileHandle) {
        descriptor = Mutex(fcntl(handle.fileDescriptor, F_DUPFD_CLOEXEC, 3))
        try? handle.close()
    }

    deinit { cut() }

    func cut() {
        descriptor.withLock { descriptor in
            if descriptor >= 0 { close(descriptor) }
            descriptor = -1
        }
    }
}
