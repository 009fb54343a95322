import FleetDocuments

/// Applies the settings that a fleet's centre wants, and takes them back if the gateway cannot deliver with them.
public protocol FleetSteering: Sendable {
    /// What became of the newest configuration.
    func state() async -> FleetConfigurationState

    /// Takes a configuration: applies its settings, or refuses them. A version that is not newer changes nothing.
    ///
    /// - Returns: whether the state is another one now.
    func take(_ wanted: FleetConfiguration) async -> Bool

    /// Notes that the centre has answered: settings on trial may be good.
    func heard(_ sign: FleetSign) async
}

/// What the centre has answered.
public enum FleetSign: Sendable, Hashable {
    /// It answered a hello or a status.
    case answer
    /// It sent a receipt: readings are delivered.
    case receipt
}

extension FleetConfigurationState {
    /// The state after a configuration that a gateway without ``FleetSteering`` got.
    static func refusing(_ wanted: FleetConfiguration) -> FleetConfigurationState {
        FleetConfigurationState(
            version: wanted.version, state: .refused,
            refused: wanted.refused
                + wanted.settings.keys.sorted().map {
                    FleetConfiguration.Refusal(key: $0, reason: "this gateway takes no settings from this centre")
                })
    }
}

/// Refuses every configuration: for gateways that another centre configures, and for programs that have no settings.
public actor FleetRefusal: FleetSteering {
    private var current = FleetConfigurationState()

    /// Creates it.
    public init() {}

    /// What became of the newest configuration.
    public func state() -> FleetConfigurationState { current }

    /// Refuses a configuration.
    public func take(_ wanted: FleetConfiguration) -> Bool {
        guard wanted.version > current.version ?? 0 else { return false }
        current = .refusing(wanted)
        return true
    }

    /// Does nothing.
    public func heard(_ sign: FleetSign) {}
}
