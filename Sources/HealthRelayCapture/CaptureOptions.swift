import Glibc
import HCIMonitor

/// The command line of the helper.
struct CaptureOptions: Sendable {
    /// `hci0`, or the adapter's own address; nil for the first that is there.
    var adapter: String?
    /// The one device to record.
    var device: PeerAddress?
    var keepsKeys = false
    var isHelpWanted = false
    /// A UNIX socket (SOCK_SEQPACKET) that gives the monitor's messages in place of the kernel; in debug builds, for tests.
    var socketPath: String?

    static let help = """
        usage: healthrelay-capture [--adapter hci0|ADDRESS] [--device ADDRESS] [--keep-keys] > FILE

        Records the HCI monitor as btsnoop (datalink 2001) to standard output, keys zeroed, until SIGINT, SIGTERM or
        the end of standard input. Needs CAP_NET_RAW, which it gives up once the channel is open.
        `healthrelay capture FILE` runs it.

        """

    init(_ arguments: [String]) throws(CaptureFailure) {
        var rest = arguments[...]
        while let name = rest.popFirst() {
            switch name {
            case "--adapter": adapter = try Self.value(of: name, &rest)
            case "--device":
                let text = try Self.value(of: name, &rest)
                guard let address = PeerAddress(text) else {
                    throw .usage("--device: expected an address such as C0:00:00:00:18:08, found '\(text)'")
                }
                device = address
            case "--keep-keys": keepsKeys = true
            case "--help", "-h": isHelpWanted = true
            default: throw .usage("expected --adapter, --device or --keep-keys, found '\(name)'")
            }
        }
        #if DEBUG
            socketPath = getenv("HEALTHRELAY_CAPTURE_MONITOR").map { String(cString: $0) }
        #endif
    }

    private static func value(of name: String, _ rest: inout ArraySlice<String>) throws(CaptureFailure) -> String {
        guard let value = rest.popFirst() else { throw .usage("\(name): expected a value") }
        return value
    }
}
