import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import ReadingStore

/// The gateway's state as Prometheus reads it (text format 0.0.4): counts and ages, never a reading. A device is named
/// by its short alias and its model.
struct GatewayMetrics {
    let gateway: Gateway
    let door: AccessPoint
    let counters: RequestCounters
    let started: Instant
    let isLocked: Bool

    /// All of them.
    func text() async throws -> String {
        var page = Page()
        let (store, now) = (gateway.store, Instant.systemClock)
        let statistics = try await store.statistics()
        page.family("healthrelay_readings", "gauge", "Readings that are stored, by kind.") { family in
            for kind in ReadingKind.allCases {
                family.sample(statistics.readings[kind] ?? 0, Labels(("kind", kind.rawValue)))
            }
        }
        page.gauge("healthrelay_readings_excluded", "Readings that are never delivered.", statistics.excluded)
        page.gauge("healthrelay_frames", "Frames that are stored as they came.", statistics.frames)
        page.gauge("healthrelay_frames_malformed", "Frames that contained no record.", statistics.malformedFrames)
        page.gauge("healthrelay_frames_pending", "Frames that are still to be decoded.", statistics.pendingFrames)
        try await destinations(&page, now)
        page.gauge("healthrelay_store_octets", "Octets of the store on disk.", Int(statistics.octetsOnDisk))
        page.gauge("healthrelay_store_locked", "1 while the store's key is missing.", isLocked ? 1 : 0)
        try await devices(&page, now)
        page.family("healthrelay_contact_failures_total", "counter", "Contacts that failed, by code.") { family in
            for (code, count) in counters.failures.sorted(by: { $0.key < $1.key }) {
                family.sample(count, Labels(("code", code)))
            }
        }
        page.family("healthrelay_http_responses_total", "counter", "Answers of the local API, by status.") { family in
            for (status, count) in counters.answers.sorted(by: { $0.key < $1.key }) {
                family.sample(count, Labels(("status", String(status))))
            }
        }
        page.gauge("healthrelay_event_streams", "Streams of events that are open.", counters.openStreams)
        if let certificate = door.certificates?.certificate {
            page.gauge(
                "healthrelay_certificate_renewal_timestamp_seconds", "When the certificate is renewed.",
                Int(certificate.renewsAt.timeIntervalSince1970))
        }
        page.gauge("process_start_time_seconds", "When the gateway was started.", started.seconds)
        if let octets = Self.residentOctets {
            page.gauge("process_resident_memory_bytes", "Resident memory.", octets)
        }
        page.family("healthrelay_build_info", "gauge", "The running version.") { family in
            family.sample(1, Labels(("version", GatewayVersion.current)))
        }
        return page.text
    }

    /// What each destination has and waits for, labelled with its name.
    private func destinations(_ page: inout Page, _ now: Instant) async throws {
        let statuses = try await gateway.destinations.statuses()
        func family<Value: CustomStringConvertible>(
            _ name: String, _ help: String, _ value: (DestinationStatus) -> Value?
        ) {
            page.family("healthrelay_\(name)", "gauge", help) { family in
                for status in statuses {
                    if let value = value(status) { family.sample(value, Labels(("destination", status.name))) }
                }
            }
        }
        family("destination_enabled", "1 while a destination is switched on.") { $0.isEnabled ? 1 : 0 }
        family("delivered", "Readings that a destination has taken.") { $0.delivered }
        family("refused", "Readings that a destination refused.") { $0.refusedCount }
        family("retracting", "Readings that a destination is asked to take back.") { $0.retracting }
        family("left_behind", "Readings that do not count any more, and that a destination cannot take back.") {
            $0.leftBehindCount
        }
        family("last_delivery_timestamp_seconds", "When a destination last took a reading.") { $0.lastSuccess?.seconds }
        // Groups of several people, and those that one reason holds in different ways, have the same labels.
        var waiting: [Labels: (count: Int, oldest: Instant)] = [:]
        for status in statuses {
            for group in status.waiting {
                let labels = Labels(
                    ("destination", status.name), ("provider", group.provider), ("kind", group.resource.rawValue),
                    ("held", group.held?.rawValue ?? "none"))
                let others = waiting[labels] ?? (0, group.oldest)
                waiting[labels] = (others.count + group.count, min(others.oldest, group.oldest))
            }
        }
        let groups = waiting.sorted { $0.key.text < $1.key.text }
        page.family("healthrelay_waiting", "gauge", "Readings that wait for a destination, and why.") { family in
            for (labels, group) in groups { family.sample(group.count, labels) }
        }
        page.family("healthrelay_waiting_oldest_age_seconds", "gauge", "Age of the oldest waiting reading.") { family in
            for (labels, group) in groups {
                family.sample(Int(max(0, now.seconds - group.oldest.seconds)), labels)
            }
        }
    }

    /// What each device has, labelled with its alias and its model. A device that was not seen for a year has no samples:
    /// a household wears out dozens of sensors a year, and a series of each would stay for ever.
    private func devices(_ page: inout Page, _ now: Instant) async throws {
        let year: Int64 = 365 * 86_400
        let devices = try await gateway.store.devices(since: now.advanced(bySeconds: -year))
        // Aliases are short, and so not all are different: a series that stood there twice would make the page invalid.
        let alike = Dictionary(grouping: devices) { device in
            let digits = DeviceAlias(device.description).digits
            return Labels(
                ("device", digits.isEmpty ? "none" : digits), ("model", device.description.model ?? "unknown"))
        }
        let series = alike.sorted { $0.key.text < $1.key.text }.map { labels, devices in
            (labels, devices.sorted { ($0.lastSeen?.microseconds ?? .min) > ($1.lastSeen?.microseconds ?? .min) })
        }
        func family<Value: CustomStringConvertible>(
            _ name: String, _ help: String, _ value: ([StoredDevice]) -> Value?
        ) {
            page.family("healthrelay_device_\(name)", "gauge", help) { family in
                for (labels, devices) in series {
                    if let value = value(devices) { family.sample(value, labels) }
                }
            }
        }
        /// Of devices that cannot be told apart, that of the one seen last.
        func newest<Value>(_ value: @escaping (StoredDevice) -> Value?) -> ([StoredDevice]) -> Value? {
            { devices in devices.lazy.compactMap(value).first }
        }
        family("readings", "Readings of a device.") { $0.reduce(0) { $0 + $1.readings } }
        family("last_seen_timestamp_seconds", "When the device was last seen.", newest { $0.lastSeen?.seconds })
        family("battery_percent", "The device's battery, as last read.", newest { $0.batteryPercent.map(Int.init) })
        family(
            "clock_difference_seconds", "How far the device's clock is ahead.", newest { $0.clock?.differenceSeconds })
        family(
            "clock_drift_ppm", "How fast the device's clock gains.",
            newest { $0.driftPartsPerMillion.flatMap { $0.isFinite ? $0 : nil } })
    }

    /// Resident memory of this process.
    static var residentOctets: Int? {
        guard let status = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8),
            let pages = status.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
        else { return nil }
        return pages * Int(getpagesize())
    }
}

/// A page of metrics.
private struct Page {
    private(set) var text = ""

    /// A family with the samples that `body` gives it; nothing where it gives none.
    mutating func family(_ name: String, _ type: String, _ help: String, _ body: (inout Family) -> Void) {
        var family = Family(name: name)
        body(&family)
        guard !family.lines.isEmpty else { return }
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n" + family.lines
    }

    /// One number.
    mutating func gauge(_ name: String, _ help: String, _ value: some BinaryInteger) {
        family(name, "gauge", help) { $0.sample(value) }
    }

    struct Family {
        let name: String
        var lines = ""

        mutating func sample(_ value: some CustomStringConvertible, _ labels: Labels? = nil) {
            lines += name
            if let labels { lines += labels.text }
            lines += " \(value)\n"
        }
    }
}

/// What tells a sample from the others of its family, as it is written; a device has one for all its samples.
private struct Labels: Hashable {
    let text: String

    init(_ labels: (name: String, value: String)...) {
        let pairs = labels.map { label in
            let value = label.value.escaping(["\\": "\\\\", "\"": "\\\"", "\n": "\\n"])
            return "\(label.name)=\"\(value)\""
        }
        text = "{" + pairs.joined(separator: ",") + "}"
    }
}
