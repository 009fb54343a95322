import GATTClient
import GATTProfiles
import HealthReadings

extension BloodPressureMeasurement {
    /// The pulse rates a cuff can count: what is beyond was not meant so.
    private static let pulses: ClosedRange<UInt16> = 20...300
    private static let (hasTime, hasPulse, hasUser, hasStatus): (UInt8, UInt8, UInt8, UInt8) = (0x02, 0x04, 0x08, 0x10)

    /// Reads a record in which pulse and status may be big-endian, with a user between them that the flags do not tell
    /// of: so by a Beurer BM85, as public code has recorded it.
    ///
    /// Both signs must be there: the record is exactly one octet longer than its flags say, and the two octets of the
    /// pulse are a rate when they are read big-endian. Else it is read by the standard.
    static func withBigEndianPulse(_ octets: [UInt8]) throws(MalformedFrame) -> BloodPressureMeasurement {
        var measurement = try BloodPressureMeasurement(decoding: octets)
        guard octets[0] & hasUser == 0, octets[0] & hasPulse != 0, octets.count == measurement.encoded.count + 1 else {
            return measurement
        }
        let pulse = 7 + (octets[0] & hasTime == 0 ? 0 : 7)
        let rate = word(octets, pulse)
        guard pulses.contains(rate) else { return measurement }
        measurement.pulseRate = MedFloat16(rawValue: rate)
        measurement.userID = octets[pulse + 2]
        if octets[0] & hasStatus != 0 { measurement.measurementStatus = word(octets, pulse + 3) }
        return measurement
    }

    private static func word(_ octets: [UInt8], _ place: Int) -> UInt16 {
        UInt16(octets[place]) << 8 | UInt16(octets[place + 1])
    }
}

/// A&D's own service: frames of their size, 0 for a question or 1 for an order, and a number.
enum AndCommand {
    static let service = BluetoothUUID(high: 0x233B_F000_5A34_1B6D, low: 0x975C_000D_5690_ABE4)
    static let characteristic = BluetoothUUID(high: 0x233B_F001_5A34_1B6D, low: 0x975C_000D_5690_ABE4)
    /// Asks for all records of the memory, also those that were sent before.
    static let sendAll: [UInt8] = [0x02, 0x00, 0xE1]
}
