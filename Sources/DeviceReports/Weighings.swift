import GATTClient
import GATTProfiles

/// Keeps equal in a report what two values of one weighing both say: the body fat of a composition's two packets, and the
/// weight of a composition and of the value beside it. The gateway joins them by it.
struct Weighings {
    private struct Weight {
        let uuid: BluetoothUUID
        let raw: UInt16
        let isImperial: Bool
        /// The octets that it became.
        let made: [UInt8]
    }

    /// A first packet, and the octets that its body fat became.
    private var first: (original: BodyCompositionMeasurement, fat: [UInt8])?
    /// The weight that was seen last, unless it was found again in the value beside it.
    private var weight: Weight?

    /// A replaced value with the numbers that it has in common with one before it.
    ///
    /// - Parameters:
    ///   - made: what a value was replaced by, with the same length.
    ///   - original: that value.
    ///   - uuid: its characteristic.
    mutating func matched(_ made: [UInt8], with original: [UInt8], of uuid: BluetoothUUID) -> [UInt8] {
        guard made.count == original.count else { return made }
        switch uuid {
        case WeightMeasurement.uuid:
            guard let value = try? WeightMeasurement(decoding: original) else { return made }
            return withWeight(made, at: 1, of: uuid, value.rawWeight, isImperial: value.isImperial)
        case BodyCompositionMeasurement.uuid:
            guard let value = try? BodyCompositionMeasurement(decoding: original) else { return made }
            let made = withFat(made, of: value)
            guard let raw = value.fields[.weight] else { return made }
            let before = value.fields.keys.count { $0.rawValue < BodyCompositionMeasurement.Field.weight.rawValue }
            let place = 4 + (value.timeStamp == nil ? 0 : 7) + (value.userID == nil ? 0 : 1) + 2 * before
            return withWeight(made, at: place, of: uuid, raw, isImperial: value.isImperial)
        default: return made
        }
    }

    private mutating func withFat(_ made: [UInt8], of value: BodyCompositionMeasurement) -> [UInt8] {
        var made = made
        if let packet = first, packet.original.joined(with: value) != nil {
            made.replaceSubrange(2..<4, with: packet.fat)
            first = nil
        } else if value.goesOn {
            first = (value, Array(made[2..<4]))
        }
        return made
    }

    /// Two weights of one characteristic are of two weighings, and a report does not tell that they are equal.
    private mutating func withWeight(
        _ made: [UInt8], at place: Int, of uuid: BluetoothUUID, _ raw: UInt16, isImperial: Bool
    ) -> [UInt8] {
        var made = made
        if let last = weight, last.uuid != uuid, last.raw == raw, last.isImperial == isImperial {
            made.replaceSubrange(place..<(place + 2), with: last.made)
            weight = nil
        } else {
            let octets = Array(made[place..<(place + 2)])
            weight = Weight(uuid: uuid, raw: raw, isImperial: isImperial, made: octets)
        }
        return made
    }
}
