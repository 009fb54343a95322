import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings

struct Measure: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "measure", abstract: "Have a QardioArm inflate and measure, and print the reading.",
        discussion: """
            The cuff inflates around your arm: put it on first, and sit still. Ctrl-C lets the air out. Only this command \
            starts a cuff, once each time that you give it.
            """)

    @Argument(help: "The cuff's address.") var address: String
    @Option(help: ArgumentHelp("How long to wait until the cuff is heard, ten minutes at most.", valueName: "duration"))
    var wait = DurationArgument(seconds: 60)
    @Flag(help: "Do not ask before the cuff inflates.") var yes = false
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let device = try DeviceAddress.argument(address)
        if !yes { try confirm(device) }
        do {
            try await OperationCommand.run(
                .device(.measure(MeasureOperation(address: address, seconds: wait.seconds))), global)
        } catch let problem as Problem where problem.code == "interrupted" {
            throw Problem(
                problem.code, problem.status, "interrupted; a cuff that was inflating is told to let the air out",
                hint: "open the cuff if it stays tight. Nothing inflates it again by itself")
        }
    }

    private func confirm(_ device: DeviceAddress) throws {
        try TerminalInput.require(
            because: "measuring inflates a cuff around somebody's arm", hint: "when the cuff is on, confirm with --yes")
        Terminal.errorText(
            "\(device) will inflate around your arm now, and measure for about 40 seconds. Put the cuff on, rest your arm on "
                + "a table,\nand do not speak or move. Ctrl-C lets the air out.\nInflate the cuff? [y/N]")
        guard ["y", "yes"].contains(readLine()?.trimmingCharacters(in: .whitespaces).lowercased()) else {
            throw Problem("not_confirmed", .usage, "not confirmed: the cuff was not inflated")
        }
    }
}
