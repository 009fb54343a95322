/// A key or token. Its description, its mirror and its dump never show it; ``revealed()`` alone does.
public struct Secret: Sendable, Hashable {
    let value: String

    /// Keeps a secret; white space around it (a file's last line feed) is dropped.
    public init(_ text: some StringProtocol) {
        var rest = text[...]
        while rest.first?.isWhitespace == true { rest.removeFirst() }
        while rest.last?.isWhitespace == true { rest.removeLast() }
        value = String(rest)
    }

    /// The secret itself, for a program that has to hand it on: a sign-in token to the person's client, a link's token to a page of
    /// its own. Write it into no log.
    public func revealed() -> String { value }

    /// Reads the secret as a sign-in token.
    public func signInToken() throws(VitalSignInToken.Malformed) -> VitalSignInToken { try VitalSignInToken(value) }

    /// Whether there is nothing to send.
    public var isEmpty: Bool { value.isEmpty }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Always `****`.
    public var description: String { "****" }
    /// Always `****`.
    public var debugDescription: String { "****" }
    /// Shows no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// How requests prove who sends them.
public enum VitalCredentials: Sendable, Hashable {
    /// A team's API key, sent as `x-vital-api-key`.
    case apiKey(Secret)
    /// One person's session, begun with a sign-in token; its access token is sent as `authorization: Bearer`.
    case session(VitalSession)

    /// What is masked wherever the server echoes it.
    var secret: Secret {
        switch self {
        case .apiKey(let key): key
        case .session(let session): session.presentToken
        }
    }

    /// The environment and region that the key's prefix (`sk_eu_…`) names; nil where it names none.
    ///
    /// A key of another region is answered with 401, so a caller can say so before sending it.
    public var intendedFor: (environment: VitalEnvironment, region: VitalRegion)? {
        guard case .apiKey(let key) = self else { return nil }
        let parts = key.value.split(separator: "_", maxSplits: 2)
        guard parts.count == 3, let region = VitalRegion(rawValue: String(parts[1])) else { return nil }
        switch parts[0] {
        case "pk": return (.production, region)
        case "sk": return (.sandbox, region)
        default: return nil
        }
    }
}
