import GatewaySettings
import HTTPTypes
import HealthReadings
import Hummingbird
import NIOCore

/// A request that is refused: with a status and a document such as every command's error.
package struct APIRefusal: Error, HTTPResponseError {
    package let status: HTTPResponse.Status
    package let problem: Problem
    package var headers: HTTPFields = [:]

    package init(_ status: HTTPResponse.Status, _ code: String, _ message: String, hint: String? = nil) {
        self.status = status
        problem = Problem(code, .usage, message, hint: hint)
    }

    /// A request that is not as the API expects it.
    package static func malformed(_ message: String) -> APIRefusal { APIRefusal(.badRequest, "bad_request", message) }

    /// A body that took longer than it may.
    package static let bodyTimedOut = APIRefusal(
        .requestTimeout, "request_timeout", "the body did not arrive in time")

    package func response(from request: Request, context: some RequestContext) throws -> Response {
        var response = Response.json(problem.document, status: status)
        for field in headers { response.headers[field.name] = field.value }
        return response
    }
}

extension Response {
    /// A document.
    package static func json(_ document: JSONValue, status: HTTPResponse.Status = .ok) -> Response {
        var octets: [UInt8] = []
        document.write(into: &octets)
        return octetsResponse(octets, "application/json", status: status)
    }

    /// Octets of a type.
    package static func octetsResponse(
        _ octets: [UInt8], _ type: String, status: HTTPResponse.Status = .ok
    ) -> Response {
        Response(
            status: status, headers: [.contentType: type, .contentLength: String(octets.count)],
            body: .init(byteBuffer: ByteBuffer(bytes: octets)))
    }
}
