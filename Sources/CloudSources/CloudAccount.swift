import HealthReadings

/// A person's account with a vendor, as it is connected here.
public struct CloudAccount: Sendable, Hashable {
    /// Whose cloud.
    public let vendor: CloudVendor
    /// Whose routes were used to connect it.
    public var contract: CloudService.Contract
    /// Where it was connected.
    public var service: String
    /// The app that it was connected to.
    public var app: String
    /// The client's id of the person whose data it is.
    public var person: String
    /// The account's id at a wear service.
    public var user: String?
    /// The account's id at the vendor, by the first record that came; `nil` for a wear service's account, and until then.
    public var owner: String?
    /// What a vendor gave; a wear service keeps it.
    var tokens: CloudTokens?
    /// When it was connected.
    public var connectedAt: Instant
    /// When requests may go on, if the service has said so.
    public var notBefore: Instant?
    /// When everything was fetched last.
    public var lastFetchAt: Instant?
    /// By collection, up to when everything was fetched.
    public var fetchedThrough: [String: Instant] = [:]

    /// When the access token expires; `nil` if there is none, or nobody said.
    public var tokenExpiresAt: Instant? { tokens?.expiresAt }
    /// Whether the access token can be renewed here.
    public var isRenewable: Bool { tokens?.refresh != nil }

    /// Whether it is known to be the account that was connected before: what was fetched of that need not come again.
    ///
    /// WHOOP's records name their user, and a fetch refuses another's. Until one has come, it may be another account.
    func continues(_ former: CloudAccount) -> Bool {
        guard let user else { return former.user == nil && former.owner != nil }
        return user == former.user && service == former.service
    }

    /// Whether a text can be an account's id in a path and a query.
    static func isUser(_ text: String) -> Bool {
        (1...256).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

/// An account that is disconnected here and that a wear service has not been told of.
public struct PendingDisconnect: Sendable, Hashable {
    /// Where to tell it.
    public var service: String
    /// The app that the account was connected to.
    public var app: String
    /// The account's id there.
    public var user: String
    /// When it was disconnected here.
    public var since: Instant
}

/// What is kept of a vendor: one file, so that an account is connected or disconnected in one step.
public struct CloudState: Sendable, Hashable {
    /// The account; `nil` if none is connected.
    public var account: CloudAccount?
    /// Former accounts that a wear service is still to be told of.
    public var pending: [PendingDisconnect] = []

    /// Nothing.
    public init() {}
}

/// The accounts that are connected: a file for each vendor, mode 0600, in one directory.
public struct CloudAccounts: Sendable {
    /// Why an account can't be kept or read.
    public struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// The file or directory.
        public var path: String
        /// The system's reason; `nil` for a file that can't be read as an account.
        public var reason: String?
        /// One line for people.
        public var description: String {
            reason.map { "cannot keep the account in \(path): \($0)" }
                ?? "\(path) can't be read as an account that is connected"
        }
    }

    /// The directory. It is made with mode 0700 when the first account is kept.
    public let directory: String

    /// Makes it; nothing is read yet.
    ///
    /// - Parameter directory: the directory.
    public init(directory: String) { self.directory = directory }

    /// What is kept of a vendor.
    ///
    /// - Parameter vendor: whose cloud.
    /// - Throws: ``Failure`` for a file that can't be read.
    public func state(of vendor: CloudVendor) throws(Failure) -> CloudState {
        let path = path(of: vendor)
        if FileKind(at: path) == .absent { return CloudState() }
        guard FileKind(at: path) == .regular, let octets = PrivateFile.read(path, upTo: 1 << 20),
            let root = try? JSONReader.read(octets), root["format"]?.integer == 1,
            let state = CloudState(root, vendor)
        else { throw Failure(path: path, reason: nil) }
        return state
    }

    /// Keeps what there is of a vendor; nothing is left of what was kept before.
    ///
    /// - Parameters:
    ///   - state: what to keep.
    ///   - vendor: whose cloud.
    /// - Throws: ``Failure``.
    public func save(_ state: CloudState, of vendor: CloudVendor) throws(Failure) {
        do throws(PrivateFile.Failure) {
            guard state.account != nil || !state.pending.isEmpty else {
                _ = try PrivateFile.remove(path(of: vendor))
                return
            }
            try PrivateFile.write(Array(state.document.text.utf8), to: path(of: vendor))
        } catch {
            throw Failure(path: error.path, reason: error.reason)
        }
    }

    private func path(of vendor: CloudVendor) -> String { "\(directory)/\(vendor.rawValue).json" }
}

extension CloudState {
    /// What the file holds.
    fileprivate var document: JSONValue {
        .object([
            "format": 1, "account": account?.document ?? .null,
            "pending": .array(
                pending.map {
                    .object([
                        "service": .string($0.service), "app": .string($0.app), "user": .string($0.user),
                        "since": .string($0.since.description),
                    ])
                }),
        ])
    }

    fileprivate init?(_ root: JSONNode, _ vendor: CloudVendor) {
        if let node = root["account"] {
            guard let account = CloudAccount(node, vendor) else { return nil }
            self.account = account
        }
        for node in root["pending"]?.elements ?? [] {
            guard let service = node["service"]?.text, let app = node["app"]?.text, let user = node["user"]?.text,
                let since = node["since"]?.text.flatMap({ Instant(rfc3339: $0) }), CloudAccount.isUser(user)
            else { return nil }
            pending.append(PendingDisconnect(service: service, app: app, user: user, since: since))
        }
    }
}

extension CloudAccount {
    fileprivate var document: JSONValue {
        .object([
            "contract": .string(contract.rawValue), "service": .string(service), "app": .string(app),
            "person": .string(person), "user": .optional(user), "owner": .optional(owner),
            "access_token": .optional(tokens?.access.value),
            "refresh_token": .optional(tokens?.refresh?.value),
            "token_expires_at": .optional(tokens?.expiresAt?.description),
            "connected_at": .string(connectedAt.description), "not_before": .optional(notBefore?.description),
            "last_fetch_at": .optional(lastFetchAt?.description),
            "fetched_through": .object(
                fetchedThrough.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value.description)) }),
        ])
    }

    fileprivate init?(_ node: JSONNode, _ vendor: CloudVendor) {
        func instant(_ key: String) -> Instant? { node[key]?.text.flatMap { Instant(rfc3339: $0) } }
        guard let contract = node["contract"]?.text.flatMap(CloudService.Contract.init),
            let service = node["service"]?.text, let app = node["app"]?.text, let person = node["person"]?.text,
            let connectedAt = instant("connected_at")
        else { return nil }
        let user = node["user"]?.text
        let tokens = node["access_token"]?.text.flatMap { CloudSecret($0) }.map { access in
            CloudTokens(
                access: access, refresh: node["refresh_token"]?.text.flatMap { CloudSecret($0) },
                expiresAt: instant("token_expires_at"))
        }
        // Without one of them nothing can be asked.
        guard contract == .vendor ? tokens != nil : user.map(Self.isUser) == true else { return nil }
        self.init(
            vendor: vendor, contract: contract, service: service, app: app, person: person, user: user,
            owner: node["owner"]?.text, tokens: tokens, connectedAt: connectedAt, notBefore: instant("not_before"),
            lastFetchAt: instant("last_fetch_at"))
        for (collection, end) in node["fetched_through"]?.members ?? [] {
            fetchedThrough[collection] = end.text.flatMap { Instant(rfc3339: $0) }
        }
    }
}
