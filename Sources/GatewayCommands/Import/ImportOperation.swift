import Foundation
import HealthDevices
import HealthReadings
import ReadingImport
import ReadingStore

/// What `import` asks of the gateway: the command reads the files itself, as its user may, and hands samples over.
public enum ImportOperation: Codable, Sendable, Hashable {
    /// Whose samples they will be, and what has to be known of them; the answer is an ``ImportContext``. `nil`: the current
    /// user.
    case begin(person: String?)
    /// Stores samples, each as its octets; the answer is a word for each.
    case samples([Data])
    /// Leaves readings out of figures, unless somebody has decided on them here; the answer is how many have changed.
    case omissions([LeftOutSample])

    /// The most samples that come together.
    static let most = 10_000
}

/// A sample that a file says is left out of figures.
public struct LeftOutSample: Codable, Sendable, Hashable {
    /// The reading's id.
    public var id: String
    /// Why, in a person's words.
    public var reason: String?
}

/// What has to be known before a file is read.
public struct ImportContext: Codable, Sendable, Hashable {
    /// One of the person's zones, by its name in the tz database, with its beginning in microseconds since 1970.
    public struct Zone: Codable, Sendable, Hashable {
        var begins: Int64
        var name: String
    }

    /// The client's id of the person whose the samples are.
    public var person: String
    /// Everybody's id.
    public var people: [String]
    /// The person's zones, the earliest first.
    public var zones: [Zone]
}

/// What became of a sample.
public enum ImportResult: Sendable, Hashable {
    /// It is a reading now.
    case stored
    /// It is a reading now, and never delivered.
    case excluded(Exclusion)
    /// It was stored before.
    case present
    /// It was stored before, and is another person's.
    case presentOfAnother
    /// Its id is that of a reading with another time or value.
    case conflict

    init(_ outcome: ImportOutcome) {
        switch outcome {
        case .stored(_, excluded: nil): self = .stored
        case .stored(_, excluded: .some(let exclusion)): self = .excluded(exclusion)
        case .present: self = .present
        case .presentOfAnother: self = .presentOfAnother
        case .conflict: self = .conflict
        }
    }

    /// `stored`, `present`, `conflict`, or the reason of the exclusion.
    var word: String {
        switch self {
        case .stored: "stored"
        case .excluded(let exclusion): exclusion.rawValue
        case .present: "present"
        case .presentOfAnother: "present_of_another"
        case .conflict: "conflict"
        }
    }

    init?(word: String) {
        switch word {
        case "stored": self = .stored
        case "present": self = .present
        case "present_of_another": self = .presentOfAnother
        case "conflict": self = .conflict
        default:
            guard let exclusion = Exclusion(rawValue: word) else { return nil }
            self = .excluded(exclusion)
        }
    }
}
