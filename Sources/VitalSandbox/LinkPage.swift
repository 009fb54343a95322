import HTTPTypes
import Hummingbird
import NIOCore

/// The pages of a link: no script, nothing from elsewhere.
enum LinkPage {
    /// The page with the two buttons, and a choice of providers where the token names none.
    static func choice(_ link: Link, token: String, status: HTTPResponse.Status = .ok) -> Response {
        let question: String
        if let provider = link.provider {
            question = "<p>Connect <b>\(escaped(Vocabulary.name(of: provider)))</b>?</p>"
        } else {
            let options = link.offered.map { slug in
                "<option value=\"\(escaped(slug))\">\(escaped(Vocabulary.name(of: slug)))</option>"
            }
            question = "<p><label>Connect <select name=\"provider\">\(options.joined())</select></label></p>"
        }
        return page(
            """
            <form method="post" action="\(LinkRoutes.path)">
            <input type="hidden" name="token" value="\(escaped(token))">
            \(question)
            <button name="decision" value="connect">Connect</button>
            <button name="decision" value="refuse">Refuse</button>
            </form>
            """, status)
    }

    /// The page for a token nobody was given.
    static let unknown = text("There is no such link.", status: .notFound)

    /// A page with one sentence.
    static func text(_ words: String, status: HTTPResponse.Status) -> Response {
        page("<p>\(escaped(words)) You may close this page.</p>", status)
    }

    private static func page(_ body: String, _ status: HTTPResponse.Status) -> Response {
        let html = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1"><title>Sandbox link</title>
            <style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}
            button,select{font:inherit;padding:.3rem 1rem}</style></head><body>
            <h1>Sandbox link</h1>
            \(body)
            </body></html>

            """
        var headers: HTTPFields = [
            .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
            .contentSecurityPolicy:
                "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
        ]
        // The page's address holds the token.
        if let name = HTTPField.Name("Referrer-Policy") { headers[name] = "no-referrer" }
        return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(string: html)))
    }

    private static func escaped(_ text: String) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": out += "&amp;"
            case "<": out += "&lt;"
            case ">": out += "&gt;"
            case "\"": out += "&quot;"
            case "'": out += "&#39;"
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}
