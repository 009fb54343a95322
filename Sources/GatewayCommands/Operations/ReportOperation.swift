/// The arguments of `report`.
public struct ReportOperation: Codable, Sendable, Hashable {
    /// What a report is about.
    public enum Kind: String, Codable, Sendable, CaseIterable {
        /// Blood pressures.
        case bp
        /// Finger sticks.
        case glucose
        /// A continuous glucose sensor.
        case sensor
        /// Weights.
        case weight
        /// Vital signs that only the page shows.
        case heartRate = "heart_rate"
        case hrv, spo2, temperature
        case bodyComposition = "body_composition"
    }

    /// How a report is given.
    public enum Format: String, Codable, Sendable, CaseIterable {
        case html, json, csv, svg
        /// A part of the gateway's page.
        case fragment
        /// What `healthrelay-report` makes a PDF of: title, author and date in a line each, and each page as an SVG document; each part
        /// behind its length in four octets, the highest first.
        case pages
    }

    /// What it is about.
    public var kind: Kind
    /// The client's id of the person; nil: the current user.
    public var person: String?
    /// The first date, `2026-11-22`; nil: some weeks before the last.
    public var from: String?
    /// The last date; nil: today.
    public var to: String?
    /// How many days, such as `14d`, up to the last date; nil: as `from` says. It excludes `from`.
    public var period: String?
    /// How it is given.
    public var format = Format.html
    /// The code of its language, such as `de`; nil: as the person's settings say, or English. JSON and CSV have none.
    public var language: String?
    /// `a4` or `letter`; nil: as the person's settings say.
    public var paper: String?
    /// The protocol of the mean of blood pressures: `esh`, `aha` or `nice`.
    public var protocolName = "esh"
    /// The unit of glucose, pressure or weight; nil: as the settings say, or the one most was measured in.
    public var unit: String?
    /// The bounds of glucose: a preset, or numbers such as `70-180`; nil: as the settings say.
    public var ranges: String?
    /// The person's own line: `135/85` of blood pressure, `80-150` of glucose, `72.5 kg` of weight; nil: as the settings say.
    public var line: String?
    /// Whether blood pressures that the cuff flagged are left out.
    public var withoutFlagged = false
    /// Whether what lies before the period counts: the figures of the period before, beside those of the period, and the weighings
    /// that a trend begins with. A read-only link shows its own days alone.
    public var comparesBefore = true
    /// `comma` or `semicolon`: how CSV is written.
    public var csvStyle = "comma"
    /// Whether CSV begins with the mark that spreadsheets know UTF-8 by.
    public var csvMark = false
    /// Whether devices, lists of single readings, what the person wrote beside readings, and who left what out are shown; a read-only
    /// link shows figures alone.
    public var showsReadings = true

    /// Makes it.
    public init(_ kind: Kind) { self.kind = kind }
}
