import Foundation
import GatewaySettings

extension StateDirectory {
    /// The client of the gateway that owns the store a command means: the service where no directory was named and it
    /// answers, else the owner of this directory; nil where nobody owns it.
    /// - Throws: `Problem` with status 77 where this user may not speak to it.
    public static func owner(
        flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws -> ControlClient? {
        if flag == nil, environment["HEALTHRELAY_STATE_DIR"]?.isEmpty ?? true,
            let client = try ControlClient(socket: service.socket)
        {
            return client
        }
        return try ControlClient(socket: StateDirectory(flag: flag, environment: environment).socket)
    }
}
