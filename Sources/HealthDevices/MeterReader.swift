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
    private let pairings: (any PairingMemory)?
    private let catalogue: Catalogue
    private let provider: @Sendable (DeviceModel) -> String
    private let model: String?
    private let logger: Logger

    /// Makes a reader.
    ///
    /// - Parameters:
    ///   - provider: the server's provider slug for a model; the catalogue's where not given.
    ///   - pairings: what is remembered of bonds: a contact proves one, or finds it lost.
    ///   - model: the catalogue id to read every device as; found from the advertisement where nil.
    public init(
        journal: any FrameJournal, memory: any DeviceMemory, catalogue: Catalogue = Catalogue(),
        provider: @escaping @Sendable (DeviceModel) -> String = { $0.provider }, model: String? = nil,
        pairings: (any PairingMemory)? = nil, logger: Logger = Logger(label: "healthrelay.reader")
    ) {
        self.journal = journal
        self.memory = memory
        self.pairings = pairings
        self.catalogue = catalogue
        self.provider = provider
        self.model = model
        self.logger = logger
    }

    /// Reads what is new on a peripheral.
    ///
    /// Cancelling the task ends the transfer after what has come: it is kept, notifications are stopped, and the device
    /// is disconnected, before this throws.
    ///
    /// - Parameters:
    ///   - allRecords: asks a glucose meter for all its records, also those that were read before. Other devices send
    ///     what they choose.
    ///   - report: told what happens, in order; the transfer goes on when it returns.
    /// - Returns: how the contact ended. A partial transfer is not an error here but in the summary: what came is kept.
    /// - Throws: what went wrong before the contact could begin, a failure of the journal or the memory, ``RadioError``
    ///   (``RadioError/forgottenByDevice(_:)`` where a bonded device wants no more of its bond),
    ///   ``ContactFailure/barred(_:)``, and
    ///   `CancellationError`.
    @discardableResult
    public func read(
        _ peripheral: any Peripheral, allRecords: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void = { _ in }
    ) async throws -> ContactSummary {
        do {
            let connectedAt = try await peripheral.connect()
            let summary = try await read(
                peripheral, connectedAt: connectedAt, allRecords: allRecords, report: report)
            await peripheral.disconnectSurely()
            return summary
        } catch {
            // Also where connecting failed: a connection that is half made holds the device.
            await peripheral.disconnectSurely()
            if case RadioError.forgottenByDevice = error { await note(.paired, peripheral.advertisement) }
            throw error
        }
    }

    private func read(
        _ peripheral: any Peripheral, connectedAt: Instant, allRecords: Bool,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        let characteristics = try await peripheral.characteristics()
        let facts = try await DeviceFacts(of: peripheral, characteristics)
        let contact = try await memory.beginContact(
            with: describe(peripheral.advertisement, characteristics, facts), at: connectedAt, clock: facts.clock,
            batteryPercent: facts.batteryPercent)
        try await leaveIfBarred(contact, peripheral.advertisement)
        await report(.began(contact))

        let advertisement = peripheral.advertisement
        var course = ContactCourse(
            contact: contact, bond: advertisement.isPaired ? advertisement.address : nil,
            model: contact.device.model.flatMap { catalogue[$0] })
        await course.run(
            peripheral, characteristics, allRecords: allRecords, journal: journal, memory: memory, report: report)
        do {
            let (memory, ended) = (memory, course)
            try await Task { try await memory.endContact(ended.contact, ended.summary) }.value
        } catch {
            // A store that takes no frames takes no summary either; the first failure is the one to tell.
            course.fail(error)
        }
        if advertisement.isPaired, facts.hasAnswered || course.hasUsedEncryption {
            if case RadioError.forgottenByDevice? = course.failure {} else { await note(.proven, advertisement) }
        }
        note(course)
        await report(.ended(course.summary))
        switch course.failure {
        case nil, is TransferError, is GATTError: return course.summary
        case let failure?: throw failure
        }
    }

    /// Leaves a device alone whose person was erased. Looked at when the contact has begun: one that is begun earlier is
    /// erased with its person, and takes no frames.
    private func leaveIfBarred(_ contact: Contact, _ advertisement: Advertisement) async throws {
        guard let pairings, let address = advertisement.address,
            try await pairings.pairings().contains(where: { $0.isBarred && $0.addresses.contains(address) })
        else { return }
        try await memory.endContact(
            contact, ContactSummary(isComplete: false, error: ContactFailure.barredCode, received: 0))
        throw ContactFailure.barred(address)
    }

    /// Notes how the bond stands. It is known again at the next contact where it cannot be noted.
    private func note(_ state: PairingState, _ advertisement: Advertisement) async {
        guard let pairings, let address = advertisement.address else { return }
        do {
            let device = DeviceDescription(address: address, name: advertisement.name)
            try await Task { try await pairings.notePairing(of: device, as: state) }.value
        } catch {
            logger.warning("how a bond stands could not be noted: \(error)")
        }
    }

    private func describe(
        _ advertisement: Advertisement, _ characteristics: [Characteristic], _ facts: DeviceFacts
    ) -> DeviceDescription {
        var known = advertisement
        known.services += characteristics.compactMap(\.service)
        // A handle map names characteristics without their service.
        if characteristics.contains(where: { $0.uuid == GlucoseTransfer.measurement }) { known.services.append(0x1808) }
        if characteristics.contains(where: { $0.uuid == UnpromptedTransfer.bloodPressureMeasurement }) {
            known.services.append(0x1810)
        }
        let entry = model.flatMap { catalogue[$0] } ?? catalogue.model(for: known)
        return DeviceDescription(
            address: advertisement.address, model: entry?.id, serial: facts.serial, name: advertisement.name,
            provider: entry.map(provider) ?? "manual")
    }

    private func note(_ course: ContactCourse) {
        let metadata: Logger.Metadata = [
            "contact": "\(course.contact.id)", "model": "\(course.contact.device.model ?? "unknown")",
            "records": "\(course.summary.received)",
        ]
        if let error = course.summary.error {
            logger.notice("contact ended early: \(error)", metadata: metadata)
        } else if course.summary.isComplete {
            logger.debug("contact ended", metadata: metadata)
        } else {
            logger.notice("records are missing; the next contact reads all again", metadata: metadata)
        }
    }
}
