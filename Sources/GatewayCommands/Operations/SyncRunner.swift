import GatewaySettings
import HealthReadings
import ReadingDelivery
import ReadingStore

/// `sync`: delivery.
struct SyncRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: SyncOperation) async throws {
        switch operation {
        case .enable(let sort): try await setEnabled(true, sort)
        case .disable(let sort): try await setEnabled(false, sort)
        case .status: try await status()
        case .now(let from, let to, let types, let name):
            let links = try gateway.destinations.chosen(name)
            let kinds = types.isEmpty ? nil : try Set(types.map(ReadingKind.argument))
            let range = try await gateway.store.range(from: from, to: to)
            let problem = try await deliver(to: links, kinds: kinds, in: range)
            try await status()
            if let problem { throw problem }
        case .retry(let ids, let name):
            let links = try gateway.destinations.chosen(name)
            let place = try await place(name)
            let count = try await gateway.store.retryRefused(ids.isEmpty ? nil : try ids.map(Self.readingID), at: place)
            for link in links { await link.worker?.retryNow() }
            guard !json else {
                return try await output.data(JSONValue.object(["waiting_again": .integer(Int64(count))]).text)
            }
            try await output.data("\(count) refused readings will be offered to the server again")
        case .watch(let name):
            try await watch(gateway.destinations.chosen(name).compactMap(\.worker))
        }
    }

    /// Switches all of delivery, or the destinations of one sort.
    private func setEnabled(_ isEnabled: Bool, _ sort: DeliverySort?) async throws {
        guard let sort else {
            try await gateway.store.setSyncEnabled(isEnabled)
            if isEnabled { gateway.destinations.wake() }
            return try await status()
        }
        let links = gateway.destinations.links.filter { $0.sort == sort }
        guard !links.isEmpty else {
            throw Problem(
                "no_such_destination", .noInput, "no destination takes \(sort.rawValue)",
                hint: sort == .summaries
                    ? "a webhook with `format: terra` or `format: rook_summary` takes whole days" : nil)
        }
        for link in links { try await gateway.destinations.setEnabled(isEnabled, link) }
        if isEnabled { for link in links { await link.worker?.forgetFailures() } }
        try await status()
    }

    private static func readingID(_ text: String) throws -> ReadingID {
        guard let id = ReadingID(text) else {
            throw Problem.usage(
                "expected a reading's id, 32 hexadecimal digits, found '\(text)'",
                hint: "`sync status` lists refused readings")
        }
        return id
    }

    /// Prints what delivery does until it ends. Where no service delivers, this process does meanwhile.
    private func watch(_ workers: [OutboxWorker]) async throws {
        guard !workers.isEmpty else { throw gateway.destinations.nothingDelivered ?? Problem.noServer }
        let names = gateway.destinations.links.count > 1
        let lines = AsyncStream<String>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in workers {
                let (name, events) = (worker.destination.name, worker.events())
                group.addTask {
                    for await event in events {
                        let line =
                            json ? event.document(of: name)?.text : event.line.map { names ? "\(name): \($0)" : $0 }
                        if let line { lines.continuation.yield(line) }
                    }
                    lines.continuation.finish()
                }
                if await !worker.isRunning { group.addTask { try await worker.run() } }
            }
            for await line in lines.stream { try await output.data(line) }
            group.cancelAll()
        }
    }

    /// Delivers to destinations at once, each by itself.
    ///
    /// - Returns: what failed; `nil` if nothing did.
    private func deliver(
        to links: [DestinationLink], kinds: Set<ReadingKind>?, in range: ClosedRange<Instant>?
    ) async throws -> Problem? {
        if links.allSatisfy({ $0.worker == nil }) {
            throw links.lazy.compactMap(\.refusal).first ?? Problem.noServer
        }
        // Nothing can be delivered without it, and `sync status` says that everything waits.
        if let locked = gateway.store.lockedBecause { return Problem(telling: locked) }
        let reports = await withTaskGroup(of: (Int, SyncReport).self) { group in
            for (index, link) in links.enumerated() {
                guard let worker = link.worker else { continue }
                group.addTask { (index, await worker.syncOnce(kinds: kinds, in: range)) }
            }
            return await group.reduce(into: [Int: SyncReport]()) { $0[$1.0] = $1.1 }
        }
        let problems = links.enumerated().compactMap { index, link -> Problem? in
            guard let report = reports[index] else { return link.refusal }
            guard var problem = Problem(report, isRequired: gateway.settings["sources.policy"] == "require") else {
                return nil
            }
            if gateway.destinations.links.count > 1 { problem.message = "\(link.name): " + problem.message }
            return problem
        }
        return problems.max { $0.status.rawValue < $1.status.rawValue }
    }

    /// The store's number of a destination; `nil` without a name.
    private func place(_ name: String?) async throws -> DestinationKey? {
        guard let name else { return nil }
        return try await gateway.store.destinations().first { $0.name == name }?.key
    }

    private func status() async throws {
        guard !json else {
            for refusal in gateway.destinations.links.compactMap(\.refusal) { try await output.warn(refusal) }
            return try await output.data(gateway.destinations.document().text)
        }
        if try await !gateway.store.isSyncEnabled() { try await output.data("delivery is switched off") }
        let statuses = try await gateway.destinations.statuses()
        for line in statuses.flatMap(\.lines) { try await output.data(line) }
        if statuses.isEmpty { try await output.note("no destinations: readings are kept here") }
    }
}

extension OutboxGroup {
    /// Why a group waits whose kind the server does not know.
    private static let unknownToServer =
        "the server does not support this kind of data; the gateway retries every 15 minutes"

    /// Why a group waits of which the server refuses every reading.
    private static let refusedWhole =
        "the server refuses every reading of this kind; tried again after at most 15 minutes"

    /// Why it is held, for people; `nil` where nothing holds it.
    var heldWords: String? {
        guard let held else { return nil }
        return isUnknownToServer ? Self.unknownToServer : isRefusedWhole ? Self.refusedWhole : held.words
    }
}

extension Problem {
    /// What a pass failed to deliver; `nil` where nothing failed and nothing was refused.
    init?(_ report: SyncReport, isRequired: Bool) {
        if let failure = report.failure {
            self.init(failure)
        } else if report.refused > 0 {
            self.init(
                "refused", .tryAgain, "\(report.refused) readings were refused and set aside",
                hint: "`sync status` says why; `sync retry` offers them again")
        } else if report.held.contains(where: { $0.hold == .otherEndpoint }) {
            self.init(
                "address_changed", .configuration, "the destination's address has changed, and its readings wait",
                hint: "if the new address is meant: `healthrelay destination accept NAME`")
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
            // A receiver that has ended its address needs a person, who names another.
            case "private_address", "key_unreadable", "gone": .configuration
            // Something must be set, or done once, before any try can succeed.
            case "key_unusable", "no_patient", "no_token_endpoint", "not_enrolled", "wrong_version",
                "person_id_too_long":
                .configuration
            default: ExitStatus(storeCode: failure.code) ?? .tryAgain
            }
        self.init(failure.code, status, failure.message, hint: Self.hint(failure, status))
    }
}

extension Problem {
    /// What to do about a failed delivery.
    private static func hint(_ failure: DeliveryFailure, _ status: ExitStatus) -> String {
        let advice: String? =
            switch failure.code {
            case "authentication_failed", "token_expired":
                "check the key, password or sign-in token of the destination"
            case "forbidden": "check what the key, token or user of the destination may do there"
            case "untrusted_server":
                "check the server's certificate, `ca_file` of the destination and this machine's clock"
            case "redirected":
                "name the address that it sends to in the settings of the destination, if that is the server's"
            case "gone": "ask whoever runs the receiver for the address to use now"
            default: nil
            }
        if let advice { return advice + "; readings wait in the store" }
        if status == .badData {
            return "`healthrelay store verify` names what is damaged; other people's readings are delivered"
        }
        return status == .configuration || !failure.isRetryable
            ? "readings wait in the store: `healthrelay destination test NAME` says what to mend"
            : "readings wait in the store"
    }
}

extension SyncEvent {
    /// The event for scripts, every key always there; nil for steps of single readings.
    package func document(of destination: String) -> JSONValue? {
        func document(
            _ event: String, _ target: DeliveryTarget? = nil, kind: ReadingKind? = nil,
            delivered: SyncedReadings? = nil, held: Hold? = nil, count: Int? = nil, error: String? = nil
        ) -> JSONValue {
            .object([
                "event": .string(event), "destination": .string(destination),
                "kind": .optional((target?.resource ?? kind)?.rawValue), "provider": .optional(target?.provider),
                "delivered": .optional(delivered?.count), "first": .optional(delivered?.first?.description),
                "last": .optional(delivered?.last?.description),
                "readings": delivered.map { .array($0.ids.map { .string($0.description) }) } ?? .null,
                "held": .optional(held?.rawValue), "count": .optional(count), "error": .optional(error),
            ])
        }
        return switch self {
        case .syncing(let target): document("syncing", target)
        case .successSyncing(let target, let delivered): document("successSyncing", target, delivered: delivered)
        case .failedSyncing(let target, let failure, let delivered):
            document("failedSyncing", target, delivered: delivered, error: failure.code)
        case .nothingToSync(let kind): document("nothingToSync", kind: kind)
        case .held(let target, let hold, let count, _): document("held", target, held: hold, count: count)
        case .paused(let failure): document("paused", error: failure.code)
        case .retracted(let count): document("retracted", count: count)
        case .leftBehind(let count): document("leftBehind", count: count)
        case .readings: nil
        case .syncingCompleted: document("syncingCompleted")
        }
    }

    /// The event for people; nil for steps of single readings.
    var line: String? {
        switch self {
        case .syncing(let target): "delivering \(target.resource.rawValue) for \(target.provider)"
        case .successSyncing(let target, let delivered):
            "delivered \(delivered.count) \(target.resource.rawValue) for \(target.provider)\(delivered.range)"
        case .failedSyncing(let target, let failure, let delivered):
            "could not deliver \(target.resource.rawValue) for \(target.provider): \(failure.message)"
                + (delivered.count > 0 ? "; \(delivered.count) were delivered before\(delivered.range)" : "")
        case .nothingToSync(let kind): "no \(kind.rawValue) waits"
        case .held(let target, .noPatient, let count, let reason?): "\(count) for \(target.provider) wait: \(reason)"
        case .held(let target, let hold, let count, _): "\(count) for \(target.provider) wait: \(hold.words)"
        case .paused(let failure): "delivery waits until somebody fixes this: \(failure.message)"
        case .retracted(let count): "\(count) readings were taken back"
        case .leftBehind(let count): "\(count) readings cannot be taken back: they are still there"
        case .readings: nil
        case .syncingCompleted: "done"
        }
    }
}

extension SyncedReadings {
    /// From when until when, for people.
    fileprivate var range: String {
        guard let first, let last else { return "" }
        return first == last ? " (\(first))" : " (\(first) to \(last))"
    }
}
