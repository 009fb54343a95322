import ArgumentParser
import GatewaySettings
import HealthReadings
import ISO15693Reader

struct NFC: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "nfc", abstract: "NFC readers.", subcommands: [Readers.self])

    struct Readers: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "readers", abstract: "List the connected readers, what each can do, and why not.",
            discussion: """
                The command opens and asks the reader that `nfc.reader` names. It never tries other serial ports, so a \
                reader at a serial port is found only if it is set.
                """)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            let readers = await NFCReaders().list(configured: settings["nfc.reader"])
            guard !global.json else {
                return Terminal.data(JSONValue.object(["readers": .array(readers.map(\.document))]).text)
            }
            for reader in readers { Terminal.data(reader.line) }
            if readers.isEmpty {
                Terminal.error("no reader found. If yours is at a serial port, set `nfc.reader`")
            }
        }
    }
}

extension NFCReaders.Listing {
    /// `{reader, transport, name, iso15693, reason}`.
    fileprivate var document: JSONValue {
        .object([
            "reader": .string(reader), "transport": .string(transport.rawValue), "name": .optional(name),
            "iso15693": iso15693.map(JSONValue.bool) ?? .null, "reason": .optional(reason),
        ])
    }

    fileprivate var line: String {
        let ability =
            switch iso15693 {
            case true?: "reads ISO 15693"
            case false?: "does not read ISO 15693"
            case nil: "not known"
            }
        return [reader, name.flatMap { $0 == reader ? nil : $0 }, ability, reason].compactMap(\.self)
            .joined(separator: "  ")
    }
}
