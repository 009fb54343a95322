import GATTClient
import GATTProfiles
import HealthReadings

/// Reads a glucose meter (Glucose Profile 1.0.1): records come as notifications once they are asked for at the Record
/// Access Control Point.
struct GlucoseTransfer {
    static let measurement: BluetoothUUID = 0x2A18
    static let context: BluetoothUUID = 0x2A34
    static let controlPoint: BluetoothUUID = 0x2A52

    let peripheral: any Peripheral
    let characteristics: [Characteristic]

    /// Takes what is new on the meter.
    ///
    /// - Returns: how many records the meter said it would send, where it can count.
    /// - Throws: ``TransferError``, ``GATTError``, or the journal's error. What came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Int? {
        guard let controlPoint = characteristics.first(where: { $0.uuid == Self.controlPoint }) else {
            throw TransferError.nothingToRead
        }
        var notifying: [Characteristic] = []
        do {
            for uuid in [Self.measurement, Self.context, Self.controlPoint] {
                for characteristic in characteristics where characteristic.uuid == uuid {
                    try await peripheral.startNotifying(characteristic)
                    notifying.append(characteristic)
                }
            }
            let announced = try await transfer(through: controlPoint, into: &intake, memory: memory)
            await stop(notifying)
            return announced
        } catch {
            await stop(notifying)
            throw error
        }
    }

    private func transfer(
        through controlPoint: Characteristic, into intake: inout FrameIntake, memory: any DeviceMemory
    ) async throws -> Int? {
        var selection = RecordSelection.all
        if let last = try await memory.lastRecord(of: intake.contact) {
            guard let wanted = try await selectNew(after: last, controlPoint, &intake, memory) else { return nil }
            selection = wanted
        }
        var announced: Int?
        if case .counted(let count) = try await perform(.count(selection), controlPoint, &intake) {
            announced = Int(count)
            if count == 0 { return 0 }
        }
        intake.beginCounting(announced: announced)
        var outcome = try await perform(.report(selection), controlPoint, &intake)
        if case .failed(.refused) = outcome, selection != .all {
            // A meter that cannot select sends everything; what is stored already is dropped there.
            intake.beginCounting(announced: nil)
            announced = nil
            outcome = try await perform(.report(.all), controlPoint, &intake)
        }
        switch outcome {
        case .completed, .noRecordsFound, .counted: return announced
        case .failed(let failure): throw TransferError(failure, received: intake.received)
        }
    }

    /// What to ask of a meter that has been read before; nil where it has nothing new.
    ///
    /// The meter's newest record tells whether its numbers go on from ours. Where they restarted, a sequence epoch
    /// begins before that record is stored, so that it is stored once.
    private func selectNew(
        after last: LastRecord, _ controlPoint: Characteristic, _ intake: inout FrameIntake, _ memory: any DeviceMemory
    ) async throws -> RecordSelection? {
        intake.continues(after: last)
        switch try await perform(.report(.last), controlPoint, &intake, memory: memory) {
        case .completed:
            switch intake.newest {
            case .restarted, .unseen: return .all
            case .same: return nil
            case .later: return last.sequence == .max ? .all : .atLeast(.sequenceNumber(last.sequence + 1))
            }
        case .noRecordsFound: return nil
        case .counted, .failed(.refused): return .all
        case .failed(let failure): throw TransferError(failure, received: intake.received)
        }
    }

    /// Runs one procedure to its end. Values become durable before the next step is taken.
    private func perform(
        _ request: RecordAccessRequest, _ controlPoint: Characteristic, _ intake: inout FrameIntake,
        memory: (any DeviceMemory)? = nil
    ) async throws -> RecordAccessOutcome {
        var procedure = RecordAccessProcedure(request)
        var step = procedure.begin()
        while true {
            switch step {
            case .finished(let outcome): return outcome
            case .write(let octets):
                try await peripheral.write(octets, to: controlPoint, expectingResponse: true)
                step = procedure.written()
            case .wait(let duration):
                switch try await peripheral.nextValues(within: duration) {
                case .values(let values):
                    if let memory { try await intake.compare(values, memory: memory) }
                    try await intake.take(values, records: Self.measurement, others: [Self.context])
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

    /// Notifications stop before every disconnect; a meter that has gone needs no telling.
    private func stop(_ characteristics: [Characteristic]) async {
        for characteristic in characteristics.reversed() { try? await peripheral.stopNotifying(characteristic) }
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
