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
    ///
    /// A scale sends its weight last: a composition that belongs to it comes before, or at once.
    static let measurements = RecordStreams(
        records: [0x2A1C, 0x2A5E, 0x2A9C, 0x2A9D, 0x2A35], others: [0x2A1E, 0x2A36])

    /// Whether a device with these characteristics has records of this kind.
    func areThere(in characteristics: [Characteristic]) -> Bool {
        characteristics.contains { records.contains($0.uuid) }
    }
}
