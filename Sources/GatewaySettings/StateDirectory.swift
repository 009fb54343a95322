import Foundation

/// Where a gateway keeps its store and its control socket.
public struct StateDirectory: Sendable, Hashable {
    /// The directory of the store.
    public let path: String
    /// The control socket of the gateway that owns it.
    public let socket: String
    /// The socket's mode: the owner's alone, or for a service its group's too, which the service manager chose.
    package let socketMode: mode_t

    /// The socket and store of the system's service.
    public static let service = StateDirectory(
        path: "/var/lib/healthrelay", socket: "/run/healthrelay/control.sock", socketMode: 0o660)

    private init(path: String, socket: String, socketMode: mode_t) {
        self.path = path
        self.socket = socket
        self.socketMode = socketMode
    }

    /// The directory for a flag's value; without one the environment's, else the person's own.
    ///
    /// Environment: `HEALTHRELAY_STATE_DIR`, systemd's `STATE_DIRECTORY`, `XDG_STATE_HOME`, `HOME`; an empty one counts as
    /// not set.
    public init(flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment) {
        let environment = environment.filter { !$0.value.isEmpty }
        if let systemd = environment["STATE_DIRECTORY"], flag == nil, environment["HEALTHRELAY_STATE_DIR"] == nil {
            // Of several, the first is the store's (systemd.exec(5)).
            let path = String(systemd.prefix { $0 != ":" })
            guard let runtime = environment["RUNTIME_DIRECTORY"]?.prefix(while: { $0 != ":" }) else {
                self.init(path: path, socket: path + "/control.sock", socketMode: 0o600)
                return
            }
            self.init(path: path, socket: runtime + "/control.sock", socketMode: 0o660)
            return
        }
        let personal =
            (environment["XDG_STATE_HOME"] ?? (environment["HOME"] ?? "/root") + "/.local/state") + "/healthrelay"
        var path = flag ?? environment["HEALTHRELAY_STATE_DIR"] ?? personal
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        self.init(path: path, socket: path + "/control.sock", socketMode: 0o600)
    }
}
