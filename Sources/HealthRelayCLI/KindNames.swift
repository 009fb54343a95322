import Foundation
import GatewaySettings

/// The names of `--types`, which are separated by commas.
enum KindNames {
    /// The names; none if the flag isn't there, which means all.
    ///
    /// - Throws: `usage` for a flag without a name: what `"$UNSET"` becomes must not mean all.
    static func of(_ argument: String?) throws(Problem) -> [String] {
        guard let argument else { return [] }
        let names = argument.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
        guard !names.isEmpty, !names.contains("") else {
            throw Problem.usage(
                "--types: expected one or more names with commas between, found '\(argument)'",
                hint: "leave the flag out for all of them")
        }
        return names
    }
}
