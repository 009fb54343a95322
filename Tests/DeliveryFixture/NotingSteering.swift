import FleetDelivery
import FleetDocuments

/// Notes what it is given, and says that it has applied it.
package actor NotingSteering: FleetSteering {
    package private(set) var taken: [FleetConfiguration] = []
    package private(set) var signs: [FleetSign] = []

    package init() {}

    package func state() -> FleetConfigurationState {
        FleetConfigurationState(
            version: taken.last?.version, applied: taken.last?.version, state: taken.isEmpty ? .none : .applied)
    }

    package func take(_ wanted: FleetConfiguration) -> Bool {
        guard wanted.version > taken.last?.version ?? 0 else { return false }
        taken.append(wanted)
        return true
    }

    package func heard(_ sign: FleetSign) { signs.append(sign) }
}
