/// Why a sandbox could not start.
public enum SandboxError: Error, Equatable, CustomStringConvertible {
    /// Another process listens on that port of 127.0.0.1.
    case portInUse(port: Int)
    /// The address could not be bound for another reason.
    case cannotListen(port: Int, reason: String)
    /// The data folder or the database in it could not be opened or created.
    case cannotOpenStorage(path: String, reason: String)
    /// The folder for recorded bodies could not be created.
    case cannotRecord(path: String, reason: String)
    /// The server ended before it was listening.
    case stopped

    /// One line that says what to do.
    public var description: String {
        switch self {
        case .portInUse(let port):
            "port \(port) on 127.0.0.1 is in use: choose another with --port, or 0 for a free one"
        case .cannotListen(let port, let reason): "cannot listen on 127.0.0.1:\(port): \(reason)"
        case .cannotOpenStorage(let path, let reason): "cannot open the sandbox's data at \(path): \(reason)"
        case .cannotRecord(let path, let reason): "cannot record request bodies in \(path): \(reason)"
        case .stopped: "the sandbox server stopped before it was listening"
        }
    }
}
