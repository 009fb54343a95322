import Foundation
import Glibc

/// A socket without any protocol, with which a test is as bad a client as it likes.
final class Wire: Sendable {
    /// Longer than the gateway's own limits, however busy the machine is.
    static let patience: Duration = .seconds(60)

    private let descriptor: Int32

    /// Connects to a port of this machine.
    ///
    /// - Parameter receiveBuffer: how much the kernel takes for a client that does not read.
    init?(port: Int, receiveBuffer: Int32? = nil) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if var size = receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        guard Self.connect(descriptor, &address) else {
            close(descriptor)
            return nil
        }
    }

    /// Connects to a Unix socket.
    init?(path: String) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        guard Self.connect(descriptor, &address) else {
            close(descriptor)
            return nil
        }
    }

    deinit { close(descriptor) }

    private static func connect<Address>(_ descriptor: Int32, _ address: inout Address) -> Bool {
        let size = socklen_t(MemoryLayout<Address>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        return result == 0
    }

    /// Whether the server at this port of the machine has not closed the connection: what it has written and is not read
    /// hides that from the client.
    func isOpen(at port: Int) -> Bool {
        var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
        _ = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        let ends = [port, Int(in_port_t(bigEndian: address.sin_port))].map { String(format: "0100007F:%04X", $0) }
        // `String(contentsOfFile:)` reads the first 4 KiB of a file that says it is empty, as those of /proc do.
        let file = FileHandle(forReadingAtPath: "/proc/self/net/tcp")
        let table = (try? file?.readToEnd()).map { String(decoding: $0, as: UTF8.self) } ?? ""
        // The number, both ends and the state, in which 01 is ESTABLISHED.
        return table.contains(" \(ends[0]) \(ends[1]) 01 ")
    }

    /// Sends what the other side takes at once.
    ///
    /// - Returns: how many bytes it took; `nil` where it has closed.
    @discardableResult
    func send(_ octets: some Collection<UInt8>) -> Int? {
        let count = Array(octets).withUnsafeBytes {
            Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        if count >= 0 { return count }
        return errno == EAGAIN ? 0 : nil
    }

    @discardableResult
    func send(_ text: String) -> Int? { send(Array(text.utf8)) }

    /// Sends the same again and again until the other side closes or the time is over, and reads nothing.
    ///
    /// What the kernel took only a part of goes on where it stopped: a chunk that is cut would be a bad request instead.
    ///
    /// - Parameter pause: how long to wait between two times.
    func flood(
        _ octets: [UInt8], pause: Duration = .zero, for time: Duration = Wire.patience
    ) async -> (sent: Int, isClosed: Bool) {
        let end = ContinuousClock.now + time
        var (sent, rest) = (0, octets[...])
        while true {
            // On a busy machine the time may be over before the other side was looked at once more.
            let isOver = ContinuousClock.now >= end
            guard let count = send(rest) else { return (sent, true) }
            sent += count
            rest = count == rest.count ? octets[...] : rest.dropFirst(count)
            guard !isOver else { return (sent, false) }
            if pause > .zero || count == 0 { try? await Task.sleep(for: max(pause, .milliseconds(2))) }
        }
    }

    /// Reads until it is enough, the other side closes, or the time is over.
    func read(
        within time: Duration = Wire.patience, until isEnough: (String) -> Bool = { _ in false }
    ) async -> (text: String, isClosed: Bool) {
        let end = ContinuousClock.now + time
        var (text, part) = ("", [UInt8](repeating: 0, count: 65_536))
        while true {
            let isOver = ContinuousClock.now >= end
            let count = recv(descriptor, &part, part.count, 0)
            if count > 0 {
                text += String(decoding: part[..<count], as: UTF8.self)
                if isOver || isEnough(text) { return (text, false) }
                continue
            }
            guard count < 0, errno == EAGAIN else { return (text, true) }
            guard !isOver else { return (text, false) }
            try? await Task.sleep(for: .milliseconds(5))
        }
    }
}

/// This process's resident memory in bytes.
func residentMemory() -> Int {
    let statm = (try? String(contentsOfFile: "/proc/self/statm", encoding: .ascii)) ?? ""
    let fields = statm.split(separator: " ")
    return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
}

/// What `body` gives, or `nil` where it takes longer than `time`; it is cancelled then.
func within<Value: Sendable>(
    _ time: Duration, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: time)
            return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
    }
}
