import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import VitalClient

/// Delivers readings to a Vital-compatible server.
///
/// A target's readings are posted only while its provider is a connected source of the person. A post is either a time
/// series or, for scales, the body summary. Readings that were measured before their device was first met are posted as
/// a backfill (`historical`), the others as new (`daily`). A post names the time zone that the person was in when they measured.
///
/// | the server answers | failure |
/// |---|---|
/// | 401, 403 for the whole key | the destination's; needs a person |
/// | 408, 5xx, nothing, something that is no JSON | the target's, or the destination's where it cannot be reached or asks to wait |
/// | 413 | too large |
/// | 400, 422 that names a place in the samples | the items' |
/// | 404, 405, 422 about the path | the kind is unknown |
/// | any other 4xx, or that the source is missing | the source is checked once more, then its readings are held |
public struct VitalDestination: Destination {
    /// The destination's name in the settings.
    public let name: String
    /// `vital`.
    public let kind = "vital"
    /// What Vital can express: every kind, each reading at a second of its own, no retraction.
    public var rules: DestinationRules { Self.rules }

    /// What every Vital-compatible server can express.
    public static let rules = DestinationRules(
        kinds: ReadingKind.delivered, hasUniqueSeconds: true, needsSource: true,
        canRetract: false,
        takesContexts: false)

    /// People and their sources at the server.
    public let sources: SourceKeeper
    let store: ReadingStore
    let api: VitalAPI
    let clock: SyncClock
    private let conversion: SampleConversion

    /// Creates a destination; nothing is sent yet.
    public init(
        name: String = "vital", store: ReadingStore, api: VitalAPI, policy: SourcePolicy,
        conversion: SampleConversion = SampleConversion(), clock: SyncClock = .system,
        logger: Logger = Logger(label: "healthrelay.sync")
    ) {
        self.name = name
        self.store = store
        self.api = api
        self.conversion = conversion
        self.clock = clock
        sources = SourceKeeper(
            store: store, destination: name, api: api, policy: policy, clock: clock, logger: logger)
    }

    /// Decides whether the person's source takes readings now; `nil` if it does.
    ///
    /// - Throws: the failure of the request that asks the server for its sources.
    public func hold(_ target: DeliveryTarget, of person: StoreUser) async throws(DeliveryFailure) -> DeliveryHold? {
        guard !person.clientUserID.isEmpty else {
            return DeliveryHold(.noSource, reason: "no user is set yet")
        }
        return try await mapped { try await sources.decide(target.provider, for: person) }.deliveryHold
    }

    /// Cuts a batch into what is posted together: first the backfill, by weeks where it spans more than 31 days, then
    /// what is new; each where the person's time zone changed. Of each device the backfill is the older part, so its
    /// readings stay in order.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        let oldCount = batch.items.count(where: \.isBackfill)
        let old = oldCount == batch.items.count ? batch.items : batch.items.filter(\.isBackfill)
        let new = oldCount == 0 ? batch.items : batch.items.filter { !$0.isBackfill }
        func part(_ items: [OutboxItem], isLast: Bool) -> DeliveryPart {
            DeliveryPart(target: batch.target, person: batch.person, items: items, isLast: isLast)
        }
        var parts: [DeliveryPart] = []
        if let first = old.first?.timestamp, let last = old.last?.timestamp {
            var rest = old[...]
            for period in PostPeriod.cut(first...last) {
                let week = rest.prefix { $0.timestamp <= period.upperBound }
                rest = rest[week.endIndex...]
                if !week.isEmpty { parts.append(part(Array(week), isLast: false)) }
            }
            let isMore =
                batch.isLast ? false : try await mapped { try await isMoreBackfillWaiting(batch, after: last) }
            if !parts.isEmpty { parts[parts.count - 1].isLast = !isMore }
        }
        if !new.isEmpty { parts.append(part(new, isLast: batch.isLast)) }
        return parts.flatMap(\.cutByZone).flatMap(\.cutBySamples)
    }

    private func isMoreBackfillWaiting(_ batch: DeliveryBatch, after last: Instant) async throws -> Bool {
        try await store.isMoreBackfillWaiting(
            user: batch.target.user, resource: batch.target.resource, provider: batch.target.provider, after: last,
            in: batch.range, at: batch.items.first?.id.destination ?? .vital)
    }

    /// Posts one part.
    ///
    /// - Throws: the failure of the post; its scope says which readings it concerns.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let taken = try await mapped { try await takenSeconds(part) }
        let batch = PostBatch(part, conversion, besides: taken)
        guard !batch.prepared.isEmpty else { return batch.outcomes }
        try await mapped {
            do {
                try await post(batch, part)
            } catch let error as VitalError where error.mayBeSourceRefusal {
                try await recover(from: error, batch, part)
            }
        }
        return batch.outcomes
    }

    /// Checks the source anew after a refusal and posts once more if it is connected.
    private func recover(from error: VitalError, _ batch: PostBatch, _ part: DeliveryPart) async throws {
        let (provider, person) = (part.target.provider, part.person)
        // The list that was believed may be minutes old: asked for anew it says what is held, and why.
        let decision = try await sources.decide(provider, for: person, fresh: true)
        if let hold = decision.hold {
            throw DeliveryFailure(DeliveryHold(hold, reason: decision.reason ?? error.serverSaid))
        }
        // The source is connected; then it is the samples that are refused.
        guard error.isSourceRefusal || error.isAboutResource else { throw error }
        do {
            try await post(batch, part)
        } catch let error as VitalError where error.isAboutResource {
            throw DeliveryFailure(
                .unknownKind, code: error.code, message: error.summary, serverSaid: error.serverSaid)
        } catch let error as VitalError where error.isSourceRefusal {
            let held = try await sources.noteRefusal(
                of: provider, for: person, reason: error.serverSaid ?? error.summary)
            throw DeliveryFailure(DeliveryHold(held.hold ?? .sourceError, reason: held.reason))
        }
    }

    private func post(_ batch: PostBatch, _ part: DeliveryPart) async throws {
        let (provider, zone) = (part.target.provider, part.timeZone)
        let userID = try await sources.serverUserID(of: part.person)
        CrashPoint.reach("post.before")
        if let data = batch.timeSeries(part.target.resource) {
            let pieces = data.cutBySamples
            for (number, piece) in pieces.enumerated() {
                try await api.post(
                    TimeSeriesPost(
                        provider: provider, timeZone: zone, stage: batch.stage, period: batch.period,
                        isFinalChunk: part.isLast && number == pieces.count - 1, data: piece), for: userID)
            }
        } else {
            try await api.post(
                SummaryPost(
                    BodySummary(batch.prepared, timeZone: zone), provider: provider, timeZone: zone,
                    stage: batch.stage, period: batch.period, isFinalChunk: part.isLast), for: userID)
        }
        CrashPoint.reach("post.after")
    }

    /// Runs work of the client and the store and maps what it throws.
    private func mapped<Value>(_ work: () async throws -> Value) async throws(DeliveryFailure) -> Value {
        do {
            return try await work()
        } catch let error as VitalError {
            throw DeliveryFailure(error)
        } catch {
            throw DeliveryFailure(error)
        }
    }
}

extension OutboxWorker {
    /// Creates a worker that delivers to a Vital-compatible server.
    public init(
        store: ReadingStore, api: VitalAPI, policy: SourcePolicy, options: Options = Options(),
        conversion: SampleConversion = SampleConversion(), clock: SyncClock = .system,
        logger: Logger = Logger(label: "healthrelay.sync")
    ) {
        self.init(
            store: store,
            destination: VitalDestination(
                store: store, api: api, policy: policy, conversion: conversion, clock: clock, logger: logger),
            options: options, clock: clock, logger: logger)
    }
}

extension SourceKeeper.Decision {
    fileprivate var deliveryHold: DeliveryHold? { hold.map { DeliveryHold($0, reason: reason) } }
}
