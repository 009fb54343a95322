import GATTClient
import HealthReadings

/// Reads a device that sends its records as soon as they are enabled, and says nothing when it has sent them all.
///
/// So do blood-pressure monitors (Blood Pressure Profile 1.1.1), many of which delete each record once it was
/// confirmed; and so are glucose records read where no Record Access Control Point is known.
struct UnpromptedTransfer {
    static let bloodPressureMeasurement: BluetoothUUID = 0x2A35
    static let intermediateCuffPressure: BluetoothUUID = 0x2A36

    /// How long a device may take to send its first record.
    static let firstRecord: Duration = .seconds(15)
    /// The silence after which a device of no listed model is taken to have sent all it has. Two seconds are common
    /// practice and too few for some cuffs.
    static let patientGap: Duration = .seconds(5)

    let peripheral: any Peripheral
    let characteristics: [Characteristic]
    /// The characteristic of the records.
    let records: BluetoothUUID
    /// What comes beside them; a device need not have it.
    let others: BluetoothUUID
    /// The silence after which the device is taken to have sent all it has.
    var gap = UnpromptedTransfer.patientGap
    /// What its model does otherwise than the standard says.
    var model: DeviceModel?
    /// Whether also what was sent before is wanted, where the device knows a command for that.
    var wantsAll = false

    /// The pause that some devices need between the connection and the first subscription.
    static let pause: Duration = .milliseconds(100)

    /// What thermometers, oximeters and scales send in the same way, with what comes beside it: a composition goes with
    /// its weight, and is a record by itself where a scale has none.
    static let spots: [(records: BluetoothUUID, others: BluetoothUUID)] = [
        (0x2A1C, 0x2A1E), (0x2A5E, 0x2A1E), (0x2A9D, 0x2A1E), (0x2A9C, 0x2A1E),
    ]

    /// Cuff pressures and blood-pressure records.
    static func cuff(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], model: DeviceModel?, allRecords: Bool
    ) -> UnpromptedTransfer {
        UnpromptedTransfer(
            peripheral: peripheral, characteristics: characteristics, records: bloodPressureMeasurement,
            others: intermediateCuffPressure, gap: model?.recordGap ?? patientGap, model: model, wantsAll: allRecords)
    }

    /// Takes what comes until the device falls silent or disconnects, which both are an ordinary end.
    func run(into intake: inout FrameIntake) async throws {
        // The others first: the records may begin to come at once.
        let wanted = characteristics.filter { $0.uuid == others } + characteristics.filter { $0.uuid == records }
        try await prepare()
        do {
            try await peripheral.whileNotifying(wanted, optional: others) {
                while true {
                    try Task.checkCancellation()
                    // Before the first record cuff pressures may come for as long as a measurement takes.
                    let patience = intake.received == 0 ? Self.firstRecord : gap
                    guard case .values(let values) = try await peripheral.nextValues(within: patience) else { return }
                    try await intake.take(values, records: records, others: others)
                }
            }
        } catch let error where error is CancellationError || error is GATTError {
            try? await intake.takeWhatHasCome(from: peripheral, records: records, others: others)
            throw error
        }
        try await intake.takeWhatHasCome(from: peripheral, records: records, others: others)
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
