import GATTClient
import GATTProfiles
import HealthReadings

/// What becomes of a contact: its transfers one after the other, what they brought and what went wrong.
struct ContactCourse: Sendable {
    private(set) var contact: Contact
    private(set) var summary = ContactSummary(isComplete: true, received: 0)
    /// What went wrong first.
    private(set) var failure: (any Error)?
    /// Whether the device did something that it does on an encrypted link only.
    private(set) var hasUsedEncryption = false
    /// The device's address where it is bonded.
    private let bond: DeviceAddress?
    private let model: DeviceModel?

    /// - Parameters:
    ///   - bond: the device's address where it is bonded.
    ///   - model: the catalogue's entry for it.
    init(contact: Contact, bond: DeviceAddress?, model: DeviceModel?) {
        self.contact = contact
        self.bond = bond
        self.model = model
    }

    /// Reads every service the gateway knows: a device may offer both glucose and blood pressure.
    ///
    /// - Parameter isOver: whether to leave a device that has not measured yet, or sends for as long as it is worn.
    mutating func run(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], allRecords: Bool, secret: DeviceSecret,
        known: KnownMemories, journal: any FrameJournal, memory: any DeviceMemory,
        isOver: @escaping @Sendable () async -> Bool, report: @escaping @Sendable (TransferEvent) async -> Void
    ) async {
        let transfers = RecordTransfers(
            of: peripheral, characteristics, model: model, allRecords: allRecords, secret: secret, known: known,
            isOver: isOver
        ).transfers
        guard !transfers.isEmpty else {
            // What is sent only while somebody looks is nothing to read, and nothing is wrong.
            return LiveCourse.isLive(characteristics) || model?.oximeterStream != nil
                ? () : fail(TransferError.nothingToRead)
        }
        for transfer in transfers where mayGoOn {
            var intake = FrameIntake(
                contact: contact, journal: journal, hasPartners: transfer.hasPartners,
                hasWeights: characteristics.contains { $0.uuid == WeightMeasurement.uuid },
                sendsWhatItKeeps: model?.sendsWhatItKeeps ?? false, report: report)
            do {
                let isWhole = try await transfer.run(into: &intake, memory: memory)
                // A recording of some of the records does not show that the device had no others.
                summary.isComplete =
                    summary.isComplete && isWhole && peripheral.answerSource != .narrowerRecording
                hasUsedEncryption = true
            } catch {
                fail(error)
            }
            add(intake, of: transfer)
        }
    }

    /// Adds what was recorded.
    mutating func add(_ recorded: RecordedContact) {
        summary.received += recorded.summary.received
        if case .failure(let error) = recorded.end { return fail(error) }
        guard let error = recorded.summary.error else { return }
        (summary.isComplete, summary.error) = (false, summary.error ?? error)
    }

    /// Notes an error; the first stays.
    mutating func fail(_ error: any Error) {
        guard failure == nil else { return }
        if let bond, let error = error as? GATTError, error.saysBondIsMissing {
            failure = RadioError.forgottenByDevice(bond)
        } else {
            failure = error
        }
        switch error as? TransferError {
        // The device has answered at its control point.
        case .refused, .timedOut: hasUsedEncryption = true
        case .nothingToRead, .interrupted, nil: break
        }
        summary.isComplete = false
        summary.error = ContactFailure(failure ?? error).code
        if case .refused(_, let description)? = failure as? TransferError { summary.errorDetail = description }
    }

    private mutating func add(_ intake: FrameIntake, of transfer: any RecordTransfer) {
        contact = intake.contact
        summary.received += intake.received
        // Numbers that are ages, or out of order, have no gaps that say anything.
        if transfer.hasGaps, model?.has(.numbersByAge) != true, model?.has(.numbersOutOfOrder) != true {
            summary.gaps += intake.gaps
        }
        if transfer.isCounted {
            if let announced = intake.announced { summary.announced = (summary.announced ?? 0) + announced }
        } else if let announced = summary.announced {
            summary.announced = announced + intake.received
        }
        if intake.received > 0 { hasUsedEncryption = true }
    }

    /// Whether another service may be read after what went wrong with the first.
    private var mayGoOn: Bool {
        switch failure {
        case nil: true
        case let error as TransferError:
            if case .interrupted = error { false } else { true }
        case let error as GATTError: error != .disconnected
        case .some: false
        }
    }
}
