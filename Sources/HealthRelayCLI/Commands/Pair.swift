import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

struct Pair: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair", abstract: "Bond with a meter, and prove that the bond holds.",
        discussion: "Put the meter into its pairing mode first. If the meter shows digits, the command asks for them.")

    @Argument(help: "The address, as `scan` shows it.")
    var address: String
    @Option(
        help: ArgumentHelp(
            "The six digits that the meter shows. Other users of this machine can see them in the process list.",
            valueName: "n"))
    var passkey: String?
    @Option(
        help: ArgumentHelp(
            "A file with the six digits, read when the meter asks for them; while it is empty, the command waits.",
            valueName: "file"), completion: .file())
    var passkeyFile: String?
    @Option(help: ArgumentHelp("How long to wait until the meter is heard.", valueName: "duration"))
    var wait = DurationArgument(seconds: 60)
    @Flag(help: "Remove the existing bond and pair again; readings and history stay.")
    var repair = false
    @Option(
        help: ArgumentHelp(
            "The model, by its id in `catalog`, where the meter's name does not tell it.", valueName: "id"))
    var model: String?
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        guard passkey == nil || passkeyFile == nil else {
            throw ValidationError("--passkey and --passkey-file cannot be used together")
        }
        // The digits are not repeated: what was typed wrongly may be nearly right.
        guard passkey.map({ Passkey($0) != nil }) ?? true else {
            throw ValidationError("--passkey: expected six digits, 000000 to 999999")
        }
    }

    func run() async throws {
        var answers = AnswerSource.terminal
        if let passkey = passkey.flatMap({ Passkey($0) }) { answers = .passkey(passkey) }
        if let passkeyFile {
            guard access(passkeyFile, R_OK) == 0 else {
                throw Problem(
                    "passkey_unreadable", .noInput,
                    "cannot read the passkey in \(passkeyFile): \(String(cString: strerror(errno)))")
            }
            answers = .passkeyFile(passkeyFile)
        }
        let pairing = PairOperation(address: address, seconds: wait.seconds, repair: repair, model: model)
        try await OperationCommand.run(.device(.pair(pairing)), global, answers: answers)
    }
}

struct Unpair: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpair", abstract: "Remove the bond with a meter here; its readings stay.")
    @Argument(help: "The address.") var address: String
    @OptionGroup var global: GlobalOptions
    func run() async throws { try await OperationCommand.run(.device(.unpair(address: address)), global) }
}
