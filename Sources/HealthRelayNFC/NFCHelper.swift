import CNFC
import Glibc
import NFCPipe

/// `healthrelay-nfc`: reads ISO 15693 tags through libnfc for another program, line by line; see ``NFCRequest``.
///
/// A program of its own, because libnfc aborts its process over some answers of a reader, and because it is under the
/// LGPL. It asks tags nothing but what only reads (``ReadOnlyList``), has at most one reader open, and ends, with the
/// reader given back, at the end of its standard input: that is, when who started it ends, however that comes.
@main
enum NFCHelper {
    static func main() {
        guard CommandLine.arguments.count == 1 else {
            let text = "usage: healthrelay-nfc < requests\nreads ISO 15693 tags through libnfc, for healthrelay\n"
            _ = text.withCString { write(2, $0, strlen($0)) }
            exit(CommandLine.arguments.dropFirst().first == "--help" ? 0 : 64)
        }
        signal(SIGPIPE, SIG_IGN)
        // libnfc's abort() is expected: no backtrace, and no memory image.
        signal(SIGABRT, SIG_DFL)
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        HelperSandbox.enter()
        InputWatch.begin()
        var service = NFCService()
        service.run()
        exit(0)
    }
}

/// Ends the process when the other end of standard input is closed and libnfc does not come back.
enum InputWatch {
    /// How long the process may still take to give its reader back.
    private static let grace: UInt32 = 5

    static func begin() {
        var thread = pthread_t()
        let status = pthread_create(
            &thread, nil,
            { _ in
                var input = pollfd(fd: 0, events: 0, revents: 0)
                while poll(&input, 1, -1) < 0, errno == EINTR {}
                sleep(InputWatch.grace)
                _exit(0)
            }, nil)
        if status == 0 { pthread_detach(thread) }
    }
}

/// Reads requests and answers them, until there are no more.
struct NFCService: ~Copyable {
    private var input = NFCLineBuffer()
    private var reader = ReaderSession()

    mutating func run() {
        guard reply(.hello(version: NFCReply.version, libnfc: String(cString: nfc_version()))) else { return }
        var octets = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(0, &octets, octets.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            input.append(octets.prefix(count))
            guard answerAll() else { break }
        }
        reader.close()
    }

    private mutating func answerAll() -> Bool {
        do throws(NFCLineError) {
            while let line = try input.next() {
                let answer: NFCReply
                do throws(NFCLineError) {
                    answer = self.answer(try NFCRequest(line: line))
                } catch {
                    answer = .failed(.malformed(error.description))
                }
                guard reply(answer) else { return false }
            }
            return true
        } catch {
            _ = reply(.failed(.malformed(error.description)))
            return false
        }
    }

    private mutating func answer(_ request: NFCRequest) -> NFCReply {
        do throws(NFCFailure) {
            switch request {
            case .open(let name): return try reader.open(name)
            case .exchange(let frame, let milliseconds):
                return .answer(try reader.exchange(frame, milliseconds: milliseconds))
            case .list: return .readers(try reader.list())
            case .close:
                reader.close()
                return .closed
            }
        } catch {
            return .failed(error)
        }
    }

    private func reply(_ reply: NFCReply) -> Bool {
        var rest = Array((reply.line + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { return false }
        }
        return true
    }
}
