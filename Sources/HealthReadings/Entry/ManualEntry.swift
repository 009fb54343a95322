/// A reading that a person typed in: what was measured, of whom and when.
///
/// An entry takes the same way as what a device sends: its ``document`` is the payload of a frame, which is stored before
/// anything else happens, and a reading is made of that frame by decoding it. Make one with
/// ``init(_:person:zones:now:)``, which refuses what cannot be a reading, and look at ``doubts(at:)`` before it is stored.
public struct ManualEntry: Sendable, Hashable {
    /// The client's id of the person whose reading it is; empty for somebody whom nobody has named yet.
    public var person: String
    /// The values, with the digits that were typed.
    public var value: RecordValue
    /// When it was measured, in whole seconds, and how that was found.
    public var time: ResolvedTime
    /// The wall-clock time as it was typed; `nil` for an instant with an offset, and for an entry without a time.
    public var localTime: WallTime?
    /// Of a glucose: `fasting`, or another of ``meals``.
    public var meal: String?
    /// What the person wrote beside it.
    public var note: String?
    /// The entry that this one takes the place of.
    public var corrects: ReadingID?
    /// Why the reading is never delivered: its value cannot be a person's. The decoder of its frame sets it; it is no part
    /// of the document.
    public var exclusion: Exclusion?

    /// The device that entries are stored under: none.
    public static let device = DeviceDescription(address: nil, model: "manual", provider: "manual")

    /// The meals of a glucose.
    public static let meals = ["preprandial", "postprandial", "fasting", "casual", "bedtime"]

    /// The kinds that can be entered.
    public static let kinds: [ReadingKind] = [.glucose, .bloodPressure, .weight, .temperature, .spo2]

    /// The most characters of a note.
    public static let longestNote = 500

    /// Makes an entry of parts that were checked.
    init(
        person: String, value: RecordValue, time: ResolvedTime, localTime: WallTime? = nil, meal: String? = nil,
        note: String? = nil, corrects: ReadingID? = nil
    ) {
        self.person = person
        self.value = value
        self.time = time
        self.localTime = localTime
        self.meal = meal
        self.note = note
        self.corrects = corrects
    }

    /// The kind of reading.
    public var kind: ReadingKind { value.kind }

    /// The instant of the measurement.
    public var instant: Instant { time.instant ?? Instant(seconds: 0) }

    /// The id of the reading: the same person, time, values, meal and note have the same id, however often they are entered.
    public var id: ReadingID {
        ReadingIdentity.entered(person: person, time: instant, value: value, meal: meal, note: note)
            .id(device: nil, kind: kind)
    }

    /// The record that the reading is stored with.
    public var record: Record {
        var record = Record(value: value, baseTime: localTime, exclusion: exclusion)
        record.entry = EntryFacts(note: note, corrects: corrects)
        return record
    }

    /// The context that the reading is stored with; `nil` for one without a meal.
    public var context: GlucoseContext? {
        guard let meal else { return nil }
        var context = GlucoseContext()
        context.meal = meal
        return context
    }
}

/// What is stored with a reading that a person entered; a reading of a device has none.
public struct EntryFacts: Sendable, Hashable {
    /// What the person wrote beside it.
    public var note: String?
    /// The entry that it took the place of.
    public var corrects: ReadingID?

    /// Makes facts.
    public init(note: String? = nil, corrects: ReadingID? = nil) {
        self.note = note
        self.corrects = corrects
    }

    /// What an entered reading shows besides: `entry`.
    var members: [JSONValue.Member] {
        [
            .init(
                "entry",
                .object(["note": .optional(note), "corrects": .optional(corrects?.description)]))
        ]
    }
}

/// The withdrawal of an entry, or of what was imported: its reading is taken back from every destination, and goes to none.
public struct EntryWithdrawal: Sendable, Hashable {
    /// Who withdraws it.
    public enum Origin: Sendable, Hashable {
        /// A person: what the other program says of an imported reading changes nothing of that.
        case person
        /// The program that a reading was imported from, which has no value any more; and when it says that it changed that.
        case source(updatedAt: Instant?)
    }

    /// The client's id of the person whose reading it is.
    public var person: String
    /// The reading.
    public var reading: ReadingID
    /// Who withdraws it.
    public var origin: Origin

    /// Makes a withdrawal.
    public init(person: String, reading: ReadingID, by origin: Origin = .person) {
        self.person = person
        self.reading = reading
        self.origin = origin
    }
}
