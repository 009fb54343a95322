import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import ReadingImport
import ReadingStore

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import readings from files of other programs.",
        discussion: """
            Reads the export.xml of Apple Health, the CSV of LibreView, and the CSV of `query --format csv`. Importing a file \
            again changes nothing; an import that was interrupted is run again. To restore a whole store of this gateway, use \
            `store import`.
            """)

    @Argument(help: "The files.", completion: .file()) var files: [String]
    @Option(
        help: ArgumentHelp("apple_health, libreview or csv (default: what the file looks like).", valueName: "format"))
    var format: ImportFormat?
    @Option(help: ArgumentHelp("Whose readings they are (default: the current user).", valueName: "id"))
    var person: String?
    @Option(help: ArgumentHelp("Kinds to take, separated by commas: \(ReadingKind.list).", valueName: "kinds"))
    var types: String?
    @Option(help: ArgumentHelp("The earliest time to take.", valueName: "instant"))
    var from: String?
    @Option(help: ArgumentHelp("The latest time to take; a date means the end of that day.", valueName: "instant"))
    var to: String?
    @Option(help: ArgumentHelp("The zone of times without an offset (default: the person's).", valueName: "zone"))
    var timeZone: String?
    @Option(help: ArgumentHelp("dmy or mdy, for dates that may mean two days.", valueName: "order"))
    var dateOrder: DateOrder?
    @Flag(help: "Read the files, say what would be stored, and store nothing.")
    var dryRun = false
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        var options = ImportRun.Options()
        options.format = format
        options.person = person
        options.kinds = try Set(KindNames.of(types).map(ReadingKind.argument))
        (options.from, options.to, options.dateOrder) = (from, to, dateOrder)
        options.isDry = dryRun
        options.zone = try timeZone.map { name in
            guard let zone = ZoneRules.named(name) else { throw Problem.unknownZone(name) }
            return zone
        }
        let output = TerminalOutput(asJSON: global.json, answers: .terminal, hasVerdict: true)
        let (run, global) = (ImportRun(files, options), global)
        if dryRun {
            let zone = settings["user.time_zone"] ?? TimeZone.current.identifier
            let name = person ?? settings["user.client_user_id"] ?? ""
            let sink = DrySink(person: name, zone: zone, now: .systemClock)
            return try await Interruption.endingBySignal { try await Self.run(run, into: sink, output, global.json) }
        }
        try await Interruption.endingBySignal {
            try await StoreWork.run(at: global.stateDir) { owner in
                try await Self.run(run, into: ControlSink(owner), output, global.json)
            } here: { state in
                let gateway = try await Gateway.open(settings, state: state)
                let result = await Result {
                    try await Self.run(run, into: GatewaySink(gateway), output, global.json)
                }
                if case .failure = result { try? await gateway.close() } else { try await gateway.close() }
                return try result.get()
            }
        }
    }

    private static func run(
        _ run: ImportRun, into sink: any ImportSink, _ output: TerminalOutput, _ asJSON: Bool
    ) async throws {
        try await run.run(into: sink) { file, refusal in
            output.note("\(file): \(refusal)")
        } progress: { progress in
            output.progress(progress)
        } finished: { report in
            if asJSON {
                try output.data(report.document.text)
            } else {
                for line in report.lines { try output.data(line) }
            }
        }
    }
}

extension ImportFormat: ExpressibleByArgument {}
extension DateOrder: ExpressibleByArgument {}
