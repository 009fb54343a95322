import Foundation

/// The body of asking for a link token.
struct LinkTokenBody: Sendable {
    var userID: String
    /// The provider to connect; nil: the person chooses on the page.
    var provider: String?
    /// Where the browser is sent when the link has ended; nil: the page says so.
    var redirectURL: String?
    /// The providers offered for choice; nil: all.
    var offered: [String]?
    /// Whether closing the page redirects as well (`on_close`).
    var redirectsOnClose: Bool

    /// The longest `redirect_url`, in octets: what browsers of every kind take.
    static let longestURL = 2083

    init(_ body: JSONValue) throws(APIError) {
        var reader = FieldReader()
        let at: [FieldReader.Step] = [.name("body")]
        let known: Set = ["user_id", "provider", "redirect_url", "filter_on_providers", "on_error", "on_close"]
        guard let object = reader.object(body, at: at, known: known) else { throw .invalid(reader.problems) }
        let user = reader.uuid(reader.required("user_id", of: object, at: at), at: at + [.name("user_id")])
        provider = reader.choice(
            reader.optional("provider", of: object), among: Vocabulary.linkableSlugs, at: at + [.name("provider")])
        redirectURL = Self.url(
            reader.optional("redirect_url", of: object), at: at + [.name("redirect_url")], &reader)
        offered = Self.choices(
            reader.optional("filter_on_providers", of: object), at: at + [.name("filter_on_providers")], &reader)
        _ = reader.choice(
            reader.optional("on_error", of: object), among: ["redirect"], at: at + [.name("on_error")])
        redirectsOnClose =
            reader.choice(
                reader.optional("on_close", of: object), among: ["redirect"], at: at + [.name("on_close")]) != nil
        guard let user, reader.problems.isEmpty else { throw .invalid(reader.problems) }
        userID = user
    }

    private static func choices(
        _ value: JSONValue?, at location: [FieldReader.Step], _ reader: inout FieldReader
    ) -> [String]? {
        guard let value else { return nil }
        guard case .array(let elements) = value else {
            reader.note(location, "Input should be a valid list", "list_type")
            return nil
        }
        return elements.enumerated().compactMap { index, element in
            reader.choice(element, among: Vocabulary.linkableSlugs, at: location + [.index(index)])
        }
    }

    /// An absolute URL to which a browser may be sent. Apps have schemes of their own; those that run what they carry
    /// are refused.
    private static func url(
        _ value: JSONValue?, at location: [FieldReader.Step], _ reader: inout FieldReader
    ) -> String? {
        guard let text = reader.string(value, at: location) else { return nil }
        guard text.utf8.count <= longestURL else {
            reader.note(location, "URL should have at most \(longestURL) characters", "url_too_long")
            return nil
        }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), let parts = URLComponents(string: text),
            let scheme = parts.scheme?.lowercased()
        else {
            reader.note(location, "Input should be a valid URL", "url_parsing")
            return nil
        }
        let isWeb = scheme == "http" || scheme == "https"
        guard !["javascript", "data", "vbscript"].contains(scheme), !isWeb || parts.host?.isEmpty == false else {
            reader.note(location, "Input should be a URL that a browser can be sent to", "url_scheme")
            return nil
        }
        return text
    }
}
