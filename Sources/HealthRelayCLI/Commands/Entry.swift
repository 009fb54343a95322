import ArgumentParser
import GatewayCommands
import HealthReadings

struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a reading that you enter by hand.",
        discussion: """
            Examples: add glucose 5.6 mmol/L --at 2026-11-20T07:30 --meal fasting; add blood_pressure 128/82 mmHg --pulse 64; \
            add weight 70.5 kg; add temperature 36.8 C; add spo2 97 %.

            The same entry is stored once, however often you enter it. An unusual value is asked about; without a terminal it \
            is refused unless you confirm it with --yes.
            """)

    @Argument(help: "glucose, blood_pressure, weight, temperature or spo2.") var kind: String
    @Argument(help: "The number, or both of a blood pressure: 128/82.")
    var value: String
    @Argument(help: "mmol/L or mg/dL; mmHg or kPa; kg or lb; C or F; %.") var unit: String
    @Option(
        help: ArgumentHelp(
            "When it was measured: RFC 3339, or a time of the person's zone (default: now).", valueName: "instant"))
    var at: String?
    @Option(help: ArgumentHelp("The pulse, beside a blood pressure or an oxygen saturation.", valueName: "bpm"))
    var pulse: String?
    @Option(help: ArgumentHelp("Of a glucose: \(ManualEntry.meals.joined(separator: ", ")).", valueName: "meal"))
    var meal: String?
    @Option(help: ArgumentHelp("What to keep beside it.", valueName: "text"))
    var note: String?
    @Option(help: ArgumentHelp("Whose reading it is (default: the current user).", valueName: "id"))
    var person: String?
    @Flag(help: "Store an unusual value without asking.") var yes = false
    @OptionGroup var global: GlobalOptions

    /// Arguments with a minus sign in place of the hyphen of negative numbers, which the parser would take for flags: they are
    /// refused as values. A note that begins like one stays what it is.
    static func keepingNegativeNumbers(_ arguments: [String]) -> [String] {
        guard let command = arguments.first, ["add", "correct"].contains(command) else { return arguments }
        var kept: [String] = []
        for argument in arguments {
            let isNumber = argument.first == "-" && argument.dropFirst().first?.isNumber == true
            if isNumber, kept.last == "--note" {
                kept[kept.count - 1] = "--note=" + argument
            } else {
                kept.append(isNumber ? "\u{2212}" + argument.dropFirst() : argument)
            }
        }
        return kept
    }

    func run() async throws {
        let text = EntryText(kind: kind, value: value, unit: unit, pulse: pulse, time: at, meal: meal, note: note)
        try await OperationCommand.run(.entry(.add(text, person: person, confirmed: yes)), global)
    }
}

struct Correct: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "correct", abstract: "Correct a reading that was entered by hand.",
        discussion: """
            The corrected reading takes the place of the former, which is withdrawn: destinations that have it are asked to \
            take it back. What you leave out stays as it was; an empty pulse, meal or note removes it.
            """)

    @Argument(help: "The reading's id, as query shows it.") var id: String
    @Argument(help: "The number, or both of a blood pressure.") var value: String?
    @Argument(help: "The unit.") var unit: String?
    @Option(help: ArgumentHelp("When it was measured.", valueName: "instant")) var at: String?
    @Option(help: ArgumentHelp("The pulse.", valueName: "bpm")) var pulse: String?
    @Option(help: ArgumentHelp("The meal of a glucose.", valueName: "meal")) var meal: String?
    @Option(help: ArgumentHelp("What to keep beside it.", valueName: "text")) var note: String?
    @Flag(help: "Store an unusual value without asking.") var yes = false
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        var change = EntryChange()
        change.value = value
        change.unit = unit
        change.time = at
        change.pulse = pulse
        change.meal = meal
        change.note = note
        try await OperationCommand.run(.entry(.correct(id, change, confirmed: yes)), global)
    }
}

struct Withdraw: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "withdraw", abstract: "Withdraw a reading that was entered by hand or imported.",
        discussion: """
            Destinations that have it are asked to take it back. The store keeps it, marked as withdrawn; the same entry can \
            be added again. Importing its file again does not bring it back.
            """)

    @Argument(help: "The reading's id, as query shows it.") var id: String
    @OptionGroup var global: GlobalOptions

    func run() async throws { try await OperationCommand.run(.entry(.withdraw(id)), global) }
}

struct Move: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move", abstract: "Make stored readings another person's.",
        discussion: """
            Examples: move 9f1c0c8e00112233445566778899aabb --to-person anna; \
            move --device C0:00:00:00:18:08 --slot 2 --from 2026-11-01 --to-person anna.

            The readings keep their ids and times. Destinations that have them are asked to take them back, and get them again \
            as the new person's. Whose the device's next readings are is in the settings (users), and does not change.

            Instants are RFC 3339, or a date in the zone of --person or else the current user; both ends are included.
            """)

    @Argument(help: "The readings' ids, as query shows them.") var ids: [String] = []
    @Option(help: ArgumentHelp("All readings of this device.", valueName: "address")) var device: String?
    @Option(help: ArgumentHelp("With --device: only records of this slot of the device's.", valueName: "number"))
    var slot: UInt8?
    @Option(help: ArgumentHelp("With --device: measured from then on.", valueName: "instant")) var from: String?
    @Option(help: ArgumentHelp("With --device: measured until then.", valueName: "instant")) var to: String?
    @Option(help: ArgumentHelp("With --device: only readings of this person.", valueName: "id")) var person: String?
    @Option(help: ArgumentHelp("Whose they are.", valueName: "id")) var toPerson: String
    @Flag(help: "Move them without asking.") var yes = false
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        guard ids.isEmpty != (device == nil) else {
            throw ValidationError("expected the ids of readings, or --device")
        }
        guard device != nil || (slot == nil && from == nil && to == nil && person == nil) else {
            throw ValidationError("--slot, --from, --to and --person belong to --device")
        }
    }

    func run() async throws {
        let move = MoveOperation(
            ids: ids, device: device, slot: slot, from: from, to: to, person: person, toPerson: toPerson,
            confirmed: yes)
        try await OperationCommand.run(.move(move), global)
    }
}
