import GatewaySettings
import HealthReadings
import ReadingStore
import VitalClient
import VitalDestination

/// `source link`: a page for the person, and how it ended.
struct LinkRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ provider: String, wait seconds: Int) async throws {
        guard (1...64).contains(provider.utf8.count), provider.utf8.allSatisfy(Self.isSlug) else {
            throw Problem.usage("expected a provider's slug such as oura, found '\(provider)'")
        }
        let sources = try await gateway.destinations.requireSources()
        let user = try await gateway.requireNamedUser()
        guard seconds > 0 else {
            let url = try await sources.link(provider, for: user, redirectURL: nil).webURL
            return try await output.data(json ? LinkResult(url, provider).document.text : url)
        }
        let (url, redirect) = try await LinkListener.listening(logger: gateway.logger) { listener in
            let url = try await sources.link(provider, for: user, redirectURL: listener.redirectURL).webURL
            if !json { try await output.data(url) }
            try await output.note(
                BrowserInvitation(
                    page: url, member: "link_web_url", whom: provider, seconds: seconds, port: listener.port
                ).text(json: json))
            return (url, try await listener.redirect(within: .seconds(seconds)))
        }
        var result = LinkResult(url, provider)
        let end: Result<ConnectedSource, any Error> = await Result {
            try await self.end(redirect, of: provider, for: user, sources, seconds)
        }
        switch end {
        case .success: result.outcome = "success"
        case .failure(let problem as LinkProblem) where redirect != nil:
            result.outcome = "error"
            result.error = problem.reason
        case .failure: if case .success? = redirect?.outcome { result.outcome = "success" }
        }
        if json { try await output.data(result.document.text) }
        do {
            let source = try end.get()
            if !json { try await output.data("\(provider): \(source.status.rawValue)") }
        } catch let error as LinkProblem {
            throw error.problem
        }
    }

    /// The source that was connected; what the browser said is believed only where the server says so too.
    private func end(
        _ redirect: LinkRedirect?, of provider: String, for user: StoreUser, _ sources: SourceKeeper, _ seconds: Int
    ) async throws -> ConnectedSource {
        guard let redirect else {
            throw LinkProblem(
                reason: "",
                problem: Problem(
                    "link_timeout", .tryAgain, "nobody connected \(provider) within \(seconds) s",
                    hint: "run the command again, with more time: --wait"))
        }
        if case .failure(let reason) = redirect.outcome {
            throw LinkProblem(
                reason: reason,
                problem: Problem(
                    "link_refused", .notPermitted, "\(provider) was not connected: \(reason)",
                    hint: "try again: `healthrelay source link \(provider)`"))
        }
        if let other = redirect.provider, other != provider {
            let reason = "\(other) was connected instead of \(provider)"
            throw LinkProblem(reason: reason, problem: Problem("link_unexpected", .protocolBroken, reason))
        }
        guard let source = try await sources.confirm(provider, for: user) else {
            let reason = "the server reported \(provider) as connected, but does not list it"
            throw LinkProblem(
                reason: reason,
                problem: Problem(
                    "link_unexpected", .protocolBroken, reason, hint: "look again: `healthrelay source list`"))
        }
        return source
    }

    private static func isSlug(_ octet: UInt8) -> Bool {
        switch octet {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
        default: false
        }
    }
}

/// A link that came to nothing: the reason for scripts, and the problem.
private struct LinkProblem: Error {
    var reason: String
    var problem: Problem
}

/// What a link came to, as JSON: `{link_web_url, provider, outcome, error}`.
private struct LinkResult {
    var url: String
    var provider: String
    var outcome: String?
    var error: String?

    init(_ url: String, _ provider: String) {
        self.url = url
        self.provider = provider
    }

    var document: JSONValue {
        .object([
            "link_web_url": .string(url), "provider": .string(provider), "outcome": .optional(outcome),
            "error": .optional(error),
        ])
    }
}
