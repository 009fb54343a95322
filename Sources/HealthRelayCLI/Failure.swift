import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import HelperProcesses

/// Ends the program with the right exit status and one clear line.
enum Failure {
    static func exit(with error: any Error, arguments: [String]) -> Never {
        if let stop = error as? ExitCode { ProcessEnd.now(stop.rawValue) }
        if error is OutputClosed { ProcessEnd.now(0) }
        if let problem = Problem(describing: error) {
            report(problem, asJSON: arguments.contains("--json"))
            ProcessEnd.now(problem.status.rawValue)
        }
        let status = Healthrelay.exitCode(for: error)
        let message = Healthrelay.fullMessage(for: error)
        if status == .success {
            Terminal.data(Array((message + "\n").utf8))
            do throws(Problem) { try Terminal.requireWritten() } catch {
                report(error, asJSON: arguments.contains("--json"))
                ProcessEnd.now(error.status.rawValue)
            }
            ProcessEnd.now(0)
        }
        guard status != .failure else {
            report(.unexpected(error), asJSON: arguments.contains("--json"))
            ProcessEnd.now(Problem.ExitStatus.ourFault.rawValue)
        }
        guard arguments.contains("--json") else {
            Terminal.errorText(message)
            ProcessEnd.now(Problem.ExitStatus.usage.rawValue)
        }
        report(
            Problem.usage(Healthrelay.message(for: error), hint: "see `healthrelay --help`"), asJSON: true)
        ProcessEnd.now(Problem.ExitStatus.usage.rawValue)
    }

    static func report(_ problem: Problem, asJSON: Bool) {
        if asJSON {
            Terminal.error(problem.document.text)
        } else {
            let hint = problem.hint.map { "\n  → " + PrintableText.escaped($0) } ?? ""
            Terminal.errorText("healthrelay: " + PrintableText.escaped(problem.message) + hint)
        }
    }
}
