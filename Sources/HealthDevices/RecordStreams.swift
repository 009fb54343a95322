import GATTClient
import GATTProfiles

/// Which of a device's characteristics bring records, and which bring what goes with them.
struct RecordStreams: Sendable {
    let records: [BluetoothUUID]
    /// What comes beside the records; a device need not have it, and may refuse it.
    let others: [BluetoothUUID]

    /// Those of some services.
    init(_ profiles: [ServiceProfile]) {
        (records, others) = (profiles.flatMap(\.records), profiles.flatMap(\.companions))
    }

    /// A glucose meter's measurements, with their contexts.
    static let glucose = RecordStreams([.glucose])
    /// A continuous sensor's values.
    static let continuousGlucose = RecordStreams([.continuousGlucose])
    /// What cuffs, thermometers, oximeters and scales send once they have measured, with what they show until then.
    static let measurements = RecordStreams(ServiceProfile.unprompted)

    /// Whether a device with these characteristics has records of this kind.
    func areThere(in characteristics: [Characteristic]) -> Bool {
        characteristics.contains { records.contains($0.uuid) }
    }
}
