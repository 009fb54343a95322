import GatewaySettings
import HealthDevices
import HealthFigures
import HealthReadings
import ReadingFormats
import ReadingStore

/// Makes summaries of a person's days from the store.
package struct SummaryDesk: Sendable {
    private let store: ReadingStore
    private let person: StoreUser
    /// The kinds that may be shown; nil: all.
    private let kinds: Set<ReadingKind>?
    /// The zones of the person.
    package let zones: ZoneHistory

    /// Makes a desk.
    ///
    /// - Parameters:
    ///   - store: the store.
    ///   - person: whose days.
    ///   - kinds: the kinds that may be shown; `nil` for all.
    /// - Throws: ``StoreError/unknownTimeZone(_:)``, or an error of the database.
    package init(_ store: ReadingStore, _ person: StoreUser, kinds: Set<ReadingKind>? = nil) async throws {
        (self.store, self.person, self.kinds) = (store, person, kinds)
        guard let zones = ZoneHistory(try await store.zones(of: person.key)) else {
            throw StoreError.unknownTimeZone(person.timeZone)
        }
        self.zones = zones
    }

    /// The day with a date; today without one.
    ///
    /// - Parameters:
    ///   - text: `2026-11-22`.
    ///   - flag: what the date is called in an error.
    /// - Throws: `Problem` with status 64.
    package func day(_ text: String?, _ flag: String, now: Instant) throws(Problem) -> PersonDay {
        guard let text else { return zones.day(of: now) }
        guard text.utf8.count == 10, let (year, month, day) = WallTime(text + "T00:00:00")?.date else {
            throw Problem.usage("\(flag): expected a date such as 2026-11-20, found '\(text.prefix(64))'")
        }
        guard let found = zones.day(year: year, month: month, day: day) else {
            throw Problem.usage("\(flag): the clocks of \(person.clientUserID) never showed \(text)")
        }
        return found
    }

    /// Adds every reading of a day to a value.
    private func gathered<Value: Sendable>(
        _ day: PersonDay, into empty: Value, _ add: @escaping @Sendable (inout Value, Reading) -> Void
    ) async throws -> Value {
        try await gathered(kinds, from: day.start, to: day.end, into: empty, add)
    }

    private func gathered<Value: Sendable>(
        _ kinds: Set<ReadingKind>?, from start: Instant, to end: Instant, into empty: Value,
        _ add: @escaping @Sendable (inout Value, Reading) -> Void
    ) async throws -> Value {
        let mayWeigh = self.kinds?.contains(.weight) ?? true
        let query = ReadingQuery(
            kinds: kinds, from: start, to: Instant(microseconds: end.microseconds - 1),
            limit: ReadingQuery.limits.upperBound, user: person.key)
        return try await store.collect(query, into: empty) { add(&$0, mayWeigh ? $1 : $1.withholdingWeight) }
    }

    /// The summary of a day.
    ///
    /// - Throws: an error of the database.
    package func summary(of day: PersonDay) async throws -> DaySummary {
        let summary = try await gathered(day, into: DaySummary(day)) { $0.add($1) }
        // A recording may have begun the evening before.
        let recorded = kinds.map(ReadingKind.recorded.intersection) ?? ReadingKind.recorded
        guard !recorded.isEmpty else { return summary }
        return try await gathered(
            recorded, from: day.start.advanced(bySeconds: -Reading.longestRecording), to: day.start, into: summary
        ) { $0.add($1) }
    }

    /// The day as Terra's `body` event.
    ///
    /// - Returns: the document; `nil` if the day has nothing that it has a place for.
    /// - Throws: an error of the database.
    package func terra(_ day: PersonDay, _ catalogue: Catalogue) async throws -> JSONValue? {
        let empty = (body: TerraBody(day, in: try await context(of: day)), hasReadings: false)
        let (body, hasReadings) = try await gathered(day, into: empty) { gathered, reading in
            let written = try? gathered.body.add(reading, device: catalogue.facts(of: reading.device.model))
            gathered.hasReadings = gathered.hasReadings || written != nil
        }
        guard hasReadings else { return Optional.none }
        return body.document
    }

    /// The day as ROOK's `body_summary`.
    ///
    /// - Returns: the document; `nil` if nothing was measured.
    /// - Throws: `Problem` for a person without an id, or an error of the database.
    package func rook(
        _ day: PersonDay, clientUUID: String?, _ catalogue: Catalogue
    ) async throws -> JSONValue? {
        guard !person.clientUserID.isEmpty else {
            throw Problem(
                "no_user", .configuration, "ROOK's documents name a person, and the current user has no id",
                hint: "set user.client_user_id")
        }
        let summary = try await summary(of: day)
        guard summary.readings > 0 else { return Optional.none }
        let context = try await context(of: day)
        return try RookSummary.document(of: summary, in: context, clientUUID: clientUUID ?? context.gateway.id) {
            catalogue.facts(of: $0.model)
        }
    }

    private func context(of day: PersonDay) async throws -> FormatContext {
        guard let zone = day.zone(at: day.start) else { throw StoreError.unknownTimeZone(person.timeZone) }
        return FormatContext(
            person: person.clientUserID, zone: zone,
            gateway: GatewayFacts(id: try await store.gatewayID(), version: GatewayVersion.current))
    }
}

/// `summary body`: what was measured on a person's days.
struct SummaryRunner {
    let gateway: Gateway
    let output: any OperationOutput

    /// The longest period: ten years and some days.
    private static let mostDays = 3660

    func run(_ operation: SummaryOperation) async throws {
        let store = gateway.store
        let person = try await store.personOrCurrent(named: operation.person)
        let (desk, now) = (try await SummaryDesk(store, person), Instant.systemClock)
        let first = try desk.day(operation.from, operation.to == nil ? "--date" : "--from", now: now)
        let last = try operation.to.map { try desk.day($0, "--to", now: now) } ?? first
        guard first.date <= last.date else {
            throw Problem.usage("--from \(first.date) is later than --to \(last.date)")
        }
        let days = desk.zones.days(from: first, through: last, atMost: Self.mostDays)
        guard let days else {
            throw Problem.usage("expected a period of at most \(Self.mostDays) days")
        }
        for day in days { try await print(day, person, operation, desk, now) }
    }

    private func print(
        _ day: PersonDay, _ person: StoreUser, _ operation: SummaryOperation, _ desk: SummaryDesk, _ now: Instant
    ) async throws {
        let document: JSONValue?
        switch operation.format {
        case .text:
            for line in try await desk.summary(of: day).lines { try await output.data(line) }
            return
        case .json:
            document = try await desk.summary(of: day).document(
                person: person.clientUserID, now: now, showsSamples: operation.showsSamples)
        case .terra: document = try await desk.terra(day, gateway.catalogue)
        case .rook:
            document = try await desk.rook(day, clientUUID: gateway.rookAccount, gateway.catalogue)
        }
        if let document {
            try await output.data(document.text)
        } else {
            try await output.note("\(day.date): nothing was measured that \(operation.format.rawValue) has a place for")
        }
    }
}

extension Gateway {
    /// The account that ROOK's documents name: that of the first destination that has one.
    package var rookAccount: String? {
        settings.destinations.lazy.filter { $0.kind == .webhook }.compactMap { $0["client_uuid"] }.first
    }
}

extension DaySummary {
    /// The day for people.
    fileprivate var lines: [String] {
        func line(_ name: String, _ part: Part) -> String? {
            figures(of: part).map { figures in
                "  \(name): \(figures.mean) \(part.unit.symbol) on average, \(figures.minimum) to \(figures.maximum), "
                    + "\(figures.count) values"
            }
        }
        let scale = VitalValue.Part.allCases.compactMap { part -> String? in
            guard let latest = latest(part), let number = latest.quantity.number.number else { return nil }
            return "  \(part.name): \(number) \(latest.quantity.unit.symbol)"
        }
        let values = [
            line("systolic", .systolic), line("diastolic", .diastolic), line("glucose", .glucose),
            line("sensor glucose", .sensorGlucose), line("heart rate", .heartRate), line("RMSSD", .rmssd),
            line("SDNN", .sdnn), line("oxygen saturation", .saturation), line("temperature", .temperature),
        ].compactMap(\.self)
        let hours = seconds(day.seconds)
        return ["\(day.date)\(hours): \(readings) readings"] + values + scale
    }

    private func seconds(_ seconds: Int64) -> String {
        seconds == 86_400 ? "" : " (\(ExactDecimal(significand: seconds * 100 / 3600, exponent: -2)) hours)"
    }
}
