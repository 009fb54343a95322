import Crypto
import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore
import Synchronization

/// Uploads the readings of one person to a Nightscout site, by its API v1.
///
/// Glucose becomes entries: `mbg` of a meter, `sgv` of a continuous sensor. Nightscout tells them by their instant and type
/// alone and merges whatever shares both, so the store gives every reading a second of its own. Blood pressures become notes,
/// if the owner wants that; every other kind has no place there.
///
/// | the site answers | failure |
/// |---|---|
/// | 2xx with JSON | none, however many documents it repeats |
/// | 401, 403 | the destination's; needs a person. Each costs the next five seconds, and tells the site's owner |
/// | 404 or anything else with a page | the destination's: `url` names another place |
/// | any of these, to notes | the target's: the site may permit entries alone |
/// | 307 and other redirects | the destination's |
/// | 413 | too large |
/// | 500 | the target's |
public struct NightscoutDestination: Destination {
    /// What proves who uploads.
    public struct Credential: Sendable, Hashable, CustomReflectable {
        let header: Masked
        let secret: Masked

        /// The site's API secret: its SHA-1 is sent.
        public static func secret(_ text: String) -> Credential {
            let digest = Insecure.SHA1.hash(data: Data(text.utf8)).map(\.self).hexadecimal()
            return Credential(header: Masked(digest), secret: Masked(text))
        }

        /// An access token with the permissions to read and create entries: `gateway-0123456789abcdef`.
        public static func token(_ text: String) -> Credential {
            Credential(header: Masked(text), secret: Masked(text))
        }

        /// Shows nothing.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// The destination's name in the settings.
    public let name: String
    /// `nightscout`.
    public let kind = "nightscout"
    /// Glucose, and blood pressure as notes if that is wanted; one series, each reading at a second and an offset of its own.
    public var rules: DestinationRules { Self.rules(deliversBloodPressure: deliversBloodPressure) }

    /// What a site can express.
    ///
    /// - Parameter deliversBloodPressure: whether blood pressures are uploaded as notes.
    public static func rules(deliversBloodPressure: Bool) -> DestinationRules {
        DestinationRules(
            kinds: deliversBloodPressure ? [.glucose, .bloodPressure] : [.glucose], hasUniqueSeconds: true,
            needsSource: false, canRetract: true, isOneSeries: true, keepsOffset: true,
            takesContexts: false)
    }

    let client: WebClient
    let store: ReadingStore
    private let credential: Credential
    let deliversBloodPressure: Bool
    private let isPersonChosen: Bool
    private let batteries = Batteries()

    /// Creates a destination; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - name: its name in the settings.
    ///   - server: the site; a path of the API at its end (`/api/v1`) is dropped.
    ///   - credential: what proves who uploads.
    ///   - store: the store, which knows people and how devices' batteries stand.
    ///   - isPersonChosen: whether the destination was selected for one person. A site is one person's: if nobody was chosen,
    ///     readings wait as soon as the store knows more than one.
    ///   - deliversBloodPressure: whether blood pressures are uploaded as notes.
    ///   - logger: gets a line a request at debug level.
    public init(
        name: String, server: WebServer, credential: Credential, store: ReadingStore, isPersonChosen: Bool,
        deliversBloodPressure: Bool = false, logger: Logger = Logger(label: "healthrelay.nightscout")
    ) {
        self.init(
            name: name, server: server, credential: credential, store: store, isPersonChosen: isPersonChosen,
            deliversBloodPressure: deliversBloodPressure, limits: HTTPLimits(call: .seconds(60)), logger: logger)
    }

    init(
        name: String, server: WebServer, credential: Credential, store: ReadingStore, isPersonChosen: Bool,
        deliversBloodPressure: Bool, limits: HTTPLimits, logger: Logger
    ) {
        self.name = name
        self.credential = credential
        self.store = store
        self.isPersonChosen = isPersonChosen
        self.deliversBloodPressure = deliversBloodPressure
        client = WebClient(
            server, secrets: [credential.secret, credential.header], limits: limits, logger: logger)
    }

    /// Holds readings if the site could be another person's.
    public func hold(_ target: DeliveryTarget, of person: StoreUser) async throws(DeliveryFailure) -> DeliveryHold? {
        guard !isPersonChosen else { return nil }
        let people: [StoreUser]
        do { people = try await store.users() } catch { throw DeliveryFailure(error) }
        guard people.count(where: { !$0.clientUserID.isEmpty }) > 1 else { return nil }
        return DeliveryHold(
            .notSelected, reason: "the store knows several people, and a site is one person's: choose one with `people`"
        )
    }

    /// Uploads a part's readings in one request, and then how their devices' batteries stand.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let isNotes = part.target.resource == .bloodPressure
        var (notes, outcomes): ([JSONValue], [Outcome]) = ([], [])
        var entries = NightscoutEntryWriter(capacity: isNotes ? 0 : part.items.count * 256)
        outcomes.reserveCapacity(part.items.count)
        for item in part.items {
            do throws(FormatOmission) {
                let offset = item.offsetMinutes ?? 0
                if isNotes {
                    notes.append(try Nightscout.note(item.reading, at: item.timestamp, offsetMinutes: offset).document)
                } else {
                    try entries.append(item.reading, at: item.timestamp, offsetMinutes: offset)
                }
                outcomes.append(Outcome(item.id, .delivered))
            } catch {
                outcomes.append(Outcome(item.id, .refused(Self.words(error))))
            }
        }
        guard !notes.isEmpty || !entries.entries.isEmpty else { return outcomes }
        CrashPoint.reach("nightscout.before")
        if isNotes {
            do throws(DeliveryFailure) {
                try await upload(.array(notes), to: "treatments")
            } catch {
                throw Self.aboutNotes(error)
            }
        } else {
            try await upload(entries.array, to: "entries")
        }
        CrashPoint.reach("nightscout.after")
        batteries.note(part.items.compactMap(\.reading.device.address))
        // Asking for devices counts their readings: once a backlog is enough.
        if part.isLast { await uploadBatteries() }
        return outcomes
    }

    /// The failure of a request about notes, which says nothing of entries: a site answers a missing permission as it does wrong
    /// credentials, and has no place for notes at all without its plugin `careportal`.
    static func aboutNotes(_ failure: DeliveryFailure) -> DeliveryFailure {
        guard ["authentication_failed", "forbidden", "not_found", "not_json"].contains(failure.code),
            failure.scope == .destination
        else { return failure }
        var failure = failure
        (failure.scope, failure.isOfTargetAlone) = (.target, true)
        if failure.needsPerson {
            failure.code = "forbidden"
            failure.message += "; notes need the permissions api:treatments:read and api:treatments:create"
        } else {
            failure.message += "; or the site is without its plugin careportal, which notes need"
        }
        return failure
    }

    private static func words(_ omission: FormatOmission) -> String {
        omission == FormatOmission(.noPlace, of: "glucose")
            ? "not sent: Nightscout shows a sensor's value below \(Nightscout.leastSensorValue) mg/dL as an error of the sensor"
            : "not sent: \(omission)"
    }

    /// Posts a document. What is no JSON acknowledges nothing: a captive portal answers everything with 200 and a page.
    private func upload(_ document: JSONValue, to collection: String) async throws(DeliveryFailure) {
        var body: [UInt8] = []
        document.write(into: &body)
        let route = "POST /api/v1/\(collection)"
        var request = WebRequest(url: url("api/v1/\(collection)"), route: route)
        request.headers = headers + [("content-type", Masked("application/json"))]
        request.body = body
        request.mayCompress = true
        let answer = try await client.send(request)
        guard answer.isGood, !answer.isPage, answer.body.isEmpty || answer.json != nil else {
            throw client.failure(of: answer, route)
        }
        // Some proxies pass an error of the site's database on with another status.
        if case .number(let status)? = answer.json?["status"], status >= 400 {
            var failed = answer
            failed.status = Int(exactly: status) ?? 500
            throw client.failure(of: failed, route)
        }
    }

    /// The URL of a path of the API. People paste addresses that end with the API's own path.
    func url(_ path: String, _ query: KeyValuePairs<String, String> = [:]) -> String {
        let address = client.server.address
        guard address.base.hasSuffix("/api/v1"), path.hasPrefix("api/v1") else { return address.joined(path, query) }
        return address.joined(String(path.dropFirst("api/v1/".count)), query)
    }

    /// What every request carries.
    var headers: [(name: String, value: Masked)] {
        [("api-secret", credential.header), ("accept", Masked("application/json"))]
    }

    // MARK: Batteries

    /// Which batteries the site was told of.
    private final class Batteries: Sendable {
        private struct State {
            var told: [DeviceDescription: Instant] = [:]
            var seen: Set<DeviceAddress> = []
            var isRefused = false
        }

        private let state = Mutex(State())

        /// Notes whose readings were uploaded.
        func note(_ devices: [DeviceAddress]) { state.withLock { $0.seen.formUnion(devices) } }

        /// Whose readings were uploaded since the last call.
        func takeSeen() -> Set<DeviceAddress> {
            state.withLock { state in
                defer { state.seen = [] }
                return state.seen
            }
        }

        /// Whether the site is to be told, which it then counts as.
        func take(_ device: DeviceDescription, seenAt instant: Instant) -> Bool {
            state.withLock { state in
                guard !state.isRefused, state.told[device] != instant else { return false }
                state.told[device] = instant
                return true
            }
        }

        /// The site refuses to be told: each try would cost five seconds.
        func refuse() { state.withLock { $0.isRefused = true } }
    }

    /// Tells the site how the batteries of the readings' devices stand. No reading fails because of it.
    private func uploadBatteries() async {
        let devices = batteries.takeSeen()
        guard !devices.isEmpty, let known = try? await store.devices() else { return }
        for device in known where !devices.isDisjoint(with: device.addresses) {
            guard let battery = device.batteryPercent, let seen = device.lastSeen,
                let status = try? Nightscout.deviceStatus(device.description, batteryPercent: battery, at: seen),
                batteries.take(device.description, seenAt: seen)
            else { continue }
            do throws(DeliveryFailure) {
                try await upload(status, to: "devicestatus")
            } catch {
                if error.needsPerson { batteries.refuse() }
                return
            }
        }
    }
}
