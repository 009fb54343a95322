/// An entry as a person types it: every part is text, so that no digit is lost.
public struct EntryText: Codable, Sendable, Hashable {
    /// The kind's name: `blood_pressure`.
    public var kind: String
    /// The number: `5.6`; of a blood pressure both, `128/82`.
    public var value: String
    /// The unit: `mmol/L`, whatever the case.
    public var unit: String
    /// The pulse in beats per minute, beside a blood pressure or an oxygen saturation.
    public var pulse: String?
    /// RFC 3339, or a wall-clock time in the person's zone: `2026-11-20T13:30`; `nil`: now.
    public var time: String?
    /// The meal of a glucose: `fasting`.
    public var meal: String?
    /// What to keep beside it.
    public var note: String?

    /// Makes it.
    public init(
        kind: String, value: String, unit: String, pulse: String? = nil, time: String? = nil, meal: String? = nil,
        note: String? = nil
    ) {
        self.kind = kind
        self.value = value
        self.unit = unit
        self.pulse = pulse
        self.time = time
        self.meal = meal
        self.note = note
    }
}

/// Why something that a person typed cannot be a reading, whatever they confirm.
public struct EntryError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The part of the entry: `value`.
    public var part: String
    /// What was expected.
    public var expected: String
    /// What was found.
    public var found: String
    /// Whether the command was wrong, not the value: the kind or the meal has no such name.
    public var isUsage = false

    /// One line for people.
    public var description: String { "\(part): expected \(expected), found \(found)" }
}

extension ManualEntry {
    /// How far ahead of the gateway's clock a measurement may be: clocks differ.
    public static let futureTolerance: Int64 = 120

    /// The earliest time that can be meant.
    private static let earliest = Instant(seconds: -2_208_988_800)

    /// Makes an entry of what was typed.
    ///
    /// - Parameters:
    ///   - text: what was typed.
    ///   - person: the client's id of the person whose reading it is.
    ///   - zones: the zones of that person, the oldest first, each with the instant from which on it was in force.
    ///   - now: the present time.
    /// - Throws: ``EntryError`` for what cannot be a reading: no number, a number that is not above zero, a unit of another
    ///   kind, a diastolic pressure that is not below the systolic, a time in the future.
    public init(
        _ text: EntryText, person: String, zones: [(begin: Instant, zone: ZoneRules)], now: Instant
    ) throws(EntryError) {
        let kind = try Self.kind(text.kind)
        let unit = try Self.unit(text.unit, of: kind)
        var values = EntryValues()
        if kind == .bloodPressure {
            let parts = text.value.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2 else {
                throw EntryError(part: "value", expected: "two pressures such as 128/82", found: Self.shown(text.value))
            }
            let (systolic, diastolic) = (try Self.number(parts[0], "systolic"), try Self.number(parts[1], "diastolic"))
            guard diastolic.isNumericallyLess(than: systolic) else {
                throw EntryError(
                    part: "value", expected: "a diastolic pressure below the systolic", found: Self.shown(text.value))
            }
            values.main = Quantity(systolic, unit)
            values.diastolic = Quantity(diastolic, unit)
        } else {
            let number = try Self.number(text.value, "value")
            guard kind != .spo2 || !ExactDecimal(significand: 100).isNumericallyLess(than: number) else {
                throw EntryError(part: "value", expected: "at most 100 %", found: Self.shown(text.value))
            }
            values.main = Quantity(number, unit)
        }
        if let pulse = text.pulse {
            guard kind == .bloodPressure || kind == .spo2 else {
                throw EntryError(
                    part: "pulse", expected: "a blood_pressure or an spo2 beside it", found: kind.rawValue,
                    isUsage: true)
            }
            values.pulse = Quantity(try Self.number(pulse, "pulse"), .beatsPerMinute)
        }
        guard let value = values.recordValue(kind) else {
            throw EntryError(part: "kind", expected: Self.kindList, found: kind.rawValue, isUsage: true)
        }
        let (time, localTime) = try Self.time(text.time, zones, now)
        guard let instant = time.instant, instant <= now.advanced(bySeconds: Self.futureTolerance) else {
            throw EntryError(
                part: "time", expected: "no later than now, \(now.flooredToSecond)",
                found: time.instant?.description ?? "none")
        }
        guard instant >= Self.earliest else {
            throw EntryError(part: "time", expected: "no earlier than 1900", found: instant.description)
        }
        self.init(
            person: person, value: value, time: time, localTime: localTime, meal: try Self.meal(text.meal, of: kind),
            note: try Self.note(text.note))
    }

    private static let kindList = kinds.map(\.rawValue).joined(separator: ", ")

    private static func kind(_ text: String) throws(EntryError) -> ReadingKind {
        guard let kind = ReadingKind(rawValue: text), kinds.contains(kind) else {
            throw EntryError(part: "kind", expected: "one of \(kindList)", found: shown(text), isUsage: true)
        }
        return kind
    }

    private static func unit(_ text: String, of kind: ReadingKind) throws(EntryError) -> MeasurementUnit {
        let units = UsualValues.units(of: kind)
        let spellings = ["c": "°c", "f": "°f", "lbs": "lb"]
        let wanted = text.lowercased()
        guard let unit = units.first(where: { $0.symbol.lowercased() == spellings[wanted] ?? wanted }) else {
            throw EntryError(
                part: "unit", expected: units.map(\.symbol).joined(separator: " or ") + " for \(kind.rawValue)",
                found: shown(text))
        }
        return unit
    }

    /// A number above zero, with the digits that were typed.
    private static func number(_ text: String, _ part: String) throws(EntryError) -> ExactDecimal {
        guard let number = ExactDecimal(text), text.utf8.count <= 10 else {
            let hint = text.contains(",") ? ", with a point and not a comma" : ""
            throw EntryError(part: part, expected: "a number of at most nine digits\(hint)", found: shown(text))
        }
        guard number.significand > 0 else {
            throw EntryError(part: part, expected: "a number above 0", found: shown(text))
        }
        return number
    }

    private static func meal(_ text: String?, of kind: ReadingKind) throws(EntryError) -> String? {
        guard let text else { return nil }
        guard kind == .glucose else {
            throw EntryError(part: "meal", expected: "a glucose beside it", found: kind.rawValue, isUsage: true)
        }
        guard meals.contains(text) else {
            throw EntryError(
                part: "meal", expected: "one of \(meals.joined(separator: ", "))", found: shown(text), isUsage: true)
        }
        return text
    }

    private static func note(_ text: String?) throws(EntryError) -> String? {
        try line(text, named: "note", atMost: longestNote)
    }

    /// One line that a person wrote; `nil` for none.
    static func line(_ text: String?, named name: String, atMost longest: Int) throws(EntryError) -> String? {
        guard let text, !text.isEmpty else { return nil }
        guard text.count <= longest, text.utf8.count <= 4 * longest, PrintableText.escaped(text) == text else {
            throw EntryError(
                part: name, expected: "one line of at most \(longest) characters",
                found: text.count > longest ? "\(text.count) characters" : "a control character")
        }
        return text
    }

    /// When it was measured. A wall-clock time is by the zone that was in force then; of a repeated hour the earlier instant
    /// is taken, and a missing hour is moved forward.
    private static func time(
        _ text: String?, _ zones: [(begin: Instant, zone: ZoneRules)], _ now: Instant
    ) throws(EntryError) -> (ResolvedTime, WallTime?) {
        guard let text else { return (ResolvedTime(instant: now.flooredToSecond, basis: .reception), nil) }
        if let instant = Instant(rfc3339: text) {
            return (ResolvedTime(instant: instant.flooredToSecond, basis: .corrected), nil)
        }
        guard let wall = WallTime(text.utf8.count == 16 ? text + ":00" : text) else {
            throw EntryError(
                part: "time",
                expected:
                    "an instant such as 2026-11-20T13:30:00+01:00, or a time of the person's zone such as 2026-11-20T13:30",
                found: shown(text), isUsage: true)
        }
        var resolved = ResolvedTime(instant: nil, basis: .unknown)
        for (begin, zone) in zones.reversed() {
            switch zone.moment(wall) {
            case .once(let instant): resolved = ResolvedTime(instant: instant, basis: .assumedZone)
            case .twice(let instant, _), .never(let instant):
                resolved = ResolvedTime(
                    instant: instant, basis: .assumedZone, uncertaintyMinutes: TimeResolution.changeOfClocksMinutes)
            }
            if let instant = resolved.instant, instant >= begin { break }
        }
        return (resolved, wall)
    }

    private static func shown(_ text: String) -> String {
        text.isEmpty ? "nothing" : "'\(PrintableText.escaped(String(text.prefix(40))))'"
    }
}
