import CSpawn
import Glibc

/// How a process ended.
public enum HelperEnd: Sendable, Hashable {
    case exited(Int32)
    case signal(Int32)
}

/// Why a helper is of no use any more.
public enum HelperError: Error, Sendable, Hashable {
    /// It cannot be run.
    case cannotRun(path: String, code: Int32)
    /// It has ended, and what it said last on standard error, where it said something.
    case ended(HelperEnd, words: String?)
}

/// A running program that is asked through its standard input and answers through its standard output.
///
/// Its calls wait in the system: use it from a thread that may. It is started with posix_spawn, in a process group of
/// its own (a Ctrl-C at the terminal is for the person's program), with no descriptor but its three, and with the
/// signals at their defaults. Both directions go through one socket: a helper that is gone is an error, never a
/// SIGPIPE. When this object goes, or this process ends in whatever way, the helper's input ends, which is its sign
/// to end; one that does not is killed. It is always waited for.
public final class HelperProcess {
    /// Its number.
    public let identifier: pid_t
    private let socket: Int32
    private let errors: Int32
    private var end: HelperEnd?
    private var words: [UInt8] = []

    /// Starts a program with the arguments, and with what `environment` adds to ``HelperEnvironment``.
    public init(path: String, arguments: [String] = [], environment: [String: String] = [:]) throws(HelperError) {
        func fail(_ code: Int32) -> HelperError { .cannotRun(path: path, code: code) }
        var (sockets, pipes): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
        defer { for descriptor in [sockets[1], pipes[1]] where descriptor >= 0 { close(descriptor) } }
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &sockets) == 0 else { throw fail(errno) }
        // What nobody reads in time is dropped: a helper must never wait to complain.
        guard pipe2(&pipes, O_CLOEXEC | O_NONBLOCK) == 0 else {
            let code = errno
            close(sockets[0])
            throw fail(code)
        }
        var identifier = pid_t()
        let code = Self.spawn(&identifier, path, arguments, environment, sockets[1], pipes[1])
        guard code == 0 else {
            close(sockets[0])
            close(pipes[0])
            throw fail(code)
        }
        (self.identifier, socket, errors) = (identifier, sockets[0], pipes[0])
    }

    deinit {
        close(socket)
        close(errors)
        if end == nil { Self.reapLater(identifier) }
    }

    // MARK: Talking

    /// Sends all of these octets; waits where the helper does not take them.
    public func send(_ octets: [UInt8]) throws(HelperError) {
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { throw hasEnded() }
        }
    }

    /// What comes next; nil where nothing comes in time.
    public func receive(within timeout: Duration) throws(HelperError) -> [UInt8]? {
        let deadline = ContinuousClock.now + timeout
        while true {
            drainErrors()
            var wait = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            let left = max(.zero, deadline - .now)
            let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000
            let ready = poll(&wait, 1, Int32(clamping: milliseconds))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else {
                if ready == 0, left > .zero { continue }
                return nil
            }
            var octets = [UInt8](repeating: 0, count: 16 * 1024)
            let count = recv(socket, &octets, octets.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw hasEnded() }
            return Array(octets.prefix(count))
        }
    }

    // MARK: Ending

    /// Ends its input, waits for its end, and kills it where that does not come in time.
    @discardableResult
    public func finish(within timeout: Duration) -> HelperEnd {
        shutdown(socket, Int32(SHUT_RDWR))
        let deadline = ContinuousClock.now + timeout
        while end == nil, ContinuousClock.now < deadline {
            end = Self.wait(identifier, WNOHANG)
            if end == nil { usleep(1000) }
        }
        return kill()
    }

    /// Kills it, and waits for its end.
    @discardableResult
    public func kill() -> HelperEnd {
        if let end { return end }
        Glibc.kill(identifier, SIGKILL)
        let ended = Self.wait(identifier, 0) ?? .exited(0)
        end = ended
        return ended
    }

    private func hasEnded() -> HelperError {
        // Its socket may close a moment before the process is over; one that lives on without it is of no use.
        let ended = finish(within: .seconds(2))
        drainErrors()
        let text = String(decoding: words, as: UTF8.self)
        return .ended(ended, words: text.split(whereSeparator: \.isNewline).last.map(String.init))
    }

    private func drainErrors() {
        var octets = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(errors, &octets, octets.count)
            guard count > 0 else { return }
            words = Array((words + octets.prefix(count)).suffix(4096))
        }
    }

    // MARK: The system

    private static func spawn(
        _ identifier: inout pid_t, _ path: String, _ arguments: [String], _ additions: [String: String],
        _ socket: Int32, _ errors: Int32
    ) -> Int32 {
        // Above the three, so that none of them is overwritten before it is used.
        let (input, output) = (fcntl(socket, F_DUPFD_CLOEXEC, 3), fcntl(errors, F_DUPFD_CLOEXEC, 3))
        defer {
            if input >= 0 { close(input) }
            if output >= 0 { close(output) }
        }
        guard input >= 0, output >= 0 else { return errno }
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        for (from, to) in [(input, 0), (input, 1), (output, 2)] as [(Int32, Int32)] {
            posix_spawn_file_actions_adddup2(&actions, from, to)
        }
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
        let words = CStrings([path] + arguments)
        let settings = CStrings(environment(additions))
        return posix_spawn(&identifier, path, &actions, &attributes, words.pointers, settings.pointers)
    }

    private static func environment(_ additions: [String: String]) -> [String] {
        HelperEnvironment.minimal(HelperEnvironment.own).merging(additions) { $1 }.map { "\($0.key)=\($0.value)" }
    }

    private static func wait(_ identifier: pid_t, _ options: Int32) -> HelperEnd? {
        var status: Int32 = 0
        while true {
            let result = waitpid(identifier, &status, options)
            if result < 0, errno == EINTR { continue }
            if result == 0 { return nil }
            // Somebody else has waited for it: there is nothing left to know.
            guard result == identifier else { return .exited(0) }
            return status & 0x7F == 0 ? .exited(status >> 8 & 0xFF) : .signal(status & 0x7F)
        }
    }

    /// Waits for a helper whose input has ended, on a thread of its own, and kills it after a while.
    private static func reapLater(_ identifier: pid_t) {
        var thread = pthread_t()
        let status = pthread_create(
            &thread, nil,
            { context in
                let identifier = pid_t(Int(bitPattern: context))
                for _ in 0..<400 {
                    if HelperProcess.wait(identifier, WNOHANG) != nil { return nil }
                    usleep(20_000)
                }
                Glibc.kill(identifier, SIGKILL)
                _ = HelperProcess.wait(identifier, 0)
                return nil
            }, UnsafeMutableRawPointer(bitPattern: Int(identifier)))
        if status == 0 {
            pthread_detach(thread)
        } else {
            Glibc.kill(identifier, SIGKILL)
            _ = wait(identifier, 0)
        }
    }
}

/// An array of C strings with a NULL at its end, as the exec functions take it.
private final class CStrings {
    let pointers: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private let count: Int

    init(_ texts: [String]) {
        count = texts.count
        pointers = .allocate(capacity: count + 1)
        for (index, text) in texts.enumerated() { (pointers + index).initialize(to: strdup(text)) }
        (pointers + count).initialize(to: nil)
    }

    deinit {
        for index in 0..<count { free(pointers[index]) }
        pointers.deallocate()
    }
}
