import GATTClient
import GATTProfiles
import HealthReadings

/// What a QardioArm has beside the standard Blood Pressure Service: a characteristic in it that starts and stops the pump.
enum Qardio {
    static let values = BloodPressureMeasurement.uuid
    static let control = BluetoothUUID(high: 0x583C_B5B3_875D_40ED, low: 0x9098_C39E_B0C1_983D)
}

/// What is written to a QardioArm: the one type that ``QardioLink`` takes.
///
/// Its constructors are all that there is. ``start`` inflates a cuff around an arm, so only ``QardioMeasurement`` sends it,
/// once, for a person who has asked for a measurement.
struct QardioRequest: Sendable, Hashable {
    let octets: [UInt8]

    private init(_ octets: [UInt8]) { self.octets = octets }

    /// Inflates the cuff and measures.
    static let start = QardioRequest([0xF1, 0x01])
    /// Lets the air out.
    static let stop = QardioRequest([0xF1, 0x02])
}

/// A connected QardioArm.
struct QardioLink: Sendable {
    let peripheral: any Peripheral
    /// Where the pressure comes while it measures, and the result.
    let values: Characteristic
    private let control: Characteristic

    /// `nil` for a device without the characteristics of a QardioArm.
    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) {
        guard let values = characteristics.first(where: { $0.uuid == Qardio.values }),
            let control = characteristics.first(where: { $0.uuid == Qardio.control && $0.service == values.service })
        else { return nil }
        (self.peripheral, self.values, self.control) = (peripheral, values, control)
    }

    /// The one place at which something is written to a QardioArm.
    func write(_ request: QardioRequest) async throws {
        try await peripheral.write(request.octets, to: control, expectingResponse: true)
    }
}
