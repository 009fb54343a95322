import GATTClient
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
    mutating func run(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], allRecords: Bool,
        journal: any FrameJournal, memory: any DeviceMemory,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async {
        func has(_ uuid: BluetoothUUID) -> Bool { characteristics.contains { $0.uuid == uuid } }
        let (hasGlucose, measures) = (
            has(GlucoseTransfer.measurement), RecordStreams.measurements.areThere(in: characteristics)
        )
        let oneTouch = OneTouchLink(peripheral, characteristics)
        let sensor = ContinuousGlucoseSensor(peripheral, characteristics)
        guard hasGlucose || measures || oneTouch != nil || sensor != nil else {
            // What is sent only while somebody looks is nothing to read, and nothing is wrong.
            return LiveCourse.isLive(characteristics) ? () : fail(TransferError.nothingToRead)
        }
        if let oneTouch {
            var intake = FrameIntake(contact: contact, journal: journal, report: report)
            do {
                summary.isComplete = try await OneTouchTransfer(link: oneTouch, wantsAll: allRecords)
                    .run(into: &intake, memory: memory)
                hasUsedEncryption = true
            } catch {
                fail(error)
            }
            add(intake)
            summary.announced = intake.announced
        }
        // Glucose first: a cuff disconnects when it has sent all it has.
        if hasGlucose, mayGoOn {
            var intake = FrameIntake(
                contact: contact, journal: journal, hasPartners: model?.has(.emptyPartners) == true, report: report)
            do {
                summary.isComplete = try await readGlucose(
                    peripheral, characteristics, allRecords: allRecords, into: &intake, memory)
                hasUsedEncryption = true
            } catch {
                fail(error)
            }
            add(intake)
            summary.announced = intake.announced
        }
        if let sensor, mayGoOn {
            var intake = FrameIntake(contact: contact, journal: journal, report: report)
            do {
                let isWhole = try await sensor.read(
                    into: &intake, memory: memory, model: model, allRecords: allRecords)
                summary.isComplete = summary.isComplete && isWhole
                hasUsedEncryption = true
            } catch {
                fail(error)
            }
            // Minutes without a value are no gaps.
            add(intake, hasGaps: false)
            if let announced = intake.announced { summary.announced = (summary.announced ?? 0) + announced }
        }
        if measures, mayGoOn {
            var intake = FrameIntake(contact: contact, journal: journal, report: report)
            do {
                try await UnpromptedTransfer(
                    peripheral: peripheral, characteristics: characteristics, streams: .measurements,
                    gap: model?.recordGap ?? UnpromptedTransfer.patientGap, model: model, wantsAll: allRecords
                ).run(into: &intake)
                hasUsedEncryption = true
            } catch {
                fail(error)
            }
            add(intake)
            // A cuff cannot say how many records it has: they are as many as came.
            if let announced = summary.announced { summary.announced = announced + intake.received }
        }
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
    }

    /// - Returns: whether everything came that the meter has.
    private func readGlucose(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], allRecords: Bool,
        into intake: inout FrameIntake, _ memory: any DeviceMemory
    ) async throws -> Bool {
        if let controlPoint = characteristics.controlPoint(of: GlucoseTransfer.service) {
            return try await GlucoseTransfer(
                peripheral, characteristics, controlPoint: controlPoint, model: model, allRecords: allRecords
            ).run(into: &intake, memory: memory)
        }
        try await UnpromptedTransfer(
            peripheral: peripheral, characteristics: characteristics, streams: .glucose
        ).run(into: &intake)
        return intake.gaps.isEmpty
    }

    private mutating func add(_ intake: FrameIntake, hasGaps: Bool = true) {
        contact = intake.contact
        summary.received += intake.received
        // Numbers that are ages, or out of order, have no gaps that say anything.
        if hasGaps, model?.has(.numbersByAge) != true, model?.has(.numbersOutOfOrder) != true {
            summary.gaps += intake.gaps
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
