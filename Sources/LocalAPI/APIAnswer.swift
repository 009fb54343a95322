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
