import GATTClient
import HealthReadings

/// Reads a blood-pressure monitor (Blood Pressure Profile 1.1.1): the stored measurements come as indications as soon as
/// they are enabled, and many cuffs delete each once it was confirmed.
struct CuffTransfer {
    static let measurement: BluetoothUUID = 0x2A35
    static let intermediatePressure: BluetoothUUID = 0x2A36

    /// How long a cuff may take to send its first measurement.
    static let firstValue: Duration = .seconds(15)
    /// The silence after which a cuff is taken to have sent all it has: the profile has no end marker. Two seconds are
    /// common practice and too few for some cuffs.
    static let gap: Duration = .seconds(5)

    let peripheral: any Peripheral
    let characteristics: [Characteristic]

    /// Takes what the cuff sends until it falls silent or disconnects, which both are an ordinary end.
    func run(into intake: inout FrameIntake) async throws {
        guard let measurement = characteristics.first(where: { $0.uuid == Self.measurement }) else {
            throw TransferError.nothingToRead
        }
        var notifying: [Characteristic] = []
        do {
            // Cuff pressure first, so that it is not missed; it never moves the transfer's end.
            for characteristic in characteristics.filter({ $0.uuid == Self.intermediatePressure }) + [measurement] {
                try await peripheral.startNotifying(characteristic)
                notifying.append(characteristic)
            }
            var patience = Self.firstValue
            receiving: while true {
                switch try await peripheral.nextValues(within: patience) {
                case .values(let values):
                    try await intake.take(values, records: Self.measurement, others: [Self.intermediatePressure])
                    patience = Self.gap
                case .silence, .disconnected:
                    break receiving
                }
            }
        } catch {
            await stop(notifying)
            throw error
        }
        await stop(notifying)
    }

    /// Notifications stop before every disconnect: a cuff still subscribed sends, and deletes, on its next connection.
    private func stop(_ characteristics: [Characteristic]) async {
        for characteristic in characteristics.reversed() { try? await peripheral.stopNotifying(characteristic) }
    }
}
