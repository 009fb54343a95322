import GATTClient

/// Which of a device's characteristics bring records, and which bring what goes with them.
struct RecordStreams: Sendable {
    let records: [BluetoothUUID]
    /// What comes beside the records; a device need not have it, and may refuse it.
    let others: [BluetoothUUID]

    /// A glucose meter's measurements, with their contexts.
    static let glucose = RecordStreams(records: [GlucoseTransfer.measurement], others: [GlucoseTransfer.context])
    /// A continuous sensor's values.
    static let continuousGlucose = RecordStreams(records: [ContinuousGlucoseSession.measurement], others: [])
    /// What cuffs, thermometers, oximeters and scales send once they have measured, with what they show until then.
    static let measurements = RecordStreams(
        records: ServiceProfile.all.filter { !$0.isAskedFor }.flatMap(\.records),
        others: ServiceProfile.all.filter { !$0.isAskedFor }.flatMap(\.beside))

    /// Whether a device with these characteristics has records of this kind.
    func areThere(in characteristics: [Characteristic]) -> Bool {
        characteristics.contains { records.contains($0.uuid) }
    }
}
