import FleetStore
import HealthReadings

/// The collector's state as Prometheus and a supervisor read it: counts and ages, never a gateway's name or a reading.
package struct CollectorMetrics: Sendable {
    let store: any CentralStore
    let counters: CollectorCounters
    let silentAfter: Int64
    /// Whether the queue is being read; `nil`: there is no broker.
    let isQueueConnected: @Sendable () -> Bool?
    /// Whether the broker takes no receipts because its disk or its memory is short.
    let isQueueBlocked: @Sendable () -> Bool
    /// How the list of revoked certificates stands; `nil`: there is none.
    let revocations: @Sendable () -> Revocations.Standing?
    let now: @Sendable () -> Instant
    private let check: StoreCheck

    /// - Parameter silentAfterMinutes: after how many minutes a gateway that wasn't heard of counts as silent.
    package init(
        store: any CentralStore, counters: CollectorCounters, silentAfterMinutes: Int,
        isQueueConnected: @escaping @Sendable () -> Bool? = { nil },
        isQueueBlocked: @escaping @Sendable () -> Bool = { false },
        revocations: @escaping @Sendable () -> Revocations.Standing? = { nil },
        now: @escaping @Sendable () -> Instant = { .systemClock }
    ) {
        self.store = store
        self.counters = counters
        silentAfter = Int64(silentAfterMinutes) * 60
        self.isQueueConnected = isQueueConnected
        self.isQueueBlocked = isQueueBlocked
        self.revocations = revocations
        self.now = now
        check = StoreCheck(store: store)
    }

    /// Whether the collector can do its work.
    package struct Health: Sendable, Hashable {
        package var isStoreReachable: Bool
        /// Whether the store takes readings.
        package var isStoreWritable: Bool
        package var isQueueConnected: Bool?
        package var isQueueBlocked = false
        package var revocations: Revocations.Standing?

        package var isWell: Bool {
            isStoreReachable && isStoreWritable && isQueueConnected != false && !isQueueBlocked
                && revocations != .unavailable
        }

        /// `failing` where all gateways are sent away, `degraded` where some are or one that was revoked may be let in.
        private var status: String {
            guard isWell else { return "failing" }
            return revocations ?? .good == .good ? "ok" : "degraded"
        }

        /// `{"status","store","queue","revocation_list"}`.
        package var document: JSONValue {
            .object([
                "status": .string(status),
                "store": .string(!isStoreReachable ? "unreachable" : isStoreWritable ? "ok" : "unwritable"),
                "queue": isQueueConnected.map {
                    .string(!$0 ? "disconnected" : isQueueBlocked ? "blocked" : "connected")
                } ?? .null,
                "revocation_list": .optional(revocations?.rawValue),
            ])
        }
    }

    /// Asks the store, and whether it takes what is written. What became of the last batch says more: a disk without room for
    /// readings may have some for a small write.
    package func health() async -> Health {
        var isReachable = true
        do { _ = try await store.gateway(ofTokenDigest: "") } catch { isReachable = false }
        let isWritable = isReachable ? await check.isWritable() && !counters.isFailing(at: now()) : false
        return Health(
            isStoreReachable: isReachable, isStoreWritable: isWritable, isQueueConnected: isQueueConnected(),
            isQueueBlocked: isQueueBlocked(), revocations: revocations())
    }

    /// Whether a gateway hasn't been heard of for too long. When it was isn't known either if that was noted under a clock that
    /// was ahead.
    package func isSilent(_ gateway: GatewayRecord) -> Bool {
        let now = now()
        return gateway.heard.map { heard in
            heard.advanced(bySeconds: silentAfter) < now || heard > now.advanced(bySeconds: GatewaySighting.clockSlack)
        } ?? true
    }

    /// Prometheus' text format 0.0.4.
    package func text() async throws(CentralStoreError) -> String {
        let (gateways, counts, now) = (try await store.gateways(hasStatuses: false), counters.current, now())
        var page = ""
        func family(_ name: String, _ type: String, _ help: String, _ samples: [(labels: String, value: Int64)]) {
            page += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
            for sample in samples { page += "\(name)\(sample.labels) \(sample.value)\n" }
        }
        func gauge(_ name: String, _ help: String, _ value: Int64) { family(name, "gauge", help, [("", value)]) }
        func counter(_ name: String, _ help: String, _ value: Int) {
            family(name, "counter", help, [("", Int64(value))])
        }
        func byReason(_ name: String, _ help: String, _ counts: [String: Int]) {
            family(
                name, "counter", help,
                counts.sorted { $0.key < $1.key }.map { ("{reason=\"\($0.key)\"}", Int64($0.value)) })
        }
        // A reason without a sample has no increase when it comes up first.
        func zeros(_ reasons: [String], _ counts: [String: Int]) -> [String: Int] {
            counts.merging(reasons.map { ($0, 0) }) { known, _ in known }
        }
        gauge("healthrelay_fleet_gateways", "Gateways that are known.", Int64(gateways.count))
        gauge(
            "healthrelay_fleet_gateways_silent", "Gateways that weren't heard of for longer than they should be.",
            Int64(gateways.filter(isSilent).count))
        let list = GatewayList(gateways, metrics: self)
        let settings = Dictionary(grouping: gateways.compactMap(list.state(of:)), by: \.self).mapValues(\.count)
        family(
            "healthrelay_fleet_gateways_settings", "gauge", "Gateways by what became of the settings they shall have.",
            ["applied", "refused", "rolled_back", "waiting"].map {
                ("{state=\"\($0)\"}", Int64(settings[$0] ?? 0))
            })
        gauge(
            "healthrelay_fleet_readings", "Readings that are stored, retracted ones included.",
            gateways.map(\.stored).reduce(0, +))
        gauge(
            "healthrelay_fleet_backlog", "Readings that wait at the gateways, as they last said.",
            gateways.compactMap(\.backlog).reduce(0, +))
        gauge(
            "healthrelay_fleet_oldest_backlog_seconds", "The age of the oldest reading that waits at a gateway.",
            gateways.compactMap(\.oldest).min().map { max(0, now.seconds - $0.seconds) } ?? 0)
        gauge(
            "healthrelay_fleet_receipts_per_minute", "Batches that this collector acknowledged in the last minute.",
            Int64(counters.receiptsPerMinute(at: now)))
        counter("healthrelay_fleet_receipts_total", "Batches that this collector acknowledged.", counts.receipts)
        counter("healthrelay_fleet_readings_stored_total", "Readings that were new.", counts.stored)
        counter("healthrelay_fleet_readings_revised_total", "Readings that replaced a revision.", counts.revised)
        counter("healthrelay_fleet_readings_repeated_total", "Readings that changed nothing.", counts.repeated)
        byReason(
            "healthrelay_fleet_documents_refused_total", "Documents that weren't taken.",
            zeros(DocumentFailure.codes, counts.refused))
        byReason(
            "healthrelay_fleet_documents_aside_total", "Documents of the queue that were put aside.",
            zeros(DocumentFailure.codes, counts.aside))
        byReason(
            "healthrelay_fleet_documents_dropped_total",
            "Documents of the queue that were neither taken nor kept: too many of their gateway are aside.",
            zeros(DocumentFailure.codes, counts.dropped))
        byReason(
            "healthrelay_fleet_statuses_doubted_total",
            "Statuses by what can't be right: two machines with one id, or a wrong clock.",
            zeros(DocumentDesk.doubts, counts.doubts))
        counter(
            "healthrelay_fleet_store_failures_total", "How often the store couldn't be used.", counts.storeFailures)
        counter(
            "healthrelay_fleet_revoked_certificates_total", "How often a revoked certificate was shown.",
            counts.revokedCertificates)
        if let isConnected = isQueueConnected() {
            gauge("healthrelay_fleet_queue_connected", "1 while the queue is being read.", isConnected ? 1 : 0)
            gauge(
                "healthrelay_fleet_queue_blocked", "1 while the broker takes no receipts: its disk or memory is short.",
                isQueueBlocked() ? 1 : 0)
        }
        if let standing = revocations() {
            gauge(
                "healthrelay_fleet_revocation_list_ok", "1 while the list of revoked certificates is in order.",
                standing == .good ? 1 : 0)
        }
        return page
    }
}

/// Whether the store can be written, asked no more often than every ten seconds: whoever asks for the health needs no right to.
private actor StoreCheck {
    private let store: any CentralStore
    private var last: (at: ContinuousClock.Instant, isWritable: Bool)?
    private var present: Task<Bool, Never>?

    private static let interval = Duration.seconds(10)

    init(store: any CentralStore) { self.store = store }

    func isWritable() async -> Bool {
        if let last, last.isWritable, ContinuousClock.now - last.at < Self.interval { return true }
        if let present { return await present.value }
        let task = Task { [store] in
            do throws(CentralStoreError) {
                try await store.checkIsWritable()
                return true
            } catch {
                return false
            }
        }
        present = task
        let isWritable = await task.value
        last = (at: ContinuousClock.now, isWritable: isWritable)
        present = nil
        return isWritable
    }
}
