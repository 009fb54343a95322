import GATTClient
import HealthReadings

/// What becomes of a contact: its transfers one after the other, what they brought and what went wrong.
struct ContactCourse: Sendable {
    private(set) var contact: Contact
    private(set) var summary = ContactSummary(isComplete: true, received: 0)
    /// What went wrong first.
    private(set) var failure: (any Error)?

    init(contact: Contact) { self.contact = contact }

    /// Reads every service the gateway knows: a device may offer both glucose and blood pressure.
    mutating func run(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], journal: any FrameJournal,
        memory: any DeviceMemory, report: @escaping @Sendable (TransferEvent) async -> Void
    ) async {
        func has(_ uuid: BluetoothUUID) -> Bool { characteristics.contains { $0.uuid == uuid } }
        let (hasGlucose, hasCuff) = (has(GlucoseTransfer.measurement), has(UnpromptedTransfer.bloodPressureMeasurement))
        guard hasGlucose || hasCuff else { return fail(TransferError.nothingToRead) }
        // Glucose first: a cuff disconnects when it has sent all it has.
        if hasGlucose {
            var intake = FrameIntake(contact: contact, journal: journal, report: report)
            do {
                summary.isComplete = try await Self.readGlucose(peripheral, characteristics, into: &intake, memory)
            } catch {
                fail(error)
            }
            add(intake)
            summary.announced = intake.announced
        }
        if hasCuff, mayGoOn {
            var intake = FrameIntake(contact: contact, journal: journal, report: report)
            do {
                try await UnpromptedTransfer.cuff(peripheral, characteristics).run(into: &intake)
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
        failure = error
        summary.isComplete = false
        summary.error = Self.code(error)
    }

    /// - Returns: whether everything came that the meter has.
    private static func readGlucose(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], into intake: inout FrameIntake,
        _ memory: any DeviceMemory
    ) async throws -> Bool {
        if let controlPoint = characteristics.first(where: { $0.uuid == GlucoseTransfer.controlPoint }) {
            return try await GlucoseTransfer(peripheral, characteristics, controlPoint: controlPoint)
                .run(into: &intake, memory: memory)
        }
        try await UnpromptedTransfer(
            peripheral: peripheral, characteristics: characteristics, records: GlucoseTransfer.measurement,
            others: GlucoseTransfer.context
        ).run(into: &intake)
        return intake.gaps.isEmpty
    }

    private mutating func add(_ intake: FrameIntake) {
        contact = intake.contact
        summary.received += intake.received
        summary.gaps += intake.gaps
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
        case is CancellationError: "interrupted"
        default: "not_stored"
        }
    }
}
