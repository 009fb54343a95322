import GATTClient
import GATTProfiles
import HealthReadings

/// Reads a glucose meter (Glucose Profile 1.0.1), or a continuous sensor (Continuous Glucose Monitoring Profile 1.0.2),
/// whose numbers are the minutes of its session: records come as notifications once they are asked for at the Record
/// Access Control Point.
///
/// A meter that was read before is asked for its newest record, and where that is a later one, for the records from the
/// newest stored one on. That one comes again on purpose: its base time proves that the meter's numbers go on from ours
/// and were not begun anew and overtaken since. Whatever cannot be proven is answered by reading everything.
struct GlucoseTransfer {
    static let measurement = GlucoseMeasurement.uuid
    static let controlPoint = RecordAccessRequest.uuid

    /// How long records and contexts may come late, behind the answer that says they have all come.
    static let lateness: Duration = .seconds(1)
    /// How often, and after which pause, a meter is asked again that says it is still busy with what it was asked before.
    static let (patienceWithBusy, busyPause): (Int, Duration) = (5, .milliseconds(200))
    /// "Procedure already in progress": the profile's error, and the common one of newer specifications.
    private static let procedureInProgress: Set<UInt8> = [0x80, 0xFE]

    /// How long a meter may take to stop when the reading is cancelled.
    static let cancelPatience: Duration = .seconds(3)

    let peripheral: any Peripheral
    let controlPoint: Characteristic
    let characteristics: [Characteristic]
    /// Whether everything is asked for, also what was read before.
    let wantsAll: Bool
    /// Whether the meter's numbers do not say which records are new, so that all are read each time.
    let readsAll: Bool
    /// The session of a continuous sensor, whose numbers are minutes; nil for a meter.
    let session: ContinuousGlucoseSession?
    private let streams: RecordStreams

    init(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], controlPoint: Characteristic,
        model: DeviceModel? = nil, session: ContinuousGlucoseSession? = nil, allRecords: Bool = false
    ) {
        self.peripheral = peripheral
        self.controlPoint = controlPoint
        self.session = session
        streams = session == nil ? .glucose : .continuousGlucose
        self.characteristics = characteristics
        wantsAll = allRecords
        readsAll = model.map { $0.has(.readsAll) || $0.has(.numbersByAge) || $0.has(.numbersOutOfOrder) } ?? false
    }

    /// Takes what is new on the meter.
    ///
    /// - Returns: whether everything came that the meter has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        // Asked first, so that nothing is enabled where the store does not answer.
        let last = try await memory.lastRecord(of: intake.contact)
        let previous = try await memory.previousSummary(before: intake.contact)
        let wanted =
            characteristics.filter { streams.records.contains($0.uuid) }
            + characteristics.filter { streams.others.contains($0.uuid) }
        return try await peripheral.whileNotifying(wanted + [controlPoint], optional: streams.others) {
            guard let last, !readsAll else {
                return try await readAll(into: &intake, after: last, previous)
            }
            return try await readNew(after: last, previous, into: &intake, memory)
        }
    }

    private func readNew(
        after last: LastRecord, _ previous: ContactSummary?, into intake: inout FrameIntake,
        _ memory: any DeviceMemory
    ) async throws -> Bool {
        var continuity = SequenceContinuity(after: last, session: session)
        let outcome = try await perform(.report(.last), into: &intake) { values, intake in
            if continuity.lookAtNewest(values) { try await intake.beginSequenceEpoch(in: memory) }
        }
        try throwUnlessRefused(outcome, intake)
        // Asked for everything, too: numbers that were begun anew must not be taken for the ones before.
        if outcome == .completed, last.followsCompleteTransfer, !wantsAll {
            if continuity.newest == .same {
                try await takeLateValues(into: &intake)
                return true
            }
            if continuity.newest == .later, last.baseTime != nil {
                let news = RecordSelection.atLeast(.sequenceNumber(last.sequence))
                await intake.beginCounting(announced: try await count(news, into: &intake))
                let outcome = try await perform(.report(news), into: &intake) { values, _ in continuity.look(values) }
                try throwUnlessRefused(outcome, intake)
                if outcome == .completed, continuity.hasMet {
                    try await takeLateValues(into: &intake)
                    return isWhole(intake)
                }
            }
        }
        return try await readAll(into: &intake, after: last, previous)
    }

    /// - Parameters:
    ///   - last: the newest record that was stored before; `nil` if there was none.
    ///   - previous: how the contact before ended; `nil` if there was none.
    private func readAll(
        into intake: inout FrameIntake, after last: LastRecord?, _ previous: ContactSummary?
    ) async throws -> Bool {
        await intake.beginCounting(announced: try await count(.all, into: &intake))
        if intake.announced == 0 { return true }
        switch try await perform(.report(.all), into: &intake) {
        case .failed(let failure): throw TransferError(failure, received: intake.received)
        case .completed, .noRecordsFound, .counted: break
        }
        try await takeLateValues(into: &intake)
        if isWhole(intake) { return true }
        // What a second full transfer does not bring either, the meter does not have. A replay repeats the first one.
        guard let last, let previous, peripheral.answerSource == .device else { return false }
        return isFullTry(previous, for: intake) && lacksTheSame(as: previous, after: last, intake)
    }

    /// Whether a contact went through all records, too. One that was cut did not, nor did one that asked for the newest: it
    /// brought fewer.
    private func isFullTry(_ previous: ContactSummary, for intake: FrameIntake) -> Bool {
        previous.error == nil && !previous.isComplete && intake.received > 0
            && previous.received + intake.stored >= intake.received
    }

    /// Whether what did not come now did not come in that contact either. Of the records that were measured since then, none
    /// may be missing: they were asked for once.
    private func lacksTheSame(
        as previous: ContactSummary, after last: LastRecord, _ intake: FrameIntake
    ) -> Bool {
        guard let lowest = intake.lowestStored else { return true }
        // An older one that came only now was lost on the way then, and another may have been lost now.
        guard lowest > last.sequence else { return false }
        switch (intake.announced, previous.announced) {
        case (let ours?, let theirs?): return ours - intake.distinct - intake.partners <= theirs - previous.received
        case (nil, nil):
            return intake.gaps.allSatisfy { gap in
                previous.gaps.contains { $0.lowerBound <= gap.lowerBound && $0.upperBound >= gap.upperBound }
            }
        default: return false
        }
    }

    private func isWhole(_ intake: FrameIntake) -> Bool {
        intake.announced.map { intake.distinct + intake.partners >= $0 }
            ?? (readsAll || session != nil || intake.gaps.isEmpty)
    }

    /// How many records there are; nil where the meter does not say.
    private func count(_ selection: RecordSelection, into intake: inout FrameIntake) async throws -> Int? {
        let outcome = try await perform(.count(selection), into: &intake)
        try throwUnlessRefused(outcome, intake)
        return switch outcome {
        case .counted(let count): Int(count)
        case .noRecordsFound: 0
        case .completed, .failed: nil
        }
    }

    /// A question the meter refuses, or is silent about and can be stopped, is one it does not understand; what goes
    /// wrong otherwise ends the transfer.
    private func throwUnlessRefused(_ outcome: RecordAccessOutcome, _ intake: FrameIntake) throws {
        switch outcome {
        case .completed, .noRecordsFound, .counted: return
        case .failed(.refused), .failed(.countMissing), .failed(.timedOut(abort: .acknowledged)): return
        case .failed(let failure): throw TransferError(failure, received: intake.received)
        }
    }

    /// Takes what comes behind the answer: records that were counted, and contexts that records have announced. Without its
    /// context a ketone looks like glucose.
    private func takeLateValues(into intake: inout FrameIntake) async throws {
        let hasContexts = characteristics.contains { $0.uuid == GlucoseMeasurementContext.uuid }
        func lacksRecords(_ intake: FrameIntake) -> Bool {
            intake.announced.map { intake.distinct + intake.partners < $0 } ?? false
        }
        while lacksRecords(intake) || hasContexts && intake.awaitsContexts {
            try Task.checkCancellation()
            guard case .values(let values) = try await peripheral.nextValues(within: Self.lateness) else { return }
            try await intake.take(values, of: streams)
        }
    }

    /// Runs one procedure to its end. Values become durable before the next step is taken.
    ///
    /// - Parameter look: sees the values before they are stored.
    private func perform(
        _ request: RecordAccessRequest, into intake: inout FrameIntake,
        _ look: ([CharacteristicValue], inout FrameIntake) async throws -> Void = { _, _ in }
    ) async throws -> RecordAccessOutcome {
        try Task.checkCancellation()
        var procedure = RecordAccessProcedure(request)
        do {
            return try await perform(&procedure, into: &intake, look)
        } catch is CancellationError {
            await abort(procedure, into: &intake)
            throw CancellationError()
        }
    }

    private func perform(
        _ procedure: inout RecordAccessProcedure, into intake: inout FrameIntake,
        _ look: ([CharacteristicValue], inout FrameIntake) async throws -> Void
    ) async throws -> RecordAccessOutcome {
        var step = procedure.begin()
        while true {
            if case .finished(let outcome) = step { return outcome }
            try Task.checkCancellation()
            switch step {
            case .finished(let outcome): return outcome
            case .write(let octets):
                try await write(octets, &intake)
                step = procedure.written()
            case .wait(let duration):
                switch try await peripheral.nextValues(within: duration) {
                case .values(let values):
                    try await look(values, &intake)
                    try await intake.take(values, of: streams)
                    for value in values {
                        step =
                            value.uuid == Self.controlPoint
                            ? procedure.received(value.octets) : procedure.receivedRecord()
                    }
                case .silence: step = procedure.waited(duration)
                case .disconnected: step = procedure.disconnected()
                }
            }
        }
    }

    /// Tells the meter to stop, and keeps what comes until it has.
    private func abort(_ running: RecordAccessProcedure, into intake: inout FrameIntake) async {
        let before = intake
        intake =
            await shieldedFromCancellation {
                var (procedure, intake) = (running, before)
                guard case .write(let octets) = procedure.abort() else { return intake }
                // What goes wrong here changes nothing: the meter is left, and has all its records.
                do {
                    try await peripheral.write(octets, to: controlPoint, expectingResponse: true)
                    let end = ContinuousClock.now + Self.cancelPatience
                    while procedure.outcome == nil, ContinuousClock.now < end {
                        guard case .values(let values) = try await peripheral.nextValues(within: Self.cancelPatience)
                        else { break }
                        try await intake.take(values, of: streams)
                        for value in values where value.uuid == Self.controlPoint {
                            _ = procedure.received(value.octets)
                        }
                    }
                } catch {}
                return intake
            }
    }

    private func write(_ octets: [UInt8], _ intake: inout FrameIntake) async throws {
        do {
            for _ in 0..<Self.patienceWithBusy {
                do {
                    return try await peripheral.write(octets, to: controlPoint, expectingResponse: true)
                } catch GATTError.attribute(let code) where Self.procedureInProgress.contains(code) {
                    // It has given its answer and is not done with it yet; what still comes belongs to that.
                    guard case .values(let values) = try await peripheral.nextValues(within: Self.busyPause) else {
                        continue
                    }
                    try await intake.take(values, of: streams)
                }
            }
            try await peripheral.write(octets, to: controlPoint, expectingResponse: true)
        } catch GATTError.disconnected {
            throw TransferError.interrupted(received: intake.received)
        } catch is GATTError where octets == RecordAccessRequest.abort.encoded {
            // The silence before it is what ended the transfer.
            throw TransferError.timedOut(received: intake.received)
        }
    }
}

extension TransferError {
    init(_ failure: RecordAccessFailure, received: Int) {
        self =
            switch failure {
            case .disconnected: .interrupted(received: received)
            case .timedOut: .timedOut(received: received)
            case .refused, .aborted, .countMissing: .refused(code: failure.code, description: failure.description)
            }
    }
}
