import GATTClient
import GATTProfiles
import HealthReadings

/// Joins what a scale sends of one weighing: the two packets of a body composition that is too long for one (Body
/// Composition Service, flag "Multiple Packet Measurement"), and a composition without a time with its weight,
/// which has time and user.
///
/// Values are stored as they come, and what they are together beside the last of them.
///
/// Nothing in a composition says which weight is its own. What comes first in a contact tells in which order the scale
/// sends them: if that is a weight, a composition belongs to the weight directly in front of it; if it is a composition,
/// to the weight directly behind it. The order is unclear where two weights come side by side, or two compositions that
/// should each have a weight behind them: a scale may send all that it keeps of one kind, then all of the other, and a
/// weighing in socks has no composition. These compositions and all that follow in the contact stay as they came. So does a
/// composition that says another user or weight than its weight, and one that has a time of its own: its identity is made
/// of that and of the user that it says.
struct CompositionJoiner: Sendable {
    /// A composition, or the first packet of one.
    struct Composition: Sendable, Hashable {
        var measurement: BodyCompositionMeasurement
        let receivedAt: Instant
        /// Its place among the compositions of the contact.
        let ordinal: Int

        fileprivate var isLacking: Bool { measurement.timeStamp == nil }

        fileprivate func completed(by weight: WeightMeasurement) -> Composition {
            guard isLacking else { return self }
            var composition = self
            composition.measurement = measurement.completed(by: weight) ?? measurement
            return composition
        }
    }

    /// What follows from a value.
    struct Taken: Sendable {
        /// Whether the value is kept as a part: its composition is one of ``whole``, or comes later.
        var isPart = false
        /// The place of a composition that is kept as it came; `nil` for other values.
        var ordinal: Int?
        /// The compositions that wait for nothing any more.
        var whole: [Composition] = []
    }

    private enum Order { case unknown, weightFirst, compositionFirst, unclear }

    private var order: Order
    private var count = 0
    /// The weight that came last, as long as no composition has come behind it.
    private var weight: WeightMeasurement?
    /// A composition that waits for its weight, and for the value behind that: a second weight makes the order unclear.
    private var waiting: Composition?
    /// A first packet that waits for its second one.
    private var begun: Composition?
    /// That first packet as it came, and the second packet that came last.
    private var first: BodyCompositionMeasurement?
    private var second: BodyCompositionMeasurement?

    /// - Parameter hasWeights: whether the scale has weights to wait for.
    init(hasWeights: Bool = false) { order = hasWeights ? .unknown : .unclear }

    /// The compositions that wait for a packet or a weight, as far as they have come.
    var open: [Composition] { [waiting, begun].compactMap(\.self) }

    /// Takes the next value of the contact.
    mutating func take(_ value: CharacteristicValue) -> Taken {
        if value.uuid == WeightMeasurement.uuid, let weight = try? WeightMeasurement(decoding: value.octets) {
            return Taken(whole: take(weight))
        }
        guard value.uuid == BodyCompositionMeasurement.uuid else { return Taken() }
        guard let measurement = try? BodyCompositionMeasurement(decoding: value.octets) else {
            return Taken(ordinal: nextOrdinal())
        }
        return take(measurement, receivedAt: value.receivedAt)
    }

    /// Ends the contact.
    ///
    /// - Returns: the compositions that waited, each with its weight if that came.
    mutating func finish() -> [Composition] { letGo().sorted { $0.ordinal < $1.ordinal } }

    /// Lets go of the compositions that wait, each with its weight if that came.
    private mutating func letGo() -> [Composition] {
        defer { (waiting, begun) = (nil, nil) }
        guard order == .compositionFirst, let weight else { return open }
        return open.map { $0.completed(by: weight) }
    }

    private mutating func take(_ weight: WeightMeasurement) -> [Composition] {
        if order == .unknown { order = .weightFirst }
        // The same weight may come again.
        guard order != .unclear, weight != self.weight else { return [] }
        guard self.weight == nil else { return becomeUnclear() }
        self.weight = weight
        return []
    }

    /// Joins no more compositions with weights in this contact.
    ///
    /// - Returns: the composition that waited for its weight, as it came.
    private mutating func becomeUnclear() -> [Composition] {
        defer { (weight, waiting) = (nil, nil) }
        order = .unclear
        return [waiting].compactMap(\.self)
    }

    private mutating func take(_ measurement: BodyCompositionMeasurement, receivedAt: Instant) -> Taken {
        if var composition = begun, let whole = composition.measurement.joined(with: measurement) {
            composition.measurement = whole
            (begun, first, second) = (nil, nil, measurement)
            return Taken(isPart: true, whole: settle(composition))
        }
        // A packet that comes again.
        if measurement.goesOn, measurement == first || measurement == second { return Taken(isPart: true) }
        var composition = Composition(measurement: measurement, receivedAt: receivedAt, ordinal: nextOrdinal())
        var taken = Taken(whole: begin(&composition))
        if measurement.goesOn {
            // The second packet of the one before did not come.
            if let alone = begun { taken.whole += settle(alone) }
            (begun, first) = (composition, measurement)
            taken.isPart = true
            return taken
        }
        let settled = settle(composition)
        if settled.isEmpty || composition.measurement != measurement {
            taken.isPart = true
            taken.whole += settled
        } else {
            taken.ordinal = composition.ordinal
        }
        return taken
    }

    /// Completes a composition that begins, or the one before it, if its weight has come.
    ///
    /// - Returns: the compositions that wait for nothing any more.
    private mutating func begin(_ composition: inout Composition) -> [Composition] {
        defer { weight = nil }
        switch order {
        case .unknown: order = .compositionFirst
        case .weightFirst: if let weight { composition = composition.completed(by: weight) }
        case .compositionFirst:
            if weight != nil { return letGo() }
            if waiting != nil || begun != nil { return becomeUnclear() }
        case .unclear: break
        }
        return []
    }

    /// Lets go of a composition whose packets have come, unless it waits for its weight.
    private mutating func settle(_ composition: Composition) -> [Composition] {
        guard order == .compositionFirst, composition.isLacking else { return [composition] }
        waiting = composition
        return []
    }

    private mutating func nextOrdinal() -> Int {
        defer { count += 1 }
        return count
    }
}
