import Foundation
import GatewaySettings
import HealthReadings

/// `setup token`: a link that lets one browser claim a new gateway.
struct SetupTokenRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run() async throws {
        let link = try await PageRunner.listeningDoor(of: gateway).setupLink()
        guard !json else { return try await output.data(link.document.text) }
        try await output.data(link.url)
        try await output.note("Good once, until \(link.expiresAt).")
    }
}
