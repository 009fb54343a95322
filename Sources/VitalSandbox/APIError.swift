import Hummingbird

/// One finding of a validation, in the shape of FastAPI: where, in words, and as a type.
struct ValidationProblem: Sendable, Equatable {
    /// A step on the way to the field: a name or an index.
    enum Step: Sendable, Equatable {
        case name(String)
        case index(Int)
    }

    var location: [Step]
    var message: String
    var type: String

    var json: JSONValue {
        let steps = location.map { step in
            switch step {
            case .name(let name): JSONValue.string(name)
            case .index(let index): JSONValue.integer(index)
            }
        }
        return ["loc": .array(steps), "msg": .string(message), "type": .string(type)]
    }
}

/// An answer that is no success; always JSON with a `detail`.
struct APIError: Error, Sendable {
    var status: HTTPResponse.Status
    var detail: JSONValue
    var headers: HTTPFields = [:]

    var response: Response {
        var response = Response(status: status, json: ["detail": detail])
        for field in headers { response.headers[field.name] = field.value }
        return response
    }

    /// 422 with what was found.
    static func invalid(_ problems: [ValidationProblem]) -> APIError {
        APIError(status: .unprocessableContent, detail: .array(problems.map(\.json)))
    }

    /// 422 for one field.
    static func invalid(_ location: ValidationProblem.Step..., message: String, type: String) -> APIError {
        .invalid([ValidationProblem(location: location, message: message, type: type)])
    }

    /// A refusal with a type and words, and further members of the detail.
    static func refused(
        _ status: HTTPResponse.Status, _ type: String, _ message: String, _ more: [JSONValue.Member] = []
    ) -> APIError {
        let members = [
            JSONValue.Member(name: "error_type", value: .string(type)),
            JSONValue.Member(name: "error_message", value: .string(message)),
        ]
        return APIError(status: status, detail: .object(members + more))
    }

    static let unknownUser = APIError.refused(.notFound, "NOT_FOUND", "User not found.")
    static let unknownResource = APIError(status: .notFound, detail: "Not Found")
}

extension Response {
    /// An answer with a JSON body.
    init(status: HTTPResponse.Status = .ok, json: JSONValue) {
        let body = ByteBuffer(string: json.text)
        self.init(status: status, headers: [.contentType: "application/json"], body: ResponseBody(byteBuffer: body))
    }
}
