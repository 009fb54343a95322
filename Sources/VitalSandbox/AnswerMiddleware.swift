import Hummingbird
import Logging

/// Turns every failure into a JSON answer, so that no client ever reads HTML or an empty body here, and logs one line a
/// request: method, route and status; never a path's values, a body or a key.
struct AnswerMiddleware: RouterMiddleware {
    typealias Context = SandboxContext

    let logger: Logger

    func handle(
        _ request: Request, context: SandboxContext, next: (Request, SandboxContext) async throws -> Response
    ) async throws -> Response {
        var response: Response
        do {
            response = try await next(request, context)
        } catch let error as APIError {
            response = error.response
        } catch let error as FaultMiddleware.Dropped {
            throw error
        } catch let error as HTTPError {
            response = Response(status: error.status, json: ["detail": .string(error.status.reasonPhrase)])
        } catch {
            logger.error(
                "request failed", metadata: ["error": "\(type(of: error))", "request": "\(context.requestID)"])
            logger.debug("request failed", metadata: ["error": "\(error)", "request": "\(context.requestID)"])
            response =
                APIError.refused(
                    .internalServerError, "INTERNAL_SERVER_ERROR", "The sandbox could not do this."
                ).response
        }
        if let name = HTTPFieldName.requestID { response.headers[name] = context.requestID }
        logger.info(
            "answered",
            metadata: [
                "method": "\(request.method)", "route": "\(context.endpointPath ?? "none")",
                "status": "\(response.status.code)", "request": "\(context.requestID)",
            ])
        return response
    }
}
