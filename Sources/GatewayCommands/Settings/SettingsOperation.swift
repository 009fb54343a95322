import GatewaySettings

/// The arguments of `settings`.
public enum SettingsOperation: Codable, Sendable, Hashable {
    /// Each setting with its value and where it is set.
    case show
    /// Changes what the gateway itself may set.
    case change(SettingsChange)
    /// Reads the files of settings again.
    case reload
}
