import Glibc
import HCIMonitor

/// The command line of the helper.
struct CaptureOptions: Sendable {
    /// How an adapter is named.
    enum Adapter: Sendable {
        /// `hci0` and so on.
        case index(UInt16)
        /// Its own address.
        case address(String)

        init(_ name: String) throws(CaptureFailure) {
            if name.hasPrefix("hci"), let index = UInt16(name.dropFirst(3)), "hci\(index)" == name, index < .max {
                self = .index(index)
            } else if PeerAddress(name) != nil {
                self = .address(name)
            } else {
                throw .usage("--adapter: expected a name such as hci0 or the adapter's address, found '\(name)'")
            }
        }

        var name: String {
            switch self {
            case .index(let index): "hci\(index)"
            case .address(let address): address
            }
        }
    }

    /// The adapter to record; nil for the first that is in use.
    var adapter: Adapter?
    /// The one device to record.
    var device: PeerAddress?
    var keepsKeys = false
    var isHelpWanted = false
    /// A UNIX socket (SOCK_SEQPACKET) that gives the monitor's messages in place of the kernel; in debug builds, for tests.
    var socketPath: String?

    static let help = """
        usage: healthrelay-capture [--adapter hci0|ADDRESS] [--device ADDRESS] [--keep-keys] > FILE

        Records the HCI monitor as btsnoop (datalink 2001) to standard output, keys zeroed, until SIGINT or SIGTERM, or
        until a standard input that is a pipe or a terminal ends. Needs CAP_NET_RAW, which it gives up once the channel is open.
        `healthrelay capture FILE` runs it.

        """

    init(_ arguments: [String]) throws(CaptureFailure) {
        var rest = arguments[...]
        while let name = rest.popFirst() {
            switch name {
            case "--adapter": adapter = try Adapter(Self.value(of: name, &rest))
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
