import Crypto
import Foundation
import HealthFigures
import HealthReadings
import ReadingDelivery
import ReadingFormats
import ReadingStore
import Synchronization

/// A document of a person's whole day, as a receiver has to have it now.
struct WebhookDay: Sendable {
    var document: DayDocument
    /// The readings that the document has.
    var readings: Set<ReadingID>
    /// The readings that the format has no place for, and why.
    var refused: [ReadingID: FormatOmission] = [:]
}

/// A day in one of the formats that have whole days.
enum DayDocument: Sendable {
    case terra(TerraBody)
    case rook(DaySummary, FormatContext)

    var day: PersonDay {
        switch self {
        case .terra(let body): body.day
        case .rook(let summary, _): summary.day
        }
    }

    mutating func add(_ reading: Reading, _ sender: WebhookSender) throws(FormatOmission) {
        switch self {
        case .terra(var body):
            try body.add(reading, device: sender.facts(reading.device.model))
            self = .terra(body)
        case .rook(var summary, let context):
            guard reading.excluded == nil else { throw FormatOmission(.excluded) }
            guard summary.add(reading) else { throw FormatOmission(.otherDay) }
            self = .rook(summary, context)
        }
    }

    /// The body of a request.
    ///
    /// - Parameter version: a number that rises with each document of the day.
    func json(_ sender: WebhookSender, version: Int64) throws(FormatOmission) -> JSONValue {
        switch self {
        case .terra(let body): body.document
        case .rook(let summary, let context):
            try RookSummary.document(
                of: summary, in: context, clientUUID: sender.clientUUID ?? context.gateway.id,
                documentVersion: Int(version)
            ) { sender.facts($0.model) }
        }
    }
}

/// Makes documents of whole days from the store.
struct WebhookDays: Sendable {
    let destination: String
    let store: ReadingStore
    let sender: WebhookSender
    let format: WebhookFormat

    /// The zones of a person.
    func zones(of person: StoreUser) async throws -> ZoneHistory {
        guard let zones = ZoneHistory(try await store.zones(of: person.key)) else {
            throw StoreError.unknownTimeZone(person.timeZone)
        }
        return zones
    }

    /// What the receiver has to have of a day: what it has or may get, and what is being sent. What the person no longer
    /// consents to is not sent again, and is gone there with the next document of the day.
    ///
    /// - Returns: `nil` if some of what the receiver has of the day was pruned here: the document would remove it there.
    func day(_ day: PersonDay, of person: StoreUser, sending ids: Set<ReadingID>) async throws -> WebhookDay? {
        let place = try await store.destinations().first { $0.name == destination }?.key
        // ROOK's day has the samples of a recording that began the evening before; Terra's has a recording whole where it began.
        let start = format == .rookSummary ? day.start.advanced(bySeconds: -Reading.longestRecording) : day.start
        if let place {
            func hasPruned(_ kinds: [ReadingKind], from start: Instant) async throws -> Bool {
                try await store.hasPruned(of: person.key, at: place, kinds, from: start, to: day.end)
            }
            if try await hasPruned(ReadingKind.allCases, from: day.start) { return nil }
            // How long a recording was isn't known of one that was pruned.
            if start < day.start, try await hasPruned(Array(ReadingKind.recorded), from: start) { return nil }
        }
        let consents = try await store.consents(of: person.key, at: place)
        let granted = Set(consents.filter(\.isGranted).map(\.kind))
        var result = WebhookDay(document: try await empty(day, of: person.clientUserID), readings: [])
        var query = ReadingQuery(
            from: start, to: Instant(microseconds: day.end.microseconds - 1), limit: ReadingQuery.limits.upperBound,
            user: person.key)
        while true {
            let page = try await store.query(query)
            for reading in page.readings
            where granted.contains(reading.kind) && (ids.contains(reading.id) || isThere(reading)) {
                if let time = reading.time.instant, time < day.start, !reading.goesOn(into: day) { continue }
                do throws(FormatOmission) {
                    try result.document.add(granted.contains(.weight) ? reading : reading.withholdingWeight, sender)
                    result.readings.insert(reading.id)
                } catch {
                    result.refused[reading.id] = error
                }
            }
            guard page.more, let cursor = page.cursor else { return result }
            query.cursor = cursor
        }
    }

    /// The days without anything that a reading of an erased person may have been on: the zone is erased, too.
    func emptyDays(around time: Instant, person: String) async throws -> [DayDocument] {
        guard let zone = ZoneRules.named("UTC") else { return [] }
        var days = [LocalDay(of: Instant(seconds: time.seconds - 12 * 3600), in: zone)]
        while let last = days.last, !last.contains(Instant(seconds: time.seconds + 14 * 3600)) {
            days.append(last.next)
        }
        var documents: [DayDocument] = []
        for day in days { documents.append(try await empty(PersonDay(day), of: person)) }
        return documents
    }

    private func empty(_ day: PersonDay, of person: String) async throws -> DayDocument {
        let context = try await context(of: person, day)
        return format == .rookSummary ? .rook(DaySummary(day), context) : .terra(TerraBody(day, in: context))
    }

    /// Whether the receiver has the reading, or the next delivery takes it there.
    private func isThere(_ reading: Reading) -> Bool {
        switch reading.deliveries.first(where: { $0.destination == destination })?.state {
        case .delivered, .handedOver, .waiting: true
        case .refused, .held, .retracted, nil: false
        }
    }

    private func context(of person: String, _ day: PersonDay) async throws -> FormatContext {
        guard let zone = day.zone(at: day.start) else { throw StoreError.unknownTimeZone("") }
        return FormatContext(
            person: person, zone: zone, gateway: GatewayFacts(id: try await store.gatewayID(), version: sender.version))
    }
}

/// The order in which documents of days are sent: a receiver of Terra's keeps the one with the highest timestamp, one of ROOK's the
/// one with the highest `document_version`.
///
/// Numbers are the clock's, and rise whatever becomes of the clock and of the process: a backlog runs ahead of the clock, and a clock
/// may be set back. The store knows a number that none has exceeded. It is raised before a document is sent, and by a minute's
/// numbers at once, so that a document rarely costs a write.
final class WebhookOrder: Sendable {
    /// One document under way.
    struct Attempt: Sendable, Hashable {
        /// Terra: milliseconds since 1970. ROOK: seconds since 2020, which fit 32 bits until 2088.
        var ordering: Int64
        /// A UUID of the delivery, the same over its retries.
        var trace: String
        var digest: [UInt8]
    }

    private struct State {
        var last: Int64?
        /// As far as the store knows.
        var reserved: Int64 = 0
        /// Each person's newest document that was not taken.
        var open: [String: Attempt] = [:]
    }

    private let state = Mutex(State())
    private let format: WebhookFormat

    init(_ format: WebhookFormat) { self.format = format }

    private func number(_ time: Instant) -> Int64 {
        format == .rookSummary ? time.seconds - 1_577_836_800 : time.microseconds / 1000
    }

    /// Whether ``begin(after:_:)`` was called.
    var hasBegun: Bool { state.withLock { $0.last != nil } }

    /// Has every number be behind those that were used.
    ///
    /// - Parameters:
    ///   - delivery: the last that the store knows: earlier versions stored no numbers.
    ///   - number: the highest that may have been used, as the store knows.
    func begin(after delivery: Instant?, _ number: Int64?) {
        state.withLock { state in
            state.last = max(state.last ?? 0, delivery.map(self.number) ?? 0, number ?? 0)
            state.reserved = max(state.reserved, number ?? 0)
        }
    }

    /// The number that the store has to know before an attempt is sent; `nil` if it knows one that is high enough.
    func reservation(for attempt: Attempt) -> Int64? {
        let minute: Int64 = format == .rookSummary ? 60 : 60_000
        return state.withLock { attempt.ordering > $0.reserved ? attempt.ordering + minute : nil }
    }

    /// The store knows that numbers up to this one may be used.
    func reserved(upTo number: Int64) { state.withLock { $0.reserved = max($0.reserved, number) } }

    /// The timestamp of a document. A repeat has that of the first attempt as long as nothing newer of the person was sent.
    ///
    /// - Parameter document: the document without its number.
    func attempt(_ document: [UInt8], of person: String, at now: Instant) -> Attempt {
        let digest = Array(SHA256.hash(data: document))
        return state.withLock { state in
            if let open = state.open[person], open.digest == digest { return open }
            let ordering = max(number(now), (state.last ?? 0) + 1)
            let attempt = Attempt(ordering: ordering, trace: UUID().uuidString.lowercased(), digest: digest)
            state.last = ordering
            state.open[person] = attempt
            return attempt
        }
    }

    /// The receiver took it.
    func taken(_ attempt: Attempt, of person: String) {
        state.withLock { state in
            if state.open[person] == attempt { state.open[person] = nil }
        }
    }
}
