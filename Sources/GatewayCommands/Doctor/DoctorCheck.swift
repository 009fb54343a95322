import GatewaySettings
import HealthReadings

/// One thing that was looked at.
struct DoctorCheck: Sendable, Hashable {
    /// What was looked at.
    var name: String
    /// Whether nothing stands in the way.
    var ok: Bool { status == nil }
    /// What was found, in words.
    var found: String
    /// What to do about it; also where nothing must be done and something could.
    var mend: String?
    /// What the program ends with where this stands in the way; nil: nothing does.
    var status: Problem.ExitStatus?

    private init(_ name: String, _ found: String, _ mend: String?, _ status: Problem.ExitStatus?) {
        self.name = name
        self.found = found
        self.mend = mend
        self.status = status
    }

    static func good(_ name: String, _ found: String, mend: String? = nil) -> DoctorCheck {
        DoctorCheck(name, found, mend, nil)
    }

    static func bad(_ name: String, _ status: Problem.ExitStatus, _ found: String, mend: String?) -> DoctorCheck {
        DoctorCheck(name, found, mend, status)
    }

    static func bad(_ name: String, _ problem: Problem) -> DoctorCheck {
        DoctorCheck(name, problem.message, problem.hint, problem.status)
    }

    /// `{name, ok, found, mend}`.
    var document: JSONValue {
        .object(["name": .string(name), "ok": .bool(ok), "found": .string(found), "mend": .optional(mend)])
    }

    /// The check for people, on one line or two.
    var lines: [String] {
        let title = name.replacing("_", with: " ")
        let padding = String(repeating: " ", count: max(1, 13 - title.count))
        return ["\(ok ? "ok  " : "FAIL")  \(title)\(padding)\(found)"] + (mend.map { ["      → \($0)"] } ?? [])
    }
}
