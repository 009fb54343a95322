import Foundation
import HealthReadings

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
            retryAfter: answer.retryAfter.flatMap(Self.delay))
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

    /// Reads `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.
    ///
    /// - Returns: at most a day, also for a number that no integer holds; `nil` for anything else.
    static func delay(_ text: String) -> Duration? {
        // Swift would also read "0x10", "inf" and "nan".
        if text.first?.isASCIIDigit == true, text.allSatisfy({ $0.isASCIIDigit || "eE+".contains($0) }),
            let seconds = Double(text)
        {
            return .seconds(Int64(min(seconds, 86_400)))
        }
        guard let date = httpDate(text) else { return nil }
        let seconds = date - Int64(Date().timeIntervalSince1970)
        return .seconds(min(max(seconds, 0), 86_400))
    }

    /// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110, 5.6.7); nil for anything else.
    private static func httpDate(_ text: String) -> Int64? {
        let parts = text.split(separator: " ")
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard parts.count == 6, parts[5] == "GMT", let month = months.firstIndex(of: String(parts[2])) else {
            return nil
        }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return WallTime("\(parts[3])-\(number)-\(parts[1])T\(parts[4])")?.secondsSinceEpoch
    }

    /// `text/html, beginning "<!DOCTYPE html>…"`.
    private func found(_ answer: VitalAnswer) -> String {
        let type = answer.contentType.flatMap { $0.split(separator: ";").first.map(String.init) } ?? "no content type"
        let beginning = oneLine(String(decoding: answer.body.prefix(160), as: UTF8.self)).map { "beginning \"\($0)\"" }
        return "\(oneLine(type) ?? "no content type"), \(beginning ?? "empty")"
    }

    /// Server text made fit for a terminal: one line without control characters, masked, at most 300 characters.
    private func oneLine(_ text: String) -> String? {
        let flat = secret.masked(in: text).unicodeScalars.map { scalar -> Character in
            scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format
                ? " " : Character(scalar)
        }
        let line = String(flat).split(separator: " ").joined(separator: " ")
        guard !line.isEmpty else { return nil }
        return line.count > 300 ? line.prefix(299) + "…" : line
    }

    /// Which key of the answer was not as expected; never its value.
    private static func place(of error: any Error) -> String {
        func path(_ context: DecodingError.Context, _ last: String? = nil) -> String {
            (context.codingPath.map(\.stringValue) + (last.map { [$0] } ?? [])).joined(separator: ".")
        }
        return switch error {
        case DecodingError.keyNotFound(let key, let context): "\(path(context, key.stringValue)) is missing"
        case DecodingError.valueNotFound(_, let context): "\(path(context)) is null"
        case DecodingError.typeMismatch(let type, let context): "\(path(context)) is no \(type)"
        case DecodingError.dataCorrupted(let context): "\(path(context)) cannot be read"
        default: "it cannot be read"
        }
    }
}

extension Character {
    fileprivate var isASCIIDigit: Bool { ("0"..."9").contains(self) && isASCII }
}

/// `{"detail": …}` in its three shapes: a text, a list of `{loc, msg, type}`, an object with `error_type` and
/// `error_message`.
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
}
