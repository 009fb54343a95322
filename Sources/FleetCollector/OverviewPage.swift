import FleetStore
import Foundation
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess

/// A page for operators: how the gateways are. It has no script, changes nothing, and shows no reading.
///
/// Without a token it is for this machine alone: for whoever connects over loopback, to a loopback name, and not through a
/// proxy, which would make the whole world look like this machine.
package struct OverviewPage: Sendable {
    private let store: any CentralStore
    private let metrics: CollectorMetrics
    private let token: String?

    package init(store: any CentralStore, metrics: CollectorMetrics, token: String?) {
        self.store = store
        self.metrics = metrics
        self.token = token
    }

    /// Whether a request may see the page.
    ///
    /// - Parameter peer: the address that the connection comes from.
    func requireAccess(_ request: Request, peer: String?) throws(APIRefusal) {
        guard let token else {
            let host = request.head.authority.flatMap { try? ListenAddress($0.contains(":") ? $0 : $0 + ":443") }
            let isDirect = ["x-forwarded-for", "forwarded", "via"].allSatisfy { name in
                HTTPField.Name(name).map { request.headers[$0] == nil } ?? true
            }
            guard let peer, ListenAddress(host: peer, port: 0).isLoopback, host?.isLoopback == true, isDirect else {
                throw APIRefusal(
                    .forbidden, "only_this_machine", "the page is shown on the collector's own machine alone",
                    hint: "set page.token_file to see it from elsewhere")
            }
            return
        }
        let parts = (request.headers[.authorization] ?? "").split(separator: " ", maxSplits: 1).map(String.init)
        var given: String?
        if parts.count == 2 {
            switch parts[0].lowercased() {
            case "bearer": given = parts[1]
            case "basic":
                // Browsers ask for a name and a password: the token is the password.
                given = Data(base64Encoded: parts[1]).flatMap { octets in
                    octets.firstIndex(of: UInt8(ascii: ":")).map {
                        String(decoding: octets[($0 + 1)...], as: UTF8.self)
                    }
                }
            default: break
            }
        }
        // Digests take the same time to compare wherever they differ.
        guard let given, AccessToken(text: given).digest == AccessToken(text: token).digest else {
            var refusal = APIRefusal(.unauthorized, "not_signed_in", "expected the token of page.token_file")
            refusal.headers[.wwwAuthenticate] = "Basic realm=\"healthrelay-collector\", charset=\"UTF-8\""
            throw refusal
        }
    }

    /// The page.
    func response() async throws(CentralStoreError) -> Response {
        let html = page(try await store.gateways(hasStatuses: false), now: metrics.now())
        var response = Response.octetsResponse(Array(html.utf8), "text/html; charset=utf-8")
        response.headers[.cacheControl] = "no-store"
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        for (name, value) in [
            ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] { if let name = HTTPField.Name(name) { response.headers[name] = value } }
        return response
    }

    /// The page of gateways: those that need somebody first.
    package func page(_ gateways: [GatewayRecord], now: Instant) -> String {
        let list = GatewayList(gateways, metrics: metrics)
        let order = gateways.sorted {
            (metrics.isSilent($0) ? 0 : 1, $0.gateway) < (metrics.isSilent($1) ? 0 : 1, $1.gateway)
        }
        let rows = order.map { gateway in
            let isSilent = metrics.isSilent(gateway)
            let cells = [
                gateway.gateway, (gateway.heard.map { Self.age($0, now) } ?? "never") + (isSilent ? ", silent" : ""),
                gateway.version ?? "–", String(gateway.stored), gateway.backlog.map(String.init) ?? "–",
                gateway.oldest.map { Self.age($0, now) } ?? "–", list.settings(of: gateway),
            ]
            return "<tr\(isSilent ? " class=\"silent\"" : "")>"
                + cells.map { "<td>\(Self.escaped($0))</td>" }.joined() + "</tr>\n"
        }
        let silent = gateways.filter(metrics.isSilent).count
        let waiting = gateways.compactMap(\.backlog).reduce(0, +)
        let summary =
            "\(gateways.count) gateways, \(silent) silent, \(waiting) readings wait at them, "
            + "\(metrics.counters.receiptsPerMinute(at: now)) receipts in the last minute"
        return """
            <!DOCTYPE html>
            <html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="60">
            <meta name="viewport" content="width=device-width, initial-scale=1"><title>Gateways</title>
            <style>
            :root { color-scheme: light dark; font-family: system-ui, sans-serif }
            body { margin: 1.5rem } table { border-collapse: collapse } th, td { text-align: start; padding: .3rem .8rem }
            thead th { border-bottom: 2px solid } tr + tr td { border-top: 1px solid #8884 } .silent { font-weight: 600 }
            </style></head><body><main><h1>Gateways</h1><p>\(Self.escaped(summary)).</p>
            <table><thead><tr><th scope="col">Gateway</th><th scope="col">Last heard</th><th scope="col">Version</th>\
            <th scope="col">Stored</th><th scope="col">Waiting</th><th scope="col">Oldest</th><th scope="col">Settings</th></tr>\
            </thead><tbody>
            \(rows.joined())</tbody></table></main></body></html>

            """
    }

    /// How long ago something was: `12 min`.
    private static func age(_ instant: Instant, _ now: Instant) -> String {
        let seconds = max(0, now.seconds - instant.seconds)
        return switch seconds {
        case ..<120: "\(seconds) s ago"
        case ..<7200: "\(seconds / 60) min ago"
        case ..<172_800: "\(seconds / 3600) h ago"
        default: "\(seconds / 86_400) days ago"
        }
    }

    private static func escaped(_ text: String) -> String {
        PrintableText.escaped(text).escaping(["&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;"])
    }
}
