import GatewayCommands

/// The program's version.
enum Version {
    static let current = GatewayVersion.current
}
