import CMosquitto
import Glibc

/// The library's state that all connections share.
enum MosquittoLibrary {
    /// Prepares the library. The first call does the work; others wait for it.
    static func prepare() { _ = isPrepared }

    private static let isPrepared: Bool = {
        mosquitto_lib_init()
        prepareTLS()
        return true
    }()

    /// Has the library set up what its TLS connections share.
    ///
    /// It does so with the first TLS connection, and not safely if two threads make theirs at the same time. So the first
    /// one goes to a socket of our own, which never answers.
    private static func prepareTLS() {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard listener >= 0 else { return }
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isListening, let handle = mosquitto_new("prepare", true, nil) else { return }
        defer { mosquitto_destroy(handle) }
        mosquitto_int_option(handle, MOSQ_OPT_TLS_USE_OS_CERTS, 1)
        mosquitto_connect(handle, "127.0.0.1", Int32(UInt16(bigEndian: address.sin_port)), 60)
    }
}
