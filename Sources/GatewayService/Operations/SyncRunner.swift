import HealthReadings
import ReadingDelivery
import ReadingStore

extension Gateway {
    func run(_ operation: SyncOperation, json: Bool, output: any OperationOutput) async throws {
        switch operation {
        case .enable, .disable:
            try await store.setSyncEnabled(operation == .enable)
            if operation == .enable { worker?.wake() }
            try await status(json: json, output)
        case .status: try await status(json: json, output)
        case .now(let from, let to):
            let range = try await range(from: from, to: to)
            let report = try await requireWorker().syncOnce(in: range)
            try await status(json: json, output)
            if let problem = Problem(report, isRequired: settings["sources.policy"] == "require") { throw problem }
        case .retry(let ids):
            let count = try await store.retryRefused(ids.isEmpty ? nil : try ids.map(Self.readingID))
            await worker?.retryNow()
            guard !json else {
                return try await output.data(JSONValue.object(["waiting_again": .integer(Int64(count))]).text)
            }
            try await output.data("\(count) refused readings wait for the server again")
        case .watch: try await watch(json: json, output)
        }
    }

    private static func readingID(_ text: String) throws -> ReadingID {
        guard let id = ReadingID(text) else {
            throw Problem(
                "usage", .usage, "expected a reading's id, 32 hexadecimal digits, found '\(text)'",
                hint: "`sync status` lists those that were refused")
        }
        return id
    }

    /// Prints what delivery does until it ends. Where no service delivers, this process does meanwhile.
    private func watch(json: Bool, _ output: any OperationOutput) async throws {
        let worker = try requireWorker()
        let events = worker.events()
        try await withThrowingTaskGroup(of: Void.self) { group in
            if await !worker.isRunning { group.addTask { try await worker.run() } }
            for await event in events {
                guard let line = json ? event.document?.text : event.line else { continue }
                try await output.data(line)
            }
            group.cancelAll()
        }
    }

    /// What `--from` and `--to` say; nil where neither is given.
    private func range(from: String?, to: String?) async throws -> ClosedRange<Instant>? {
        guard from != nil || to != nil else { return nil }
        let user = try await store.currentUser()
        guard let zone = ZoneRules.named(user.timeZone) else { throw StoreError.unknownTimeZone(user.timeZone) }
        // Years that RFC 3339 can write stand for an end that is open.
        let start =
            try from.map { try InstantArgument.instant($0, "--from", end: .start, zone: zone) }
            ?? Instant(seconds: -62_135_596_800)
        let end =
            try to.map { try InstantArgument.instant($0, "--to", end: .end, zone: zone) }
            ?? Instant(seconds: 253_402_300_799)
        guard start <= end else { throw Problem("usage", .usage, "--from \(start) is later than --to \(end)") }
        return start...end
    }

    /// `{waiting, delivered, refused, not_delivered, last_success, next_attempt}`.
    func syncDocument() async throws -> JSONValue {
        let statistics = try await store.statistics()
        return .object([
            "waiting": .array(
                try await store.groupsWaiting().map { group in
                    .object([
                        "provider": .string(group.provider), "kind": .string(group.resource.rawValue),
                        "count": .integer(Int64(group.count)),
                        "oldest": .string(group.oldest.flooredToSecond.description),
                        "held": .optional(group.held?.rawValue),
                    ])
                }),
            "delivered": .integer(Int64(statistics.delivered)),
            "refused": .array(
                try await refused().map {
                    .object(["id": .string($0.id.description), "server_said": .string($0.serverSaid)])
                }),
            "not_delivered": .array(
                ReadingKind.allCases.compactMap { kind in
                    kind.keptBecause.map {
                        .object([
                            "kind": .string(kind.rawValue),
                            "count": .integer(Int64(statistics.readings[kind] ?? 0)), "reason": .string($0),
                        ])
                    }
                }),
            "last_success": .optional(statistics.lastDelivery?.flooredToSecond.description),
            "next_attempt": .optional(await worker?.status.nextAttempt?.flooredToSecond.description),
        ])
    }

    /// Why a group waits whose kind the server does not know.
    static let unknownToServer = "the server knows no such kind of data; tried again every 15 minutes"

    /// Why a group waits of which the server refuses every reading.
    static let refusedWhole = "the server refuses every reading of this kind; tried again after at most 15 minutes"

    /// What the server refused; while the store is locked so are its words, and the groups that wait say so.
    private func refused() async throws -> [RefusedReading] {
        store.lockedBecause == nil ? try await store.refused() : []
    }

    private func status(json: Bool, _ output: any OperationOutput) async throws {
        guard !json else {
            if let refusal { try await output.warn(refusal) }
            return try await output.data(syncDocument().text)
        }
        if let refusal { try await output.data("delivery is paused: \(refusal.message)") }
        let waiting = try await store.groupsWaiting()
        let refused = try await refused()
        let statistics = try await store.statistics()
        let (delivered, last) = (statistics.delivered, statistics.lastDelivery)
        let delivery = await worker?.status
        let next = delivery?.nextAttempt
        for group in waiting {
            let reason = group.heldWords.map { ", held: \($0)" } ?? ""
            try await output.data(
                "\(group.count) \(group.resource.rawValue) for \(group.provider) wait since \(group.oldest)\(reason)")
        }
        if waiting.isEmpty { try await output.data("nothing waits") }
        if let failure = delivery?.failure, let next {
            let waits = failure.isRetryable ? "the last attempt failed" : "delivery waits for a person"
            try await output.data("\(waits): \(failure.message); next attempt at \(next.flooredToSecond)")
        }
        for reading in refused {
            try await output.data("refused: \(reading.id): the server said: \(reading.serverSaid)")
        }
        for kind in ReadingKind.allCases {
            guard let reason = kind.keptBecause, let count = statistics.readings[kind], count > 0 else { continue }
            try await output.data("\(count) \(kind.rawValue): \(reason)")
        }
        try await output.data("delivered: \(delivered)" + (last.map { ", last at \($0.flooredToSecond)" } ?? ""))
    }
}

extension OutboxGroup {
    /// Why it is held, for people; `nil` where nothing holds it.
    var heldWords: String? {
        guard let held else { return nil }
        return isUnknownToServer ? Gateway.unknownToServer : isRefusedWhole ? Gateway.refusedWhole : held.words
    }
}

extension Problem {
    /// What a pass failed to deliver; `nil` where nothing failed and nothing was refused.
    init?(_ report: SyncReport, isRequired: Bool) {
        if let failure = report.failure {
            self.init(failure)
        } else if report.refused > 0 {
            self.init(
                "refused", .tryAgain, "the server refused \(report.refused) readings, which are set aside",
                hint: "`sync status` shows its words; `sync retry` offers them again")
        } else if let held = report.held.first(where: { $0.hold == .sourceError }) {
            self.init(
                "source_error", .tryAgain,
                "the server does not take \(held.target.resource.rawValue) for \(held.target.provider)",
                hint: "readings wait in the store; `sync status` says why")
        } else if let held = report.held.first(where: { $0.hold == .noSource }) {
            self.init(
                "source_not_connected", isRequired ? .configuration : .tryAgain,
                "\(held.target.provider) is no connected source",
                hint: "connect it: `healthrelay source connect \(held.target.provider)`")
        } else {
            return nil
        }
    }

    /// What ended a delivery early.
    init(_ failure: DeliveryFailure) {
        let status: ExitStatus =
            switch failure.code {
            case "authentication_failed", "forbidden", "token_expired": .notPermitted
            case "no_connection", "untrusted_server": .unavailable
            case "not_json", "redirected", "unexpected_answer", "answer_too_large": .protocolBroken
            case "disk_full", "store_io": .inputOutput
            default: .tryAgain
            }
        self.init(
            failure.code, status, failure.message,
            hint: failure.isRetryable
                ? "readings wait in the store"
                : "check the key in `server.api_key_file`, or the token in `server.sign_in_token_file`")
    }
}

extension SyncEvent {
    /// The event for scripts, every key always there; nil for steps of single readings.
    var document: JSONValue? {
        switch self {
        case .syncing(let target): Self.document("syncing", target)
        case .successSyncing(let target, let delivered): Self.document("successSyncing", target, delivered: delivered)
        case .failedSyncing(let target, let failure): Self.document("failedSyncing", target, error: failure.code)
        case .nothingToSync(let kind): Self.document("nothingToSync", kind: kind)
        case .held(let target, let hold, let count, _): Self.document("held", target, held: hold, count: count)
        case .paused(let failure): Self.document("paused", error: failure.code)
        case .readings: nil
        case .syncingCompleted: Self.document("syncingCompleted")
        }
    }

    private static func document(
        _ event: String, _ target: DeliveryTarget? = nil, kind: ReadingKind? = nil, delivered: Int? = nil,
        held: Hold? = nil, count: Int? = nil, error: String? = nil
    ) -> JSONValue {
        .object([
            "event": .string(event), "kind": .optional((target?.resource ?? kind)?.rawValue),
            "provider": .optional(target?.provider), "delivered": .optional(delivered),
            "held": .optional(held?.rawValue), "count": .optional(count), "error": .optional(error),
        ])
    }

    /// The event for people; nil for steps of single readings.
    var line: String? {
        switch self {
        case .syncing(let target): "delivering \(target.resource.rawValue) for \(target.provider)"
        case .successSyncing(let target, let delivered):
            "delivered \(delivered) \(target.resource.rawValue) for \(target.provider)"
        case .failedSyncing(let target, let failure):
            "could not deliver \(target.resource.rawValue) for \(target.provider): \(failure.message)"
        case .nothingToSync(let kind): "no \(kind.rawValue) waits"
        case .held(let target, let hold, let count, _): "\(count) for \(target.provider) wait: \(hold.words)"
        case .paused(let failure): "delivery waits for a person: \(failure.message)"
        case .readings: nil
        case .syncingCompleted: "done"
        }
    }
}
