import GatewaySettings
import HealthReadings
import ReadingStore

/// `store`: the store itself.
struct StoreRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: StoreOperation) async throws {
        switch operation {
        case .stats:
            let statistics = try await gateway.store.statistics()
            let id = try await gateway.store.gatewayID()
            guard !json else { return try await output.data(statistics.document(of: id).text) }
            for line in statistics.lines + ["gateway: \(id)"] { try await output.data(line) }
        case .verify: try await verify()
        case .forget(let operation):
            try await RemovalRunner(gateway: gateway, json: json, output: output).forget(operation)
        case .export(let passphrase):
            try await output.following { progress in
                try await gateway.store.export(passphrase: passphrase, progress: progress, to: output.octets)
            }
        case .rotateKey:
            let change = try await output.following { try await gateway.store.rotateKey(progress: $0) }
            guard !json else { return try await output.data(change.document.text) }
            for line in change.lines { try await output.data(line) }
        case .trustClock:
            let count = try await gateway.clock.trust()
            let now = Instant.systemClock.flooredToSecond
            guard !json else {
                return try await output.data(
                    JSONValue.object(["now": .string(now.description), "contacts_set_aside": .integer(Int64(count))])
                        .text)
            }
            try await output.data(
                "the clock is trusted: it is \(now)" + (count > 0 ? "; \(count) later contacts are set aside" : ""))
        case .prune(let seconds):
            // How old a reading is depends on the clock, and what is pruned does not come back.
            if let problem = await gateway.clockProblem() { throw problem }
            // The key may have come back just now: what a renamed destination is still to get must be queued for it.
            try await gateway.store.requireKeys()
            try await gateway.destinations.heed()
            let pruning = try await output.following {
                try await gateway.store.prune(olderThan: .seconds(seconds), progress: $0)
            }
            guard !json else { return try await output.data(pruning.document.text) }
            for line in pruning.lines { try await output.data(line) }
        }
    }

    private func verify() async throws {
        let findings = try await output.following { try await gateway.store.verify(progress: $0) }
        if json {
            try await output.data(
                JSONValue.object([
                    "ok": .bool(findings.isEmpty),
                    "findings": .array(
                        findings.map {
                            .object(["problem": .string($0.problem.rawValue), "subject": .string($0.subject)])
                        }),
                ]).text)
        } else {
            for finding in findings {
                try await output.data("\(finding.problem.rawValue.replacing("_", with: " ")): \(finding.subject)")
            }
            if findings.isEmpty { try await output.data("every frame and reading is intact") }
        }
        guard !findings.isEmpty else { return }
        throw Problem(
            "store_damaged", .badData, "the store has \(findings.count) findings",
            hint: "keep the files; records that devices still have can be read again")
    }
}

extension Pruning {
    /// `{older_than, pruned: {readings, frames}, kept: {waiting, refused, excluded}}`.
    fileprivate var document: JSONValue {
        .object([
            "older_than": .string(olderThan.flooredToSecond.description),
            "pruned": .object(["readings": .integer(Int64(readings)), "frames": .integer(Int64(frames))]),
            "kept": .object([
                "waiting": .integer(Int64(waiting)), "refused": .integer(Int64(refused)),
                "excluded": .integer(Int64(excluded)),
            ]),
        ])
    }

    fileprivate var lines: [String] {
        let stays = [(waiting, "wait"), (refused, "were refused"), (excluded, "are never delivered")]
            .filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        return [
            "pruned: \(readings) delivered readings older than \(olderThan.flooredToSecond), with \(frames) frames"
        ] + (stays.isEmpty ? [] : ["kept, although older: " + stays.joined(separator: ", ")])
    }
}

extension StoreStatistics {
    /// - Parameter gateway: the gateway's id.
    fileprivate func document(of gateway: String) -> JSONValue {
        .object([
            "gateway": .string(gateway),
            "readings": .object(
                ReadingKind.counts(readings).map { .init($0.key.rawValue, .integer(Int64($0.value))) }),
            "excluded": .integer(Int64(excluded)), "frames": .integer(Int64(frames)),
            "malformed_frames": .integer(Int64(malformedFrames)), "waiting_contexts": .integer(Int64(waitingContexts)),
            "contacts": .integer(Int64(contacts)), "devices": .integer(Int64(devices)),
            "waiting": .integer(Int64(waiting)), "delivered": .integer(Int64(delivered)),
            "refused": .integer(Int64(refused)), "last_delivery": .optional(lastDelivery?.flooredToSecond.description),
            "octets_on_disk": .integer(octetsOnDisk),
            "let_go": .array(letGo.map(\.document)),
        ])
    }

    fileprivate var lines: [String] {
        let kinds = ReadingKind.counts(readings).map { "\($0.value) \($0.key.rawValue)" }.joined(separator: ", ")
        return [
            "readings: \(kinds) (\(excluded) of them never delivered)",
            "frames: \(frames), \(malformedFrames) of them malformed; \(waitingContexts) contexts wait for their record",
            "devices: \(devices), contacts: \(contacts)",
            "delivered: \(delivered), waiting: \(waiting), refused: \(refused)",
            "on disk: \(octetsOnDisk / 1024) KiB",
        ] + letGo.map { "let go, as store.keep says: \($0.line)" }
    }
}

extension Thinning {
    /// `{part, readings, frames, older_than}`.
    fileprivate var document: JSONValue {
        .object([
            "part": .string(part.name), "readings": .integer(Int64(readings)), "frames": .integer(Int64(frames)),
            "older_than": .string(olderThan.flooredToSecond.description),
        ])
    }

    /// `512 heart_rate readings older than 2025-11-27T00:00:00Z`.
    package var line: String {
        let what = part == .frames ? "the octets of \(frames) records" : "\(readings) \(part.name) readings"
        return "\(what) older than \(olderThan.flooredToSecond)"
    }
}

extension ReadingKind {
    /// How many there are of each kind: of those that are always told of, and of the others there are any of.
    public static func counts(_ readings: [ReadingKind: Int]) -> [(key: ReadingKind, value: Int)] {
        ReadingKind.allCases.compactMap { kind in
            let count = readings[kind] ?? 0
            return count > 0 || ReadingKind.counted.contains(kind) ? (kind, count) : nil
        }
    }
}

extension KeyChange {
    fileprivate var document: JSONValue {
        .object(["readings": .integer(Int64(readings)), "unreadable": .array(unreadable.map { .string($0) })])
    }

    fileprivate var lines: [String] {
        let done = "\(readings) readings are sealed with a new key; the old key is destroyed"
        guard !unreadable.isEmpty else { return [done] }
        let names = unreadable.prefix(10).joined(separator: ", ") + (unreadable.count > 10 ? ", …" : "")
        return [done, "\(unreadable.count) damaged rows could not be read and stay as they are: \(names)"]
    }
}
