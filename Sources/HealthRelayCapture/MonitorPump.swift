import CBluetooth
import Glibc
import HCIMonitor

/// Brings messages from the channel to standard output until there is a reason to end. Wakes only when something comes.
struct MonitorPump: ~Copyable {
    private var channel: MonitorChannel
    private(set) var recorder: MonitorRecorder
    private let signals: Int32
    /// Standard input, where somebody can close it; -1 where it is /dev/null or a file, as a service manager gives it.
    private let lifeline: Int32

    /// Messages taken before the reader is looked after again.
    private static let burst = 256
    /// How long a reader may take nothing at the end, in milliseconds.
    private static let patience: Int32 = 10_000

    /// Bursts taken at the end of what the kernel still holds.
    private static let lastBursts = 64

    private enum Intake { case more, drained, over }

    init(_ channel: consuming MonitorChannel, _ recorder: MonitorRecorder) throws(CaptureFailure) {
        self.channel = channel
        self.recorder = recorder
        var set = sigset_t()
        sigemptyset(&set)
        for number in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&set, number) }
        sigprocmask(SIG_BLOCK, &set, nil)
        signals = signalfd(-1, &set, Int32(SFD_CLOEXEC | SFD_NONBLOCK))
        guard signals >= 0 else { throw .system("signals") }
        var status = stat()
        let kind = fstat(0, &status) == 0 ? status.st_mode & S_IFMT : 0
        lifeline = kind == S_IFIFO || kind == S_IFSOCK || isatty(0) == 1 ? 0 : -1
        _ = fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK)
    }

    deinit { close(signals) }

    mutating func run() throws(CaptureFailure) {
        while true {
            var waits = [
                pollfd(fd: channel.pollDescriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: lifeline, events: Int16(POLLIN), revents: 0),
                pollfd(fd: signals, events: Int16(POLLIN), revents: 0),
                pollfd(fd: 1, events: recorder.isEmpty ? 0 : Int16(POLLOUT), revents: 0),
            ]
            guard poll(&waits, nfds_t(waits.count), -1) >= 0 else {
                if errno == EINTR { continue }
                throw .system("waiting")
            }
            if waits[3].revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0 { return }
            let isOver = try receive() == .over
            guard try write() else { return }
            if isOver || waits[2].revents != 0 || (waits[1].revents != 0 && isInputOver()) { return try finish() }
        }
    }

    /// Takes what is there, up to a burst.
    private mutating func receive() throws(CaptureFailure) -> Intake {
        for _ in 0..<Self.burst {
            switch try channel.receive() {
            case .message(let message, let time):
                switch recorder.take(message, at: time, lost: channel.lost) {
                case .adapterGone: Report.note("adapter_gone", "hci\(message.adapter) is gone; waiting for it")
                case .adapterBack: Report.note("adapter_back", "hci\(message.adapter) is back")
                case nil: break
                }
            case .malformed: recorder.skipMalformed()
            case .nothing:
                recorder.drained()
                return .drained
            case .end: return .over
            }
        }
        return .more
    }

    /// Whether standard input is at its end; what is typed there does not matter.
    private func isInputOver() -> Bool {
        var octets: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0]
        let count = read(0, &octets, octets.count)
        return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)
    }

    /// Writes what the reader takes; false where it is gone.
    private mutating func write() throws(CaptureFailure) -> Bool {
        while !recorder.isEmpty {
            let count = recorder.write { Glibc.write(1, $0.baseAddress, $0.count) }
            if count < 0 {
                switch errno {
                case EINTR: continue
                case EAGAIN: return true
                case EPIPE: return false
                default: throw .system("standard output")
                }
            }
        }
        return true
    }

    /// Takes what the kernel still holds, and gives the reader the rest.
    private mutating func finish() throws(CaptureFailure) {
        for _ in 0..<Self.lastBursts where try receive() != .more { break }
        while !recorder.isEmpty {
            var wait = pollfd(fd: 1, events: Int16(POLLOUT), revents: 0)
            let count = poll(&wait, 1, Self.patience)
            if count == 0 { return }
            if count < 0, errno != EINTR { throw .system("waiting") }
            guard try write() else { return }
        }
    }
}
