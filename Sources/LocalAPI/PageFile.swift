import GuardedServer
import HTTPTypes
import Hummingbird
import OutgoingHTTP
import Synchronization

/// A file that the pages are made of: a browser that takes gzip gets it compressed.
final class PageFile: Sendable {
    private let octets: [UInt8]
    private let type: String
    /// The file as gzip, made when it is first asked for; no octets where it would not be smaller.
    private let packed = Mutex<(isMade: Bool, octets: [UInt8]?)>((false, nil))

    init(_ octets: [UInt8], _ type: String) { (self.octets, self.type) = (octets, type) }

    /// Adds routes that anybody may ask for files.
    static func add(_ files: [(path: String, octets: [UInt8], type: String)], to routes: GuardedRoutes) {
        for (path, octets, type) in files {
            let file = PageFile(octets, type)
            routes.get(path, .open) { request, _, _ in file.response(to: request) }
        }
    }

    func response(to request: Request) -> Response {
        guard request.takesGzip, let packed = compressed else {
            return Self.varying(Response.octetsResponse(octets, type))
        }
        var response = Response.octetsResponse(packed, type)
        response.headers[.contentEncoding] = "gzip"
        return Self.varying(response)
    }

    private var compressed: [UInt8]? {
        packed.withLock { packed in
            if !packed.isMade {
                packed = (true, Gzip.compress(octets, saving: .octets).flatMap { $0.count < octets.count ? $0 : nil })
            }
            return packed.octets
        }
    }

    private static func varying(_ response: Response) -> Response {
        var response = response
        response.headers[.vary] = "accept-encoding"
        return response
    }
}

extension Request {
    /// Whether `gzip` is among the codings of Accept-Encoding, and not with a weight of 0 (RFC 9110, section 12.5.3).
    var takesGzip: Bool {
        let codings = headers[values: .acceptEncoding].flatMap { $0.split(separator: ",") }
        return codings.contains { coding in
            let parts = coding.split(separator: ";").map { $0.trimmingPrefix(while: \.isWhitespace).lowercased() }
            let name = parts.first.map { String($0.reversed().drop { $0.isWhitespace }.reversed()) }
            return name == "gzip" && !parts.dropFirst().contains { $0.wholeMatch(of: /q=0(\.0*)?\s*/) != nil }
        }
    }
}
