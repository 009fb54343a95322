import GatewaySettings
import HealthReadings

/// `settings`: what is set where, and changes of it.
struct SettingsRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: SettingsOperation) async throws {
        let desk = SettingsDesk(gateway)
        switch operation {
        case .show:
            if json {
                try await output.data(try desk.document().text)
            } else {
                for line in try desk.lines() { try await output.data(line) }
                if try desk.isEdited(gateway.settings) {
                    try await output.note(
                        "\(gateway.settings.managed?.path ?? "") was edited since the gateway read it; "
                            + "`healthrelay settings reload` takes it in force")
                }
            }
        case .change(let change): try await tell(try await desk.change(change))
        case .reload: try await tell(try await desk.reload())
        }
    }

    private func tell(_ outcome: SettingsDesk.Outcome) async throws {
        for line in gateway.settingsInDoubt { try await output.note(line) }
        guard !json else { return try await output.data(outcome.document.text) }
        guard gateway.isService, !outcome.afterRestart.isEmpty else { return }
        try await output.note("After a restart of the gateway count: " + outcome.afterRestart.joined(separator: ", "))
    }
}
