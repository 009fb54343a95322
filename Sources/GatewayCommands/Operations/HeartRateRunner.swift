import GatewaySettings
import HealthFigures
import HealthReadings
import ReadingStore

/// The arguments of `heart-rate`; instants are still text, because a date means the person's zone, which the store knows.
public struct HeartRateOperation: Codable, Sendable, Hashable {
    /// RFC 3339 or a date, inclusive; nil: a day before the end.
    public var from: String?
    /// RFC 3339 or a date, inclusive; nil: now.
    public var to: String?
    /// The client's id of the person; nil: the current user.
    public var person: String?
    /// The seconds that a heart rate is the mean of.
    public var interval: Int
    /// The seconds that a variability covers.
    public var window: Int

    /// Makes it.
    public init(
        from: String? = nil, to: String? = nil, person: String? = nil, interval: Int = 60, window: Int = 300
    ) {
        self.from = from
        self.to = to
        self.person = person
        self.interval = interval
        self.window = window
    }
}

/// `heart-rate`: what a person's kept heart rate comes to, by intervals and windows of the caller's choice.
struct HeartRateRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// The longest time that is looked at, in seconds: a month of blocks is read at once.
    private static let longest: Int64 = 31 * 86_400
    private static let page = 2000
    /// How many seconds after it ended an interval between beats may come.
    private static let latestBeat: Int64 = 5

    func run(_ operation: HeartRateOperation) async throws {
        let person = try await gateway.store.personOrCurrent(named: operation.person)
        let range = try range(operation, of: person)
        // One device at a time is one time line.
        var figures: [DeviceDescription: HeartRateFigures] = [:]
        let length = Int64(max(operation.interval, operation.window))
        for reading in try await readings(of: person.key, from: range, length: length) {
            figures[
                reading.device,
                default: HeartRateFigures(intervalSeconds: operation.interval, windowSeconds: operation.window)
            ].add(reading)
        }
        let devices = figures.sorted { $0.key.sortKey < $1.key.sortKey }
        guard !json else { return try await output.data(document(devices, range, operation, person).text) }
        for (device, figures) in devices {
            try await output.data(device.sortKey)
            for rate in figures.rates(in: range) { try await output.data("  " + rate.line) }
            for window in figures.variability(in: range) { try await output.data("  " + window.line) }
        }
        if devices.isEmpty {
            try await output.note("no heart rate was kept in that time: see `healthrelay record`")
        }
    }

    private func range(_ operation: HeartRateOperation, of person: StoreUser) throws -> ClosedRange<Instant> {
        guard let zone = ZoneRules.named(person.timeZone) else { throw StoreError.unknownTimeZone(person.timeZone) }
        let to =
            try operation.to.map { try InstantArgument.instant($0, "--to", end: .end, zone: zone) } ?? .systemClock
        let from =
            try operation.from.map { try InstantArgument.instant($0, "--from", end: .start, zone: zone) }
            ?? to.advanced(bySeconds: -86_400)
        guard from <= to else { throw Problem.usage("--from \(from) is later than --to \(to)") }
        guard to.seconds - from.seconds <= Self.longest else {
            throw Problem.usage("expected at most 31 days between --from and --to")
        }
        return from...to
    }

    /// The person's heart rates in the order of their times, with those that reach into the range, or into an interval or a window
    /// that begins in it.
    private func readings(
        of user: UserKey, from range: ClosedRange<Instant>, length: Int64
    ) async throws -> [Reading] {
        var query = ReadingQuery(
            kinds: [.heartRate], from: range.lowerBound.advanced(bySeconds: -Reading.longestRecording),
            to: range.upperBound.advanced(bySeconds: length + Self.latestBeat), limit: Self.page, user: user)
        var all: [Reading] = []
        while true {
            let page = try await gateway.store.query(query)
            all += page.readings
            guard page.more, let cursor = page.cursor else { return all.reversed() }
            query.cursor = cursor
        }
    }

    private func document(
        _ devices: [(key: DeviceDescription, value: HeartRateFigures)], _ range: ClosedRange<Instant>,
        _ operation: HeartRateOperation, _ person: StoreUser
    ) -> JSONValue {
        .object([
            "from": .string(range.lowerBound.description), "to": .string(range.upperBound.description),
            "person": .optional(person.clientUserID.nonEmpty),
            "interval_seconds": .integer(Int64(operation.interval)),
            "window_seconds": .integer(Int64(operation.window)),
            "devices": .array(
                devices.map { device, figures in
                    .object([
                        "device": device.document, "rates": .array(figures.rates(in: range).map(\.document)),
                        "variability": .array(figures.variability(in: range).map(\.document)),
                    ])
                }),
        ])
    }
}

extension DeviceDescription {
    /// What a device is put in order and shown by.
    fileprivate var sortKey: String { [address?.description, model, serial].compactMap(\.self).joined(separator: " ") }
}

extension HeartRateFigures.Rate {
    /// The interval on one line for people.
    fileprivate var line: String { "\(begin)  \(mean) bpm  (\(lowest) to \(highest), \(samples) samples)" }

    /// The interval as JSON.
    package var document: JSONValue {
        .object([
            "time": .string(begin.description), "mean": .number(mean), "lowest": .number(lowest),
            "highest": .number(highest), "samples": .integer(Int64(samples)),
        ])
    }
}

extension HeartRateFigures.Window {
    /// The window on one line for people.
    fileprivate var line: String {
        let (rmssd, sdnn) = (figures.rmssd?.description ?? "–", figures.sdnn?.description ?? "–")
        let doubt = figures.isSufficient ? "" : ", too little to stand for the window"
        return "\(begin)  rmssd \(rmssd) ms, sdnn \(sdnn) ms  (\(figures.counted) beats, \(figures.leftOut) left out, "
            + "\(figures.coverage) % covered\(doubt))"
    }

    /// The window as JSON.
    package var document: JSONValue {
        .object([
            "time": .string(begin.description), "rmssd": figures.rmssd.map(JSONValue.number) ?? .null,
            "sdnn": figures.sdnn.map(JSONValue.number) ?? .null, "beats": .integer(Int64(figures.counted)),
            "left_out": .integer(Int64(figures.leftOut)), "coverage_percent": .integer(Int64(figures.coverage)),
            "sufficient": .bool(figures.isSufficient),
        ])
    }
}
