import GATTClient
import GATTProfiles
import HealthReadings

/// One way in which the records of a connected device are taken.
protocol RecordTransfer: Sendable {
    /// Whether the device says how many records it has. Of others it has as many as came.
    var isCounted: Bool { get }
    /// Whether a number that is missing between two records is a missing record.
    var hasGaps: Bool { get }
    /// Whether empty records may come behind others (``Quirk/emptyPartners``).
    var hasPartners: Bool { get }

    /// Takes what is new on the device.
    ///
    /// - Returns: whether everything came that the device has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool
}

extension RecordTransfer {
    var isCounted: Bool { true }
    var hasGaps: Bool { true }
    var hasPartners: Bool { false }
}

/// What is known of devices' memories while the process runs.
struct KnownMemories: Sendable {
    let settled = O2RingSettled()
}

/// The transfers that a connected device is read by, in the order in which they are made.
struct RecordTransfers {
    let transfers: [any RecordTransfer]

    /// Finds what a device offers: a maker's own protocol, then the services of ``ServiceProfile/all`` in their order.
    ///
    /// What comes as soon as it is enabled is enabled together, and last: a cuff disconnects when it has sent all it has.
    ///
    /// - Parameter isOver: whether to leave a device that has not measured yet, or sends for as long as it is worn.
    init(
        of peripheral: any Peripheral, _ characteristics: [Characteristic], model: DeviceModel?, allRecords: Bool,
        secret: DeviceSecret = .unknown, known: KnownMemories = KnownMemories(),
        isOver: @escaping @Sendable () async -> Bool = { false }
    ) {
        func offers(_ profile: ServiceProfile) -> Bool {
            RecordStreams([profile]).areThere(in: characteristics)
        }
        if let model, let memory = model.omronMemory,
            let link = OmronLink(peripheral, characteristics, stack: memory.stack)
        {
            // Alone: what the standard service would send is in the memory too, and some monitors delete what they send.
            self.transfers = [
                OmronTransfer(
                    link: link, memory: memory, model: model, characteristics: characteristics, secret: secret,
                    wantsAll: allRecords)
            ]
            return
        }
        // It has nothing to read, and is not asked: it measures when a person says so.
        if model?.measuresOnCommand == true {
            self.transfers = []
            return
        }
        if let transfer = Self.own(of: model, peripheral, characteristics, allRecords: allRecords, known) {
            self.transfers = [transfer]
            return
        }
        var transfers: [any RecordTransfer] = []
        if let link = OneTouchLink(peripheral, characteristics) {
            transfers.append(OneTouchTransfer(link: link, wantsAll: allRecords))
        }
        for profile in ServiceProfile.all where offers(profile) {
            switch profile.transfer {
            case .numbered:
                transfers.append(
                    NumberedTransfer(
                        peripheral: peripheral, characteristics: characteristics, profile: profile, model: model,
                        wantsAll: allRecords))
            case .session:
                if let sensor = ContinuousGlucoseSensor(peripheral, characteristics) {
                    transfers.append(SessionTransfer(sensor: sensor, model: model, wantsAll: allRecords))
                }
            case .unprompted, nil: continue
            }
        }
        if RecordStreams.measurements.areThere(in: characteristics) {
            transfers.append(
                UnpromptedTransfer(
                    peripheral: peripheral, characteristics: characteristics, streams: .measurements,
                    gap: model?.recordGap ?? UnpromptedTransfer.patientGap,
                    patience: model?.mayBeMeasuring ?? true
                        ? UnpromptedTransfer.measurement : UnpromptedTransfer.firstRecord,
                    model: model, wantsAll: allRecords, isOver: isOver))
        }
        self.transfers = transfers
    }

    /// The transfer by a maker's own protocol, where the model has one and the device offers it.
    private static func own(
        of model: DeviceModel?, _ peripheral: any Peripheral, _ characteristics: [Characteristic], allRecords: Bool,
        _ known: KnownMemories
    ) -> (any RecordTransfer)? {
        switch model?.ownProtocol {
        case .microlife:
            MicrolifeLink(peripheral, characteristics).map {
                MicrolifeTransfer(link: $0, isOfKnownGeneration: model?.certainty != .fromDocuments)
            }
        case .viatom: ViatomLink(peripheral, characteristics).map(ViatomTransfer.init)
        case .oximeter(.o2ring):
            O2RingLink(peripheral, characteristics).map {
                O2RingTransfer(link: $0, wantsAll: allRecords, settled: known.settled)
            }
        // The values of the first are for those who look, the second measures when it is told to, the third is not connected.
        case .oximeter, .qardio, .xiaomiScale, nil: nil
        }
    }
}

/// Records with numbers: asked for at the service's control point, or taken as they come where no control point is known.
private struct NumberedTransfer: RecordTransfer {
    let peripheral: any Peripheral
    let characteristics: [Characteristic]
    let profile: ServiceProfile
    let model: DeviceModel?
    let wantsAll: Bool

    var hasPartners: Bool { model?.has(.emptyPartners) == true }

    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        if let controlPoint = characteristics.controlPoint(of: profile.service) {
            return try await GlucoseTransfer(
                peripheral, characteristics, controlPoint: controlPoint, model: model, allRecords: wantsAll
            ).run(into: &intake, memory: memory)
        }
        _ = try await UnpromptedTransfer(
            peripheral: peripheral, characteristics: characteristics, streams: RecordStreams([profile])
        ).run(into: &intake, memory: memory)
        return intake.gaps.isEmpty
    }
}

/// The records of a continuous sensor's session.
private struct SessionTransfer: RecordTransfer {
    let sensor: ContinuousGlucoseSensor
    let model: DeviceModel?
    let wantsAll: Bool

    /// Minutes without a value are no gaps.
    var hasGaps: Bool { false }

    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        try await sensor.read(into: &intake, memory: memory, model: model, allRecords: wantsAll)
    }
}
