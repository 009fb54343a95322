import Yams

/// What is wrong with a text that should be YAML, and where. Nothing of the text itself: it may be a secret.
package struct YAMLFault: Sendable, Hashable {
    /// The line, from 1; `nil` if it isn't known.
    package var line: Int?
    /// What the parser says.
    package var reason: String

    /// Describes what Yams throws.
    package init(_ error: any Error) {
        switch error as? YamlError {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            (line, reason) = (mark.line, problem)
        case .reader(let problem, let offset, _, let yaml):
            let before = offset.map { yaml.prefix($0) }
            (line, reason) = (before.map { $0.count(where: { $0.isNewline }) + 1 }, problem)
        case .duplicatedKeysInMapping(let keys, let context):
            let names = keys.sorted().map { "'\($0)'" }.joined(separator: ", ")
            (line, reason) = (context.mark.line, "these keys are there more than once: \(names)")
        case .writer(let problem), .emitter(let problem), .representer(let problem): reason = problem
        case .no, .memory, .dataCouldNotBeDecoded, nil: reason = "it cannot be read"
        }
    }

    /// `FILE:LINE: this is not YAML: …`
    package func message(_ path: String) -> String {
        path + (line.map { ":\($0)" } ?? "") + ": this is not YAML: \(reason)"
    }
}
