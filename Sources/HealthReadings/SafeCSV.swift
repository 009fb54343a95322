/// Cells of CSV (RFC 4180) that no spreadsheet takes for a formula.
///
/// A spreadsheet computes a cell that begins with `=`, `+`, `-` or `@`: whoever can name a device could have it open an address. Such
/// a text gets an apostrophe in front, which spreadsheets take for "this is text"; ``plain(_:)`` takes it away again.
public enum SafeCSV {
    /// What parts the cells of a row, and how numbers are written.
    public enum Style: String, Sendable, Hashable, CaseIterable, Codable {
        /// Commas between cells and a decimal point (RFC 4180).
        case comma
        /// Semicolons between cells and a decimal comma, for spreadsheets of such countries.
        case semicolon

        /// What stands between cells.
        public var separator: String { self == .comma ? "," : ";" }
    }

    /// The mark that spreadsheets know UTF-8 by.
    public static let byteOrderMark = "\u{FEFF}"

    /// A text as a cell: harmless, and in quotes where it has to be.
    public static func text(_ text: String) -> String { quoted(harmless(text)) }

    /// A number as a cell, in plain notation.
    ///
    /// - Parameters:
    ///   - digits: the number with a decimal point.
    ///   - style: how it is written.
    public static func number(_ digits: String, _ style: Style = .comma) -> String {
        style == .semicolon ? digits.replacing(".", with: ",") : digits
    }

    /// A text that no spreadsheet takes for a formula.
    public static func harmless(_ text: String) -> String { isFormula(withoutApostrophes(text)) ? "'" + text : text }

    /// The text that ``harmless(_:)`` was given.
    public static func plain(_ cell: String) -> String {
        cell.unicodeScalars.first == "'" && isFormula(withoutApostrophes(cell))
            ? String(cell.unicodeScalars.dropFirst()) : cell
    }

    /// A cell in quotes if it has what parts cells or rows.
    public static func quoted(_ cell: String) -> String {
        let needsQuotes =
            cell.unicodeScalars.contains { ",;\"\t\r\n".unicodeScalars.contains($0) }
            || ["\u{FEFF}", " "].contains(cell.unicodeScalars.first) || cell.unicodeScalars.last == " "
        return needsQuotes ? "\"" + cell.escaping(["\"": "\"\""]) + "\"" : cell
    }

    /// Without apostrophes in front, so that a text which had one before gets another, and loses no more than that.
    private static func withoutApostrophes(_ text: String) -> Substring.UnicodeScalarView {
        text[...].unicodeScalars.drop { $0 == "'" }
    }

    /// Whether a spreadsheet could compute it. What it does not show in front doesn't count, and neither does the width of letters.
    private static func isFormula(_ text: Substring.UnicodeScalarView) -> Bool {
        guard let first = text.first else { return false }
        if "\t\r\n".unicodeScalars.contains(first) { return true }
        guard let shown = text.first(where: { !isUnseen($0) }) else { return false }
        return "=+-@\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}\u{FE62}\u{FE63}\u{FE66}\u{FE6B}\u{2212}".unicodeScalars.contains(
            shown)
    }

    /// White space, control characters, marks of direction and order, and what has no width.
    private static func isUnseen(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.properties.isWhitespace || scalar.properties.isDefaultIgnorableCodePoint { return true }
        return [.control, .format].contains(scalar.properties.generalCategory)
    }
}
