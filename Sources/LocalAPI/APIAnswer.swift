import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import Logging
import NIOCore
import ReadingStore

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

    /// The refusal of a pairing code.
    init(_ refusal: PairingDesk.Refusal) {
        self.init(refusal == .busy ? .tooManyRequests : .badRequest, refusal.code, refusal.description)
        if refusal == .busy { headers[.retryAfter] = "1" }
    }
}

extension PeerAddress {
    /// The peer as it presents a pairing code.
    var guest: PairingDesk.Guest { PairingDesk.Guest(address: address, network: network) }
}
