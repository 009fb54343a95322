import ArgumentParser
import Foundation
import FreeStyleLibre
import GatewayCommands
import GatewaySettings
import HealthReadings

struct Libre: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "libre", abstract: "Read FreeStyle Libre 1 sensors.",
        discussion: "Values are estimates from the factory calibration, not what the manufacturer's reader shows.",
        subcommands: [Read.self, Decode.self])

    struct Read: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "read", abstract: "Read the sensor that is held to the reader, and store its readings.")

        @Option(help: ArgumentHelp("A reader other than the one in `nfc.reader`.", valueName: "connstring"))
        var reader: String?
        @Option(help: ArgumentHelp("How long to wait for a sensor.", valueName: "duration"))
        var wait = DurationArgument(seconds: 60)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(.sensor(.read(reader: reader, seconds: wait.seconds)), global)
        }
    }

    struct Decode: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "decode", abstract: "Decode a dump of a sensor's memory. Nothing is stored.",
            discussion:
                "The file contains 344 octets, binary or in hexadecimal. Without --scanned-at the times are unknown.")

        @Argument(help: "The dump; - for standard input.")
        var file: String
        @Option(
            help: ArgumentHelp(
                "The sensor's UID as printed, E0 first. It determines the serial number.", valueName: "hex"))
        var uid: String?
        @Option(help: ArgumentHelp("The sensor's patch information, which tells its model.", valueName: "hex"))
        var patchInfo: String?
        @Option(help: ArgumentHelp("When it was scanned, in RFC 3339.", valueName: "instant"))
        var scannedAt: String?
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let scannedAt = try scannedAt.map { text in
                guard let instant = Instant(rfc3339: text) else {
                    throw Problem.usage("expected an instant such as 2026-11-20T12:30:00Z, found '\(text)'")
                }
                return instant
            }
            let uid = try uid.map { try SensorUID(printed: Hexadecimal.octets($0)) }
            let patch = try patchInfo.map { PatchInformation(try Hexadecimal.octets($0)) }
            if let patch, let foreign = ForeignSensor(patch) {
                throw Problem("foreign_sensor", .badData, foreign.description)
            }
            let dump = SensorDump(
                memory: try MemoryDump.memory(try octets()), uid: uid, patchInformation: patch, scannedAt: scannedAt)
            if global.json {
                Terminal.data(dump.document.text)
            } else {
                for line in dump.lines { Terminal.data(line) }
            }
            if let fault = dump.fault { throw Problem("sensor_memory_damaged", .badData, fault) }
        }

        private func octets() throws -> [UInt8] {
            do {
                let handle =
                    file == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(fileURLWithPath: file))
                // No dump is as long; what comes after is not waited for.
                return [UInt8](try handle.read(upToCount: 1 << 20) ?? Data())
            } catch {
                throw Problem("file_unreadable", .noInput, "cannot read \(file): \(error.localizedDescription)")
            }
        }
    }
}
