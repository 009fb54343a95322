import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import Logging
import NIOCore
import ReadingStore

/// A request that is refused: with a status and a document such as every command's error.
struct APIRefusal: Error, HTTPResponseError {
    let status: HTTPResponse.Status
    let problem: Problem
    var headers: HTTPFields = [:]

    init(_ status: HTTPResponse.Status, _ code: String, _ message: String, hint: String? = nil) {
        self.status = status
        problem = Problem(code, .usage, message, hint: hint)
    }

    /// A request that is not as the API expects it.
    static func malformed(_ message: String) -> APIRefusal { APIRefusal(.badRequest, "bad_request", message) }

    /// The refusal for an error of the modules below; an unexpected one says nothing of itself.
    init(describing error: any Error) {
        let problem =
            Problem(describing: error) ?? Problem("unexpected", .ourFault, "something unexpected happened")
        let status: HTTPResponse.Status =
            switch problem.status {
            case .usage, .badData: .badRequest
            case .noInput: .notFound
            case .notPermitted: .forbidden
            case .configuration: .conflict
            case .unavailable, .tryAgain: .serviceUnavailable
            case .protocolBroken: .badGateway
            case .ourFault, .cannotCreate, .inputOutput: .internalServerError
            }
        self.init(status, problem.code, problem.message, hint: problem.hint)
    }

    func response(from request: Request, context: some RequestContext) throws -> Response {
        var response = Response.json(problem.document, status: status)
        for field in headers { response.headers[field.name] = field.value }
        return response
    }
}

extension Response {
    /// A document.
    static func json(_ document: JSONValue, status: HTTPResponse.Status = .ok) -> Response {
        var octets: [UInt8] = []
        document.write(into: &octets)
        return octetsResponse(octets, "application/json", status: status)
    }

    /// Octets of a type.
    static func octetsResponse(
        _ octets: [UInt8], _ type: String, status: HTTPResponse.Status = .ok
    ) -> Response {
        Response(
            status: status, headers: [.contentType: type, .contentLength: String(octets.count)],
            body: .init(byteBuffer: ByteBuffer(bytes: octets)))
    }
}

/// Runs a route and tells what goes wrong in it as the API does.
struct RefusalMiddleware: RouterMiddleware {
    typealias Context = APIContext

    func handle(
        _ request: Request, context: APIContext, next: (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let refusal as APIRefusal {
            return try refusal.response(from: request, context: context)
        } catch let error as HTTPError where error.status == .notFound {
            let unknown = APIRefusal(.notFound, "not_found", "there is no such route", hint: "see /api/v1/openapi.json")
            return try unknown.response(from: request, context: context)
        } catch let error as any HTTPResponseError {
            let refusal = APIRefusal(error.status, "refused", error.status.reasonPhrase)
            return try refusal.response(from: request, context: context)
        } catch {
            context.logger.debug("a request failed", metadata: ["error": "\(type(of: error))"])
            return try APIRefusal(describing: error).response(from: request, context: context)
        }
    }
}

extension APIRefusal {
    /// The refusal of a pairing code.
    init(_ refusal: PairingDesk.Refusal) {
        self.init(refusal == .busy ? .tooManyRequests : .badRequest, refusal.code, refusal.description)
        if refusal == .busy { headers[.retryAfter] = "1" }
    }
}
