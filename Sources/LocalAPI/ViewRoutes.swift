import GatewayCommands
import GatewaySettings
import GuardedServer
import HealthFigures
import HealthReadings
import Hummingbird
import LocalAccess
import ReadingStore

/// `GET /api/v1/view`: a person's newest value of each kind, for a wall display and for read-only links.
struct ViewRoutes {
    let gateway: Gateway
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool

    /// How many readings of a kind are looked through for one that counts, and how many are taken from the store at once.
    private static let most = 2000
    private static let page = 50

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/view", .view) { _, context, audience in
            try ReadingRoutes.requireUnlocked(isLocked())
            // Asked for by the household, it is the current user's: a view belongs to one person.
            let person = if let user = audience.user { user } else { try await gateway.store.currentUser() }
            return Response.json(try await document(of: person, context.caller.link))
        }
    }

    private func document(of person: StoreUser, _ link: AccessClient?) async throws -> JSONValue {
        let (kinds, now) = (try await consents.kinds(of: person.key), Instant.systemClock)
        let earliest = link?.days.flatMap { days in
            ZoneRules.named(person.timeZone).map { Self.beginning(of: days, until: now, in: $0) }
        }
        let units = PersonUnits(of: person, gateway.settings)
        var latest: [JSONValue] = []
        for kind in ReadingKind.allCases where kinds.contains(kind) {
            let query = ReadingQuery(kinds: [kind], from: earliest, to: now, limit: Self.page, user: person.key)
            // What a person wrote beside a reading is not for whoever has a link.
            if let value = try await newest(query, in: units[kind], withNotes: link == nil) { latest.append(value) }
        }
        return .object([
            "person": .optional(person.clientUserID.nonEmpty),
            "time_zone": .string(person.timeZone), "time": .string(now.flooredToSecond.description),
            "days": .optional(link?.days), "until": .optional(link?.expiresAt.instant.description),
            "kinds": .array(kinds.map(\.rawValue).sorted().map(JSONValue.string)), "latest": .array(latest),
        ])
    }

    /// When the first of so many days began, today included: a day with a change of clocks has no 24 hours.
    static func beginning(of days: Int, until now: Instant, in zone: ZoneRules) -> Instant {
        let today = zone.wallTime(at: now).secondsSinceEpoch
        let midnight = today - (today % 86_400 + 86_400) % 86_400 - Int64(days - 1) * 86_400
        switch zone.moment(WallTime(secondsSinceEpoch: midnight)) {
        case .once(let instant), .never(let instant), .twice(let instant, _): return instant
        }
    }

    /// The newest value that counts of those that are asked for, with the newest reading before it that doesn't.
    private func newest(
        _ query: ReadingQuery, in unit: MeasurementUnit?, withNotes: Bool
    ) async throws -> JSONValue? {
        var (query, passedOver) = (query, JSONValue.null)
        for _ in 0..<Self.most / Self.page {
            let page = try await gateway.store.query(query)
            for reading in page.readings {
                if let members = reading.view(in: unit, among: page.readings) {
                    return .object(members + [.init("passed_over", passedOver)])
                }
                if passedOver == .null { passedOver = reading.passedOver(withNotes: withNotes) }
            }
            guard page.more, let cursor = page.cursor else { return nil }
            query.cursor = cursor
        }
        return nil
    }
}

extension Reading {
    /// The reading as it is seen from afar: its value, its time, and nothing of its device; `nil` for one without a value, and for
    /// one that is in no figure.
    ///
    /// - Parameters:
    ///   - target: the unit to show it in; `nil`: its own.
    ///   - neighbours: readings around it, among them the reading: their pace tells a sensor.
    fileprivate func view(in target: MeasurementUnit?, among neighbours: [Reading]) -> [JSONValue.Member]? {
        guard let time = time.instant else { return nil }
        var (value, unit, beyond): (String?, MeasurementUnit?, String?)
        var measure: VitalValue.Part?
        func shown(_ quantity: Quantity?) -> String? {
            guard let quantity, let number = quantity.number.number else { return nil }
            guard let target, let converted = number.shown(quantity.unit, in: target) else {
                unit = quantity.unit
                return number.description
            }
            unit = target
            return converted.description
        }
        switch record.value {
        case .glucose(let glucose):
            guard let point = GlucosePoint(self, limits: { _, _ in (nil, nil) }) else { return nil }
            beyond = point.beyond
            value = shown(glucose.concentration)
        case .bloodPressure(let pressure):
            guard figureExclusion == nil, let systolic = shown(pressure.systolic),
                let diastolic = shown(pressure.diastolic)
            else { return nil }
            value = "\(systolic)/\(diastolic)"
        case .vital(let vital):
            guard figureExclusion == nil else { return nil }
            let figured = vital.figured
            value = shown(figured.map { Quantity($0.number, $0.unit) })
            if kind == .hrv { measure = figured?.part }
        case .kept: return nil
        }
        guard value != nil || beyond != nil else { return nil }
        let isOfSensor = kind == .glucose && neighbours.idsOfSensors.contains(id)
        let source: String? = kind == .glucose ? (isOfSensor ? "sensor" : "blood") : nil
        return [
            .init("kind", .string(kind.rawValue)), .init("time", .string(time.description)),
            .init("value", .optional(beyond == nil ? value : nil)), .init("unit", .optional(unit?.symbol)),
            .init("beyond", .optional(beyond)), .init("pulse", .optional(pulse)), .init("source", .optional(source)),
            .init("measure", .optional(measure?.name)), .init("estimate", .bool(record.isEstimate)),
        ]
    }

    /// `{"time", "reason", "note"}` of a reading that is in no figure; null for one that was replaced or taken back, which is no
    /// value that anybody misses.
    fileprivate func passedOver(withNotes: Bool) -> JSONValue {
        guard let time = time.instant, let exclusion = figureExclusion else { return .null }
        switch exclusion {
        case .excluded(.superseded), .excluded(.withdrawn), .excluded(.intermediate): return .null
        case .excluded, .leftOut:
            return .object([
                "time": .string(time.description), "reason": .string(exclusion.name),
                "note": .optional(withNotes ? leftOut?.reason : nil),
            ])
        }
    }

    private var pulse: String? {
        switch record.value {
        case .bloodPressure(let pressure): pressure.pulse?.number.number?.description
        case .vital(let vital) where vital.kind == .spo2: vital[.pulse]?.number.number?.description
        case .glucose, .vital, .kept: nil
        }
    }
}

extension GlucosePoint {
    /// `high` or `low` in place of a number; `nil` for one.
    fileprivate var beyond: String? {
        switch level {
        case .number: nil
        case .above: "high"
        case .below: "low"
        }
    }
}
