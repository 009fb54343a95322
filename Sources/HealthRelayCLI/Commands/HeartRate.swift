import ArgumentParser
import GatewayCommands

struct Recording: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record", abstract: "Keep what heart-rate straps and oximeters send, until interrupted.",
        discussion: """
            Nothing that such a device sends is stored unless it is recorded. What has come is stored each minute, and at once when the \
            recording ends. To have the gateway record a device by itself, name it in the setting heart_rate.keep.
            """)

    @Argument(help: "The addresses of the devices.") var addresses: [String]
    @Option(name: .customLong("for"), help: ArgumentHelp("How long to record.", valueName: "duration"))
    var length: DurationArgument?
    @Option(help: ArgumentHelp("Whose devices these must be, by the client's id.", valueName: "id"))
    var person: String?
    @Option(
        help: ArgumentHelp("Print the mean heart rate of so many seconds, not what is stored.", valueName: "duration"))
    var interval: DurationArgument?
    @Option(
        help: ArgumentHelp(
            "What a kept heart-rate variability covers, 30 s to an hour; by default as the settings say.",
            valueName: "duration"))
    var hrvWindow: DurationArgument?
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if let interval, !(1...86_400).contains(interval.seconds) {
            throw ValidationError("--interval: expected 1 s to a day")
        }
        if let hrvWindow, !(30...3600).contains(hrvWindow.seconds) {
            throw ValidationError("--hrv-window: expected 30 s to an hour")
        }
    }

    func run() async throws {
        let operation = RecordOperation(
            addresses: addresses, seconds: length?.seconds, person: person, interval: interval.map { Int($0.seconds) },
            window: hrvWindow.map { Int($0.seconds) })
        try await OperationCommand.run(.device(.record(operation)), global)
    }
}

struct HeartRate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "heart-rate", abstract: "Print heart rates and their variability from what was recorded.",
        discussion: """
            Both are computed from the recorded samples, by intervals and windows of your choice. Instants are RFC 3339, or a date in the \
            person's zone; without --from the last day is printed, and 31 days at most.
            """)

    @Option(help: ArgumentHelp("The earliest time.", valueName: "instant")) var from: String?
    @Option(help: ArgumentHelp("The latest time; a date means the end of that day.", valueName: "instant"))
    var to: String?
    @Option(help: ArgumentHelp("What a heart rate is the mean of, 1 s to a day.", valueName: "duration"))
    var interval = DurationArgument(seconds: 60)
    @Option(help: ArgumentHelp("What a variability covers, 10 s to a day.", valueName: "duration"))
    var window = DurationArgument(seconds: 300)
    @Option(help: ArgumentHelp("Whose, by the client's id; by default the current user's.", valueName: "id"))
    var person: String?
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        guard (1...86_400).contains(interval.seconds) else {
            throw ValidationError("--interval: expected 1 s to a day")
        }
        guard (10...86_400).contains(window.seconds) else { throw ValidationError("--window: expected 10 s to a day") }
    }

    func run() async throws {
        let operation = HeartRateOperation(
            from: from, to: to, person: person, interval: Int(interval.seconds), window: Int(window.seconds))
        try await OperationCommand.run(.heartRate(operation), global)
    }
}
