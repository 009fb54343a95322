import ArgumentParser
import GatewayService
import HealthReadings
import ISO15693Reader

struct NFC: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "nfc", abstract: "NFC readers.", subcommands: [Readers.self])

    struct Readers: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "readers", abstract: "The readers there are, what each can do, and why not.",
            discussion: """
                The one that `nfc.reader` names is opened and asked. Serial ports are never tried: a reader at one is \
                found only where it is set.
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
                Terminal.error("no reader was found; one at a serial port must be set: `nfc.reader`")
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
