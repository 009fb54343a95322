import AsyncHTTPClient
import Crypto
import Foundation
import Logging
import NIOHTTP1
import OutgoingHTTP

/// Where the sandbox sends events, and what it signs them with.
public struct SandboxWebhook: Sendable, Hashable {
    /// The URL that gets a `POST` for each event.
    public var url: String
    /// The key behind `whsec_`.
    let key: [UInt8]

    /// The secret that is used where none is given: it is no secret, and the sandbox holds no data to protect.
    public static let fixedSecret = "whsec_aGVhbHRocmVsYXktc2FuZGJveC13ZWJob29r"

    /// Why a webhook cannot be used.
    public struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// What was expected, and what was found.
        public var description: String
    }

    /// Makes a webhook.
    ///
    /// - Parameters:
    ///   - url: an `http` or `https` URL.
    ///   - secret: `whsec_` and base64, as Svix shows it.
    public init(url: String, secret: String = SandboxWebhook.fixedSecret) throws(Failure) {
        guard let parts = URL(string: url), ["http", "https"].contains(parts.scheme?.lowercased()), parts.host != nil
        else { throw Failure(description: "expected an http or https URL, found '\(url.prefix(200))'") }
        guard secret.hasPrefix("whsec_"), let key = Data(base64Encoded: String(secret.dropFirst(6))), !key.isEmpty
        else {
            throw Failure(description: "expected a secret of whsec_ and base64")
        }
        (self.url, self.key) = (url, Array(key))
    }

    /// The `svix-signature`: HMAC-SHA256 over id, time and body (Svix, "Verifying webhooks manually").
    func signature(of body: String, message: String, timestamp: Int64) -> String {
        let code = HMAC<SHA256>.authenticationCode(
            for: Data("\(message).\(timestamp).\(body)".utf8), using: SymmetricKey(data: key))
        return "v1," + Data(code).base64EncodedString()
    }
}

/// Sends events, oldest first, until each was taken or given up.
struct WebhookSender: Sendable {
    let webhook: SandboxWebhook
    let store: SandboxStore
    let logger: Logger
    /// How long an idle sender waits before it looks again.
    var pause: Duration = .milliseconds(200)

    /// Svix's schedule, in seconds after each attempt.
    static let schedule: [Int64] = [5, 300, 1800, 7200, 18_000, 36_000, 36_000]

    func run() async throws {
        let connections = HTTPConnections(
            HTTPLimits(connecting: .seconds(5), call: .seconds(15), responseBytes: 1 << 16, cutsAnswers: true),
            authorities: nil)
        while !Task.isCancelled {
            let event = try await store.nextEvent()
            guard let event, event.dueAt <= Self.now else {
                try await Task.sleep(for: pause)
                continue
            }
            let (answer, isDelivered) = await send(event, over: connections)
            try Task.checkCancellation()
            let wait = Self.schedule.indices.contains(event.attempts) ? Self.schedule[event.attempts] : nil
            try await store.settle(
                event, answer: answer, isDelivered: isDelivered, next: wait.map { Self.now + $0 * 1000 })
        }
    }

    private func send(_ event: SandboxEvent, over connections: HTTPConnections) async -> (String, isDelivered: Bool) {
        let timestamp = Self.now / 1000
        var request = HTTPClientRequest(url: webhook.url)
        request.method = .POST
        request.headers = HTTPHeaders([
            ("content-type", "application/json"), ("user-agent", "HealthRelay-Sandbox"), ("svix-id", event.message),
            ("svix-timestamp", "\(timestamp)"),
            ("svix-signature", webhook.signature(of: event.body, message: event.message, timestamp: timestamp)),
        ])
        request.body = .bytes(Array(event.body.utf8))
        do {
            let status = try await connections.answer(to: request).status
            return ("\(status)", (200..<300).contains(status))
        } catch {
            logger.info("a webhook was not taken", metadata: ["message": "\(event.message)"])
            return ("\(error)", false)
        }
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
}
