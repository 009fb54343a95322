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

    /// Cuff pressures and blood-pressure records.
    static func cuff(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], gap: Duration
    ) -> UnpromptedTransfer {
        UnpromptedTransfer(
            peripheral: peripheral, characteristics: characteristics, records: bloodPressureMeasurement,
            others: intermediateCuffPressure, gap: gap)
    }

    /// Takes what comes until the device falls silent or disconnects, which both are an ordinary end.
    func run(into intake: inout FrameIntake) async throws {
        // The others first: the records may begin to come at once.
        let wanted = characteristics.filter { $0.uuid == others } + characteristics.filter { $0.uuid == records }
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
}
