import CardSocket
import Foundation
import Synchronization

/// A pcscd of its own, with the virtual reader of vsmartcard-vpcd, that nobody else's pcscd or reader is touched by.
///
/// It gets its socket as systemd would give it, and where the system allows, a /run of its own. It ends with this
/// process, however that ends.
public final class CardService: Sendable {
    /// It cannot be had.
    public struct Failure: Error {
        /// Why.
        public var what: String
    }

    private static let daemon = "/usr/sbin/pcscd"
    private static let driver = "/usr/lib/pcsc/drivers/serial/libifdvpcd.so"

    /// Whether pcscd and vsmartcard-vpcd are installed.
    public static var isInstalled: Bool { access(daemon, X_OK) == 0 && access(driver, R_OK) == 0 }

    /// The setting of the environment that makes libpcsclite use a service.
    public static let variable = "PCSCLITE_CSOCK_NAME"
    /// The socket of the service that this process itself asks.
    public static var ownSocket: String { String(cString: card_socket()) }

    /// The socket's path.
    public let socket: String
    /// The virtual reader's name.
    public let reader = "Emulated Reader 00 00"
    /// Where the virtual reader waits for a card.
    public let port: UInt16

    private let running = Mutex<(process: Process, lifeline: Pipe)?>(nil)

    /// A service that does not run yet.
    /// - Parameter socket: its path, in a folder of its own; nil for a new one, for other processes to ask.
    public init(socket: String? = nil) throws {
        self.socket = socket ?? "/tmp/healthrelay-pcsc-\(UUID().uuidString.prefix(8))/comm"
        port = try Self.freePort()
    }

    private var folder: URL { URL(fileURLWithPath: socket).deletingLastPathComponent() }

    /// What pcscd said, while it runs.
    public var log: String {
        (try? String(contentsOf: folder.appendingPathComponent("log"), encoding: .utf8)) ?? ""
    }

    /// Starts it.
    public func start() throws {
        let configuration = try configure()
        let listening = try listen()
        defer { close(listening) }
        let log = folder.appendingPathComponent("log")
        try Data().write(to: log)
        // The socket comes as standard output; the end of standard input ends the service.
        let inside = """
            mount -t tmpfs none /run 2>/dev/null
            sh -c 'exec 3<&1 >&2; LISTEN_PID=$$ LISTEN_FDS=1 exec \(Self.daemon) --foreground --config "$0"' "$0" &
            pid=$!; exec >&2; read -r line; kill $pid; wait $pid; rm -rf "${0%/*}"
            """
        // Another mount namespace, so that /run is nobody else's.
        let outside = """
            if [ "$(id -u)" = 0 ]; then map=; else map=--map-root-user; fi
            if unshare --mount $map true 2>/dev/null; then exec unshare --mount $map sh -c "$1" "$0"; fi
            exec sh -c "$1" "$0"
            """
        let process = Process()
        let lifeline = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", outside, configuration.path, inside]
        process.standardInput = lifeline
        process.standardOutput = FileHandle(fileDescriptor: listening, closeOnDealloc: false)
        process.standardError = try FileHandle(forWritingTo: log)
        try process.run()
        running.withLock { $0 = (process, lifeline) }
    }

    /// Ends it, and returns when it has ended.
    public func stop() async {
        let ended = running.withLock { running in
            defer { running = nil }
            return running
        }
        guard let (process, lifeline) = ended else { return }
        try? lifeline.fileHandleForWriting.close()
        while process.isRunning { try? await Task.sleep(for: .milliseconds(5)) }
    }

    private func configure() throws -> URL {
        let configuration = folder.appendingPathComponent("reader.conf.d")
        try FileManager.default.createDirectory(at: configuration, withIntermediateDirectories: true)
        let hex = String(port, radix: 16)
        // /dev/null stands for "wait for the card".
        let text = """
            FRIENDLYNAME "Emulated Reader"
            DEVICENAME /dev/null:0x\(hex)
            LIBPATH \(Self.driver)
            CHANNELID 0x\(hex)

            """
        try text.write(to: configuration.appendingPathComponent("vpcd"), atomically: true, encoding: .utf8)
        return configuration
    }

    private func listen() throws -> Int32 {
        unlink(socket)
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = Glibc.socket(AF_UNIX, type, 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let path = Array(socket.utf8)
        guard path.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw Failure(what: "\(socket) is too long")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0, Glibc.listen(descriptor, 8) == 0 else { throw Failure(what: "no socket at \(socket)") }
        return descriptor
    }

    /// A port that is free together with the next: the driver has two slots.
    private static func freePort() throws -> UInt16 {
        for _ in 0..<100 {
            let port = UInt16.random(in: 20_000..<30_000)
            if isFree(port), isFree(port + 1) { return port }
        }
        throw Failure(what: "no free port")
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        return EmulatedCard.withAddress(port) { bind(descriptor, $0, $1) } == 0
    }
}
