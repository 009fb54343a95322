import Foundation
import Synchronization

/// A pcscd of its own, with the virtual reader of vsmartcard-vpcd, that nobody else's pcscd or reader is touched by.
///
/// It gets its socket as systemd would give it, and where the system allows, a /run of its own. It ends with this
/// process.
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

    /// The setting of the environment that makes libpcsclite use this service.
    public static let variable = "PCSCLITE_CSOCK_NAME"
    /// The socket's path.
    public let socket: String
    /// The virtual reader's name.
    public let reader = "Emulated Reader 00 00"
    /// Where the virtual reader waits for a card, on loopback.
    public let port: UInt16

    private let folder: URL
    private let running = Mutex<(process: Process, lifeline: Pipe)?>(nil)

    /// A service that does not run yet.
    public init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("hr-pcsc-\(UUID().uuidString.prefix(8))")
        socket = folder.appendingPathComponent("comm").path
        port = try Self.freePort()
    }

    deinit { stop() }

    private func configure() throws {
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
    }

    /// What pcscd said, while it runs.
    public var log: String {
        (try? String(contentsOf: folder.appendingPathComponent("log"), encoding: .utf8)) ?? ""
    }

    /// Starts it.
    public func start() throws {
        try configure()
        let listening = try listen()
        defer { close(listening) }
        let log = folder.appendingPathComponent("log")
        if !FileManager.default.fileExists(atPath: log.path) { try Data().write(to: log) }
        let process = Process()
        let lifeline = Pipe()
        // The socket comes as standard output. Another mount namespace, so that /run is nobody else's.
        let inside = """
            mount -t tmpfs none /run 2>/dev/null
            sh -c 'exec 3<&1 >&2; LISTEN_PID=$$ LISTEN_FDS=1 exec \(Self.daemon) --foreground --config "$0"' "$0" &
            pid=$!; exec >&2; read -r line; kill $pid; wait $pid
            """
        let outside = """
            if [ "$(id -u)" = 0 ]; then map=; else map=--map-root-user; fi
            if unshare --mount $map true 2>/dev/null; then exec unshare --mount $map sh -c "$1" "$0"; fi
            exec sh -c "$1" "$0"
            """
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", outside, folder.appendingPathComponent("reader.conf.d").path, inside]
        process.standardInput = lifeline
        process.standardOutput = FileHandle(fileDescriptor: listening, closeOnDealloc: false)
        let errors = try FileHandle(forWritingTo: log)
        try errors.seekToEnd()
        process.standardError = errors
        try process.run()
        running.withLock { $0 = (process, lifeline) }
    }

    /// Ends it, and waits until it has ended.
    public func stop() {
        let ended = running.withLock { running in
            defer { running = nil }
            return running
        }
        guard let (process, lifeline) = ended else { return }
        try? lifeline.fileHandleForWriting.close()
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: folder)
    }

    private func listen() throws -> Int32 {
        unlink(socket)
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
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
        let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        return EmulatedCard.withAddress(port) { bind(descriptor, $0, $1) } == 0
    }
}
