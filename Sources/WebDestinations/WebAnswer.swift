import Foundation
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
    var json: AnswerJSON? { try? JSONDecoder().decode(AnswerJSON.self, from: Data(body)) }
}

/// JSON of a server, to be looked at without a type of its own.
enum AnswerJSON: Decodable, Sendable, Hashable {
    case object([String: AnswerJSON])
    case array([AnswerJSON])
    case text(String)
    case number(Double)
    case bool(Bool)
    case null

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .text(value)
        } else if let value = try? container.decode([AnswerJSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: AnswerJSON].self))
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
