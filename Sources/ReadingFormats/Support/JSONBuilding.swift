import HealthReadings

extension JSONValue {
    /// An object of the members that are there.
    static func object(of members: Member?...) -> JSONValue { .object(members.compactMap(\.self)) }

    /// One object in an array.
    static func list(_ values: JSONValue...) -> JSONValue { .array(values) }
}

extension JSONValue.Member {
    /// A member with a string; nil if there is none.
    static func optional(_ key: String, _ text: String?) -> JSONValue.Member? {
        text.map { JSONValue.Member(key, .string($0)) }
    }

    /// A member with an array; nil if it would be empty.
    static func list(_ key: String, _ values: [JSONValue]) -> JSONValue.Member? {
        values.isEmpty ? nil : JSONValue.Member(key, .array(values))
    }
}
