import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// Writes readings into a time-series database that takes InfluxDB line protocol: InfluxDB 1, 2 and 3, VictoriaMetrics.
///
/// A point is told by its measurement, its tags (device, person, of glucose the sample type) and its timestamp, so a point
/// that is written again replaces itself. Two readings of a device never share a point: within a series the store gives each
/// a second of its own.
///
/// | the server answers | failure |
/// |---|---|
/// | 204, or 200 without a body | none |
/// | 400: a line is rejected, the others may be stored | the items': the batch is halved until the line stands alone |
/// | 400 or 422 that names the retention | likewise; readings older than the server says it keeps are refused |
/// | 401, 403 | the destination's; needs a person |
/// | 404 | the destination's: there is no such database or bucket |
/// | 413 | too large |
/// | 429, 503 | the destination's, not before `Retry-After` |
///
/// What is taken back is looked up by its reading's id and deleted by its exact tags and timestamp. So is what was written of a
/// reading before its tags changed, once it is written anew.
public struct InfluxDBDestination: Destination {
    /// Where in the server points are written, and what proves who writes.
    public enum Place: Sendable, Hashable {
        /// A database of version 1, or of a server that takes its requests.
        case database(String, login: Login?)
        /// A bucket of version 2, or of a server that takes its requests.
        case bucket(String, organisation: String)
    }

    /// A user's name and password.
    public struct Login: Sendable, Hashable, CustomReflectable {
        /// The user's name, without a colon.
        public var user: String
        let password: Masked

        /// Creates a login.
        public init(user: String, password: String) {
            self.user = user
            self.password = Masked(password)
        }

        /// Shows the name alone.
        public var customMirror: Mirror { Mirror(self, children: ["user": user]) }
    }

    /// The destination's name in the settings.
    public let name: String
    /// `influxdb`.
    public let kind = "influxdb"
    /// Every kind that is delivered, each reading of a series at a second of its own; what is taken back is deleted.
    public var rules: DestinationRules { Self.rules }

    /// What every such database can express.
    public static let rules = DestinationRules(
        kinds: ReadingKind.delivered, hasUniqueSeconds: true, needsSource: false,
        canRetract: true, isSeriesByDevice: true, batchLimit: 2000)

    /// Where points are written.
    public let place: Place
    let client: WebClient
    private let authorization: Masked?

    /// Creates a destination; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - name: its name in the settings.
    ///   - server: where the server is.
    ///   - place: the database or bucket.
    ///   - token: an API token; `nil`: none.
    ///   - logger: gets a line a request at debug level.
    public init(
        name: String, server: WebServer, place: Place, token: String? = nil,
        logger: Logger = Logger(label: "healthrelay.influxdb")
    ) {
        self.init(name: name, server: server, place: place, token: token, limits: HTTPLimits(), logger: logger)
    }

    init(
        name: String, server: WebServer, place: Place, token: String?, limits: HTTPLimits, logger: Logger
    ) {
        self.name = name
        self.place = place
        var secrets: [Masked] = []
        if let token {
            authorization = Masked("Token " + token)
            secrets = [Masked(token)]
        } else if case .database(_, let login?) = place {
            let credentials = Data("\(login.user):\(login.password.value)".utf8).base64EncodedString()
            authorization = Masked("Basic " + credentials)
            secrets = [login.password, Masked(credentials)]
        } else {
            authorization = nil
        }
        client = WebClient(server, secrets: secrets, limits: limits, logger: logger)
    }

    /// Points in one request at most, unless a single recording has more: databases take about so many well, and servers
    /// refuse bodies of some megabytes.
    static let mostPoints = 5000

    /// The batch, in parts of at most 5,000 points: each sample of a recording is one.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        // These are measured one by one.
        if [.glucose, .bloodPressure].contains(batch.target.resource) { return batch.parts(of: Self.mostPoints) }
        return batch.parts(of: Self.mostPoints) { max($0.reading.record.value.series?.count ?? 1, 1) }
    }

    /// Writes a part's readings as points, in one request.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        var (lines, outcomes): (LineWriter, [Outcome]) = (LineWriter(capacity: part.items.count * 192), [])
        outcomes.reserveCapacity(part.items.count)
        var again: [Int] = []
        let person = part.person.clientUserID
        // An item is large: in the buffer none is copied.
        part.items.withUnsafeBufferPointer { items in
            for index in items.indices {
                do throws(FormatOmission) {
                    try lines.append(items[index].reading, person: person, at: items[index].timestamp)
                    outcomes.append(Outcome(items[index].id, .delivered))
                    // One that was sent before may be there, too: the answer may have been lost.
                    if items[index].wasDelivered || items[index].attempts > 0 { again.append(index) }
                } catch {
                    outcomes.append(Outcome(items[index].id, .refused("not sent: \(error)")))
                }
            }
        }
        guard !lines.octets.isEmpty else { return outcomes }
        CrashPoint.reach("influxdb.before")
        let answer = try await client.send(writeRequest(lines.octets))
        CrashPoint.reach("influxdb.after")
        do throws(DeliveryFailure) {
            try requireWritten(answer)
        } catch {
            guard error.scope == .items, error.serverSaid?.lowercased().contains("retention") == true else {
                throw error
            }
            return try await writeKept(part, after: error)
        }
        if !again.isEmpty { try await deleteFormer(again.map { part.items[$0] }, of: part) }
        return outcomes
    }

    /// The request that writes lines.
    func writeRequest(_ lines: [UInt8]) -> WebRequest {
        let address = client.server.address
        var request: WebRequest
        switch place {
        case .database(let database, _):
            request = WebRequest(
                url: address.joined("write", ["db": database, "precision": "ms"]), route: "POST /write")
        case .bucket(let bucket, let organisation):
            request = WebRequest(
                url: address.joined(
                    "api/v2/write", ["org": organisation, "bucket": bucket, "precision": "ms"]),
                route: "POST /api/v2/write")
        }
        request.headers = headers + [("content-type", Masked(ReadingFormat.lineProtocol.mediaType))]
        request.body = lines
        request.mayCompress = true
        return request
    }

    /// What every request carries.
    var headers: [(name: String, value: Masked)] { authorization.map { [("authorization", $0)] } ?? [] }

    /// Whether the answer to a write says that everything is stored.
    ///
    /// A captive portal answers everything with 200 and a page: only an answer without a body acknowledges.
    private func requireWritten(_ answer: HTTPAnswer) throws(DeliveryFailure) {
        let route = writeRequest([]).route
        if answer.isGood, answer.status == 204 || answer.body.isEmpty { return }
        if answer.isGood, !answer.isPage {
            throw DeliveryFailure(
                .destination, code: "unexpected_answer",
                message: "\(route): answers \(answer.status) with a body, and none was expected",
                serverSaid: client.said(answer))
        }
        var failure = client.failure(of: answer, route)
        if answer.status == 404, !answer.isPage {
            failure.message = "\(route): there is no such \(placeName), or no such path at the server (status 404)"
        }
        throw failure
    }

    /// `database` or `bucket`.
    var placeName: String {
        switch place {
        case .database: "database"
        case .bucket: "bucket or organisation"
        }
    }
}
