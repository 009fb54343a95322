import GATTClient
import GATTProfiles
import HealthReadings

/// Joins what a scale sends of one weighing: the two packets of a body composition that is too long for one (Body
/// Composition Service, flag "Multiple Packet Measurement"), and a composition without a time with its weight,
/// which has time and user.
///
/// Values are stored as they come, and what they are together beside the last of them.
///
/// Nothing in a composition says which weight is its own, and scales differ in which of both they send first. So a composition
/// without a time waits for the end of the contact, and is joined only if weights and compositions came in pairs all
/// through it: each weight in front of its composition, or each behind it. Anything else leaves open whose a composition is: a
/// weighing in socks has no composition, and a scale may send all that it keeps of one kind, then all of the other. All
/// compositions of the contact then stay as they came. So they do if one of them says another user, time or weight than
/// the weight of its pair. A composition that has a time of its own takes nothing from its weight: its identity is
/// made of that time and of the user that it says.
struct CompositionJoiner: Sendable {
    /// A composition, or the first packet of one.
    struct Composition: Sendable, Hashable {
        var measurement: BodyCompositionMeasurement
        let receivedAt: Instant
        /// Its place among the compositions of the contact.
        let ordinal: Int
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

    /// A value of the contact.
    private enum Step {
        case weight(WeightMeasurement)
        /// Its place in ``compositions``.
        case composition(Int)
    }

    /// How long before its reception a weight can have been made, in seconds: 366 days. Scales keep some dozen weighings of each
    /// user. A time further back is what a clock shows that was never set.
    private static let longestKept: Int64 = 366 * 86_400
    /// How far a clock on the wall may be ahead of the reception in UTC, in seconds: 26 hours, as far as two places lie apart.
    private static let furthestAhead: Int64 = 26 * 3600

    private let hasWeights: Bool
    private var count = 0
    private var compositions: [Composition] = []
    private var course: [Step] = []
    /// The places of the compositions that wait for a packet or for the end of the contact.
    private var waiting: Set<Int> = []
    /// Those of them that have begun to wait, or grown, since ``takeOpen()``.
    private var grown: Set<Int> = []
    /// The place of a first packet that waits for its second one.
    private var begun: Int?
    /// That first packet as it came, and the second packet that came last.
    private var first: BodyCompositionMeasurement?
    private var second: BodyCompositionMeasurement?

    /// - Parameter hasWeights: whether the scale has weights to wait for.
    init(hasWeights: Bool = false) { self.hasWeights = hasWeights }

    /// The compositions that have begun to wait since this was last called, or have grown while they wait, as far as they
    /// have come.
    mutating func takeOpen() -> [Composition] {
        defer { grown = [] }
        return grown.sorted().map { compositions[$0] }
    }

    /// Takes the next value of the contact.
    mutating func take(_ value: CharacteristicValue) -> Taken {
        if hasWeights, value.uuid == WeightMeasurement.uuid,
            let weight = try? WeightMeasurement(decoding: value.octets)
        {
            course.append(.weight(weight))
            return Taken()
        }
        guard value.uuid == BodyCompositionMeasurement.uuid else { return Taken() }
        guard let measurement = try? BodyCompositionMeasurement(decoding: value.octets) else {
            return Taken(ordinal: nextOrdinal())
        }
        return take(measurement, receivedAt: value.receivedAt)
    }

    /// Ends the contact.
    ///
    /// - Parameter clockIsKnown: whether the scale's clock was read: what it shows is then compared, however far it is off.
    /// - Returns: the compositions that waited, each with its weight if that is known.
    mutating func finish(clockIsKnown: Bool) -> [Composition] {
        defer { (waiting, grown, begun, course) = ([], [], nil, []) }
        let weights = weights()
        return waiting.sorted().map { place in
            var composition = compositions[place]
            guard composition.measurement.timeStamp == nil, let weight = weights[place] else { return composition }
            let hasTime = clockIsKnown || Self.canBe(weight.timeStamp, at: composition.receivedAt)
            composition.measurement =
                composition.measurement.completed(by: weight, takingTime: hasTime) ?? composition.measurement
            return composition
        }
    }

    /// Whether a weight can have been made when an unread clock says, as far as its reception tells.
    private static func canBe(_ time: DateTime?, at reception: Instant) -> Bool {
        guard let shown = time?.wallTime?.secondsSinceEpoch else { return false }
        return shown >= max(TimeResolution.earliest.seconds, reception.seconds - longestKept)
            && shown <= reception.seconds + furthestAhead
    }

    /// The weight of each composition; none if what came does not tell, or contradicts it.
    private func weights() -> [Int: WeightMeasurement] {
        // A value that comes again is one value.
        var runs: [(weight: WeightMeasurement?, compositions: [Int])] = []
        for step in course {
            switch step {
            case .weight(let weight):
                if runs.last?.weight == weight { continue }
                guard runs.last?.weight == nil else { return [:] }
                runs.append((weight, []))
            case .composition(let place):
                guard let other = runs.last?.compositions.last else {
                    runs.append((nil, [place]))
                    continue
                }
                guard compositions[other].measurement == compositions[place].measurement else { return [:] }
                runs[runs.count - 1].compositions.append(place)
            }
        }
        guard runs.count.isMultiple(of: 2) else { return [:] }
        var weights: [Int: WeightMeasurement] = [:]
        for pair in stride(from: 0, to: runs.count, by: 2) {
            guard let weight = runs[pair].weight ?? runs[pair + 1].weight else { return [:] }
            for place in runs[pair].compositions + runs[pair + 1].compositions {
                guard compositions[place].measurement.completed(by: weight) != nil else { return [:] }
                weights[place] = weight
            }
        }
        return weights
    }

    private mutating func take(_ measurement: BodyCompositionMeasurement, receivedAt: Instant) -> Taken {
        if let place = begun, let whole = compositions[place].measurement.joined(with: measurement) {
            compositions[place].measurement = whole
            (begun, first, second) = (nil, nil, measurement)
            return Taken(isPart: true, whole: settle(place))
        }
        // A packet that comes again.
        if measurement.goesOn, measurement == first || measurement == second { return Taken(isPart: true) }
        let place = compositions.count
        compositions.append(Composition(measurement: measurement, receivedAt: receivedAt, ordinal: nextOrdinal()))
        course.append(.composition(place))
        var taken = Taken()
        if measurement.goesOn {
            // The second packet of the one before did not come.
            if let alone = begun { taken.whole = settle(alone) }
            (begun, first) = (place, measurement)
            wait(place)
            taken.isPart = true
        } else if settle(place).isEmpty {
            taken.isPart = true
        } else {
            taken.ordinal = compositions[place].ordinal
        }
        return taken
    }

    /// Lets go of a composition whose packets have come, unless it waits for the end of the contact.
    private mutating func settle(_ place: Int) -> [Composition] {
        guard hasWeights, compositions[place].measurement.timeStamp == nil else {
            waiting.remove(place)
            grown.remove(place)
            return [compositions[place]]
        }
        wait(place)
        return []
    }

    private mutating func wait(_ place: Int) {
        waiting.insert(place)
        grown.insert(place)
    }

    private mutating func nextOrdinal() -> Int {
        defer { count += 1 }
        return count
    }
}
