import GATTClient
import HealthReadings

/// What happens while a cuff measures because a person has told it to.
public enum MeasurementEvent: Sendable, Hashable {
    /// The cuff is connected and remembered.
    case began(Contact)
    /// The cuff is told to inflate now.
    case inflating
    /// The pressure in the cuff, for people to see: it is never stored, and never a reading.
    case pressure(Quantity)
    /// The cuff sent octets that cannot be understood; they are kept.
    case malformed(MalformedFrame)
}

extension MeterReader {
    /// Has a connected cuff measure, because a person asked for it, and disconnects.
    ///
    /// - Returns: the reading, which is durable.
    /// - Throws: see ``DevicesManager/measure(_:within:report:)``.
    func measure(
        _ peripheral: any Peripheral, connectedAt: Instant, clock: any Clock<Duration>,
        report: @escaping @Sendable (MeasurementEvent) async -> Void
    ) async throws -> Reading {
        do {
            let reading = try await measureConnected(peripheral, connectedAt, clock, report)
            await peripheral.disconnectSurely()
            return reading
        } catch {
            await peripheral.disconnectSurely()
            guard let error = error as? GATTError, error.saysBondIsMissing,
                let address = peripheral.advertisement.address, peripheral.advertisement.isPaired
            else { throw error }
            throw RadioError.forgottenByDevice(address)
        }
    }

    private func measureConnected(
        _ peripheral: any Peripheral, _ connectedAt: Instant, _ clock: any Clock<Duration>,
        _ report: @escaping @Sendable (MeasurementEvent) async -> Void
    ) async throws -> Reading {
        let characteristics = try await peripheral.characteristics()
        let facts = try await DeviceFacts(of: peripheral, characteristics)
        let device = try await describe(peripheral.advertisement, characteristics, facts)
        guard device.model.flatMap({ catalogue[$0] })?.measuresOnCommand == true,
            let link = QardioLink(peripheral, characteristics)
        else { throw ContactFailure.cannotMeasure(peripheral.advertisement.address) }
        let contact = try await memory.beginContact(
            with: device, at: connectedAt, clock: facts.clock, batteryPercent: facts.batteryPercent)
        try await leaveIfBarred(contact, peripheral.advertisement)
        await report(.began(contact))
        var intake = FrameIntake(contact: contact, journal: journal) { _ in }
        var summary = ContactSummary(isComplete: true, received: 0)
        let result: Result<Reading, any Error>
        do {
            let measurement = QardioMeasurement(link: link, clock: clock, report: report)
            result = .success(try await measurement.run(into: &intake))
            summary.received = 1
        } catch {
            summary.isComplete = false
            summary.error = ContactFailure(error).code
            result = .failure(error)
        }
        let (memory, end) = (memory, summary)
        try await shieldedFromCancellation { try await memory.endContact(contact, end) }
        if case .success = result, peripheral.advertisement.isPaired { await note(.proven, peripheral.advertisement) }
        return try result.get()
    }
}
