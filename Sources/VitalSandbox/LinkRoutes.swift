import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// `/v2/link/token`, and the page a link token opens, on which a person connects a provider or refuses to.
///
/// The page is the sandbox's own: the API publishes none. Its outcome is the API's: the browser is sent to the
/// `redirect_url` with `state=success&provider=P`, or with `state=error`, `error_type` and `error`.
struct LinkRoutes: Sendable {
    let store: SandboxStore
    let bodies: BodyReader
    /// How long a token can be used, in seconds.
    let lifetime: Int64
    /// The address of this server.
    let address: @Sendable () async throws -> SandboxAddress

    /// Where the page is.
    static let path = "/link"
    /// The most octets of the page's form.
    private static let maximumForm = 8192

    func add(to router: Router<SandboxContext>) {
        router.post("/v2/link/token") { request, _ in
            let body = try LinkTokenBody(try await bodies.read(request, schema: "create_link_token").json)
            let token = try await store.createLinkToken(body, seconds: lifetime)
            return Response(json: [
                "link_token": .string(token),
                "link_web_url": .string("\(try await address().baseURL)\(Self.path)?token=\(token)"),
            ])
        }
        router.get("/link") { request, _ in
            let token = FormFields(request.uri.query ?? "")["token"] ?? ""
            guard let link = try await store.link(token) else { return LinkPage.unknown }
            guard link.state == .usable else { return Self.end(link, Self.fault(link.state)) }
            return LinkPage.choice(link, token: token)
        }
        router.post("/link") { request, _ in
            let form = FormFields(String(buffer: try await request.body.collect(upTo: Self.maximumForm)))
            guard let token = form["token"], let link = try await store.link(token) else { return LinkPage.unknown }
            guard link.state == .usable else { return Self.end(link, Self.fault(link.state)) }
            guard form["decision"] == "connect" else {
                return Self.end(
                    link, .error("user_cancelled", "The person closed the page."), isClosed: true)
            }
            guard let slug = link.provider ?? form["provider"],
                link.provider != nil || link.offered.contains(slug)
            else { return LinkPage.choice(link, token: token, status: .unprocessableContent) }
            guard let used = try await store.consume(token, connecting: slug) else { return LinkPage.unknown }
            return Self.end(link, used.state == .usable ? .success(slug) : Self.fault(used.state))
        }
    }

    private enum Outcome {
        case success(String)
        case error(String, String)
    }

    private static func fault(_ state: Link.State) -> Outcome {
        state == .consumed
            ? .error("token_consumed", "This link was used already.")
            : .error("token_expired", "This link has expired.")
    }

    /// Sends the browser to the redirect URL with the outcome, or says it where there is none.
    private static func end(_ link: Link, _ outcome: Outcome, isClosed: Bool = false) -> Response {
        guard let url = link.redirectURL, !isClosed || link.redirectsOnClose else {
            switch outcome {
            case .success(let slug): return LinkPage.text("\(Vocabulary.name(of: slug)) is connected.", status: .ok)
            case .error(_, let words): return LinkPage.text(words, status: isClosed ? .ok : .gone)
            }
        }
        var fields: [(String, String)] = []
        switch outcome {
        case .success(let slug): fields = [("state", "success"), ("provider", slug)]
        case .error(let type, let words):
            fields = [("state", "error"), ("error_type", type), ("error", words)]
            if let provider = link.provider { fields.append(("provider", provider)) }
        }
        let query = fields.map { "\($0)=\(encoded($1))" }.joined(separator: "&")
        let parts = url.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let fragment = parts.count == 2 ? "#" + parts[1] : ""
        let target = "\(parts[0])\(parts[0].contains("?") ? "&" : "?")\(query)\(fragment)"
        // 303 turns the form's POST into a GET; the API's own pages answer GETs, with 307.
        return Response(status: .seeOther, headers: [.location: target, .cacheControl: "no-store"])
    }

    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(.init(charactersIn: "-_."))) ?? ""
    }
}
