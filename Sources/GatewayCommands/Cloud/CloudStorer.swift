import CloudSources
import GatewaySettings
import HealthReadings
import ReadingStore

/// What a fetch of an account came to.
package struct CloudResult: Sendable {
    /// Whose cloud.
    package var vendor: CloudVendor
    /// The client's id of the person.
    package var person: String
    /// What was fetched.
    package var summary: CloudSession.Summary
    /// Readings that are new.
    package var stored = 0
    /// Readings that have changed since they were stored.
    package var revised = 0
    /// Readings that were stored before, unchanged.
    package var present = 0
    /// Readings that were pruned here, and of which the vendor has another version now: it isn't stored.
    package var pruned = 0
    /// Records that can't be read.
    package var unreadable = 0
    /// Records that make no reading yet.
    package var unscored = 0
    package var excluded: [Exclusion: Int] = [:]
    package var kinds: [ReadingKind: Int] = [:]

    /// `{vendor, person, from, to, records, stored, revised, present, unreadable, unscored, pruned, unsupported, excluded, kinds}`.
    var document: JSONValue {
        .object([
            "vendor": .string(vendor.rawValue), "person": .string(person),
            "from": .string(summary.from.flooredToSecond.description),
            "to": .string(summary.to.flooredToSecond.description),
            "records": .object(
                summary.records.sorted { $0.key < $1.key }.map { .init($0.key, .integer(Int64($0.value))) }),
            "stored": .integer(Int64(stored)), "revised": .integer(Int64(revised)), "present": .integer(Int64(present)),
            "unreadable": .integer(Int64(unreadable)), "unscored": .integer(Int64(unscored)),
            "pruned": .integer(Int64(pruned)),
            "unsupported": .array(summary.unsupported.map(JSONValue.string)),
            "excluded": .object(
                excluded.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                    .init($0.key.rawValue, .integer(Int64($0.value)))
                }),
            "kinds": .object(
                ReadingKind.allCases.compactMap { kind in
                    kinds[kind].map { .init(kind.rawValue, .integer(Int64($0))) }
                }),
        ])
    }
}

/// Stores records as they come: each page is durable before the next one is asked for.
actor CloudStorer {
    /// About how many octets go into one commit.
    private static let batch = 4 << 20

    private let gateway: Gateway
    private let account: CloudAccount
    private let output: any OperationOutput
    private(set) var count = 0
    private var result: CloudResult

    init(_ gateway: Gateway, _ account: CloudAccount, _ output: any OperationOutput) {
        self.gateway = gateway
        self.account = account
        self.output = output
        let nothing = CloudSession.Summary(from: account.connectedAt, to: account.connectedAt)
        result = CloudResult(vendor: account.vendor, person: account.person, summary: nothing)
    }

    func result(_ summary: CloudSession.Summary) -> CloudResult {
        result.summary = summary
        return result
    }

    func take(_ page: CloudBatch) async throws {
        var rest = page.records[...]
        while !rest.isEmpty {
            var size = 0
            let part = rest.prefix { record in
                defer { size += record.json.count }
                return size < Self.batch
            }
            rest = rest.dropFirst(part.count)
            try await store(Array(part))
        }
        count += page.records.count
        try await output.progress(
            TransferProgress(device: account.vendor.title, received: count, announced: nil, unit: "record"))
    }

    private func store(_ records: [CloudRecord]) async throws {
        var frames: [Frame] = []
        // They are stamped when they are stored.
        let never = Instant(seconds: 0)
        // What was stored as somebody else's and moved to its person has the other's id still.
        let others = Set(try await gateway.store.users().map(\.clientUserID) + [""]).subtracting([account.person])
        for record in records {
            let own = record.frames(receivedAt: never)
            if own.isEmpty { result.unscored += 1 }
            frames += own
            for (id, frame) in record.retractions(receivedAt: never)
            where try await gateway.store.reading(id).map({ $0.excluded != .withdrawn }) ?? false {
                frames.append(frame)
            }
            for other in others.sorted() {
                let former = CloudRecord(record.vendor, record.collection, record.json, person: other)
                for (id, frame) in former.retractions(receivedAt: never) {
                    guard let reading = try await gateway.store.reading(id), reading.person == account.person,
                        reading.excluded != .withdrawn
                    else { continue }
                    frames.append(frame)
                }
            }
        }
        let added = try await gateway.add(frames, of: account)
        result.pruned += added.revisedPruned
        result.present -= added.revisedPruned
        for outcome in added.outcomes {
            switch outcome {
            case .new(let reading), .clash(let reading, _):
                result.stored += 1
                result.kinds[reading.kind, default: 0] += 1
                if let exclusion = reading.excluded { result.excluded[exclusion, default: 0] += 1 }
            case .revised: result.revised += 1
            case .repeated: result.present += 1
            case .malformed: result.unreadable += 1
            case .waiting, .nothing: break
            }
        }
    }
}

extension Gateway {
    /// Fetches from every account that is due, and repeats the disconnects that a service could not be told of.
    ///
    /// - Parameters:
    ///   - attempts: the last attempt with each, in this process; the present attempts are noted.
    ///   - interval: how often. After a failure that may pass by itself, such as a network that is not up yet, it is sooner.
    ///   - told: is given what each came to, or why it failed.
    package func fetchClouds(
        _ attempts: inout [CloudVendor: CloudAttempt], every interval: Duration,
        _ told: @Sendable (CloudVendor, Result<CloudResult, Problem>) -> Void
    ) async {
        let runner = CloudRunner(gateway: self, json: false, output: NoOutput())
        for vendor in CloudVendor.allCases {
            guard let state = try? clouds.state(vendor), state.account != nil || !state.pending.isEmpty else {
                continue
            }
            let (now, account) = (Instant.systemClock, state.account)
            let last = CloudAttempt.last(
                attempts[vendor], connected: account?.connectedAt, fetched: account?.lastFetchAt, at: now)
            guard CloudAttempt.isDue(at: now, after: last, every: interval, notBefore: account?.notBefore) else {
                continue
            }
            // While the clock is untrusted nothing is stored. It is looked at again soon, which is no attempt.
            if account != nil, await clock.doubt() != nil { continue }
            attempts[vendor] = CloudAttempt(at: now)
            do {
                guard account != nil else {
                    try await clouds.session(vendor).tellOfDisconnects(clouds.teller(vendor))
                    continue
                }
                told(vendor, .success(try await runner.fetch(vendor)))
            } catch is CancellationError {
                return
            } catch {
                let problem = Problem(cloud: error, vendor)
                // It was at work until now.
                if problem.mayPass {
                    attempts[vendor] = CloudAttempt(at: .systemClock, failures: (last?.failures ?? 0) + 1)
                }
                told(vendor, .failure(problem))
            }
        }
    }
}

extension Problem {
    /// Whether the same fetch may succeed later although nobody has done anything: of a cloud's errors `no_connection`,
    /// `untrusted_server`, `timeout`, `connection_lost`, `server_error` and `rate_limit_exceeded`. So it may if this machine's clock
    /// became untrusted meanwhile.
    var mayPass: Bool { status == .tryAgain || status == .unavailable || code == "clock_not_trusted" }
}

/// Shows nobody anything.
private struct NoOutput: OperationOutput {
    func data(_ line: String) async throws {}
    func note(_ line: String) async throws {}
    func progress(_ progress: TransferProgress) async throws {}
}
