import Foundation

/// Walks a JSON object field by field and collects every finding, as FastAPI answers all of them at once.
struct FieldReader {
    typealias Step = ValidationProblem.Step

    /// More findings than this are not collected: an answer stays small however long the body is.
    static let maximumProblems = 100

    private(set) var problems: [ValidationProblem] = []
    /// Fields that nothing here knows; accepted as the real server accepts them, and shown in the log of posts.
    private(set) var unknownFields: [String] = []

    mutating func note(_ location: [Step], _ message: String, _ type: String) {
        guard problems.count < Self.maximumProblems else { return }
        problems.append(ValidationProblem(location: location, message: message, type: type))
    }

    /// The members of an object, nil and noted when it is none.
    mutating func object(_ value: JSONValue, at location: [Step], known: Set<String>) -> JSONValue? {
        guard case .object(let members) = value else {
            note(
                location, "Input should be a valid dictionary or object to extract fields from", "model_attributes_type"
            )
            return nil
        }
        for member in members where !known.contains(member.name) && unknownFields.count < Self.maximumProblems {
            let path = location.dropFirst() + [.name(member.name)]
            unknownFields.append(
                path.map { step in
                    switch step {
                    case .name(let name): name
                    case .index(let index): String(index)
                    }
                }.joined(separator: "."))
        }
        return value
    }

    /// A field that must be there; null counts as there and is judged by its type.
    mutating func required(_ name: String, of object: JSONValue, at location: [Step]) -> JSONValue? {
        guard let value = object[name] else {
            note(location + [.name(name)], "Field required", "missing")
            return nil
        }
        return value
    }

    /// A field that may be absent or null.
    func optional(_ name: String, of object: JSONValue) -> JSONValue? {
        guard let value = object[name], value != .null else { return nil }
        return value
    }

    mutating func string(_ value: JSONValue?, at location: [Step], nonEmpty: Bool = false) -> String? {
        guard let value else { return nil }
        guard case .string(let text) = value else {
            note(location, "Input should be a valid string", "string_type")
            return nil
        }
        guard !nonEmpty || !text.isEmpty else {
            note(location, "String should have at least 1 character", "string_too_short")
            return nil
        }
        return text
    }

    mutating func bool(_ value: JSONValue?, at location: [Step]) -> Bool? {
        guard let value else { return nil }
        guard case .bool(let flag) = value else {
            note(location, "Input should be a valid boolean", "bool_type")
            return nil
        }
        return flag
    }

    mutating func choice(_ value: JSONValue?, among choices: [String], at location: [Step]) -> String? {
        guard let value else { return nil }
        guard case .string(let text) = value, choices.contains(text) else {
            let quoted = choices.map { "'\($0)'" }
            let list =
                quoted.count > 1
                ? quoted.dropLast().joined(separator: ", ") + " or " + (quoted.last ?? "") : quoted.joined()
            note(location, "Input should be " + list, choices.count > 1 ? "enum" : "literal_error")
            return nil
        }
        return text
    }

    /// A finite number, as the characters sent.
    mutating func number(_ value: JSONValue?, at location: [Step]) -> String? {
        guard let value else { return nil }
        switch value {
        case .number(let token):
            guard let number = Double(token), number.isFinite else { fallthrough }
            return token
        case .nonFinite:
            note(location, "Input should be a finite number", "finite_number")
            return nil
        default:
            note(location, "Input should be a valid number", "float_type")
            return nil
        }
    }

    mutating func instant(_ value: JSONValue?, at location: [Step]) -> Timestamp? {
        guard let text = string(value, at: location) else { return nil }
        do {
            return try Timestamp.parse(text)
        } catch {
            switch error {
            case .withoutZone: note(location, "Input should have timezone info", "timezone_aware")
            case .malformed:
                note(location, "Input should be a valid datetime, YYYY-MM-DDThh:mm:ssZ", "datetime_parsing")
            }
        }
        return nil
    }

    mutating func zone(_ value: JSONValue?, at location: [Step]) -> IANAZone? {
        guard let text = string(value, at: location) else { return nil }
        guard let zone = IANAZone.find(text) else {
            note(location, "Value error, not an IANA time zone identifier", "value_error")
            return nil
        }
        return zone
    }

    mutating func day(_ value: JSONValue?, at location: [Step]) -> String? {
        guard let text = string(value, at: location) else { return nil }
        guard Timestamp.parseDay(text) != nil else {
            note(location, "Input should be a valid date, YYYY-MM-DD", "date_from_datetime_parsing")
            return nil
        }
        return text
    }

    mutating func uuid(_ value: JSONValue?, at location: [Step]) -> String? {
        guard let text = string(value, at: location) else { return nil }
        guard let uuid = UUID(uuidString: text) else {
            note(location, "Input should be a valid UUID", "uuid_parsing")
            return nil
        }
        return uuid.uuidString.lowercased()
    }

    /// The elements of a list with their places; none where it is no list, or has too many.
    mutating func elements(
        _ list: JSONValue?, at location: [Step], maximum: Int
    ) -> [(element: JSONValue, place: [Step])] {
        guard let list else { return [] }
        guard case .array(let elements) = list else {
            note(location, "Input should be a valid list", "list_type")
            return []
        }
        guard elements.count <= maximum else {
            let message = "List should have at most \(maximum) items after validation, not \(elements.count)"
            note(location, message, "too_long")
            return []
        }
        return elements.enumerated().map { ($1, location + [.index($0)]) }
    }

    /// A dictionary of strings, or nil.
    mutating func strings(_ value: JSONValue?, at location: [Step]) -> JSONValue? {
        guard let value else { return nil }
        guard case .object(let members) = value else {
            note(location, "Input should be a valid dictionary", "dict_type")
            return nil
        }
        for member in members { _ = string(member.value, at: location + [.name(member.name)]) }
        return value
    }

    /// Throws all findings as one 422.
    func finish() throws(APIError) {
        guard problems.isEmpty else { throw .invalid(problems) }
    }
}
