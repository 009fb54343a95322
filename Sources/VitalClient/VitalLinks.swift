import HealthReadings
import NIOHTTP1

/// A link: a page at the server on which a person connects a provider that wants their consent.
public struct VitalLink: Sendable, Hashable {
    /// Stands for the link in calls of a page of one's own.
    public var token: Secret
    /// The server's own page. It carries the token: show it to the person and write it into no log.
    public var webURL: String
}

extension VitalLink: CustomStringConvertible, CustomReflectable {
    /// Shows neither the token nor the address that carries it.
    public var description: String { "VitalLink(****)" }
    /// Shows no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension VitalAPI {
    /// Makes a link for a user (`POST /v2/link/token`). It can be used once, and not for long.
    ///
    /// The browser comes back to `redirectURL` with `state=success`, or with `state=error`, `error_type` and `error`;
    /// also when the person closes the page.
    ///
    /// - Parameters:
    ///   - provider: the provider's slug; nil: the person chooses.
    ///   - userID: the server's id of the person.
    ///   - redirectURL: where the page sends the browser in the end; nil: nowhere.
    /// - Throws: ``VitalError/Kind/notFound`` where the server has no such user, and
    ///   ``VitalError/Kind/unexpectedAnswer`` where it names no page a browser can open.
    public func createLink(
        to provider: String?, for userID: String, redirectURL: String? = nil
    ) async throws -> VitalLink {
        var members: [JSONValue.Member] = [.init("user_id", .string(userID))]
        if let provider { members.append(.init("provider", .string(provider))) }
        if let redirectURL {
            members.append(.init("redirect_url", .string(redirectURL)))
            // Without these the page keeps an error, and a closing, to itself.
            members.append(.init("on_error", .string("redirect")))
            members.append(.init("on_close", .string("redirect")))
        }
        let request = VitalRequest(
            method: .POST, path: [.fixed("v2"), .fixed("link"), .fixed("token")], body: .object(members))
        let answer = try await call(request, answers: LinkAnswer.self)
        // It is shown on a terminal and opened in a browser: nothing but a web address gets there.
        guard answer.link_web_url.hasPrefix("https://") || answer.link_web_url.hasPrefix("http://"),
            answer.link_web_url.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw VitalError(.unexpectedAnswer, route: request.route, serverSaid: "link_web_url is no web address")
        }
        return VitalLink(token: Secret(answer.link_token), webURL: answer.link_web_url)
    }
}

private struct LinkAnswer: Decodable, Sendable {
    var link_token: String
    var link_web_url: String
}
