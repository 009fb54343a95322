import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

struct Report: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Write a report of a person's readings: to print, to read, or to compute with.",
        discussion: """
            A report shows what meters measured, by the person's own days and clocks, and gives no advice. It says what it left out and why.

            html is one file that a browser shows and prints; pdf is pages of paper; svg is the same pages as one picture; json has the \
            figures; csv has the readings, one a line.
            """,
        subcommands: [Pressure.self, Glucose.self, Sensor.self, Weight.self])

    /// How a report is given.
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case html, pdf, svg, json, csv
    }

    enum Language: String, ExpressibleByArgument, CaseIterable { case en, de, fr, es, ar }
    enum Paper: String, ExpressibleByArgument, CaseIterable { case a4, letter }
    enum Style: String, ExpressibleByArgument, CaseIterable { case comma, semicolon }
    enum Mean: String, ExpressibleByArgument, CaseIterable { case esh, aha, nice }

    /// What all reports take.
    struct Options: ParsableArguments {
        @Option(help: ArgumentHelp("Whose, by the client's id; by default the current user's.", valueName: "id"))
        var person: String?
        @Option(help: ArgumentHelp("The first day.", valueName: "date")) var from: String?
        @Option(help: ArgumentHelp("The last day; by default today.", valueName: "date")) var to: String?
        @Option(help: ArgumentHelp("So many days up to the last, such as 14d; instead of --from.", valueName: "days"))
        var period: String?
        @Option(help: "html, pdf, svg, json or csv; wins over --json.") var format: Format?
        @Option(help: "en, de, fr, es or ar; by default as the person's settings say, or English.") var language:
            Language?
        @Option(help: "a4 or letter; by default as the person's settings say, or a4.") var paper: Paper?
        @Option(
            help: ArgumentHelp(
                "comma, or semicolon with a decimal comma for spreadsheets of such countries.", valueName: "style"))
        var csvStyle = Style.comma
        @Flag(help: "Begin csv with the byte order mark that some spreadsheets know UTF-8 by.")
        var bom = false
        @Option(
            help: ArgumentHelp(
                "The unit to show; by default as the settings say, or the one that most was measured in.",
                valueName: "unit"))
        var unit: String?
        @Option(help: ArgumentHelp("Write into this file; one that exists is replaced.", valueName: "file"))
        var out: String?

        func operation(_ kind: ReportOperation.Kind, json: Bool) -> ReportOperation {
            var operation = ReportOperation(kind)
            (operation.person, operation.from, operation.to, operation.unit) = (person, from, to, unit)
            (operation.period, operation.paper, operation.csvStyle) = (period, paper?.rawValue, csvStyle.rawValue)
            operation.language = language?.rawValue
            operation.csvMark = bom
            operation.format =
                switch format {
                case .html: .html
                case .pdf: .pages
                case .svg: .svg
                case .json: .json
                case .csv: .csv
                case nil: json ? .json : .html
                }
            return operation
        }
    }

    struct Pressure: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "bp", abstract: "Blood pressures: the mean of a protocol, morning and evening, and each day.",
            discussion: """
                esh and nice leave out the first of seven days, aha averages all. A target line is shown only if you give one, here or in \
                the settings (users[].reports.pressure_line); guidelines and doctors differ in it.
                """)
        @OptionGroup var options: Options
        @Option(name: .customLong("protocol"), help: "esh, aha or nice: which readings the mean is of.")
        var mean = Mean.esh
        @Option(help: ArgumentHelp("Your own line in mmHg, such as 135/85.", valueName: "pressures")) var line: String?
        @Flag(help: "Leave out readings that the cuff flagged, such as an irregular pulse.") var withoutFlagged = false
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            var operation = options.operation(.bp, json: global.json)
            (operation.protocolName, operation.line) = (mean.rawValue, line)
            operation.withoutFlagged = withoutFlagged
            try await Report.write(operation, options, global)
        }
    }

    struct Glucose: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "glucose",
            abstract: "Finger sticks: figures, logbook, meals, the time of day, and every reading.")
        @OptionGroup var options: Options
        @OptionGroup var ranges: Ranges
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            var operation = options.operation(.glucose, json: global.json)
            (operation.ranges, operation.line) = (ranges.ranges, ranges.line)
            try await Report.write(operation, options, global)
        }
    }

    struct Sensor: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sensor",
            abstract: "A continuous glucose sensor: daily pattern, time in ranges, episodes, and each day.")
        @OptionGroup var options: Options
        @OptionGroup var ranges: Ranges
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            var operation = options.operation(.sensor, json: global.json)
            (operation.ranges, operation.line) = (ranges.ranges, ranges.line)
            try await Report.write(operation, options, global)
        }
    }

    struct Weight: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "weight", abstract: "Weights and their trend.")
        @OptionGroup var options: Options
        @Option(help: ArgumentHelp("Your own line, such as '72.5 kg'.", valueName: "weight")) var line: String?
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            var operation = options.operation(.weight, json: global.json)
            operation.line = line
            try await Report.write(operation, options, global)
        }
    }

    struct Ranges: ParsableArguments {
        @Option(
            help: ArgumentHelp(
                "standard, older, pregnancy or gestational, with the goals that go with them; or your own, such as 70-180 or 54-70-180-250.",
                valueName: "ranges"))
        var ranges: String?
        @Option(
            help: ArgumentHelp(
                "Your own lines, such as 80-150 or 4.4-8.3: drawn, and no bounds of classes.", valueName: "values"))
        var line: String?
    }

    private static func write(_ operation: ReportOperation, _ options: Options, _ global: GlobalOptions) async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        if options.format == .pdf, options.out == nil, Terminal.isInteractive {
            throw Problem(
                "report_to_terminal", .usage, "a PDF is binary and cannot be written to a terminal",
                hint: "name a file with --out")
        }
        // A report of ten years has some megabytes.
        let output = GatheredOutput(upTo: 256 << 20, beside: TerminalOutput(asJSON: global.json, answers: .terminal))
        try await OperationCommand.run(
            OperationRequest(.report(operation), json: global.json), global, settings, output)
        let octets = options.format == .pdf ? try await ReportPDF.make(of: output.gathered) : output.gathered
        guard let path = options.out else { return try ReportOutput.writeToStandardOutput(octets) }
        try ReportOutput.write(octets, to: path)
    }
}

/// Where a report's octets go.
private enum ReportOutput {
    static func write(_ octets: [UInt8], to path: String) throws(Problem) {
        do throws(POSIXError) {
            var file = try WholeFile(path, streams: true)
            try file.write(octets)
            try file.finish()
        } catch {
            throw failure(path, error.code.rawValue)
        }
    }

    static func writeToStandardOutput(_ octets: [UInt8]) throws(Problem) {
        do throws(POSIXError) { try Terminal.write(octets) } catch {
            // A reader that has gone has what it wanted.
            if error.code != .EPIPE { throw Terminal.failed(String(cString: strerror(error.code.rawValue))) }
        }
    }

    private static func failure(_ path: String, _ code: Int32) -> Problem {
        let reason = String(cString: strerror(code))
        return switch code {
        case ENOSPC, EDQUOT, EIO: Problem("report_io", .inputOutput, "cannot write \(path): \(reason)")
        default: Problem("report_cannot_create", .cannotCreate, "cannot create \(path): \(reason)")
        }
    }
}
