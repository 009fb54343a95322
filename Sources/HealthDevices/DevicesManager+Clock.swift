import GATTClient
import HealthReadings

extension DevicesManager {
    /// Sets a paired device's clock. Nothing else ever does, except for devices that want it at each connection and
    /// whose owner has ordered it.
    ///
    /// Records are not read. Those that were made by the old clock and are read later are placed by the old clock.
    ///
    /// - Parameters:
    ///   - address: the device; it has to be paired.
    ///   - timeout: how long the device may take to be heard.
    ///   - wallTime: what a clock in the zone of the device's person shows at an instant.
    /// - Throws: `RadioError`; ``ContactFailure``: `clock_cannot_be_set` where it has no such clock, `clock_refused`
    ///   where it does not let it be set, ``ContactFailure/barred(_:)``; the memory's error.
    public func setClock(
        of address: DeviceAddress, within timeout: Duration = .seconds(60),
        wallTime: @escaping @Sendable (Instant) -> WallTime
    ) async throws -> ClockSetting {
        guard let bond = try await bonded(address) else { throw RadioError.notBonded(address) }
        guard try await !isBarred(bond) else { throw ContactFailure.barred(bond) }
        guard try await !isOnlyHeard(bond) else {
            throw ContactFailure(
                code: "clock_cannot_be_set",
                description: "the device is never connected, so that its clock cannot be set",
                hint: "set it with the maker's app")
        }
        return try await inTurn(bond) {
            let peripheral = try await radio.peripheral(bond, within: timeout)
            return try await reader.setClock(of: peripheral, wallTime: wallTime)
        }
    }
}
