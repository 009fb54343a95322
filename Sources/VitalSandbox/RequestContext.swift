import Foundation
import Hummingbird
import Logging
import NIOCore

/// What a request carries beside itself.
struct SandboxContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// Answered as `x-request-id` and kept in the log of posts.
    let requestID: String

    /// The connection, for faults that close it.
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
        requestID = UUID().uuidString.lowercased()
    }

    /// A path parameter of any characters; the router leaves it percent-encoded (RFC 3986, section 2.1).
    func text(_ name: String) throws -> String {
        guard let text = parameters.get(name)?.removingPercentEncoding else {
            throw APIError.invalid(
                .name("path"), .name(name), message: "Input should be percent-encoded UTF-8", type: "string_unicode")
        }
        return text
    }

    /// A path parameter that must be a UUID.
    func uuid(_ name: String) throws -> String {
        let text = parameters.get(name) ?? ""
        guard let uuid = UUID(uuidString: text) else {
            throw APIError.invalid(
                .name("path"), .name(name), message: "Input should be a valid UUID", type: "uuid_parsing")
        }
        return uuid.uuidString.lowercased()
    }

    /// A path parameter from a closed list.
    func choice(_ name: String, among choices: [String]) throws -> String {
        let text = parameters.get(name) ?? ""
        var reader = FieldReader()
        _ = reader.choice(.string(text), among: choices, at: [.name("path"), .name(name)])
        try reader.finish()
        return text
    }
}
