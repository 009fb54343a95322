import Foundation

/// Ports on 127.0.0.1.
package enum TCPPort {
    /// A port that nobody listens on.
    package static func free() throws -> UInt16 {
        let listener = try ListeningSocket(on: 0)
        return listener.port
    }

    /// Whether somebody listens on a port.
    package static func isOpen(_ port: UInt16) -> Bool {
        guard let connection = connect(to: port) else { return false }
        close(connection)
        return true
    }

    /// A connection to a port; `nil` if nobody listens there.
    static func connect(to port: UInt16) -> Int32? {
        let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard connection >= 0 else { return nil }
        let isConnected = withAddress(port) { Foundation.connect(connection, $0, $1) == 0 }
        if isConnected { return connection }
        close(connection)
        return nil
    }

    static func withAddress<Result>(
        _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}

/// A socket that listens on 127.0.0.1, closed with the last reference.
package final class ListeningSocket: Sendable {
    package let port: UInt16
    private let descriptor: Int32

    /// - Parameter port: 0 for any.
    package init(on port: UInt16) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var (isReused, address): (Int32, sockaddr_in) = (1, sockaddr_in())
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<Int32>.size))
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = TCPPort.withAddress(port) { bind(descriptor, $0, $1) == 0 } && listen(descriptor, 16) == 0
        let isKnown = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
        }
        guard isBound, isKnown else {
            close(descriptor)
            throw Failed("cannot listen on port \(port): \(String(cString: strerror(errno)))")
        }
        self.descriptor = descriptor
        self.port = UInt16(bigEndian: address.sin_port)
    }

    deinit { close(descriptor) }

    /// The next connection; `nil` when there will be none any more.
    package func accept() -> Int32? {
        let connection = Foundation.accept(descriptor, nil, nil)
        return connection < 0 ? nil : connection
    }

    /// Lets nobody in any more: whoever waits in ``accept()`` gets `nil`.
    package func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
