import Hummingbird
import NIOCore

/// Carries out a ``FaultPlan`` around the requests to the API.
struct FaultMiddleware: RouterMiddleware {
    typealias Context = SandboxContext

    /// The connection was closed on purpose: no answer is to be written.
    struct Dropped: Error {}

    let plan: FaultPlan
    let dice: FaultDice

    func handle(
        _ request: Request, context: SandboxContext, next: (Request, SandboxContext) async throws -> Response
    ) async throws -> Response {
        let path = request.uri.path
        guard path.hasPrefix("/v2/") || path == SessionRoutes.path,
            plan.path.map({ path.split(separator: "/").contains(Substring($0)) }) ?? true, await dice.strike()
        else { return try await next(request, context) }
        if let slow = plan.slow { try await Task.sleep(for: .seconds(slow)) }
        if plan.drop == .before {
            try await context.channel.close()
            throw Dropped()
        }
        if let status = plan.status {
            var headers: HTTPFields = [:]
            if let seconds = plan.retryAfter { headers[.retryAfter] = String(seconds) }
            var error = APIError.refused(.init(code: status), "ORDERED_FAULT", "This fault was injected.")
            error.headers = headers
            throw error
        }
        let response = try await next(request, context)
        if plan.drop == .after {
            try await context.channel.close()
            throw Dropped()
        }
        guard plan.truncates else { return response }
        return Response(
            status: response.status, headers: [.contentType: "application/json"],
            body: ResponseBody(contentLength: 1000) { writer in
                try await writer.write(ByteBuffer(string: #"{"success":tr"#))
                throw Dropped()
            })
    }
}
