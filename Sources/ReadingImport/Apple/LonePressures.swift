import HealthReadings

/// Pressures that stand in the file by themselves, until their correlation comes, or the end of the file.
///
/// An export lists all records before the correlations. A person has a few thousand blood pressures in a life, so these are
/// remembered; ``limit`` keeps a file that has nothing else from filling the memory.
struct LonePressures {
    /// What the two pressures of a measurement share.
    struct Key: Hashable {
        var source: String?
        var start: ImportedTime
        var end: Instant?

        static func == (lhs: Key, rhs: Key) -> Bool {
            lhs.start.instant == rhs.start.instant && lhs.end == rhs.end && lhs.source == rhs.source
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(start.instant)
            hasher.combine(end)
            hasher.combine(source)
        }
    }

    /// A pressure, with what tells it from others.
    struct Pressure: Hashable {
        var key: Key
        var quantity: Quantity
    }

    /// How many are remembered: of ten measurements a day for seven years.
    static let limit = 50_000

    private var systolic: [Pressure: Int] = [:]
    private var diastolic: [Pressure: Int] = [:]
    /// How many of those that could not be remembered have had no correlation yet.
    private var overflow = 0
    private var firstOverflow = 0

    var isEmpty: Bool { systolic.isEmpty && diastolic.isEmpty && overflow <= 0 }

    mutating func add(_ type: AppleType, _ pressure: Pressure, line: Int) {
        guard systolic.count + diastolic.count < Self.limit else {
            if overflow == 0 { firstOverflow = line }
            overflow += 1
            return
        }
        if case .systolic = type { systolic[pressure] = line } else { diastolic[pressure] = line }
    }

    /// Forgets a pressure whose correlation came; whether it stood by itself as well.
    mutating func remove(_ type: AppleType, _ pressure: Pressure) -> Bool {
        let line =
            if case .systolic = type { systolic.removeValue(forKey: pressure) } else {
                diastolic.removeValue(forKey: pressure)
            }
        guard line == nil else { return true }
        guard overflow > 0 else { return false }
        overflow -= 1
        return true
    }

    /// Joins those that are left, in the order of their times, and refuses those that stand alone or that could be joined in
    /// more than one way: a pressure that nobody measured must not come of it.
    mutating func take(_ person: String, _ provider: String) -> [ImportItem] {
        func inOrder(_ side: [Pressure: Int]) -> [(pressure: Pressure, line: Int)] {
            side.map { ($0.key, $0.value) }.sorted {
                ($0.pressure.key.start.instant, $0.line) < ($1.pressure.key.start.instant, $1.line)
            }
        }
        var items: [ImportItem] = []
        var others = Dictionary(grouping: inOrder(diastolic), by: \.pressure.key)
        let counts = Dictionary(grouping: systolic.keys, by: \.key).mapValues(\.count)
        for (pressure, line) in inOrder(systolic) {
            let key = pressure.key
            guard let found = others[key], let other = found.first else {
                items.append(.refused(Self.refusal(line, "a diastolic pressure of the same time and source")))
                continue
            }
            guard found.count == 1, counts[key] == 1 else {
                items.append(
                    .refused(Self.refusal(line, "one diastolic pressure of the same time and source", found: "several"))
                )
                continue
            }
            others[key] = []
            guard pressure.quantity.unit == other.pressure.quantity.unit else {
                items.append(.refused(Self.unitRefusal(line, pressure.quantity, other.pressure.quantity)))
                continue
            }
            items.append(.sample(Self.sample(person, provider, pressure.quantity, other.pressure.quantity, key)))
        }
        for (pressure, line) in others.values.joined().sorted(by: { $0.line < $1.line }) {
            items.append(
                counts[pressure.key] == nil
                    ? .refused(Self.refusal(line, "a systolic pressure of the same time and source"))
                    : .refused(
                        Self.refusal(line, "one systolic pressure of the same time and source", found: "several")))
        }
        if overflow > 0 {
            items.append(
                .refused(
                    ImportRefusal(
                        line: firstOverflow, field: "type",
                        expected: "at most \(Self.limit) pressures without a correlation",
                        found: "\(overflow) more, from here on")))
        }
        self = LonePressures()
        return items
    }

    private static func refusal(_ line: Int, _ expected: String, found: String = "none") -> ImportRefusal {
        ImportRefusal(line: line, field: "type", expected: expected, found: found)
    }

    /// Two pressures of one measurement in two units.
    static func unitRefusal(_ line: Int, _ systolic: Quantity, _ diastolic: Quantity) -> ImportRefusal {
        ImportRefusal(
            line: line, field: "unit", expected: "one unit for both pressures",
            found: "\(systolic.unit.symbol) and \(diastolic.unit.symbol)")
    }

    static func sample(
        _ person: String, _ provider: String, _ systolic: Quantity, _ diastolic: Quantity, _ key: Key,
        isEntered: Bool = false, device: String? = nil
    ) -> ImportedSample {
        ImportedSample(
            person: person, provider: provider, source: key.source, sourceDevice: device, isEntered: isEntered,
            value: .bloodPressure(
                BloodPressureValue(
                    systolic: systolic, diastolic: diastolic,
                    meanArterial: Quantity(.notANumber, systolic.unit))),
            time: key.start, end: key.end)
    }
}
