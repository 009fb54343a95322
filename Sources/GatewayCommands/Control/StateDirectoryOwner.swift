import Foundation
import GatewaySettings
import HealthReadings

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

    /// What there is where the system's service is to run: its manager, and the link of a unit that is enabled.
    package static let enabledService = [
        "/run/systemd/system", "/etc/systemd/system/multi-user.target.wants/healthrelay.service",
    ]

    /// Why a command must not open a store of the person's own: it names none, and so means that of the system's service,
    /// which does not answer. What a person adds or reads meanwhile would lie where the service never looks.
    ///
    /// - Parameters:
    ///   - flag: the directory that the command names.
    ///   - environment: the environment, which may name one.
    ///   - marks: the paths that are all there if the service is enabled.
    /// - Returns: `nil` where a store is named, or the service is not enabled.
    package static func absentService(
        flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment,
        marks: [String] = enabledService
    ) -> Problem? {
        let names = [flag, environment["HEALTHRELAY_STATE_DIR"], environment["STATE_DIRECTORY"]]
        guard names.allSatisfy({ $0?.isEmpty ?? true }) else { return nil }
        guard marks.allSatisfy({ lookupError(at: $0) == 0 }) else { return nil }
        return Problem(
            "not_running", .unavailable, "the gateway's service is enabled and does not answer, so nothing was done",
            hint:
                "`systemctl status healthrelay` says why; name the store with --state-dir to use it meanwhile, or another"
        )
    }

    /// Refuses what has to open the store itself where a gateway owns it, or where it is that of a service which does not
    /// answer.
    ///
    /// - Parameters:
    ///   - flag: the directory that the command names.
    ///   - environment: the environment, which may name one.
    ///   - marks: the paths that are all there if the service is enabled.
    /// - Throws: `Problem` with status 75 or 69, or 77 where this user may not speak to the gateway.
    package static func requireNoOwner(
        flag: String?, environment: [String: String] = ProcessInfo.processInfo.environment,
        marks: [String] = enabledService
    ) throws {
        if let owner = try owner(flag: flag, environment: environment) {
            let process = owner.process.map { " (process \($0))" } ?? ""
            throw Problem(
                "gateway_running", .tryAgain, "a gateway is running on this store\(process); nothing was done",
                hint: "stop the gateway first, or name another store with --state-dir")
        }
        if let absence = absentService(flag: flag, environment: environment, marks: marks) { throw absence }
    }
}
