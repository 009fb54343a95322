/// The body of creating or changing a user.
struct UserBody: Sendable {
    var clientUserID: String?
    var zone: String?
    var birthDate: String?
    var ingestionStart: String?
    var ingestionEnd: String?

    /// Reads the body; `creating` makes `client_user_id` required.
    init(_ body: JSONValue, creating: Bool) throws(APIError) {
        var reader = FieldReader()
        let at: [FieldReader.Step] = [.name("body")]
        let known: Set = [
            "client_user_id", "fallback_time_zone", "fallback_birth_date", "ingestion_start", "ingestion_end",
        ]
        guard let object = reader.object(body, at: at, known: known) else { throw .invalid(reader.problems) }
        let identifier =
            creating
            ? reader.required("client_user_id", of: object, at: at) : reader.optional("client_user_id", of: object)
        clientUserID = reader.string(identifier, at: at + [.name("client_user_id")], nonEmpty: true)
        zone =
            reader.zone(
                reader.optional("fallback_time_zone", of: object), at: at + [.name("fallback_time_zone")])?.identifier
        birthDate = reader.day(
            reader.optional("fallback_birth_date", of: object), at: at + [.name("fallback_birth_date")])
        ingestionStart = reader.day(
            reader.optional("ingestion_start", of: object), at: at + [.name("ingestion_start")])
        ingestionEnd = reader.day(reader.optional("ingestion_end", of: object), at: at + [.name("ingestion_end")])
        if let start = ingestionStart, let end = ingestionEnd, end < start {
            reader.note(at + [.name("ingestion_end")], "Value error, ends before it starts", "value_error")
        }
        try reader.finish()
    }
}

/// The body of connecting a source.
struct SourceBody: Sendable {
    var userID: String
    var providerID: String?
    /// A JSON array of strings, as sent.
    var grantedPermissions: String?

    init(_ body: JSONValue) throws(APIError) {
        var reader = FieldReader()
        let at: [FieldReader.Step] = [.name("body")]
        guard let object = reader.object(body, at: at, known: ["user_id", "provider_id", "granted_permissions"]) else {
            throw .invalid(reader.problems)
        }
        let user = reader.uuid(reader.required("user_id", of: object, at: at), at: at + [.name("user_id")])
        providerID = reader.string(reader.optional("provider_id", of: object), at: at + [.name("provider_id")])
        let place = at + [.name("granted_permissions")]
        if let permissions = reader.optional("granted_permissions", of: object) {
            if case .array(let elements) = permissions {
                for (index, element) in elements.enumerated() {
                    _ = reader.string(element, at: place + [.index(index)])
                }
                grantedPermissions = permissions.text
            } else {
                reader.note(place, "Input should be a valid list", "list_type")
            }
        }
        guard let user, reader.problems.isEmpty else { throw .invalid(reader.problems) }
        userID = user
    }
}
