import ArgumentParser
import DeviceReports
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings

extension Devices {
    struct Report: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "report",
            abstract: "Read a device and write a report that proves its model, without anything of its owner.",
            discussion: """
                The report has what was said, with other values, names, serial numbers, addresses and times. You see it before it is \
                written, and decide. Readings are stored as by `read`.
                """)
        @Argument(help: "The device's address.")
        var address: String
        @Option(
            help: ArgumentHelp("The new file; an existing one is not touched.", valueName: "file"), completion: .file())
        var output = "device-report.json"
        @Option(help: ArgumentHelp("How long to wait until the device is heard.", valueName: "duration"))
        var wait = DurationArgument(seconds: 60)
        @Flag(help: "Ask a glucose meter for everything that it has.") var allRecords = false
        @Flag(help: "Do not ask before the file is written.") var yes = false
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            global.startLogging(settings)
            // A device is not read for a report that cannot be written.
            if !yes { try TerminalInput.require(because: "a report must be confirmed", hint: "say --yes") }
            try refuseExisting()
            // It is kept until its owner has seen it.
            let draft = GatheredOutput(
                upTo: ModelReport.longest, beside: TerminalOutput(asJSON: global.json, answers: .terminal))
            let operation = DeviceReportOperation(address: address, allRecords: allRecords, seconds: wait.seconds)
            try await OperationCommand.run(
                OperationRequest(.device(.report(operation)), json: global.json), global, settings, draft)
            let octets = draft.gathered
            let report = try ModelReport(reading: octets)
            for line in report.lines { Terminal.error(line) }
            if let error = report.course.error { Terminal.error("the contact ended early: \(error)") }
            if !yes { try await confirm(octets.count) }
            try refuseExisting()
            try write(octets)
            let document = JSONValue.object([
                "file": .string(output), "octets": .integer(Int64(octets.count)), "model": .optional(report.model),
                "steps": .integer(Int64(report.exchange.steps.count)),
            ])
            Terminal.data(global.json ? document.text : "\(output): \(octets.count) octets")
        }

        private func refuseExisting() throws(Problem) {
            // A symbolic link counts, wherever it leads.
            guard (try? FileManager.default.attributesOfItem(atPath: output)) == nil else {
                throw Problem(
                    "report_exists", .cannotCreate, "\(output) already exists",
                    hint: "name another file with --output, or remove this one")
            }
        }

        private func confirm(_ count: Int) async throws {
            Terminal.error("This and nothing else will be in \(output) (\(count) octets).")
            guard try await TerminalInput.yes("Write it? [y/N] ") else {
                throw Problem("not_confirmed", .usage, "nothing was written")
            }
        }

        private func write(_ octets: [UInt8]) throws(Problem) {
            do throws(POSIXError) {
                var file = try WholeFile(output)
                try file.write(octets)
                try file.finish()
            } catch {
                let reason = String(cString: strerror(error.code.rawValue))
                throw switch error.code {
                case .ENOSPC, .EDQUOT, .EIO: Problem("report_io", .inputOutput, "cannot write \(output): \(reason)")
                default: Problem("report_cannot_create", .cannotCreate, "cannot create \(output): \(reason)")
                }
            }
        }
    }
}
