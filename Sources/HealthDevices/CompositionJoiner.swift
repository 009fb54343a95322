import GATTClient
import GATTProfiles
import HealthReadings

/// Joins the two packets of a body composition that is too long for one (Body Composition Service, flag "Multiple Packet
/// Measurement").
///
/// Packets are stored as they come, and what they are together beside the second.
struct CompositionJoiner: Sendable {
    /// What a value is.
    enum Part: Equatable {
        /// A value for itself.
        case whole
        /// The first of two packets, or one that comes again.
        case packet
        /// The second packet of this measurement.
        case last(of: BodyCompositionMeasurement)
    }

    /// A first packet.
    typealias Packet = (measurement: BodyCompositionMeasurement, receivedAt: Instant)

    private var begun: Packet?
    private var second: BodyCompositionMeasurement?
    /// First packets whose second ones did not come.
    private var alone: [Packet] = []

    /// Takes the next value of the contact.
    mutating func take(_ value: CharacteristicValue) -> Part {
        guard value.uuid == BodyCompositionMeasurement.uuid,
            let measurement = try? BodyCompositionMeasurement(decoding: value.octets)
        else { return .whole }
        if let joined = begun?.measurement.joined(with: measurement) {
            (begun, second) = (nil, measurement)
            return .last(of: joined)
        }
        guard measurement.goesOn else { return .whole }
        guard measurement != begun?.measurement, measurement != second else { return .packet }
        if let begun { alone.append(begun) }
        begun = (measurement, value.receivedAt)
        return .packet
    }

    /// Ends the contact.
    ///
    /// - Returns: the first packets whose second ones did not come, for themselves.
    mutating func finish() -> [Packet] {
        defer { (begun, alone) = (nil, []) }
        return alone + (begun.map { [$0] } ?? [])
    }
}
