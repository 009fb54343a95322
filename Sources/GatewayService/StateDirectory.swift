import Foundation

/// Where a gateway keeps its store and its control socket.
public struct StateDirectory: Sendable, Hashable {
    /// The directory of the store.
    public let path: String
    /// The control socket of the gateway that owns it.
    public let socket: String

    /// The socket and store of the system's service.
    public static let service = StateDirectory(path: "/var/lib/healthrelay", socket: "/run/healthrelay/control.sock")

    private init(path: String, socket: String) {
        self.path = path
        self.socket = socket
    }

    /// The directory for a flag's value; without one the environment's, else the person's own.
    ///
    /// Environment: `HEALTHRELAY_STATE_DIR`, systemd's `STATE_DIRECTORY`, `XDG_STATE_HOME`, `HOME`.
    public init(flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment) {
        if let systemd = environment["STATE_DIRECTORY"], flag == nil, environment["HEALTHRELAY_STATE_DIR"] == nil {
            let runtime = environment["RUNTIME_DIRECTORY"] ?? systemd
            self.init(path: systemd, socket: runtime + "/control.sock")
            return
        }
        let personal =
            (environment["XDG_STATE_HOME"] ?? (environment["HOME"] ?? "/root") + "/.local/state") + "/healthrelay"
        var path = flag ?? environment["HEALTHRELAY_STATE_DIR"] ?? personal
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        self.init(path: path, socket: path + "/control.sock")
    }

    /// The client of the gateway that owns the store a command means: the service where no directory was named and it
    /// answers, else the owner of this directory; nil where nobody owns it.
    /// - Throws: ``Problem`` with status 77 where this user may not speak to it.
    public static func owner(
        flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws -> ControlClient? {
        if flag == nil, environment["HEALTHRELAY_STATE_DIR"] == nil,
            let client = try ControlClient(socket: service.socket)
        {
            return client
        }
        return try ControlClient(socket: StateDirectory(flag: flag, environment: environment).socket)
    }
}
