import HealthReadings
import LibDBus
import Logging
import ServiceLifecycle

/// Tells the local network of the gateway (`_healthsync._tcp`, DNS-SD), through Avahi where it runs.
///
/// A gateway that only this machine can reach is not announced. Nothing polls: where Avahi is not there at the start or
/// goes away, it is tried again when its name on the bus has an owner.
struct ServiceAnnouncement: Service {
    /// The service's type, as the iOS Health Sync app announces itself.
    static let type = "_healthsync._tcp"
    private static let avahi = "org.freedesktop.Avahi"
    private static let server = "org.freedesktop.Avahi.Server"
    private static let group = "org.freedesktop.Avahi.EntryGroup"

    let bus: DBusAddress
    /// The port, once it is known.
    let port: @Sendable () -> Int
    let name: String
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            let connection = try await DBusConnection.open(bus)
            do {
                try await announce(on: connection)
            } catch {
                logger.debug("the network is not told of this gateway", metadata: ["error": "\(error)"])
            }
            await connection.close()
        }
        try? await gracefulShutdown()
    }

    /// Announces, and keeps the connection for as long as it is to stand: Avahi drops what its client leaves behind.
    private func announce(on connection: DBusConnection) async throws {
        let owners = try await connection.signals(
            DBusMatch(
                sender: "org.freedesktop.DBus", interface: "org.freedesktop.DBus", member: "NameOwnerChanged",
                arg0: Self.avahi)
        ) { _ in true }
        try? await register(on: connection)
        for try await _ in owners { try? await register(on: connection) }
    }

    private func register(on connection: DBusConnection) async throws {
        let answer = try await connection.call(Self.avahi, "/", Self.server, "EntryGroupNew")
        guard case .objectPath(let path)? = answer.first else { return }
        _ = try await connection.call(
            Self.avahi, path, Self.group, "AddService",
            [
                .int32(-1), .int32(-1), .uint32(0), .string(name), .string(Self.type), .string(""), .string(""),
                .uint16(UInt16(clamping: port())),
                .array([.bytes(Array("version=1".utf8)), .bytes(Array("path=/api/v1".utf8))], of: "ay"),
            ])
        _ = try await connection.call(Self.avahi, path, Self.group, "Commit")
        logger.info("the local network is told of this gateway", metadata: ["service": "\(Self.type)"])
    }
}
