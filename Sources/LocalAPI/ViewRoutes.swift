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

    /// How many readings of a kind are looked through for one that has a value.
    private static let page = 20

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
            ZoneRules.named(person.timeZone).map { zone in
                let (hour, minute, second) = zone.wallTime(at: now).timeOfDay
                return now.flooredToSecond.advanced(
                    bySeconds: -Int64(hour * 3600 + minute * 60 + second) - Int64(days - 1) * 86_400)
            }
        }
        var latest: [JSONValue] = []
        for kind in ReadingKind.allCases where kinds.contains(kind) {
            if let value = try await newest(kind, of: person, from: earliest, until: now) { latest.append(value) }
        }
        return .object([
            "person": .optional(person.clientUserID.isEmpty ? nil : person.clientUserID),
            "time_zone": .string(person.timeZone), "time": .string(now.flooredToSecond.description),
            "days": .optional(link?.days), "until": .optional(link?.expiresAt.instant.description),
            "kinds": .array(kinds.map(\.rawValue).sorted().map(JSONValue.string)), "latest": .array(latest),
        ])
    }

    /// The newest value of a kind; a time in the future is none.
    private func newest(
        _ kind: ReadingKind, of person: StoreUser, from earliest: Instant?, until now: Instant
    ) async throws -> JSONValue? {
        let query = ReadingQuery(kinds: [kind], from: earliest, to: now, limit: Self.page, user: person.key)
        return try await gateway.store.query(query).readings.lazy.compactMap(\.view).first
    }
}

extension Reading {
    /// The reading as it is seen from afar: its value, its time, and nothing of its device; `nil` for one without a value.
    fileprivate var view: JSONValue? {
        guard let time = time.instant else { return nil }
        var (value, unit, beyond): (String?, String?, String?)
        switch record.value {
        case .glucose(let glucose):
            value = glucose.concentration?.number.number?.description
            unit = glucose.concentration?.unit.symbol
            beyond = GlucosePoint(regardless: self)?.beyond
        case .bloodPressure(let pressure):
            if let systolic = pressure.systolic.number.number, let diastolic = pressure.diastolic.number.number {
                value = "\(systolic)/\(diastolic)"
            }
            unit = pressure.systolic.unit.symbol
        case .vital(let vital):
            value = vital.main?.number.number?.description
            unit = vital.main?.unit.symbol
        case .kept: return nil
        }
        guard excluded == nil && value != nil || beyond != nil else { return nil }
        return .object([
            "kind": .string(kind.rawValue), "time": .string(time.description),
            "value": .optional(beyond == nil ? value : nil), "unit": .optional(unit), "beyond": .optional(beyond),
            "pulse": .optional(pulse), "left_out": .bool(leftOut != nil),
        ])
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
    /// A reading's level, also of one that a person leaves out of figures.
    fileprivate init?(regardless reading: Reading) {
        var reading = reading
        reading.leftOut = nil
        self.init(reading) { _, _ in (nil, nil) }
    }

    /// `high` or `low` in place of a number; `nil` for one.
    fileprivate var beyond: String? {
        switch level {
        case .number: nil
        case .above: "high"
        case .below: "low"
        }
    }
}
