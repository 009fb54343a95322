import GatewaySettings
import HelperProcesses

/// Where `healthrelay-capture` is.
enum CaptureHelperLocation {
    static let name = "healthrelay-capture"

    /// Beside this program, in the libexec folder of its installation, or in PATH.
    static func find() throws(Problem) -> String {
        switch HelperProgram.find(name) {
        case .found(let path): return path
        case .notPermitted(let path, _): throw notPermitted(path)
        case .missing(let expected):
            throw Problem(
                "capture_helper_missing", .unavailable, "the program \(name) is not there",
                hint: "install it beside healthrelay or in \(expected ?? "PATH")")
        }
    }

    /// The program is not for this user: it is for a group.
    static func notPermitted(_ path: String) -> Problem {
        Problem(
            "capture_not_permitted", .notPermitted, "this user may not run \(path)",
            hint: HelperProgram.group(of: path).map { "add the user to the group `\($0)`, and log in again" })
    }
}
