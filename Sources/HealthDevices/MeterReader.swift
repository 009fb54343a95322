import GATTClient
import GATTProfiles
import HealthReadings
import Logging

/// Reads a meter, live or replayed: the one way frames come from a peripheral.
///
/// A contact is: connect, ask the device who it is and what its clock shows, remember that, take its records, stop
/// notifications, disconnect. Whatever came before an error is durable.
public struct MeterReader: Sendable {
    private let journal: any FrameJournal
    private let memory: any DeviceMemory
    private let catalogue: Catalogue
    private let provider: @Sendable (DeviceModel) -> String
    private let model: String?
    private let logger: Logger

    /// Makes a reader.
    ///
    /// - Parameters:
    ///   - provider: the server's provider slug for a model; the catalogue's where not given.
    ///   - model: the catalogue id to read every device as; found from the advertisement where nil.
    public init(
        journal: any FrameJournal, memory: any DeviceMemory, catalogue: Catalogue = Catalogue(),
        provider: @escaping @Sendable (DeviceModel) -> String = { $0.provider }, model: String? = nil,
        logger: Logger = Logger(label: "healthrelay.reader")
    ) {
        self.journal = journal
        self.memory = memory
        self.catalogue = catalogue
        self.provider = provider
        self.model = model
        self.logger = logger
    }

    /// Reads what is new on a peripheral.
    ///
    /// - Returns: how the contact ended. A partial transfer is not an error here but in the summary: what came is kept.
    /// - Throws: what went wrong before the contact could begin, and a journal's failure.
    @discardableResult
    public func read(
        _ peripheral: any Peripheral, report: @escaping @Sendable (TransferEvent) async -> Void = { _ in }
    ) async throws -> ContactSummary {
        let connectedAt = try await peripheral.connect()
        do {
            let summary = try await read(peripheral, connectedAt: connectedAt, report: report)
            await peripheral.disconnect()
            return summary
        } catch {
            await peripheral.disconnect()
            throw error
        }
    }

    private func read(
        _ peripheral: any Peripheral, connectedAt: Instant, report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        let characteristics = try await peripheral.characteristics()
        let facts = try await DeviceFacts(of: peripheral, characteristics)
        var advertisement = peripheral.advertisement
        advertisement.services += characteristics.compactMap(\.service)
        // A handle map names characteristics without their service.
        if characteristics.contains(where: { $0.uuid == GlucoseTransfer.measurement }) { advertisement.services.append(0x1808) }
        if characteristics.contains(where: { $0.uuid == CuffTransfer.measurement }) { advertisement.services.append(0x1810) }
        let entry = model.flatMap { catalogue[$0] } ?? catalogue.model(for: advertisement)
        let device = DeviceDescription(
            address: advertisement.address, model: entry?.id, serial: facts.serial, name: advertisement.name,
            provider: entry.map(provider) ?? "manual")
        let contact = try await memory.beginContact(
            with: device, at: connectedAt, clock: facts.clock, batteryPercent: facts.batteryPercent)
        await report(.began(contact))

        var intake = FrameIntake(contact: contact, journal: journal, report: report)
        var announced: Int?
        var failure: (any Error)?
        do {
            if characteristics.contains(where: { $0.uuid == GlucoseTransfer.measurement }) {
                let transfer = GlucoseTransfer(peripheral: peripheral, characteristics: characteristics)
                announced = try await transfer.run(into: &intake, memory: memory)
            } else {
                try await CuffTransfer(peripheral: peripheral, characteristics: characteristics).run(into: &intake)
            }
        } catch {
            failure = error
        }
        let summary = ContactSummary(
            isComplete: failure == nil, error: failure.map(Self.code), announced: announced,
            received: intake.received, gaps: intake.gaps)
        try await memory.endContact(contact, summary)
        await report(.ended(summary))
        switch failure {
        case nil, is TransferError, is GATTError: return summary
        case let failure?: throw failure
        }
    }

    private static func code(_ error: any Error) -> String {
        switch error {
        case let error as TransferError: error.code
        case let error as GATTError:
            switch error {
            case .attribute: "device_refused"
            case .noSuchCharacteristic: "nothing_to_read"
            case .disconnected: "transfer_interrupted"
            case .timedOut: "timeout"
            }
        default: "not_stored"
        }
    }
}
