import Foundation
import GatewaySettings
import HealthReadings

/// `page`: a link to the page that lets one browser in.
struct PageRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// How long a gateway that has just been started may take until its page listens.
    private static let pagePatience: Duration = .seconds(5)

    /// `page`: a link to the page that lets one browser in.
    func run() async throws {
        let door = try await Self.listeningDoor(of: gateway)
        try await door.claim(by: "page")
        let link = door.pageLink(now: Date())
        guard !json else { return try await output.data(link.document.text) }
        try await output.data(link.url)
        try await output.note("Good once, until \(link.expiresAt).")
    }

    /// The door of the gateway, once it listens.
    ///
    /// - Throws: `Problem` `not_running`, `not_listening`.
    static func listeningDoor(of gateway: Gateway) async throws -> AccessPoint {
        guard let door = gateway.door else {
            throw Problem(
                "not_running", .unavailable, "no gateway is running, so there is no page",
                hint: "start it: `healthrelay run`, or `systemctl start healthrelay`")
        }
        let end = ContinuousClock.now + pagePatience
        while !door.isListening {
            guard ContinuousClock.now < end else {
                throw Problem("not_listening", .tryAgain, "the gateway is not listening on \(door.listen) yet")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        return door
    }
}

extension PageLink {
    /// `{url, expires_at}`.
    public var document: JSONValue {
        .object(["url": .string(url), "expires_at": .string(expiresAt.description)])
    }
}
