import HealthReadings

/// Why a reading is in no figure.
public enum FigureExclusion: Sendable, Hashable {
    /// It is no value of the person's, or has none: it is delivered to nobody either.
    case excluded(Exclusion)
    /// A person leaves it out of figures: it is stored, shown and delivered like any other.
    case leftOut

    /// The reason's published name: that of the exclusion, or `by_person`.
    public var name: String {
        switch self {
        case .excluded(let exclusion): exclusion.rawValue
        case .leftOut: "by_person"
        }
    }

    /// The reason in plain words, as they stand behind a number: `control solution`, `by choice of a person`.
    public var words: String {
        switch self {
        case .excluded(let exclusion): exclusion.rawValue.replacing("_", with: " ")
        case .leftOut: "by choice of a person"
        }
    }
}

extension Reading {
    /// Why the reading is in no figure; `nil` if nothing is known that keeps it from them.
    public var figureExclusion: FigureExclusion? {
        excluded.map(FigureExclusion.excluded) ?? (leftOut == nil ? nil : .leftOut)
    }
}
