import GatewaySettings
import HealthDevices

extension Doctor {
    /// The entries of the settings that do nothing; `nil` if there are none.
    func settingsCheck() -> DoctorCheck? {
        let lines = settings.entriesWithoutEffect(Catalogue())
        guard !lines.isEmpty else { return nil }
        return .good(
            "settings", lines.joined(separator: "; "),
            mend: "correct them or take them out: `healthrelay catalog` lists the models")
    }
}
