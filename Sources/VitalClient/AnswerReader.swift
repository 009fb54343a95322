import Foundation
import OutgoingHTTP

/// Reads what the server answered: bodies, and the words of its errors.
struct AnswerReader: Sendable {
    /// Masked wherever the server echoes it.
    var secret: Secret

    /// Decodes a body; keys are snake_case.
    func decode<Answer: Decodable>(_ type: Answer.Type, from answer: VitalAnswer) throws(VitalError) -> Answer {
        do {
            return try JSONDecoder().decode(type, from: Data(answer.body))
        } catch DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty {
            throw VitalError(.notJSON, route: answer.route, status: answer.status, serverSaid: found(answer))
        } catch {
            throw VitalError(
                .unexpectedAnswer, route: answer.route, status: answer.status, serverSaid: Self.place(of: error))
        }
    }

    /// The error that a status other than 2xx is.
    func error(of answer: VitalAnswer) -> VitalError {
        let refusal = try? JSONDecoder().decode(Refusal.self, from: Data(answer.body))
        var error = VitalError(
            Self.kind(of: answer.status), route: answer.route, status: answer.status,
            serverSaid: refusal?.words.flatMap(oneLine), serverErrorType: refusal?.errorType.flatMap(oneLine),
            retryAfter: answer.retryAfter.flatMap(RetryAfter.delay))
        error.isAboutEnvelope = refusal?.isAboutEnvelope ?? false
        let isOfAPI = refusal != nil || answer.body.isEmpty
        error.isAboutResource =
            isOfAPI && (answer.status == 404 || answer.status == 405) || refusal?.isAboutResource ?? false
        error.namesPlace = refusal?.namesPlace ?? false
        if error.serverErrorType?.hasPrefix("SOURCE_") == true { error.kind = .sourceNotConnected }
        guard refusal == nil, error.serverSaid == nil, !answer.body.isEmpty else { return error }
        error.serverSaid = found(answer)
        // A refusal that is no JSON came from something in between: nothing is decided about a reading because of it.
        if error.kind == .validationFailed || error.kind == .refused || error.kind == .notFound {
            error.kind = .notJSON
        }
        return error
    }

    private static func kind(of status: Int) -> VitalError.Kind {
        switch status {
        case 300..<400: .redirected
        case 400, 422: .validationFailed
        case 401: .authenticationFailed
        case 403: .forbidden
        case 404: .notFound
        case 408: .timeout
        case 409: .conflict
        case 413: .payloadTooLarge
        case 429: .rateLimitExceeded
        case 400..<500: .refused
        case 500...: .serverError
        default: .unexpectedAnswer
        }
    }

    private func found(_ answer: VitalAnswer) -> String {
        ServerText.summary(of: answer.body, type: answer.contentType, masking: [secret.value])
    }

    private func oneLine(_ text: String) -> String? { ServerText.oneLine(text, masking: [secret.value]) }

    /// Which key of the answer was not as expected; never its value.
    private static func place(of error: any Error) -> String {
        func path(_ context: DecodingError.Context, _ last: String? = nil) -> String {
            (context.codingPath.map(\.stringValue) + (last.map { [$0] } ?? [])).joined(separator: ".")
        }
        return switch error {
        case DecodingError.keyNotFound(let key, let context): "\(path(context, key.stringValue)) is missing"
        case DecodingError.valueNotFound(_, let context): "\(path(context)) is null"
        case DecodingError.typeMismatch(let type, let context):
            "\(context.codingPath.isEmpty ? "it" : path(context)) is no \(name(of: type))"
        case DecodingError.dataCorrupted(let context): "\(path(context)) cannot be read"
        default: "it cannot be read"
        }
    }

    /// What JSON calls a value that was expected.
    private static func name(of type: any Any.Type) -> String {
        switch type {
        case is String.Type: "string"
        case is Bool.Type: "boolean"
        case is any Numeric.Type: "number"
        case is [Any].Type: "array"
        default: "object"
        }
    }
}

/// `{"detail": …}` in its three shapes: a text, a list of `{loc, msg, type}`, an object with `error_type` and
/// `error_message`; or these two without `detail` around them, as the API's documentation has them ("Errors").
struct Refusal: Decodable, Sendable {
    var words: String?
    var errorType: String?
    var userID: String?
    var isAboutEnvelope = false
    var isAboutResource = false
    var namesPlace = false

    private enum Key: String, CodingKey { case detail }

    private struct Item: Decodable {
        var loc: [Step]?
        var msg: String?
    }

    /// A step of a place: a key or an index.
    private enum Step: Decodable, CustomStringConvertible {
        case key(String)
        case index(Int)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let index = try? container.decode(Int.self) {
                self = .index(index)
            } else {
                self = .key(try container.decode(String.self))
            }
        }

        var description: String {
            switch self {
            case .key(let key): key
            case .index(let index): String(index)
            }
        }
    }

    private struct Named: Decodable {
        var error_type: String?
        var error_message: String?
        var user_id: String?
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        if let text = try? container.decode(String.self, forKey: .detail) {
            words = text
        } else if let items = try? container.decode([Item].self, forKey: .detail) {
            let places = items.compactMap { $0.loc?.map(\.description) }
            namesPlace = places.contains { place in
                guard let data = place.firstIndex(of: "data"), !place.contains("time_zones") else { return false }
                return data + 1 < place.endIndex
            }
            isAboutEnvelope =
                !places.isEmpty
                && places.allSatisfy { $0.count > 1 && (!$0.contains("data") || $0.contains("time_zones")) }
            isAboutResource = !places.isEmpty && places.allSatisfy { $0.first == "path" && $0.last != "user_id" }
            words = items.prefix(5).map { item in
                let place = item.loc.map { $0.map(\.description).joined(separator: ".") } ?? ""
                return (place.isEmpty ? "" : place + ": ") + (item.msg ?? "no message")
            }.joined(separator: "; ")
        } else if let named = try? container.decode(Named.self, forKey: .detail) {
            words = named.error_message
            errorType = named.error_type
            userID = named.user_id
        } else if let named = try? Named(from: decoder) {
            words = named.error_message
            errorType = named.error_type
        }
    }
}

/// Reads octets as the server's answer, good and bad, and drops the outcome: the entry for fuzzing.
///
/// The first octet picks the status.
package func readVitalAnswer(_ octets: [UInt8]) {
    let answer = VitalAnswer(
        route: "GET /", status: 100 + 2 * Int(octets.first ?? 0), contentType: "application/json",
        retryAfter: String(decoding: octets.prefix(40), as: UTF8.self), body: octets)
    let reader = AnswerReader(secret: Secret("fuzz-secret"))
    _ = reader.error(of: answer)
    _ = try? reader.user(of: answer)
    _ = try? reader.sources(of: answer)
    _ = try? reader.bodyDays(of: answer)
}
