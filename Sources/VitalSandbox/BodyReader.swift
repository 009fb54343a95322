import Hummingbird

/// Reads a request's body within limits, inflates it, and parses it as JSON.
struct BodyReader: Sendable {
    let maximumOctets: Int
    let maximumInflatedOctets: Int
    let recorder: BodyRecorder?

    /// A body and how it came.
    struct Body: Sendable {
        var json: JSONValue
        var encoding: String
        var octets: Int
        var inflatedOctets: Int
    }

    /// Reads the body; `schema` is the name under which it is recorded.
    func read(_ request: Request, schema: String) async throws -> Body {
        let encoding = (request.headers[.contentEncoding] ?? "identity").lowercased()
        guard encoding == "identity" || encoding == "gzip" else {
            var error = APIError.refused(
                .unsupportedMediaType, "UNSUPPORTED_ENCODING", "Content-Encoding may be gzip or identity.")
            error.headers[.acceptEncoding] = "gzip"
            throw error
        }
        if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > maximumOctets { throw tooLarge }
        var octets: [UInt8] = []
        for try await chunk in request.body {
            guard octets.count + chunk.readableBytes <= maximumOctets else { throw tooLarge }
            octets.append(contentsOf: chunk.readableBytesView)
        }
        let received = octets.count
        if encoding == "gzip" { octets = try inflated(octets) }
        await recorder?.record(octets, schema: schema)
        do {
            let json = try JSONTextParser.parse(octets)
            return Body(json: json, encoding: encoding, octets: received, inflatedOctets: octets.count)
        } catch {
            throw APIError.invalid(
                .name("body"), .index(error.offset),
                message: "JSON decode error: expected \(error.expected), found \(error.found)", type: "json_invalid")
        }
    }

    private func inflated(_ octets: [UInt8]) throws -> [UInt8] {
        do {
            return try inflateGzip(octets, limit: maximumInflatedOctets)
        } catch .tooLarge {
            throw tooLarge
        } catch {
            throw APIError.refused(.badRequest, "INVALID_ENCODING", "The body is not a gzip stream: \(error).")
        }
    }

    private var tooLarge: APIError {
        .refused(
            .contentTooLarge, "CONTENT_TOO_LARGE",
            "A body may have \(maximumOctets) octets, \(maximumInflatedOctets) once inflated.")
    }
}
