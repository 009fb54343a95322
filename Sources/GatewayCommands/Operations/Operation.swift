/// What a command asks of the gateway that owns the store: the same value whether it runs in this process or travels
/// through the control socket.
public enum Operation: Codable, Sendable, Hashable {
    /// Readings, newest first.
    case query(QueryOperation)
    /// What a person's devices have measured last, in one document.
    case metrics(MetricsOperation)
    /// What was measured on a day, or on each of several days.
    case summary(SummaryOperation)
    /// A person's readings on pages.
    case report(ReportOperation)
    /// What a person's kept heart rate comes to.
    case heartRate(HeartRateOperation)
    /// What people enter by hand.
    case entry(EntryOperation)
    /// Which gateway this is.
    case identity(IdentityOperation)
    /// Signs a person in at a server.
    case connect(ConnectOperation)
    /// Whether receivers accept the gateway's credentials: those of one destination, or of all.
    case auth(destination: String?)
    /// Samples out of other programs' data.
    case importing(ImportOperation)
    /// The server's user.
    case user(UserOperation)
    /// Connected sources of the current user.
    case source(SourceOperation)
    /// Delivery.
    case sync(SyncOperation)
    /// Where readings go.
    case destination(DestinationOperation)
    /// This gateway's membership in a fleet.
    case fleet(FleetOperation)
    /// The gateway's settings.
    case settings(SettingsOperation)
    /// The store itself.
    case store(StoreOperation)
    /// The backups that the gateway makes by itself.
    case backup(BackupOperation)
    /// Devices near and known, over Bluetooth.
    case device(DeviceOperation)
    /// Sensors held to the NFC reader.
    case sensor(SensorOperation)
    /// Changes of readings, read under a name.
    case subscriber(SubscriberOperation)
    /// Readings that are another person's.
    case move(MoveOperation)
    /// Which readings count in figures.
    case figures(FigureOperation)
    /// Samples of an iPhone with the Health Sync app.
    case healthSync(HealthSyncOperation)
    /// Records of vendors' clouds.
    case cloud(CloudOperation)
    /// What a person has consented to.
    case consent(ConsentOperation)
    /// Who may use the gateway over the network.
    case client(ClientOperation)
    /// Read-only links to one person's figures.
    case figureLink(FigureLinkOperation)
    /// A link to the page with a one-time code.
    case page
    /// A link with which one browser claims a new gateway.
    case setupToken
    /// What stands in the way of anything.
    case doctor
}

/// The arguments of `query`; instants are still text, because a date means the user's zone, which the store knows.
public struct QueryOperation: Codable, Sendable, Hashable {
    /// How readings are printed.
    public enum Format: String, Codable, Sendable, CaseIterable {
        case text, json, ndjson, csv, libreview, fhir, terra, rook
        case openMHealth = "open_mhealth"
    }

    /// Kinds, empty for all.
    public var types: [String] = []
    /// RFC 3339 or a date, inclusive.
    public var from: String?
    /// RFC 3339 or a date, inclusive.
    public var to: String?
    /// 1 … 10,000.
    public var limit = 1000
    /// How many to skip.
    public var offset: Int?
    /// Where the last page ended.
    public var cursor: String?
    /// The newest reading of each kind only.
    public var latest = false
    /// The client's id of the person whose readings to give; nil: everybody's.
    public var person: String?
    /// How readings are printed.
    public var format = Format.text
    /// `comma` or `semicolon`: how CSV is written.
    public var csvStyle = "comma"
    /// Whether CSV begins with the mark that spreadsheets know UTF-8 by.
    public var csvMark = false

    /// All readings.
    public init() {}
}

/// The arguments of `metrics`.
public struct MetricsOperation: Codable, Sendable, Hashable {
    /// How old a value may be unless somebody says otherwise, in seconds: a day.
    public static let usualAge = 86_400.0

    /// How old a value may be, in seconds.
    public var maxAge: Double
    /// The client's id of the person; nil: the current user.
    public var person: String?

    /// Makes it.
    public init(maxAge: Double = MetricsOperation.usualAge, person: String? = nil) {
        self.maxAge = maxAge
        self.person = person
    }
}

/// The arguments of `summary body`.
public struct SummaryOperation: Codable, Sendable, Hashable {
    /// How a day is printed.
    public enum Format: String, Codable, Sendable, CaseIterable {
        case text, json, terra, rook
    }

    /// The first date, `2026-11-22`; nil: today.
    public var from: String?
    /// The last date; nil: the first one.
    public var to: String?
    /// The client's id of the person; nil: the current user.
    public var person: String?
    /// Whether the values are listed that the figures are made of.
    public var showsSamples = true
    /// How a day is printed.
    public var format = Format.text

    /// Today, of the current user.
    public init() {}
}

/// The arguments of `user`.
public enum UserOperation: Codable, Sendable, Hashable {
    /// Creates a person at the server; unless `isSet`, nothing here changes.
    case create(String, isSet: Bool = true)
    /// Takes a person whom the server knows by our id or, as it may be too, by its own; `userID` is the server's.
    case set(String?, userID: String? = nil)
    case show
    case clear
    /// Removes the current user, at the server too unless `local`; where a name is given, only if it is theirs.
    case remove(confirmed: String?, local: Bool)
}

/// The arguments of `source`.
public enum SourceOperation: Codable, Sendable, Hashable {
    case list
    case connect(String)
    case revoke(String)
    /// Makes a page on which the person connects a provider, and waits that many seconds for its end; 0: not at all.
    case link(String, wait: Int)
}

/// The arguments of `sync`.
public enum SyncOperation: Codable, Sendable, Hashable {
    /// Delivers what waits, or what of it lies between two instants, both included (RFC 3339 or a date), and is of one of
    /// these kinds (none: all).
    case now(from: String?, to: String?, types: [String] = [], destination: String? = nil)
    case watch(destination: String? = nil)
    case status
    /// Offers refused readings to the server once more: those with these ids, or all.
    case retry([String], destination: String? = nil)
    /// Switches delivery on: all of it, or the destinations of one sort.
    case enable(DeliverySort? = nil)
    /// Switches delivery off: all of it, or the destinations of one sort.
    case disable(DeliverySort? = nil)
}

/// What destinations take.
public enum DeliverySort: String, Codable, Sendable, Hashable {
    /// Single readings.
    case events
    /// A person's whole days, as Terra's and ROOK's summaries are.
    case summaries
}

/// The arguments of `store`.
public enum StoreOperation: Codable, Sendable, Hashable {
    case stats
    case verify
    /// Removes what was delivered and measured longer than this ago, in seconds.
    case prune(olderThan: Double)
    /// Hands on the whole store, sealed under this passphrase.
    case export(passphrase: String)
    /// Makes a new key and seals every row anew.
    case rotateKey
    /// Takes a person's word that this machine's clock is right now.
    case trustClock
    /// Erases one person, or everybody.
    case forget(ForgetOperation)
}

/// The arguments of `store forget`.
public struct ForgetOperation: Codable, Sendable, Hashable {
    /// The client's id of the person; nil for everybody there is.
    public var user: String?
    /// Whether they are removed at the server too, before they are erased here.
    public var atServer: Bool

    /// Makes it.
    public init(user: String? = nil, atServer: Bool = false) {
        self.user = user
        self.atServer = atServer
    }
}

/// An operation with how its result is to be printed.
public struct OperationRequest: Codable, Sendable, Hashable {
    /// What to do.
    public var operation: Operation
    /// Whether documents are printed as JSON.
    public var json: Bool

    /// Makes a request.
    public init(_ operation: Operation, json: Bool) {
        self.operation = operation
        self.json = json
    }
}
