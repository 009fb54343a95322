import GatewaySettings
import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// The arguments of `destination`.
public enum DestinationOperation: Codable, Sendable, Hashable {
    case list
    /// Proves what can be proven without leaving a reading behind.
    case test(String)
    case enable(String)
    case disable(String)
    /// Delivers what waits since the destination's address has changed.
    case accept(String)
    /// Queues again what was delivered: of these kinds (none: all), between two instants, both included.
    case redeliver(String, from: String?, to: String?, types: [String])
}

/// `destination`: where readings go.
struct DestinationRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// Makes the address that the settings name the destination's own.
    private func accept(_ link: DestinationLink) async throws {
        try await gateway.store.acceptAddress(link.open?.fingerprint, of: link.name)
        await link.open?.vital?.sources.forget()
    }

    func run(_ operation: DestinationOperation) async throws {
        switch operation {
        case .list: try await list()
        case .test(let name): try await test(name)
        case .enable(let name):
            let link = try gateway.destinations.require(name)
            try await gateway.destinations.setEnabled(true, link)
            await link.worker?.forgetFailures()
            try await list()
        case .disable(let name):
            try await gateway.destinations.setEnabled(false, gateway.destinations.require(name))
            try await list()
        case .accept(let name):
            let link = try gateway.destinations.require(name)
            try await accept(link)
            await link.worker?.forgetFailures()
            try await list()
        case .redeliver(let name, let from, let to, let types):
            let link = try gateway.destinations.require(name)
            let kinds = types.isEmpty ? nil : try Set(types.map(ReadingKind.argument))
            // Whoever sends again what the former address had means the new one.
            try await accept(link)
            let count = try await gateway.store.redeliver(
                to: name, kinds: kinds, in: gateway.store.range(from: from, to: to))
            link.worker?.wake()
            guard !json else {
                return try await output.data(JSONValue.object(["waiting_again": .integer(Int64(count))]).text)
            }
            try await output.data("\(count) readings that were delivered wait for \(name) again")
        }
    }

    private func list() async throws {
        let statuses = try await gateway.destinations.statuses()
        guard !json else {
            return try await output.data(
                JSONValue.object(["destinations": .array(statuses.map(\.summary))]).text)
        }
        for status in statuses {
            try await output.data(
                "\(status.name) (\(status.kind)): \(status.address ?? "no address"), \(status.stand)")
        }
        if statuses.isEmpty { try await output.note("no destinations: readings are kept here") }
    }

    /// `destination test`: looks at everything that can be looked at without leaving a reading there.
    private func test(_ name: String) async throws {
        let link = try gateway.destinations.require(name)
        let findings = await Self.findings(of: link)
        // Whatever failed before, it works now.
        if !findings.contains(where: { $0.ok == false }) { await link.worker?.forgetFailures() }
        if json {
            try await output.data(
                JSONValue.object([
                    "destination": .string(name), "checks": .array(findings.map(\.document)),
                ]).text)
        } else {
            for line in findings.flatMap(\.lines) { try await output.data(line) }
        }
        let failed = findings.filter { $0.ok == false }
        guard let worst = failed.compactMap(\.status).max(by: { $0.rawValue < $1.rawValue }) else { return }
        throw Problem(
            "checks_failed", worst, "\(name) cannot be delivered to: \(failed.map(\.name).joined(separator: ", "))",
            hint: failed.first { $0.status == worst }?.mend)
    }
}

extension DestinationRunner {
    /// What can be proven of a destination.
    static func findings(of link: DestinationLink) async -> [DestinationFinding] {
        if let refusal = link.refusal { return untried(refusal) }
        guard let destination = link.open?.destination else {
            return untried(
                Problem(
                    "no_server_key", .configuration, "neither a key nor a sign-in token is set",
                    hint: "put the key into a file (mode 0600) and name it: `api_key_file` of the destination"))
        }
        return [DestinationFinding(name: "settings", ok: true, found: "can be used")]
            + (await destination.test()).map(DestinationFinding.init)
    }

    /// What is found where the settings let nothing be tried.
    private static func untried(_ problem: Problem) -> [DestinationFinding] {
        [
            DestinationFinding(
                name: "settings", ok: false, found: problem.message, mend: problem.hint, status: problem.status),
            DestinationFinding(name: "delivery", ok: nil, found: "not tried"),
        ]
    }
}

extension DestinationStatus {
    /// `{name, kind, address, enabled, mode, paused, waiting, delivered, refused}`.
    fileprivate var summary: JSONValue {
        .object([
            "name": .string(name), "kind": .string(kind), "address": .optional(address), "enabled": .bool(isEnabled),
            "mode": .string(isManual ? "manual" : "automatic"), "paused": .optional(paused),
            "waiting": .integer(Int64(waiting.reduce(0) { $0 + $1.count })), "delivered": .integer(Int64(delivered)),
            "refused": .integer(Int64(refusedCount)),
        ])
    }

    fileprivate var stand: String {
        if let paused { return "paused: \(paused)" }
        if !isEnabled { return "switched off" }
        if address == nil { return "no key is set" }
        return isManual ? "on `sync` only" : "on"
    }
}

/// Something that `destination test` looked at.
struct DestinationFinding: Sendable, Hashable {
    /// What was looked at: `settings`, `address`, `certificate`, `credentials`, `permission` or `delivery`.
    var name: String
    /// Whether it is as it has to be; `nil` if that could not be proven.
    var ok: Bool?
    /// What was found, in words.
    var found: String
    /// What to do about it.
    var mend: String?
    /// What the program ends with if it is not.
    var status: Problem.ExitStatus?

    /// `{name, ok, found, mend}`.
    var document: JSONValue {
        .object([
            "name": .string(name), "ok": ok.map(JSONValue.bool) ?? .null, "found": .string(found),
            "mend": .optional(mend),
        ])
    }

    /// The finding for people, on one line or two.
    var lines: [String] {
        let title = name + String(repeating: " ", count: max(1, 13 - name.count))
        return ["\(ok.map { $0 ? "ok  " : "FAIL" } ?? "?   ")  \(title)\(found)"]
            + (mend.map { ["      → \($0)"] } ?? [])
    }
}

extension DestinationFinding {
    /// What a destination found of itself.
    init(_ finding: Finding) {
        let problem = finding.cause.map { Problem(describing: $0) ?? .unexpected($0) }
        // A failure to deliver is told in full where it was found, and its hint is about readings that wait.
        let isTold = finding.cause is DeliveryFailure
        self.init(
            name: finding.name, ok: finding.isGood, found: isTold ? finding.found : problem?.message ?? finding.found,
            mend: finding.mend ?? (isTold ? nil : problem?.hint),
            status: finding.isGood == false ? problem?.status ?? .notPermitted : nil)
    }
}
