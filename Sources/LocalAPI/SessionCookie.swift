import Foundation
import Hummingbird
import LocalAccess

/// The cookie of a browser's session: one half of its token.
///
/// A browser sends a host's cookies to all of the host's ports, and on a shared machine other ports can be other
/// people's servers. So the cookie alone opens nothing: the other half of the token stays with the page's origin, which
/// includes the port, and the page sends it in a header field. The cookie's half, in turn, is seen by no script.
struct SessionCookie: Sendable, Hashable {
    /// Whether the browser speaks TLS.
    let isSecured: Bool
    /// The gateway's port: two gateways on one host must not take each other's cookies away.
    let port: Int

    /// Its name. `__Host-` has browsers take the cookie from this host over TLS alone (RFC 6265bis); over plain HTTP
    /// they take neither that prefix nor `Secure`.
    var name: String { isSecured ? "__Host-healthrelay" : "healthrelay-\(port)" }

    /// What sets it, or with an empty value removes it.
    func field(_ value: String, seconds: Int) -> String {
        "\(name)=\(value); Max-Age=\(seconds); Path=/; HttpOnly; SameSite=Strict" + (isSecured ? "; Secure" : "")
    }

    /// The session's token, put together from the cookie and the field with the page's half.
    func token(in request: Request) -> AccessToken? {
        for field in request.headers[values: .cookie] {
            for cookie in field.split(separator: ";") {
                let parts = cookie.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
                guard parts.count == 2, parts[0] == name else { continue }
                return AccessToken(cookie: parts[1], key: request.headers[.sessionKey] ?? "")
            }
        }
        return nil
    }
}
