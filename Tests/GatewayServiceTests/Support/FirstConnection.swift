import Foundation
import GatewayCommands
import GatewaySettings
import VitalClient

extension VitalConnection {
    /// Where the settings' first destination is.
    init?(
        _ settings: Settings, state: String, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws {
        guard let destination = settings.destinations.first else { return nil }
        try self.init(destination, state: state, environment: environment)
    }
}
