import HealthReadings
import NIOHTTP1
import OutgoingHTTP

extension HTTPAnswer {
    /// Whether the status says that the server has done what was asked.
    var isGood: Bool { (200..<300).contains(status) }

    /// Whether the body is a page for people rather than an answer of an interface.
    var isPage: Bool {
        if headers.first(name: "content-type")?.lowercased().hasPrefix("text/html") == true { return true }
        return body.first { !" \t\r\n".utf8.contains($0) } == UInt8(ascii: "<")
    }

    /// The body as JSON; `nil` if it is none.
    var json: AnswerJSON? { AnswerJSON(body) }
}

/// JSON of a server, to be looked at without a type of its own.
enum AnswerJSON: Sendable, Hashable {
    case object([String: AnswerJSON])
    case array([AnswerJSON])
    case text(String)
    case number(Double)
    case bool(Bool)
    case null

    /// What a document may have: a server's statement of what it can do has more than any other, and nests no deeper than this.
    private static let (mostMembers, deepest) = (100_000, 64)

    /// Reads a document; `nil` if it is none.
    ///
    /// Not by `JSONDecoder`: what has to be tried as one type after the other takes it ever longer the deeper it lies, and a thousand
    /// brackets took seconds.
    init?(_ octets: [UInt8]) {
        let document = octets.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(octets.dropFirst(3)) : octets
        guard let node = try? JSONReader.read(document, mostMembers: Self.mostMembers, deepest: Self.deepest) else {
            return nil
        }
        self.init(node)
    }

    private init(_ node: JSONNode) {
        switch node.value {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let digits): self = Double(digits).map { .number($0) } ?? .null
        case .string(let text): self = .text(text)
        case .array(let elements): self = .array(elements.map { AnswerJSON($0) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.key, AnswerJSON($0.node)) }) { first, _ in first })
        }
    }

    subscript(_ key: String) -> AnswerJSON? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    var elements: [AnswerJSON] { if case .array(let elements) = self { elements } else { [] } }
    var members: [String: AnswerJSON] { if case .object(let members) = self { members } else { [:] } }
    var text: String? { if case .text(let text) = self { text } else { nil } }
    var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// What an error's body says, in the words of the servers that are delivered to.
    var words: String? {
        if self["resourceType"]?.text == "OperationOutcome" { return outcomeWords }
        for key in ["message", "error", "detail", "description"] {
            switch self[key] {
            case .text(let text)? where !text.isEmpty:
                let more = (key == "message" ? self["description"] : key == "error" ? self["error_description"] : nil)?
                    .text
                return more.map { "\(text): \($0)" } ?? text
            case .object?: if let words = self[key]?.words { return words }
            default: continue
            }
        }
        return text
    }

    /// What the worst issue of FHIR's OperationOutcome says.
    private var outcomeWords: String? {
        let issues = self["issue"]?.elements ?? []
        let worst = issues.first { $0["severity"]?.text == "fatal" || $0["severity"]?.text == "error" } ?? issues.first
        return worst.flatMap { $0["diagnostics"]?.text ?? $0["details"]?["text"]?.text ?? $0["code"]?.text }
    }
}
