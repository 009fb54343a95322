import Foundation

/// Stands for the kernel below `healthrelay-capture`: gives monitor messages on a UNIX socket, datagram by datagram.
///
/// Everything above the socket is the real thing: the kernel's filter and time stamps, the program, the pipes, the file.
final class MonitorServer {
    enum Failure: Error { case system(String, Int32), nobodyCame }

    let path: String
    private let listener: Int32
    private var connection: Int32 = -1

    init(_ scratch: Scratch) throws {
        path = scratch.url.appendingPathComponent("monitor").path
        listener = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let octets = Array(path.utf8)
        guard octets.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw Failure.system("the path is too long", 0)
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                bind(listener, $0.baseAddress, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        // The program gives up root before it connects in no case, but its folder may be root's alone.
        guard result == 0, chmod(path, 0o777) == 0, listen(listener, 1) == 0 else { throw Failure.system(path, errno) }
    }

    deinit {
        close(listener)
        end()
    }

    /// Ends the connection, as no kernel does.
    func end() {
        if connection >= 0 { close(connection) }
        connection = -1
    }

    /// Waits for the program.
    func accept() async throws {
        for _ in 0..<6000 {
            connection = Glibc.accept(listener, nil, nil)
            if connection >= 0 {
                _ = fcntl(connection, F_SETFL, O_NONBLOCK)
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                return
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Failure.nobodyCame
    }

    /// Sends messages, as fast as they are taken.
    func send(_ datagrams: [[UInt8]]) async throws {
        for datagram in datagrams {
            while Glibc.send(connection, datagram, datagram.count, Int32(MSG_NOSIGNAL)) < 0 {
                guard errno == EAGAIN else { throw Failure.system("send", errno) }
                try await Task.sleep(for: .milliseconds(1))
            }
        }
    }

    static func message(_ opcode: Int, adapter: Int = 0, _ octets: [UInt8]) -> [UInt8] {
        [opcode, adapter, octets.count].flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8 & 0xFF)] } + octets
    }
}

/// A btsnoop file of the Linux monitor, read by its description.
struct MonitorFile: Equatable {
    /// Each record's monitor message, as the kernel would send it.
    var datagrams: [[UInt8]] = []
    /// Each record's time in microseconds since the POSIX epoch.
    var times: [Int64] = []
    /// The octets are a head and whole records.
    var isWhole = false

    init(_ path: String) throws {
        let octets = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        guard octets.starts(with: Array("btsnoop\0".utf8) + [0, 0, 0, 1, 0, 0, 0x07, 0xD1]) else { return }
        func number(_ place: Int, _ count: Int) -> UInt64 {
            octets[place..<(place + count)].reduce(0) { $0 << 8 | UInt64($1) }
        }
        var place = 16
        while place + 24 <= octets.count {
            let length = Int(number(place + 4, 4))
            guard place + 24 + length <= octets.count else { return }
            let flags = Int(number(place + 8, 4))
            datagrams.append(
                MonitorServer.message(
                    flags & 0xFFFF, adapter: flags >> 16, Array(octets[(place + 24)..<(place + 24 + length)])))
            times.append(Int64(number(place + 16, 8)) - 0x00DC_DDB3_0F2F_8000)
            place += 24 + length
        }
        isWhole = place == octets.count
    }
}
