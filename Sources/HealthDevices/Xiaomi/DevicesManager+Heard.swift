import GATTClient
import HealthReadings
import Logging

extension DevicesManager {
    /// How long the impedance is waited for that follows a weight.
    static let impedanceTime: Duration = .seconds(20)

    /// Of these devices those that are never connected.
    func devicesOnlyHeard(_ addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> {
        let known = try await pairings.pairings().byAddress
        return addresses.filter { model(of: $0, among: known)?.isOnlyHeard == true }
    }

    /// Whether a device is never connected.
    func isOnlyHeard(_ address: DeviceAddress) async throws -> Bool {
        try await pairings.model(of: address).flatMap { catalogue[$0] }?.isOnlyHeard == true
    }

    /// Stores the measurement that a scale advertises, when nobody else is at it.
    func takeMeasurement(
        in advertisement: Advertisement, of address: DeviceAddress,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws {
        try await turns.inTurn(address) { _ = try await take(advertisement, of: address, report: report) }
    }

    /// Waits for the next measurement of a scale, and for the impedance that belongs to it.
    func hearMeasurement(
        of address: DeviceAddress, within timeout: Duration, _ transfer: SharedTransfer,
        _ report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        let told: @Sendable (TransferEvent) async -> Void = { event in
            transfer.note(event)
            await report(event)
        }
        let first = try await clock.limit(timeout) { [radio] in
            for try await advertisement in radio.advertisements(of: [address]) {
                if let taken = try await take(advertisement, of: address, report: told), taken.isNew { return taken }
            }
            try Task.checkCancellation()
            throw RadioError.lost
        }
        guard let first else {
            throw ContactFailure(
                code: "no_measurement", description: "\(address) has shown no new measurement within \(timeout)",
                hint: "step onto the scale while the command waits, and stay until it shows the weight")
        }
        guard !first.isFinal else { return first.summary }
        _ = try await clock.limit(Self.impedanceTime) { [radio] in
            do {
                for try await advertisement in radio.advertisements(of: [address]) {
                    let said = XiaomiScale.measurement(in: advertisement)?.measurement
                    _ = try await take(advertisement, of: address, report: told)
                    if said?.isRemoved == true || said?.impedance != nil { return }
                }
            } catch let error as RadioError {
                logger.debug("a scale is heard no longer: \(error)")
            }
        }
        return first.summary
    }

    private struct Taken: Sendable {
        let summary: ContactSummary
        /// Whether a reading came of it that was not stored before.
        let isNew: Bool
        /// Whether no impedance follows.
        let isFinal: Bool
    }

    /// - Returns: `nil` where nothing is new in it.
    private func take(
        _ advertisement: Advertisement, of address: DeviceAddress,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> Taken? {
        guard let said = XiaomiScale.measurement(in: advertisement), try await isPaired(advertisement) else {
            return nil
        }
        let news = heardMeasurements.news(in: said, of: address)
        guard news != .nothing else { return nil }
        let measurement = said.measurement
        // A person who stands on the scale has been weighed just now: its clock shows this moment.
        var clock: ClockReading?
        if news == .measurement, let measurement, !measurement.isRemoved, let time = measurement.time {
            clock = ClockReading(deviceTime: time, readAt: advertisement.seenAt)
        }
        let (reader, shown) = (reader, clock)
        let (summary, isNew) = try await shieldedFromCancellation {
            try await reader.store(said, of: advertisement, clock: shown, report: report)
        }
        heardMeasurements.note(said, of: address)
        let isFinal = said.format == .xiaomiWeight || measurement?.impedance != nil || measurement?.isRemoved != false
        return Taken(summary: summary, isNew: isNew, isFinal: isFinal)
    }
}

extension MeterReader {
    /// Stores what a scale advertises. Nothing is connected: the contact is the advertisement.
    ///
    /// - Parameter clock: what the scale's clock shows, where that follows from the advertisement.
    /// - Returns: the contact's summary, and whether a reading came of it that was not stored before.
    fileprivate func store(
        _ said: XiaomiScale.Said, of advertisement: Advertisement, clock: ClockReading?,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> (ContactSummary, Bool) {
        let device = try await describe(advertisement)
        let contact = try await memory.beginContact(
            with: device, at: advertisement.seenAt, clock: clock, batteryPercent: nil)
        try await leaveIfBarred(contact, advertisement)
        await report(.began(contact))
        var intake = FrameIntake(contact: contact, journal: journal, report: report)
        do {
            try await intake.take(said.payload, as: said.format, isRecord: true, receivedAt: advertisement.seenAt)
        } catch {
            let summary = ContactSummary(isComplete: false, error: ContactFailure(error).code, received: 0)
            try? await memory.endContact(contact, summary)
            throw error
        }
        let summary = ContactSummary(isComplete: true, received: intake.received)
        try await memory.endContact(contact, summary)
        await report(.ended(summary))
        return (summary, intake.stored > 0)
    }
}
