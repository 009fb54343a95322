import ArgumentParser
import GatewayCommands
import HealthReadings

struct Query: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query", abstract: "Print stored readings, newest first.",
        discussion: """
            Instants are RFC 3339, or a date in the zone of --person or else the current user; both ends are included.

            fhir is a Bundle, open_mhealth an array of data points, terra an array with a body event for each day, and rook an array of \
            event documents. libreview is a table of glucose as LibreView exports it. What these formats cannot express is counted on standard error.
            """)

    @Option(help: ArgumentHelp("Kinds, separated by commas: \(ReadingKind.list).", valueName: "kinds"))
    var types: String?
    @Option(help: ArgumentHelp("The earliest time.", valueName: "instant"))
    var from: String?
    @Option(help: ArgumentHelp("The latest time; a date means the end of that day.", valueName: "instant"))
    var to: String?
    @Option(help: ArgumentHelp("How many at most, 1 to 10000.", valueName: "n"))
    var limit = 1000
    @Option(help: ArgumentHelp("How many to skip.", valueName: "n"))
    var offset: Int?
    @Option(help: ArgumentHelp("Continue where an earlier page ended.", valueName: "cursor"))
    var cursor: String?
    @Flag(help: "Only the newest reading of each kind.")
    var latest = false
    @Option(help: ArgumentHelp("Only this person's readings, by the client's id.", valueName: "id"))
    var person: String?
    @Option(
        help: ArgumentHelp(
            "json, ndjson, csv, libreview, fhir, open_mhealth, terra or rook; wins over --json.", valueName: "format"))
    var format: Format?
    @Option(
        help: ArgumentHelp(
            "How csv is written: comma, or semicolon with a decimal comma for spreadsheets of such countries.",
            valueName: "style"))
    var csvStyle = Report.Style.comma
    @Flag(help: "Begin csv with the byte order mark that some spreadsheets know UTF-8 by.")
    var bom = false
    @OptionGroup var global: GlobalOptions

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case json, ndjson, csv, libreview, fhir, terra, rook
        case openMHealth = "open_mhealth"
    }

    func run() async throws {
        var operation = QueryOperation()
        operation.types = try KindNames.of(types)
        operation.from = from
        operation.to = to
        operation.limit = limit
        operation.offset = offset
        operation.cursor = cursor
        operation.latest = latest
        operation.person = person
        (operation.csvStyle, operation.csvMark) = (csvStyle.rawValue, bom)
        operation.format =
            switch format {
            case .json: .json
            case .ndjson: .ndjson
            case .csv: .csv
            case .libreview: .libreview
            case .fhir: .fhir
            case .openMHealth: .openMHealth
            case .terra: .terra
            case .rook: .rook
            case nil: global.json ? .json : .text
            }
        try await OperationCommand.run(.query(operation), global)
    }
}
