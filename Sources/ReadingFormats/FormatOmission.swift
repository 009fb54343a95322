/// A reading, or a part of one, that a format cannot express, with the reason.
///
/// A function that writes a reading throws it if nothing of the reading can be written. What it leaves out of a document that
/// it does write is listed beside the document, in ``Formatted/omissions``.
public struct FormatOmission: Error, Sendable, Hashable {
    /// Why a format cannot express something.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// The reading is excluded, or the value is implausible: it is no value of the person.
        case excluded
        /// The reading's time is not known, or lies outside the years 1 to 9999.
        case noTime = "no_time"
        /// The device sent no number, and the format has no way to say so.
        case notANumber = "not_a_number"
        /// The format has no place for it.
        case noPlace = "no_place"
        /// The value's unit is not one of the format's, and no conversion to one of them is defined.
        case unit
        /// The format's place has fewer digits than the value: the document has a rounded one.
        case rounded
        /// The format has another unit: the document has a converted value.
        case converted
        /// The reading is of another day than the document.
        case otherDay = "other_day"
        /// The format's place needs something that the gateway has not been told, such as the patient's identifier.
        case notKnown = "not_known"
    }

    /// What is left out, by its path in the reading's own document (`blood_pressure.mean`, `context.meal`); `reading` for all of it.
    public var part: String
    /// Why.
    public var reason: Reason

    /// Makes an omission.
    ///
    /// - Parameters:
    ///   - reason: why.
    ///   - part: what is left out, by its path in the reading's own document; `reading` for all of it.
    public init(_ reason: Reason, of part: String = "reading") {
        self.part = part
        self.reason = reason
    }
}

extension FormatOmission: CustomStringConvertible {
    /// The part and the reason's name: `blood_pressure.mean: no_place`.
    public var description: String { "\(part): \(reason.rawValue)" }
}

/// A document in a format, with what of the reading it could not take.
public struct Formatted<Document: Sendable & Hashable>: Sendable, Hashable {
    /// The document.
    public var document: Document
    /// What the document does not say, in the order of the reading's own document.
    public var omissions: [FormatOmission]

    /// Makes a document with its omissions.
    ///
    /// - Parameters:
    ///   - document: the document.
    ///   - omissions: what the document does not say.
    public init(_ document: Document, omissions: [FormatOmission] = []) {
        self.document = document
        self.omissions = omissions
    }
}
