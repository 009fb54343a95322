import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore

extension Doctor {
    /// Whether the gateway trusts its clock, and who says that the clock is synchronised.
    ///
    /// Many honest machines never report synchronisation, virtual ones above all: that alone is said and no fault.
    func clockCheck() async -> DoctorCheck {
        let now = Instant.systemClock.flooredToSecond
        if let doubt = await clock.doubt() {
            return .bad("clock", .configuration, "it shows \(now), and \(doubt)", mend: doubt.mend)
        }
        var aside = ""
        if case .success(let store?) = store, let found = try? await store.contactsSetAside() {
            aside =
                "; \(found.count) contacts began under a wrong clock, up to \(found.newest.flooredToSecond): the times of "
                + "their readings may be wrong"
        }
        guard let evidence = await clock.evidence() else {
            return .good(
                "clock", "\(now); the kernel does not report it as synchronised" + aside,
                mend: "if nothing else keeps it right: `timedatectl set-ntp true`")
        }
        return .good("clock", "\(now), synchronised (\(evidence.words))" + aside)
    }

    /// When the program's file was made; nil where it cannot be seen.
    static var programTime: Instant? { modificationTime(ofFileAt: "/proc/self/exe")?.flooredToSecond }
}
