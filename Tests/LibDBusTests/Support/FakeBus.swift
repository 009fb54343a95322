import Foundation

@testable import LibDBus

/// The other end of a socket, which says what a test wants it to say, whether a bus would or not. Each connection has a
/// thread of its own: nothing here holds one of the tasks' threads.
final class FakeBus: Sendable {
    enum Broken: Error { case ended }

    /// Where it listens.
    let address: String
    private let folder: URL
    private let listener: Int32

    init(_ script: @escaping @Sendable (Peer) throws -> Void) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("fake-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appendingPathComponent("socket").path
        address = "unix:path=\(path)"
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
        let descriptor = listener
        let isBound = withUnsafePointer(to: &name) { name in
            name.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0 && listen(descriptor, 8) == 0
            }
        }
        guard isBound else { throw Broken.ended }
        Thread.detachNewThread {
            while true {
                let accepted = accept(descriptor, nil, nil)
                if accepted < 0 {
                    close(descriptor)
                    return
                }
                Thread.detachNewThread {
                    try? script(Peer(socket: accepted))
                    close(accepted)
                }
            }
        }
    }

    deinit {
        // Its thread closes it: a number that is free is soon another's.
        shutdown(listener, Int32(SHUT_RDWR))
        try? FileManager.default.removeItem(at: folder)
    }

    /// One connection, seen from the bus.
    struct Peer {
        let socket: Int32

        func send(_ octets: [UInt8]) throws {
            var rest = octets[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { throw Broken.ended }
                rest = rest.dropFirst(count)
            }
        }

        func send(_ message: borrowing OwnedMessage, from sender: String = "org.freedesktop.DBus") throws {
            try send(RawMessage.octets(of: message, from: sender))
        }

        func read(_ count: Int) throws -> [UInt8] {
            var octets = [UInt8](repeating: 0, count: count)
            var filled = 0
            while filled < count {
                let got = octets.withUnsafeMutableBytes {
                    recv(socket, $0.baseAddress.map { $0 + filled }, count - filled, 0)
                }
                guard got > 0 else { throw Broken.ended }
                filled += got
            }
            return octets
        }

        /// Lets the client in: SASL up to BEGIN.
        func authenticate() throws {
            _ = try read(1)
            while true {
                var line: [UInt8] = []
                while line.suffix(2) != [13, 10] { line += try read(1) }
                let text = String(decoding: line, as: UTF8.self)
                if text.hasPrefix("BEGIN") { return }
                let answer =
                    text.hasPrefix("AUTH EXTERNAL")
                    ? "OK 0123456789abcdef0123456789abcdef"
                    : text.hasPrefix("NEGOTIATE_UNIX_FD") ? "AGREE_UNIX_FD" : "REJECTED EXTERNAL"
                try send(Array((answer + "\r\n").utf8))
            }
        }

        /// The next message's serial number and octets.
        func next() throws -> (serial: UInt32, octets: [UInt8]) {
            let head = try read(16)
            func word(_ at: Int) -> Int { (0..<4).reduce(0) { $0 | Int(head[at + $1]) << (8 * $1) } }
            let rest = try read((word(12) + 7) & ~7 + word(4))
            return (UInt32(word(8)), head + rest)
        }

        /// Lets the client in and answers its greeting.
        func greet() throws {
            try authenticate()
            try answer([.string(":1.1")])
        }

        /// Answers the next message.
        func answer(_ values: [DBusValue]) throws {
            let call = try next()
            try send(try OwnedMessage.reply(to: ReplyAddress(sender: ":1.1", serial: call.serial), values))
        }

        /// Answers what comes by the name of the method; nil: without an answer.
        func serve(_ answer: (String) throws -> [DBusValue]?) throws {
            while true {
                let call = try next()
                let member = RawMessage.read(call.octets) { DBusSignal($0.pointer).member } ?? ""
                if let values = try answer(member) {
                    try send(try OwnedMessage.reply(to: ReplyAddress(sender: ":1.1", serial: call.serial), values))
                }
            }
        }

        /// Waits until the client has gone.
        func drain() throws {
            while true { _ = try read(1) }
        }
    }
}
