import OutgoingHTTP

/// The region a team's data lives in: part of the host's name.
public enum VitalRegion: String, Sendable, Hashable, CaseIterable {
    /// The United States.
    case us
    /// The European Union.
    case eu
}

/// Which of the service's installations is meant.
public enum VitalEnvironment: String, Sendable, Hashable, CaseIterable {
    /// The live service.
    case production
    /// The service's own test installation.
    case sandbox
    /// A server on this machine: `http://localhost:8000`.
    case local
}

/// Where the server is: the base of every request's URL.
///
/// Hosts are those of the public documentation (docs.junction.com, "Environments") and, for sign-in tokens, of vital-android
/// (`dependencies/api.kt`).
public struct VitalServer: Sendable, Hashable {
    /// The base URL without a trailing slash: `https://api.sandbox.eu.junction.com`.
    public let baseURL: String
    /// The host's name, for messages.
    public let host: String
    /// The base of the URL at which sign-in tokens are exchanged. The service's own installations have a host for it:
    /// `https://auth.sandbox.eu.junction.com`. Elsewhere it is the API's own where none is named.
    public let authBaseURL: String
    /// Whether requests travel without TLS to another machine, so that the key could be read on the way.
    public let isExposed: Bool

    /// One of the service's own installations.
    public init(environment: VitalEnvironment, region: VitalRegion) {
        switch environment {
        case .production: self.init(trustedHost: "api.\(region.rawValue).junction.com")
        case .sandbox: self.init(trustedHost: "api.sandbox.\(region.rawValue).junction.com")
        case .local: self.init(baseURL: "http://localhost:8000", host: "localhost", isExposed: false)
        }
    }

    /// Any compatible server.
    ///
    /// - Parameters:
    ///   - text: an `http` or `https` URL, with a path or without.
    ///   - auth: likewise, where sign-in tokens are exchanged; nil: at the same place, or where the service's own installation
    ///     with this URL does.
    /// - Throws: ``InvalidBaseURL`` for another scheme, a missing host, a port outside 1 … 65535, a name and password, a query or a fragment.
    public init(baseURL text: String, authBaseURL auth: String? = nil) throws(InvalidBaseURL) {
        let (base, host, isExposed) = try Self.checked(text)
        let other = try auth.map(Self.checked)
        self.init(
            baseURL: base, host: host, isExposed: isExposed || other?.isExposed == true,
            authBaseURL: other?.base ?? Self.ownAuthBaseURL(of: base))
    }

    /// Where the service's own installation with this URL exchanges sign-in tokens, also if it is called by its former name;
    /// nil: the URL is another server's.
    private static func ownAuthBaseURL(of base: String) -> String? {
        for region in VitalRegion.allCases {
            let former = region == .us ? "" : ".\(region.rawValue)"
            for stage in ["", ".sandbox"] {
                let names = ["api\(stage).\(region.rawValue).junction.com", "api\(stage)\(former).tryvital.io"]
                if names.contains(where: { base.lowercased() == "https://" + $0 }) {
                    return "https://auth\(stage).\(region.rawValue).junction.com"
                }
            }
        }
        return nil
    }

    private static func checked(_ text: String) throws(InvalidBaseURL) -> (base: String, host: String, isExposed: Bool)
    {
        do {
            let address = try HTTPAddress(text)
            return (address.base, address.host, address.isExposed)
        } catch {
            throw error.isAboutCredentials ? .credentials : InvalidBaseURL(reason: error.reason)
        }
    }

    private init(trustedHost: String) {
        let base = "https://" + trustedHost
        self.init(baseURL: base, host: trustedHost, isExposed: false, authBaseURL: Self.ownAuthBaseURL(of: base))
    }

    private init(baseURL: String, host: String, isExposed: Bool, authBaseURL: String? = nil) {
        self.authBaseURL = authBaseURL ?? baseURL
        self.baseURL = baseURL
        self.host = host
        self.isExposed = isExposed
    }
}

/// Why a text is no base URL of a server.
public struct InvalidBaseURL: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is wrong with it, without repeating it: it may hold a password.
    public var reason: String

    /// It is a URL, with a name or password in it.
    public static let credentials = InvalidBaseURL(
        reason: "it contains a name or a password; the key belongs into a file of its own")

    /// One line for people.
    public var description: String { "the server's URL cannot be used: \(reason)" }
}
