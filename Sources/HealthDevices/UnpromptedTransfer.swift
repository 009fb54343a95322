import GATTClient
import GATTProfiles
import HealthReadings

/// Reads a device that sends its records as soon as they are enabled, and says nothing when it has sent them all.
///
/// So do blood-pressure monitors (Blood Pressure Profile 1.1.1), many of which delete each record once it was
/// confirmed, thermometers, oximeters and scales; and so are glucose records read where no Record Access Control Point is
/// known. All that a device sends so is enabled before anything is waited for: one that has sent what it has is gone.
struct UnpromptedTransfer: RecordTransfer {
    /// How long a device may take to send its first record.
    static let firstRecord: Duration = .seconds(15)
    /// How long a device may take that is reached when it begins to measure (``DeviceModel/mayBeMeasuring``). Oximeters and
    /// scales need up to 40 s. A thermometer that needs longer is connected again.
    static let measurement: Duration = .seconds(60)
    /// The silence after which a device of no listed model is taken to have sent all it has. Two seconds are common
    /// practice and too few for some cuffs.
    static let patientGap: Duration = .seconds(5)
    /// How soon, and in how many bursts, the rest of a measurement follows its first value when a device is left that sends: a
    /// scale's composition behind its weight, or a second packet. Without the other a value may get no time and no user.
    static let (company, mostCompany): (Duration, Int) = (.seconds(1), 5)

    let peripheral: any Peripheral
    let characteristics: [Characteristic]
    /// Where its records come.
    let streams: RecordStreams
    /// The silence after which the device is taken to have sent all it has.
    var gap = UnpromptedTransfer.patientGap
    /// How long the device may take to send its first record.
    var patience = UnpromptedTransfer.firstRecord
    /// What its model does otherwise than the standard says.
    var model: DeviceModel?
    /// Whether also what was sent before is wanted, where the device knows a command for that.
    var wantsAll = false
    /// Whether to leave a device that has not measured yet, or that sends what it measures for as long as it is worn.
    var isOver: @Sendable () async -> Bool = { false }

    /// It has no number of records to tell.
    var isCounted: Bool { false }

    /// The pause that some devices need between the connection and the first subscription.
    static let pause: Duration = .milliseconds(100)

    /// Takes what comes until the device falls silent or disconnects, or ``isOver`` says so. Each is an ordinary end.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        // The others first: the records may begin to come at once.
        let wanted = (streams.others + streams.records).flatMap { uuid in characteristics.filter { $0.uuid == uuid } }
        var enabled = wanted.count { streams.records.contains($0.uuid) }
        var refusal: GATTError?
        func note(_ characteristic: Characteristic, _ error: GATTError) throws(GATTError) {
            guard streams.records.contains(characteristic.uuid) else { return }
            refusal = refusal ?? error
            enabled -= 1
            if enabled == 0 { throw error }
        }
        try await prepare()
        var stored: RecordAccessProcedure?
        // Whether what comes was asked for, and not measured just now.
        var isSending = false
        do {
            let all = wanted + (storedRecords.map { [$0] } ?? []) + starts.map(\.controlPoint)
            try await peripheral.whileNotifying(all, optional: all.map(\.uuid), whenRefused: note) {
                try await takeBeforeAsking(into: &intake)
                stored = try await askForStored()
                isSending = stored != nil
                try await start()
                var waited = Duration.zero
                while true {
                    try Task.checkCancellation()
                    // Before the first record cuff pressures may come for as long as a measurement takes.
                    let isWaiting = intake.received == 0
                    let left = isWaiting ? patience - waited : gap
                    let step = isWaiting || isSending ? min(left, Self.patientGap) : left
                    let burst = try await peripheral.nextValues(within: step)
                    if case .silence = burst, step < left {
                        // One that was asked sends nothing, not even an answer. What comes now was measured just now.
                        isSending = false
                        waited += step
                        guard await !isOver() else { return }
                        continue
                    }
                    guard case .values(let values) = burst else { return }
                    waited = .zero
                    var asked = 0
                    for value in values {
                        if value.uuid == GlucoseTransfer.controlPoint {
                            _ = stored?.received(value.octets)
                            if stored?.outcome != nil { isSending = false }
                        }
                        if isSending { asked += 1 }
                    }
                    try await intake.take(values, of: streams, asked: asked)
                    // Stored records come to an end, and so does what a cuff sends.
                    guard !isSending, !values.contains(where: Self.isPressure) else { continue }
                    if await isOver() {
                        try await takeCompany(into: &intake)
                        return
                    }
                }
            }
        } catch {
            try? await intake.takeWhatHasCome(from: peripheral, of: streams, wasAskedFor: isSending)
            throw error
        }
        try await intake.takeWhatHasCome(from: peripheral, of: streams, wasAskedFor: isSending)
        // The records of one service were refused; those of the others have come.
        if let refusal { throw refusal }
        if case .failed(let failure)? = stored?.outcome { throw TransferError(failure, received: intake.received) }
        return true
    }

    /// Takes what follows the last value, so that a device that sends is not left within a measurement.
    private func takeCompany(into intake: inout FrameIntake) async throws {
        for _ in 0..<Self.mostCompany {
            guard case .values(let values) = try await peripheral.nextValues(within: Self.company) else { return }
            try await intake.take(values, of: streams)
        }
    }

    private static func isPressure(_ value: CharacteristicValue) -> Bool {
        value.uuid == BloodPressureMeasurement.uuid || value.uuid == IntermediateCuffPressure.uuid
    }

    /// Where a device is asked for the records that it has stored, as an oximeter is for its spot checks (Pulse Oximeter
    /// Service 1.0.1): it sends unasked what it measures, and these only when it is asked. `nil` if the device has no such
    /// service, or stores none.
    private var storedRecords: Characteristic? {
        let services = ServiceProfile.all.filter {
            $0.transfer == .unprompted(asksForStored: true) && $0.records.contains(where: streams.records.contains)
        }
        return characteristics.first { characteristic in
            characteristic.uuid == GlucoseTransfer.controlPoint
                && services.contains { $0.service == characteristic.service }
        }
    }

    /// What the device is told before it sends anything, and where.
    private var starts: [(controlPoint: Characteristic, octets: [UInt8])] {
        var starts: [(controlPoint: Characteristic, octets: [UInt8])] = []
        for profile in ServiceProfile.unprompted where profile.records.contains(where: streams.records.contains) {
            guard case .unprompted(_, let start?) = profile.transfer,
                RecordStreams([profile]).areThere(in: characteristics)
            else { continue }
            starts += characteristics.filter { $0.uuid == start.controlPoint }.map { ($0, start.octets) }
        }
        return starts
    }

    /// Tells the device to begin.
    private func start() async throws {
        for start in starts {
            do {
                try await peripheral.write(start.octets, to: start.controlPoint, expectingResponse: true)
            } catch GATTError.attribute {
                // What another of its services sends comes all the same.
            }
        }
    }

    /// Takes what an oximeter has sent since its records were enabled: it was measured just now, and not asked for.
    private func takeBeforeAsking(into intake: inout FrameIntake) async throws {
        // In a recording nobody knows what came before the request that is made now.
        guard storedRecords != nil, peripheral.answerSource == .device else { return }
        while case .values(let values) = try await peripheral.nextValues(within: .zero) {
            try await intake.take(values, of: streams)
        }
    }

    /// Asks for what is stored: all of it, as these records have no numbers. What came before is known by its time, and what
    /// has none by its values.
    private func askForStored() async throws -> RecordAccessProcedure? {
        var procedure = RecordAccessProcedure(.report(.all))
        guard let storedRecords, case .write(let octets) = procedure.begin() else { return nil }
        do {
            try await peripheral.write(octets, to: storedRecords, expectingResponse: true)
        } catch GATTError.attribute {
            // What it measures comes all the same.
            return nil
        }
        _ = procedure.written()
        return procedure
    }

    /// What a model needs before its records are enabled.
    private func prepare() async throws {
        // By the central's own clock: nothing notifies yet, so nothing comes.
        if model?.has(.pauseBeforeNotifying) == true { _ = try await peripheral.nextValues(within: Self.pause) }
        guard wantsAll, model?.has(.commandForAll) == true,
            let command = characteristics.first(where: { $0.uuid == AndCommand.characteristic })
        else { return }
        do {
            try await peripheral.write(AndCommand.sendAll, to: command, expectingResponse: true)
        } catch GATTError.attribute {
            // What it has not sent yet comes all the same.
        }
    }
}
