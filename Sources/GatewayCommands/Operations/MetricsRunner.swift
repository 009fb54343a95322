import Crypto
import Foundation
import GatewaySettings
import HealthReadings
import ReadingFormats
import ReadingStore

/// `metrics`: what a person's devices have measured last, merged into one document.
struct MetricsRunner {
    let gateway: Gateway
    let output: any OperationOutput

    /// Readings of a kind that are looked at a page: excluded ones may stand before the newest that counts.
    private static let page = 100
    /// How long ago a day may have ended whose steps are shown: it is looked for among all the activity that a phone sends.
    private static let longestDayAge: Int64 = 2 * 86_400
    private static let pageOfActivity = 1000

    func run(_ operation: MetricsOperation) async throws {
        let store = gateway.store
        let person = try await store.personOrCurrent(named: operation.person)
        let (now, age) = (Instant.systemClock, Int64(operation.maxAge))
        var metrics = UnifiedMetrics(at: now, age: age)
        var newest: Instant?
        for kind in ReadingKind.allCases {
            let last = try await add(kind, of: person.key, until: now, age: age, to: &metrics)
            newest = [newest, last].compactMap(\.self).max()
        }
        try await addDay(of: person.key, until: now, age: age, to: &metrics)
        guard let document = metrics.document(try await figures()) else {
            let found = newest.map { "the newest was measured at \($0)" } ?? "nothing was measured"
            throw Problem(
                "no_wearable_data", .noInput,
                "expected something that was measured in the last \(age) seconds, found none: \(found)",
                hint: "measure, or allow older values with --max-age")
        }
        try await output.data(document.text)
    }

    /// Adds the newest reading of a kind that counts.
    ///
    /// - Returns: when the newest was measured that counts, however old it is.
    private func add(
        _ kind: ReadingKind, of user: UserKey, until now: Instant, age: Int64, to metrics: inout UnifiedMetrics
    ) async throws -> Instant? {
        var query = ReadingQuery(kinds: [kind], to: now, limit: Self.page, user: user)
        while true {
            let page = try await gateway.store.query(query)
            if let newest = page.readings.first(where: { $0.excluded == nil }) {
                if !kind.isKept { metrics.add(newest) }
                return newest.time.instant
            }
            guard page.more, let cursor = page.cursor, let oldest = page.readings.last?.time.instant,
                now.microseconds - oldest.microseconds <= age * 1_000_000
            else { return nil }
            query.cursor = cursor
        }
    }

    /// Adds the newest day that a watch's vendor has summed up: other activity may be newer.
    private func addDay(
        of user: UserKey, until now: Instant, age: Int64, to metrics: inout UnifiedMetrics
    ) async throws {
        // A day is stored under its beginning.
        let begin = now.advanced(bySeconds: -(min(age, Self.longestDayAge) + 86_400))
        var query = ReadingQuery(kinds: [.activity], from: begin, to: now, limit: Self.pageOfActivity, user: user)
        while true {
            let page = try await gateway.store.query(query)
            for reading in page.readings {
                let isDay = metrics.add(reading)
                if isDay { return }
            }
            guard page.more, let cursor = page.cursor else { return }
            query.cursor = cursor
        }
    }

    /// Ids that follow from the gateway's own and tell nothing of a device, and batteries.
    private func figures() async throws -> (DeviceDescription) -> UnifiedMetrics.DeviceFigures {
        let gatewayID = try await gateway.store.gatewayID()
        let devices = try await gateway.store.devices()
        return { device in
            let known = devices.first { stored in
                stored.description.address == device.address || device.address.map(stored.addresses.contains) == true
            }
            let address = known?.description.address ?? device.address
            let name = address.map { "\($0) \($0.kind.rawValue)" } ?? "\(device.model ?? "") \(device.serial ?? "")"
            let digest = SHA256.hash(data: Data("\(gatewayID)\u{0}metrics\u{0}\(name)".utf8)).hexadecimal()
            return UnifiedMetrics.DeviceFigures(id: String(digest.prefix(16)), batteryPercent: known?.batteryPercent)
        }
    }
}
