import GATTClient
import HealthReadings

extension DevicesManager {
    /// Has a cuff measure that does so only when it is told to: **it inflates around somebody's arm.**
    ///
    /// Call this only for a person who has just asked for it and has the cuff on. Nothing else in the library starts a
    /// cuff: not ``read(_:within:allRecords:report:)``, not pairing, and not ``MeterSchedule``. The cuff is told to
    /// start once; where that fails, or the link is lost, nobody starts it again. Whatever ends the measurement before its
    /// result, cancellation too, tells the cuff to let the air out before this throws.
    ///
    /// - Parameters:
    ///   - address: the cuff's address; it has to be paired.
    ///   - timeout: how long the cuff may take to be heard and connected. Keep it short, so that the person is still
    ///     there when it inflates.
    ///   - report: told what happens, in order. Measuring goes on when it returns, so a report that blocks delays the
    ///     stop too: let it return at once.
    /// - Returns: the reading, which is durable.
    /// - Throws: ``ContactFailure`` (`cannot_measure`, `qardio_cuff_too_loose`, `qardio_body_movement`,
    ///   `qardio_no_result`, `qardio_ended_early`, `qardio_silent`, `qardio_too_long`, `qardio_link_lost`),
    ///   `RadioError`, `GATTError`, an error of the journal or the memory, and `CancellationError`.
    @discardableResult public func measure(
        _ address: DeviceAddress, within timeout: Duration = .seconds(60),
        report: @escaping @Sendable (MeasurementEvent) async -> Void = { _ in }
    ) async throws -> Reading {
        guard let bond = try await bonded(address) else { throw RadioError.notBonded(address) }
        guard try await !isBarred(bond) else { throw ContactFailure.barred(bond) }
        if let model = try await pairings.model(of: bond).flatMap({ catalogue[$0] }), !model.measuresOnCommand {
            throw ContactFailure.cannotMeasure(bond)
        }
        let elapsed = clock.stopwatch()
        return try await inTurn(bond) {
            do {
                let (peripheral, connectedAt) = try await connect(bond, within: timeout, elapsed)
                return try await reader.measure(peripheral, connectedAt: connectedAt, clock: clock, report: report)
            } catch RadioError.forgottenByDevice(let address) {
                try await pairings.notePairing(of: DeviceDescription(address: bond), as: .paired)
                throw RadioError.forgottenByDevice(address)
            }
        }
    }

    /// Whether a device gives a reading only when it is told to measure, as far as is remembered of it.
    ///
    /// - Throws: the memory's error.
    public func measuresOnCommand(_ address: DeviceAddress) async throws -> Bool {
        try await pairings.pairings(like: address).first?.device.model.flatMap { catalogue[$0] }?.measuresOnCommand
            == true
    }

    /// Waits for a device and connects it; tries again where connecting fails. Nothing is asked of the device yet.
    private func connect(
        _ bond: DeviceAddress, within timeout: Duration, _ elapsed: @Sendable () -> Duration
    ) async throws -> (any Peripheral, connectedAt: Instant) {
        while true {
            let peripheral = try await radio.peripheral(bond, within: max(timeout - elapsed(), .zero))
            // Whoever had the turn before may have removed the bond.
            guard try await isPaired(peripheral.advertisement) else { throw RadioError.notBonded(bond) }
            do {
                let connectedAt = try await peripheral.connect()
                // The person who asked may be gone.
                guard elapsed() <= timeout else { throw RadioError.notSeen(bond, within: timeout) }
                return (peripheral, connectedAt)
            } catch {
                await peripheral.disconnectSurely()
                guard Self.mayConnectLater(error), elapsed() < timeout else { throw error }
                try await clock.sleep(for: Self.reconnectPause)
            }
        }
    }
}
