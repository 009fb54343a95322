import HealthReadings

/// Reads another program's data, one sample after the other, in memory that does not grow with the data.
///
/// ```swift
/// import ReadingImport
///
/// let rules = ImportRules(person: "white_bear", zones: [])
/// var samples: [ImportedSample] = []
/// let reader = try ImportFile(path: "export.xml").reader(rules)
/// while let item = try reader.next() {
///     switch item {
///     case .sample(let sample): samples.append(sample)
///     case .refused(let refusal): print(refusal)
///     }
/// }
/// ```
///
/// A reader is used by one task.
public protocol ImportReader: AnyObject {
    /// The next sample, or the next row that can be none; `nil` at the end of the data.
    ///
    /// - Throws: ``ImportDamage`` where the data cannot be read on. What came before is good.
    func next() throws(ImportDamage) -> ImportItem?

    /// The line of what was found last, from 1.
    var line: Int { get }

    /// What was counted until now.
    var counts: ImportCounts { get }

    /// How many octets of the data were read until now.
    var octetsRead: Int64 { get }

    /// What the data says of the newest sample besides: that somebody leaves it out of figures. `nil`: nothing of the kind.
    var omission: ImportedOmission? { get }
}

extension ImportReader {
    /// Nothing: only our own CSV says so of a reading.
    public var omission: ImportedOmission? { nil }
}

/// That somebody leaves a sample out of figures.
public struct ImportedOmission: Sendable, Hashable, Codable {
    /// Why, in the person's words.
    public var reason: String?

    /// Makes an omission.
    public init(reason: String?) { self.reason = reason }
}

/// What a reader finds.
public enum ImportItem: Sendable, Hashable {
    /// A sample.
    case sample(ImportedSample)
    /// A row of a kind that is taken, and that can be no sample.
    case refused(ImportRefusal)
}

/// What a reader counts instead of handing it over.
public struct ImportCounts: Sendable, Hashable {
    /// All records or rows, whatever became of them.
    public var read = 0
    /// Records that stand in the data once more as a part of another: a systolic pressure of a blood pressure.
    public var joined = 0
    /// What is of no kind that is taken, by the name of its type.
    public var notTaken: [String: Int] = [:]

    /// Nothing.
    public init() {}

    /// How many types are counted by their names; a file that has more is no export.
    private static let mostTypes = 1000

    mutating func leave(_ type: String) {
        let name = type.isEmpty ? "without a type" : String(type.prefix(200))
        notTaken[notTaken.count < Self.mostTypes || notTaken[name] != nil ? name : "other types", default: 0] += 1
    }
}

/// Why a row can be no sample: where it stands, what was expected there, and what was found.
public struct ImportRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    /// The line, from 1.
    public var line: Int
    /// The attribute or the column: `startDate`.
    public var field: String
    /// What was expected.
    public var expected: String
    /// What was found, cut to 80 characters.
    public var found: String

    /// Makes a refusal.
    public init(line: Int, field: String, expected: String, found: String) {
        self.line = line
        self.field = field
        self.expected = expected
        self.found = String(found.prefix(80))
    }

    /// One line for people.
    public var description: String { "line \(line), \(field): expected \(expected), found \(found)" }
}

/// Why data cannot be read on, or not at all.
public struct ImportDamage: Error, Sendable, Hashable, CustomStringConvertible {
    /// What kind of fault it is.
    public enum Fault: String, Sendable, Hashable {
        /// The data ends too early, or is not what it says.
        case damaged = "import_damaged"
        /// The data is none that can be imported.
        case unknownFormat = "import_format_unknown"
        /// Its dates may mean two days each.
        case ambiguousDates = "import_dates_ambiguous"
        /// It declares entities, which no export does.
        case entities = "import_entities"
        /// The file cannot be read.
        case unreadable = "import_unreadable"
    }

    /// What kind of fault it is.
    public var fault: Fault
    /// The line, from 1; `nil` where the fault is no line's.
    public var line: Int?
    /// What was expected.
    public var expected: String
    /// What was found.
    public var found: String
    /// What to do next, for people.
    public var hint: String?

    /// Makes a damage.
    public init(_ fault: Fault, line: Int? = nil, expected: String, found: String, hint: String? = nil) {
        self.fault = fault
        self.line = line
        self.expected = expected
        self.found = String(found.prefix(200))
        self.hint = hint
    }

    /// One line for people.
    public var description: String {
        (line.map { "line \($0): " } ?? "") + "expected \(expected), found \(found)"
    }
}

/// Whose the samples are, and what has to be known besides the data.
public struct ImportRules: Sendable {
    /// The client's id of the person whose the samples are; empty for somebody whom nobody has named yet.
    public var person: String
    /// The person's zones, each with its beginning, the earliest first: for times without an offset.
    public var zones: [(begins: Instant, zone: ZoneRules)]
    /// The order of day and month in dates that may mean two days; `nil`: the data has to prove it. Data that proves the other
    /// order is refused.
    public var dateOrder: DateOrder?
    /// Whether the person that a row names is heeded.
    public var takesPeople: Bool

    /// Makes rules.
    ///
    /// - Parameters:
    ///   - person: whose samples they are, by the client's id.
    ///   - zones: the person's zones, each with its beginning, the earliest first.
    ///   - dateOrder: the order of day and month in dates that may mean two days; `nil`: the data has to prove it.
    ///   - takesPeople: whether the person that a row of our own CSV names is heeded.
    public init(
        person: String, zones: [(begins: Instant, zone: ZoneRules)], dateOrder: DateOrder? = nil,
        takesPeople: Bool = false
    ) {
        self.person = person
        self.zones = zones
        self.dateOrder = dateOrder
        self.takesPeople = takesPeople
    }

    /// The time of a wall-clock time without an offset; `nil` if no zone is known.
    ///
    /// - Parameter isLater: whether an hour that is repeated is the later one.
    func time(of wall: WallTime, isLater: Bool = false) -> ImportedTime? {
        // The zone that holds at the time itself: its own reading of the wall decides when that is.
        for (begins, zone) in zones.reversed() {
            let time = ImportedTime(local: wall, in: zone, isLater: isLater)
            if time.instant >= begins { return time }
        }
        return zones.first.map { ImportedTime(local: wall, in: $0.zone, isLater: isLater) }
    }
}

/// The order of day and month.
public enum DateOrder: String, Sendable, Hashable, CaseIterable {
    /// The day first: 20-11-2026.
    case dayFirst = "dmy"
    /// The month first: 11-20-2026.
    case monthFirst = "mdy"
}
