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
    ///
    /// HI and LO are excluded from delivery for want of a number and count in figures all the same: ``GlucosePoint`` takes them. One
    /// that a person leaves out is in none by that choice.
    public var figureExclusion: FigureExclusion? {
        guard let excluded else { return leftOut == nil ? nil : .leftOut }
        guard leftOut != nil else { return .excluded(excluded) }
        var counted = self
        counted.leftOut = nil
        return GlucosePoint(counted, limits: { _, _ in (nil, nil) }) == nil ? .excluded(excluded) : .leftOut
    }
}
