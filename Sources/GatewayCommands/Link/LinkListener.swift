import HealthReadings
import Logging

/// Receives the end of a link to a server.
typealias LinkListener = BrowserListener<LinkRedirect>

extension LinkListener {
    /// Listens at a path nobody can guess, so that no other page of the browser can say how the link ended.
    static func listening<Value: Sendable>(
        logger: Logger, _ body: @escaping @Sendable (LinkListener) async throws -> Value
    ) async throws -> Value {
        try await listening(at: "/" + secret(), logger: logger, reading: LinkRedirect.received, body)
    }

    /// 128 random bits.
    private static func secret() -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<4).map { _ in UInt32.random(in: .min ... .max, using: &generator).hexadecimal() }.joined()
    }
}

extension LinkRedirect {
    fileprivate static func received(_ query: String) -> Result<LinkListener.Received, LinkListener.Refused> {
        do throws(Malformed) {
            let redirect = try LinkRedirect(query: query)
            let words =
                switch redirect.outcome {
                case .success: "Done. See the terminal for details. You may close this page."
                case .failure:
                    "The provider was not connected; see the terminal for the reason. You may close this page."
                }
            return .success(.init(redirect: redirect, words: words))
        } catch {
            return .failure(.init(words: error.description))
        }
    }
}
