import ArgumentParser
import GatewayCommands

struct Monitor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "monitor", abstract: "Show meters connecting and disconnecting, until interrupted.")
    @Argument(help: "Addresses (default: all paired meters).")
    var addresses: [String] = []
    @OptionGroup var global: GlobalOptions
    func run() async throws { try await OperationCommand.run(.device(.monitor(addresses: addresses)), global) }
}

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Show readings as they arrive, until interrupted.")
    @Option(help: ArgumentHelp("Kinds, separated by commas: glucose, heart_rate, hrv.", valueName: "kinds"))
    var types: String?
    @Option(help: ArgumentHelp("The window of the heart-rate variability, 5 s to a day.", valueName: "duration"))
    var window = DurationArgument(seconds: 60)
    @Flag(help: "Also show faults of Bluetooth and of bonds, as they begin and end.") var faults = false
    @Option(
        help: ArgumentHelp(
            "Go on where the last watch under this name ended, with everything since.", valueName: "name"))
    var subscriber: String?
    @Option(help: ArgumentHelp("With --subscriber: only this person's readings.", valueName: "id"))
    var person: String?
    @Flag(help: "With a new --subscriber: begin with everything that is stored.") var fromBeginning = false
    @Option(
        help: ArgumentHelp(
            "With a new --subscriber: where to begin, beginning or now (default: now).", valueName: "place"))
    var from: String?
    @Flag(help: "With --subscriber: end when everything since is shown.") var once = false
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if subscriber == nil, person != nil || fromBeginning || from != nil || once {
            throw ValidationError("--person, --from-beginning, --from and --once belong to --subscriber NAME")
        }
        if subscriber != nil, faults { throw ValidationError("--faults goes without --subscriber") }
        if fromBeginning, from == "now" {
            throw ValidationError("--from-beginning and --from now say two different things: use one of them")
        }
        if let from, !["now", "beginning"].contains(from) {
            throw ValidationError("--from: expected beginning or now, found '\(from)'")
        }
        guard (5...86_400).contains(window.seconds) else {
            throw ValidationError("--window: expected 5 s to a day")
        }
    }

    func run() async throws {
        let kinds = try KindNames.of(types)
        if let subscriber {
            let watch = SubscriberWatch(
                name: subscriber, types: types.map { _ in kinds }, person: person,
                fromBeginning: fromBeginning || from == "beginning", once: once)
            return try await OperationCommand.run(.subscriber(.watch(watch)), global)
        }
        try await OperationCommand.run(
            .device(.watch(types: kinds, window: Int(window.seconds), faults: faults)), global)
    }
}

struct Subscribers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "subscriber", abstract: "Who reads changes under a name.",
        discussion: "`watch --subscriber NAME` makes one.", subcommands: [List.self, Remove.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the names, and how much waits for each.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.subscriber(.list), global) }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Forget a name, and where it was. A watch under it ends.")
        @Argument(help: "The name, as list shows it.") var name: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.subscriber(.remove(name)), global) }
    }
}
