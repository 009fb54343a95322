import HealthReadings
import NIOHTTP1
import OutgoingHTTP

/// What a service answered.
struct CloudAnswer: Sendable {
    var status: Int
    var headers: HTTPHeaders
    var body: [UInt8]
}

/// A page of records, as they came.
struct CloudPage: Sendable {
    /// The octets of each record.
    var records: [[UInt8]]
    /// Where the next page begins; `nil` on the last one.
    var next: String?
}

/// Reads what a service answered.
struct CloudAnswerReader: Sendable {
    let route: String
    /// Masked wherever the service echoes them.
    let secrets: [String]

    /// More members than any object has: a heart rate every 15 seconds of a day are 5760.
    static let mostMembers = 100_000

    /// Reads a page. The SDKs know its records as `records`, `data` or `items`, or as the document itself.
    func page(_ answer: CloudAnswer) throws(CloudError) -> CloudPage {
        let root = try node(answer)
        guard
            let elements = root.elements ?? ["records", "data", "items"].lazy.compactMap({ root[$0]?.elements }).first
        else { throw unexpected("records: expected a list", answer) }
        var records: [[UInt8]] = []
        records.reserveCapacity(elements.count)
        for (place, element) in elements.enumerated() {
            guard element.members != nil else { throw unexpected("records[\(place)]: expected an object", answer) }
            records.append(Array(answer.body[element.range]))
        }
        let cursor = ["cursor", "next_token", "nextToken"].lazy.compactMap { root[$0] }.first
        guard let cursor else { return CloudPage(records: records) }
        guard let next = cursor.text else { throw unexpected("cursor: expected a text", answer) }
        return CloudPage(records: records, next: next.nonEmpty)
    }

    /// An answer that is an object.
    func json(_ answer: CloudAnswer) throws(CloudError) -> JSONNode {
        let root = try node(answer)
        guard root.members != nil else { throw unexpected("expected an object", answer) }
        return root
    }

    private func node(_ answer: CloudAnswer) throws(CloudError) -> JSONNode {
        do throws(JSONFailure) {
            return try JSONReader.read(answer.body, mostMembers: Self.mostMembers)
        } catch {
            // Where the answer's length isn't told, a connection that broke looks like the end of the answer.
            guard !error.endsEarly || answer.body.isEmpty else {
                throw CloudError(
                    .connectionLost, route: route, status: answer.status,
                    detail: "the JSON ends early, at byte \(error.offset)")
            }
            // What was found may be of a person's health: only what is no JSON from its first byte is shown.
            let found =
                error.offset == 0 ? ", found " + summary(answer) : ""
            throw CloudError(
                .notJSON, route: route, status: answer.status,
                detail: "expected \(error.expected) at byte \(error.offset)" + found)
        }
    }

    private func summary(_ answer: CloudAnswer) -> String {
        ServerText.summary(of: answer.body, type: answer.headers.first(name: "content-type"), masking: secrets)
    }

    func unexpected(_ detail: String, _ answer: CloudAnswer) -> CloudError {
        CloudError(.unexpectedAnswer, route: route, status: answer.status, detail: detail)
    }

    /// The error that a status is.
    ///
    /// - Parameter connecting: whether it is about connecting an account.
    func error(of answer: CloudAnswer, connecting: Bool) -> CloudError {
        let root = try? JSONReader.read(answer.body)
        let name = root?["error"]?.text
        let kind: CloudError.Kind =
            switch answer.status {
            case 300..<400: .redirected
            case let status where [400, 401, 403].contains(status) && (connecting || name == "invalid_client"):
                .authenticationFailed
            // RFC 6749, 5.2: that a refresh token is not good any more is told with 400.
            case let status where status == 401 || status == 400 && name == "invalid_grant": .tokenExpired
            case 403: .forbidden
            case 404, 501: .notSupported
            case 408: .timeout
            case 429: .rateLimitExceeded
            case 500...: .serverError
            default: .refused
            }
        let words = [
            root?["error_description"]?.text, root?["message"]?.text, root?["error"]?["message"]?.text,
            root?["detail"]?.text, name,
        ].lazy.compactMap(\.self).first
        // WHOOP tells the seconds under another name.
        let wait = ["retry-after", "x-ratelimit-reset"].lazy.compactMap { answer.headers.first(name: $0) }.first
        return CloudError(
            kind, route: route, status: answer.status,
            detail: words.map { ServerText.oneLine($0, masking: secrets) }
                ?? (root == nil && !answer.body.isEmpty ? summary(answer) : nil),
            retryAfter: wait.flatMap(RetryAfter.delay))
    }
}

/// Reads octets as a service's answer, good and bad, as a record and as a redirect: the entry for fuzzing.
///
/// - Returns: which promise is broken; `nil`: none.
package func readCloudAnswer(_ octets: [UInt8]) -> String? {
    let status = [200, 400, 401, 403, 404, 429, 500, 501][Int(octets.first ?? 0) % 8]
    let reader = CloudAnswerReader(route: "GET /", secrets: ["fuzz-secret"])
    let body = Array(octets.dropFirst())
    let text = String(decoding: body.prefix(200), as: UTF8.self)
    let answer = CloudAnswer(status: status, headers: HTTPHeaders([("retry-after", text)]), body: body)
    _ = reader.error(of: answer, connecting: octets.first == 7)
    _ = try? reader.json(answer)
    var bodies = [body]
    if let page = try? reader.page(answer) { bodies += page.records }
    for vendor in CloudVendor.allCases {
        for collection in vendor.collections {
            for body in bodies {
                for frame in CloudRecord(vendor, collection, body, person: "ann").frames(
                    receivedAt: Instant(seconds: 0))
                {
                    let decoded = DecodedFrame(cloudRecord: frame.payload)
                    guard case .imported(let sample) = decoded else {
                        if case .malformed = decoded { continue }
                        return "a part of a record makes no reading"
                    }
                    guard DecodedFrame(cloudRecord: frame.payload) == decoded else { return "a frame says two things" }
                    guard sample.person == "ann", sample.provider == vendor.rawValue else {
                        return "a record is another person's, or another vendor's"
                    }
                }
            }
        }
    }
    _ = DecodedFrame(cloudRecord: body)
    if let service = try? CloudService(.wearService, url: "https://wear.example", app: "a", secret: nil) {
        _ = try? CloudAuthorization(redirectURI: "http://127.0.0.1/").end(query: text, of: service)
    }
    return nil
}
